//! Is there a trend, and how steep? Theil–Sen with an interval, and a rank test that knows about autocorrelation.
//!
//! Memory curves are strongly autocorrelated: a test that takes neighbours for independent cries wolf. So the
//! variance of Mann–Kendall's S is multiplied by what the ranks of the detrended series say (Hamed and Rao, 1998),
//! and the interval of the slope is a moving-block bootstrap ([`stats::slope`]); short series get Student's t.
//! The ranks of some thirty points whose neighbours are alike prove nothing, however steep the line is: there the rises
//! from point to point are asked as well, which must not have a mean by chance even if memory walks at random.

use crate::stats::{self, XY};

/// Two-sided 99.9 %: the level of a decision.
pub(crate) const CERTAIN: f64 = 3.2905;
/// Two-sided 99 %: likely, but no decision.
pub(crate) const LIKELY: f64 = 2.5758;
/// 99.9 % for the decision and 80 % power: how many standard errors a slope needs to be seen.
/// The rank test loses some against the interval.
const SEEN: f64 = 1.2 * (CERTAIN + 0.8416);
/// Below this many points the bootstrap knows too few residuals.
const FEW: usize = 16;

/// Memory grows in steps of an arena, which is autocorrelation too: more than this is not held against a trend.
const MOST_RHO: f64 = 0.75;

/// A slope per unit of `x`, its 95 % interval, and how certain it is that there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    pub(crate) slope: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Standard errors from zero, comparable with [`CERTAIN`] whatever the length of the series.
    pub(crate) z: f64,
    /// The slope that would have been seen.
    pub(crate) smallest: f64,
}

/// The trend of a series in increasing `x`; `noise` is how far a level may be off by itself.
pub(crate) fn trend(points: &[XY], noise: f64) -> Option<Trend> {
    if points.len() < 4 {
        return None;
    }
    if points.len() < FEW { few(points, noise) } else { many(points, noise) }
}

fn many(points: &[XY], noise: f64) -> Option<Trend> {
    let slope = stats::slope(points)?;
    let floor = noise_of_slope(points, noise);
    let error = ((slope.high - slope.low) / 3.92).max(floor);
    let ordered = mann_kendall(points, slope.value, noise).max(drift(points, slope.value, noise));
    let z = ordered.min(slope.value.abs() / error) * slope.value.signum();
    let half = 1.96 * floor;
    Some(Trend {
        slope: slope.value,
        low: slope.low.min(slope.value - half),
        high: slope.high.max(slope.value + half),
        z,
        smallest: SEEN * error,
    })
}

/// Ordinary least squares with Student's t: for tables of a census, which count and do not estimate.
fn few(points: &[XY], noise: f64) -> Option<Trend> {
    let line = stats::Line::of(points)?;
    let freedom = points.len() - 2;
    let spread = spread_of(points);
    let residual = (line.squares / freedom as f64).sqrt();
    let error = (residual.max(noise) / spread.sqrt()).max(f64::MIN_POSITIVE);
    let half = student(freedom, &STUDENT_95) * error;
    // Scaled so that its own 99.9 % quantile becomes that of the normal distribution.
    let certain = student(freedom, &STUDENT_999);
    let z = line.slope / error * CERTAIN / certain;
    let smallest = (certain + 0.9) * error;
    Some(Trend { slope: line.slope, low: line.slope - half, high: line.slope + half, z, smallest })
}

fn spread_of(points: &[XY]) -> f64 {
    let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
    points.iter().map(|point| (point.0 - mean).powi(2)).sum()
}

/// What noise that nobody measured (counters that lag, pages) does to a slope.
fn noise_of_slope(points: &[XY], noise: f64) -> f64 {
    let spread = spread_of(points);
    if spread > 0.0 { noise / spread.sqrt() } else { f64::INFINITY }
}

/// Standard errors of Mann–Kendall's S from zero; never negative.
fn mann_kendall(points: &[XY], slope: f64, noise: f64) -> f64 {
    let n = points.len() as f64;
    let mut s = 0.0;
    for (place, a) in points.iter().enumerate() {
        s += points[place + 1..].iter().map(|b| sign(b.1 - a.1)).sum::<f64>();
    }
    let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - ties(points)) / 18.0 * inflation(points, slope, noise);
    if variance <= 0.0 { 0.0 } else { ((s.abs() - 1.0).max(0.0)) / variance.sqrt() }
}

