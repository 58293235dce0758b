//! Steps that nobody marked: a curve that repeats itself has a period, and that is probably the step.
//!
//! Autocorrelation of the differences between samples: a slow rise (a leak, a warm-up) disappears, what
//! comes back again and again stays. Told only when the pattern is strong and came often; always "estimated".

use crate::model::EstimatedSteps;

/// Fewer repetitions are a coincidence.
const LEAST_PERIODS: usize = 8;
/// A period shorter than this many samples is not resolved.
const LEAST_LAG: usize = 4;
/// How alike two neighbouring periods must be: 1 is identical, 0 is noise.
const LEAST_CORRELATION: f64 = 0.5;
/// The shortest of nearly equally good periods is the step; the others are its multiples.
const AS_GOOD: f64 = 0.85;

/// `levels`: time and bytes of the tree, evenly spaced.
pub(crate) fn find(levels: &[(u64, u64)]) -> Option<EstimatedSteps> {
    let (first, last) = (levels.first()?.0, levels.last()?.0);
    let changes: Vec<f64> = levels.windows(2).map(|pair| pair[1].1 as f64 - pair[0].1 as f64).collect();
    let most = changes.len() / LEAST_PERIODS;
    let correlations = autocorrelations(&changes, most)?;
    let (lag, correlation) = period(&correlations)?;
    let spacing_s = (last - first) as f64 / 1e9 / (levels.len() - 1) as f64;
    let period_s = spacing_s * lag as f64;
    let count = (changes.len() / lag) as u64;
    Some(EstimatedSteps { period_s, count, correlation })
}

/// Correlation of the series with itself, shifted by 0, 1, … `most`.
fn autocorrelations(changes: &[f64], most: usize) -> Option<Vec<f64>> {
    let mean = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
    let centred: Vec<f64> = changes.iter().map(|change| change - mean).collect();
    let power: f64 = centred.iter().map(|x| x * x).sum();
    if most <= LEAST_LAG || power <= 0.0 {
        return None;
    }
    let shifted = |lag: usize| {
        let pairs = centred.iter().zip(&centred[lag..]);
        let overlap = (centred.len() - lag) as f64 / centred.len() as f64;
        pairs.map(|(a, b)| a * b).sum::<f64>() / power / overlap
    };
    Some((0..=most).map(shifted).collect())
}

/// The shortest local maximum that is nearly as good as the best.
fn period(correlations: &[f64]) -> Option<(usize, f64)> {
    let is_peak = |lag: &usize| {
        let here = correlations[*lag];
        let after = correlations.get(lag + 1).copied().unwrap_or(f64::NEG_INFINITY);
        here >= correlations[lag - 1] && here >= after
    };
    let peaks: Vec<usize> = (LEAST_LAG..correlations.len()).filter(is_peak).collect();
    let best = peaks.iter().map(|lag| correlations[*lag]).fold(f64::NEG_INFINITY, f64::max);
    let first = peaks.into_iter().find(|lag| correlations[*lag] >= best * AS_GOOD)?;
    (correlations[first] >= LEAST_CORRELATION).then_some((first, correlations[first]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn every_100_ms(level: impl Fn(u64) -> u64, samples: u64) -> Vec<(u64, u64)> {
        (0..samples).map(|n| (n * 100 * MS, level(n))).collect()
    }

    /// Forward rises, backward falls, twelve samples a step, on top of a leak.
    fn training(n: u64) -> u64 {
        let in_step = n % 12;
        let activations = if in_step < 6 { in_step * 50 } else { (12 - in_step) * 50 };
        (1000 + activations + n / 12 * 3) << 20
    }

    #[test]
    fn a_training_shows_its_step() {
        let found = find(&every_100_ms(training, 300)).unwrap();
        assert!((found.period_s - 1.2).abs() < 0.01, "{found:?}");
        assert_eq!(found.count, 24);
        assert!(found.correlation > 0.9);
    }

    #[test]
    fn noise_ramps_and_flat_lines_have_none() {
        let noise = |n: u64| 1_000_000 + n.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) % 100_000;
        assert_eq!(find(&every_100_ms(noise, 500)), None);
        assert_eq!(find(&every_100_ms(|n| n << 20, 500)), None);
        assert_eq!(find(&every_100_ms(|_| 7, 500)), None);
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[(1, 1)]), None);
    }

    #[test]
    fn a_few_repetitions_are_not_enough() {
        assert_eq!(find(&every_100_ms(training, 60)), None);
    }
}
