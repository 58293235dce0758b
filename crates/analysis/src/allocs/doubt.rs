//! How far a sampled figure may be off.
//!
//! A block of `s` bytes is recorded with probability `P = 1 - exp(-s / mean)` and then stands for `s / P` bytes: the sum
//! over recorded blocks is unbiased, and the sum of `w² (1 - P)` is an unbiased estimate of its variance. A sum made
//! of few samples is not symmetric: the interval is that of a Poisson count with the same relative spread.

use super::model::Interval;

/// Two-sided 95 %.
const Z: f64 = 1.959_964;

/// The interval that holds the truth 95 times of 100; `None` where all was seen.
pub fn interval(bytes: f64, variance: f64) -> Option<Interval> {
    between(bytes, variance, Z)
}

/// The same of the highest of many sums: it is highest also because chance made it too high, the more so the more often
/// other samples made up the sum. Only the lower end suffers.
pub fn interval_of_highest(bytes: f64, variance: f64, renewals: f64) -> Option<Interval> {
    between(bytes, variance, highest(renewals))
}

fn between(bytes: f64, variance: f64, below: f64) -> Option<Interval> {
    if variance <= 0.0 || bytes <= 0.0 {
        return None;
    }
    let (low, high) = poisson(bytes * bytes / variance, below);
    let of = |share: f64| (bytes * share).max(0.0).round() as u64;
    Some(Interval { low_bytes: of(low), high_bytes: of(high) })
}

/// Ends of the interval of a Poisson mean as shares of the count seen (Wilson and Hilferty's approximation of the
/// chi-squared quantiles).
fn poisson(count: f64, below: f64) -> (f64, f64) {
    let cubed = |n: f64, z: f64| n * (1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt())).max(0.0).powi(3);
    (cubed(count, -below) / count, cubed(count + 1.0, Z) / count)
}

/// What a sum whose samples are replaced at random exceeds once in forty times somewhere in so many replacements of all
/// of them: `Z` for none, else by Pickands' law of the highest value of a process that forgets exponentially,
/// `P(highest > z) = renewals · z · φ(z)`.
fn highest(renewals: f64) -> f64 {
    let density = |z: f64| (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let is_seldom = |z: f64| renewals * z * density(z) <= 0.025;
    let (mut low, mut high) = (Z, 12.0);
    if is_seldom(low) {
        return Z;
    }
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        *(if is_seldom(middle) { &mut high } else { &mut low }) = middle;
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> impl FnMut() -> f64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn poisson_intervals_are_those_of_the_tables() {
        // exact: 1 -> 0.0253..5.572, 10 -> 4.795..18.39, 100 -> 81.36..121.6
        for (count, low, high) in [(1.0, 0.0253, 5.572), (10.0, 4.795, 18.39), (100.0, 81.36, 121.6)] {
            let (a, b) = poisson(count, Z);
            assert!((a * count - low).abs() < 0.02, "{count}: {}", a * count);
            assert!((b * count / high - 1.0).abs() < 0.005, "{count}: {}", b * count);
        }
    }

    #[test]
    fn what_was_seen_whole_has_no_interval() {
        assert_eq!(interval(1e6, 0.0), None);
        assert_eq!(interval(0.0, 1.0), None);
        let wide = interval(1e6, 1e10).unwrap();
        assert!(wide.low_bytes < 820_000 && wide.high_bytes > 1_180_000);
    }

    /// Truth against estimates of a generator with a known answer.
    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let (mean, size, blocks) = (524_288.0_f64, 2048.0_f64, 10_000);
        let probability = 1.0 - (-size / mean).exp();
        let mut next = random();
        let mut inside = 0;
        for _ in 0..400 {
            let seen = (0..blocks).filter(|_| next() < probability).count() as f64;
            let weight = size / probability;
            let variance = seen * weight * weight * (1.0 - probability);
            let truth = (f64::from(blocks) * size) as u64;
            let interval = interval(seen * weight, variance).unwrap();
            inside += u64::from((interval.low_bytes..=interval.high_bytes).contains(&truth));
        }
        assert!((376..=398).contains(&inside), "{inside} of 400");
    }

    #[test]
    fn the_highest_of_more_is_further_off() {
        assert!((highest(0.0) - Z).abs() < 1e-9);
        let [ten, thousand] = [10.0, 1000.0].map(highest);
        assert!((3.5..3.7).contains(&ten) && (4.7..4.9).contains(&thousand), "{ten}, {thousand}");
    }

    /// A set of blocks of which one at random is replaced again and again: its true sum never changes.
    #[test]
    fn the_interval_of_the_highest_holds_the_truth() {
        let (probability, weight, blocks, turns) = (0.02, 50.0, 2000, 20_000_u32);
        let mut next = random();
        let mut inside = 0;
        for _ in 0..200 {
            let mut seen: Vec<bool> = (0..blocks).map(|_| next() < probability).collect();
            let mut sum = seen.iter().filter(|seen| **seen).count() as f64;
            let mut most = sum;
            for _ in 0..turns {
                let is_seen = next() < probability;
                let block = &mut seen[(next() * f64::from(blocks)) as usize];
                sum += f64::from(u8::from(is_seen)) - f64::from(u8::from(*block));
                *block = is_seen;
                most = most.max(sum);
            }
            let (bytes, variance) = (most * weight, most * weight * weight * (1.0 - probability));
            let truth = (f64::from(blocks) * probability * weight) as u64;
            let told = interval_of_highest(bytes, variance, f64::from(turns) / f64::from(blocks)).unwrap();
            let naive = interval(bytes, variance).unwrap();
            assert!(told.low_bytes < naive.low_bytes && told.high_bytes == naive.high_bytes);
            inside += u64::from((told.low_bytes..=told.high_bytes).contains(&truth));
        }
        assert!(inside >= 190, "{inside} of 200");
    }
}