/// Standard errors of the mean rise from one point to the next, in the direction of the slope; never negative. A walk
/// without drift, where neighbours could not be more alike, has it by chance as seldom as independent noise has.
fn drift(points: &[XY], slope: f64, noise: f64) -> f64 {
    let rises: Vec<f64> = points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let count = rises.len() as f64;
    let mean = rises.iter().sum::<f64>() / count;
    let variance = rises.iter().map(|rise| (rise - mean).powi(2)).sum::<f64>() / (count - 1.0);
    // A slow wave has rises that are alike.
    let rho = autocorrelation(&rises, 1).clamp(0.0, 0.95);
    let error = (variance / count * (1.0 + rho) / (1.0 - rho)).sqrt().max(noise / count);
    let certain = student(rises.len() - 1, &STUDENT_999);
    (mean * slope.signum()).max(0.0) / error.max(f64::MIN_POSITIVE) * CERTAIN / certain
}

fn sign(value: f64) -> f64 {
    if value > 0.0 { 1.0 } else { -f64::from(value < 0.0) }
}

/// Equal values tell nothing about their order.
fn ties(points: &[XY]) -> f64 {
    let mut levels: Vec<f64> = points.iter().map(|point| point.1).collect();
    levels.sort_unstable_by(f64::total_cmp);
    levels
        .chunk_by(|a, b| a.total_cmp(b).is_eq())
        .map(|tied| tied.len() as f64)
        .map(|t| t * (t - 1.0) * (2.0 * t + 5.0))
        .sum()
}

/// By how much autocorrelation widens the distribution of S; never below one.
fn inflation(points: &[XY], slope: f64, noise: f64) -> f64 {
    let n = points.len() as f64;
    // Distances from the line that are smaller than the noise have no order.
    let grain = (noise / 4.0).max(1e-6);
    let ranks =
        ranks(&points.iter().map(|point| ((point.1 - slope * point.0) / grain).round()).collect::<Vec<_>>());
    let most = points.len() / 3;
    let significant = 1.96 / n.sqrt();
    let sum: f64 = (1..=most)
        .map(|lag| (lag as f64, autocorrelation(&ranks, lag)))
        .filter(|(_, rho)| rho.abs() > significant)
        .map(|(lag, rho)| (n - lag) * (n - lag - 1.0) * (n - lag - 2.0) * rho)
        .sum();
    // Detrending hides autocorrelation in short series: never below what the first lag alone would mean.
    let rho = autocorrelation(&ranks, 1);
    let rho = (rho + (1.0 + 3.0 * rho) / n).clamp(0.0, MOST_RHO);
    (1.0 + 2.0 / (n * (n - 1.0) * (n - 2.0)) * sum).max((1.0 + rho) / (1.0 - rho))
}

/// Equal values share the middle of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|a, b| values[*a].total_cmp(&values[*b]).is_eq()) {
        for place in tied {
            ranks[*place] = first as f64 + (tied.len() - 1) as f64 / 2.0;
        }
        first += tied.len();
    }
    ranks
}

/// Of a series with itself, shifted; 0 for one that does not move.
pub(crate) fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let power: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let shifted = values.iter().zip(values.iter().skip(lag));
    if power > 0.0 { shifted.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / power } else { 0.0 }
}

/// Quantiles of Student's t for 1, 2, … 10, then 15, 20, 30, 60 degrees of freedom, then the normal one.
type Quantiles = [f64; 15];
const STUDENT_95: Quantiles = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.131, 2.086, 2.042, 2.000, 1.960,
];
const STUDENT_999: Quantiles = [
    636.62, 31.599, 12.924, 8.610, 6.869, 5.959, 5.408, 5.041, 4.781, 4.587, 4.073, 3.850, 3.646, 3.460,
    3.2905,
];

