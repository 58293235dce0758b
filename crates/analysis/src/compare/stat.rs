//! A figure of several runs, and the difference of two such, with its interval.
//!
//! Welch's interval where both sides have repeats; where one has, its noise stands for both; where none has, a stated
//! assumption about single runs. What a run itself cannot tell (bounds of a tree, lag of counters) is added on top.

use serde::Serialize;

use crate::fit::student::t_95;
use crate::metric::{Metric, Unit};

/// Assumed standard error of a run that was not repeated, as a share: peaks of the same command differ by some percent,
/// times and what is sampled now and then by far more.
pub const SINGLE_NOISE: f64 = 0.015;
const SINGLE_NOISE_SAMPLED: f64 = 0.25;
/// Figures that the kernel keeps itself, or that are counted.
const STEADY: [&str; 8] =
    ["peak", "largest", "cgroup", "gpu", "leak", "heap", "heap.objects", "heap.payload"];

/// One figure over the runs of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stat {
    pub runs: usize,
    pub mean: f64,
    /// Standard deviation of the runs; nothing for one run.
    pub deviation: Option<f64>,
    /// How far the runs' own bounds reach around their values, on average.
    pub bounds_low: f64,
    pub bounds_high: f64,
    /// How far a counter may lag.
    pub slack: f64,
    /// Noise that is assumed of a single run, as a share.
    #[serde(skip)]
    assumed: f64,
}

impl Stat {
    pub fn of(metrics: &[&Metric], slack: f64) -> Option<Self> {
        let count = metrics.len();
        let mean_of =
            |value: fn(&Metric) -> f64| metrics.iter().map(|m| value(m)).sum::<f64>() / count as f64;
        let mean = mean_of(|m| m.value);
        let squares: f64 = metrics.iter().map(|m| (m.value - mean).powi(2)).sum();
        let deviation = (count > 1).then(|| (squares / (count as f64 - 1.0)).sqrt());
        let steady = metrics.first().is_some_and(|m| STEADY.contains(&m.name.as_str()));
        let by_size = metrics.first().is_some_and(|m| m.unit == Unit::Bytes);
        (count > 0).then(|| Self {
            runs: count,
            mean,
            deviation,
            bounds_low: mean_of(|m| m.low),
            bounds_high: mean_of(|m| m.high),
            slack: if by_size { slack } else { 0.0 },
            assumed: if steady { SINGLE_NOISE } else { SINGLE_NOISE_SAMPLED },
        })
    }

    /// 95 % interval of the mean.
    pub fn interval(&self) -> (f64, f64) {
        let noise = self
            .deviation
            .map_or(0.0, |deviation| t_95(self.runs as f64 - 1.0) * deviation / (self.runs as f64).sqrt());
        let half = noise + self.slack;
        (self.bounds_low.min(self.mean) - half, self.bounds_high.max(self.mean) + half)
    }

    fn reach(&self) -> f64 {
        (self.bounds_high - self.bounds_low).max(0.0) / 2.0 + self.slack
    }
}

/// How one figure differs between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    pub change: f64,
    pub low: f64,
    pub high: f64,
    /// Of the base; nothing where that is zero.
    pub share: Option<f64>,
    pub verdict: Verdict,
    /// No side was repeated: the noise is assumed.
    pub assumed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Grew,
    Shrank,
    /// The interval holds zero.
    Same,
}

pub fn difference(base: &Stat, other: &Stat) -> Difference {
    let change = other.mean - base.mean;
    let (error, freedom) = error(base, other);
    let half = t_95(freedom) * error + base.reach() + other.reach();
    let (low, high) = (change - half, change + half);
    let verdict = if low > 0.0 {
        Verdict::Grew
    } else if high < 0.0 {
        Verdict::Shrank
    } else {
        Verdict::Same
    };
    let assumed = base.deviation.is_none() && other.deviation.is_none();
    let share = (base.mean != 0.0).then(|| change / base.mean);
    Difference { change, low, high, share, verdict, assumed }
}

/// Standard error of the difference, and the degrees of freedom behind it.
fn error(base: &Stat, other: &Stat) -> (f64, f64) {
    let squared = |stat: &Stat, deviation: f64| deviation * deviation / stat.runs as f64;
    match (base.deviation, other.deviation) {
        (Some(a), Some(b)) => {
            let (a, b) = (squared(base, a), squared(other, b));
            (f64::sqrt(a + b), welch(a, base.runs, b, other.runs))
        }
        (Some(known), None) => (f64::sqrt(squared(base, known) + known * known), base.runs as f64 - 1.0),
        (None, Some(known)) => (f64::sqrt(squared(other, known) + known * known), other.runs as f64 - 1.0),
        (None, None) => (base.assumed * base.mean.abs().hypot(other.mean.abs()), f64::INFINITY),
    }
}

fn welch(a: f64, runs_a: usize, b: f64, runs_b: usize) -> f64 {
    let below = a * a / (runs_a as f64 - 1.0) + b * b / (runs_b as f64 - 1.0);
    if below > 0.0 { (a + b).powi(2) / below } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(values: &[f64]) -> Stat {
        let metrics: Vec<Metric> = values
            .iter()
            .map(|v| Metric { name: "peak".into(), unit: Unit::Bytes, value: *v, low: *v, high: *v })
            .collect();
        Stat::of(&metrics.iter().collect::<Vec<_>>(), 0.0).unwrap()
    }

    /// Values of R: `t.test(c(101,103,102), c(110,113,112,111))`.
    #[test]
    fn welch_agrees_with_r() {
        let found = difference(&stat(&[101.0, 103.0, 102.0]), &stat(&[110.0, 113.0, 112.0, 111.0]));
        assert!((found.change - 9.5).abs() < 1e-12);
        assert!((found.low - 7.268).abs() < 2e-3 && (found.high - 11.732).abs() < 2e-3, "{found:?}");
        assert_eq!((found.verdict, found.assumed), (Verdict::Grew, false));
    }

    #[test]
    fn single_runs_are_judged_with_an_assumed_noise() {
        let near = difference(&stat(&[100.0]), &stat(&[103.0]));
        assert_eq!((near.verdict, near.assumed), (Verdict::Same, true));
        assert_eq!(difference(&stat(&[100.0]), &stat(&[120.0])).verdict, Verdict::Grew);
        assert_eq!(difference(&stat(&[120.0]), &stat(&[100.0])).verdict, Verdict::Shrank);
    }

    #[test]
    fn one_side_lends_its_noise_to_the_other() {
        let quiet = difference(&stat(&[100.0, 100.1, 99.9]), &stat(&[103.0]));
        assert_eq!((quiet.verdict, quiet.assumed), (Verdict::Grew, false));
        let noisy = difference(&stat(&[100.0, 110.0, 90.0]), &stat(&[103.0]));
        assert_eq!(noisy.verdict, Verdict::Same);
    }

    #[test]
    fn bounds_and_slack_widen_the_interval() {
        let metric = Metric { name: "peak".into(), unit: Unit::Bytes, value: 100.0, low: 90.0, high: 110.0 };
        let wide = Stat::of(&[&metric, &metric], 5.0).unwrap();
        assert_eq!(wide.interval(), (85.0, 115.0));
        let found = difference(&wide, &wide);
        assert_eq!((found.low, found.high), (-30.0, 30.0));
        assert!(Stat::of(&[], 0.0).is_none());
    }
}
