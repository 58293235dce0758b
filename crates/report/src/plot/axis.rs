//! Where the ticks of an axis are, and what they are called.

use crate::text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Seconds,
    Number,
    /// From 0 to 1.
    Share,
    /// Bytes by their logarithm: each step is twice as much.
    Doublings,
}

/// About as many ticks as this are drawn.
const TICKS: f64 = 5.0;
const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const SECONDS: [f64; 12] = [
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    24.0 * HOUR,
];

impl Unit {
    /// Round values between two ends.
    pub fn ticks(self, low: f64, high: f64) -> Vec<f64> {
        let step = self.step((high - low) / TICKS);
        if !(step > 0.0 && step.is_finite() && high > low) {
            return vec![low];
        }
        let first = (low / step).ceil();
        let count = ((high / step).floor() - first).clamp(0.0, 50.0) as usize;
        (0..=count).map(|n| (first + n as f64) * step).collect()
    }

    fn step(self, least: f64) -> f64 {
        match self {
            Self::Bytes => binary(least),
            Self::Seconds if least > 30.0 => SECONDS
                .into_iter()
                .find(|step| *step >= least)
                .unwrap_or_else(|| decimal(least / (24.0 * HOUR)) * 24.0 * HOUR),
            Self::Seconds | Self::Number | Self::Share => decimal(least),
            Self::Doublings => least.ceil().max(1.0),
        }
    }

    pub fn label(self, value: f64) -> String {
        match self {
            Self::Bytes if value < 0.0 => text::signed_bytes(value as i64),
            Self::Bytes => text::bytes(value as u64),
            Self::Seconds if value.abs() < 1e-9 => "0 s".into(),
            Self::Seconds if value < 0.0 => format!("-{}", text::duration(-value)),
            Self::Seconds => text::duration(value),
            Self::Share => text::percent(value),
            Self::Doublings => text::bytes(value.exp2() as u64),
            Self::Number if value.abs() >= 1e4 => text::count(value.abs() as u64),
            Self::Number => format!("{}", (value * 1e6).round() / 1e6),
        }
    }
}

/// 1, 2 or 5 times a power of ten.
fn decimal(least: f64) -> f64 {
    let unit = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|step| *step >= least).unwrap_or(least)
}

/// A power of two, so that labels are round in KiB, MiB, GiB.
fn binary(least: f64) -> f64 {
    2f64.powf(least.max(1.0).log2().ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let mib = 1_048_576.0;
        let labels = |unit: Unit, low: f64, high: f64| -> Vec<String> {
            unit.ticks(low, high).into_iter().map(|tick| unit.label(tick)).collect()
        };
        assert_eq!(
            labels(Unit::Bytes, 0.0, 300.0 * mib),
            ["0 B", "64.0 MiB", "128 MiB", "192 MiB", "256 MiB"]
        );
        assert_eq!(Unit::Number.ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Unit::Seconds.ticks(0.0, 86_400.0).len(), 5);
        assert_eq!(Unit::Seconds.ticks(-1.0, 9.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(labels(Unit::Share, 0.0, 1.0), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        assert_eq!(
            labels(Unit::Doublings, 12.0, 16.0),
            ["4.00 KiB", "8.00 KiB", "16.0 KiB", "32.0 KiB", "64.0 KiB"]
        );
    }

    #[test]
    fn absurd_ends_have_a_tick() {
        assert_eq!(Unit::Bytes.ticks(5.0, 5.0), [5.0]);
        assert_eq!(Unit::Number.ticks(0.0, f64::NAN), [0.0]);
        assert!(Unit::Seconds.ticks(0.0, 1e300).len() <= 51);
    }
}