/// The next smaller number of degrees that is in the table: never too narrow.
fn student(freedom: usize, quantiles: &Quantiles) -> f64 {
    quantiles[match freedom {
        0 | 1 => 0,
        2..=10 => freedom - 1,
        11..=14 => 9,
        15..=19 => 10,
        20..=29 => 11,
        30..=59 => 12,
        60..=199 => 13,
        _ => 14,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn line(n: usize, slope: f64, noise: impl FnMut(usize) -> f64) -> Vec<XY> {
        let mut noise = noise;
        (0..n).map(|x| (x as f64, slope * x as f64 + noise(x))).collect()
    }

    /// S and its variance of the classical example without ties, by hand: 6 points, one inversion.
    #[test]
    fn mann_kendall_of_six_points() {
        let points = [(0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (3.0, 3.0), (4.0, 5.0), (5.0, 6.0)];
        let expected = (13.0 - 1.0) / (6.0_f64 * 5.0 * 17.0 / 18.0).sqrt();
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 7.0]), [1.5, 0.0, 1.5, 3.0]);
        assert!(
            (mann_kendall(&points, 1.0, 0.1) - expected).abs() < 0.5,
            "{}",
            mann_kendall(&points, 1.0, 0.1)
        );
        assert!(mann_kendall(&[(0.0, 1.0); 6], 0.0, 0.1).abs() < 1e-9);
    }

    #[test]
    fn independent_noise_is_certain_in_at_most_a_few_of_hundreds() {
        let mut random = Random::new(1);
        let wrong = (0..100)
            .filter(|_| trend(&line(60, 0.0, |_| random.normal()), 0.0).is_some_and(|t| t.z.abs() > CERTAIN))
            .count();
        assert!(wrong <= 1, "{wrong} of 100");
    }

    #[test]
    fn correlated_noise_is_not_certain_either() {
        let mut random = Random::new(2);
        let wrong = (0..60)
            .filter(|_| {
                let mut level = 0.0;
                let points = line(80, 0.0, |_| {
                    level = 0.8 * level + random.normal();
                    level
                });
                trend(&points, 0.0).is_some_and(|t| t.z.abs() > CERTAIN)
            })
            .count();
        assert!(wrong <= 2, "{wrong} of 60");
    }

    /// The phase of the samples in their steps drifts: neighbours are alike, and yet nothing is doubtful.
    #[test]
    fn a_steep_line_is_certain_however_alike_its_neighbours_are() {
        let points = line(30, 600.0, |n| 300.0 * (n as f64 / 9.0).sin());
        assert!(mann_kendall(&points, 600.0, 16.0) < CERTAIN, "the ranks alone do not tell");
        let found = trend(&points, 16.0).unwrap();
        assert!(found.z > CERTAIN && found.smallest < 600.0, "{found:?}");
    }

    #[test]
    fn walks_at_random_and_slow_waves_do_not_drift() {
        let mut random = Random::new(5);
        let certain = |points: &[XY]| drift(points, 1.0, 0.0).max(drift(points, -1.0, 0.0)) > CERTAIN;
        let wrong = (0..400)
            .filter(|_| {
                let mut level = 0.0;
                certain(&line(30, 0.0, |_| {
                    level += random.normal();
                    level
                }))
            })
            .count();
        assert!(wrong <= 3, "{wrong} of 400");
        for phase in 0..12 {
            let wave = line(40, 0.0, |n| (n as f64 / 8.0 + f64::from(phase) / 2.0).sin());
            assert!(!certain(&wave), "phase {phase}: {}", drift(&wave, 1.0, 0.0));
        }
    }

    #[test]
    fn short_series_have_students_interval() {
        let mut random = Random::new(3);
        let held = (0..200)
            .filter(|_| {
                let found = trend(&line(7, 2.0, |_| random.normal()), 0.0).unwrap();
                found.low <= 2.0 && 2.0 <= found.high
            })
            .count();
        assert!((178..=199).contains(&held), "{held} of 200 hold the truth");
        assert!(trend(&line(7, 2.0, |_| 0.0), 0.01).unwrap().z > CERTAIN);
    }

    #[test]
    fn a_slope_as_large_as_the_smallest_is_seen_four_times_in_five() {
        let mut random = Random::new(4);
        let smallest = trend(&line(60, 0.0, |_| random.normal()), 0.0).unwrap().smallest;
        let seen = (0..50)
            .filter(|_| trend(&line(60, smallest, |_| random.normal()), 0.0).unwrap().z > CERTAIN)
            .count();
        assert!(seen >= 30, "{seen} of 50");
    }
}
