//! Does memory grow, and how fast? A series of levels (tree memory at step ends, or over time) gets a class,
//! a rate with its 95 % interval, and the reason in words. "Cannot tell" is a legal answer.
//!
//! 1. Cut the warm-up where two lines explain the series much better than one.
//! 2. Slope of the rest by Theil–Sen, interval by block bootstrap ([`stats::slope`]).
//! 3. `grows` needs all of: the interval is above zero, the rise is larger than what counters and allocators
//!    do by themselves, every quarter is higher than the one before and so is its floor. A plateau, a single jump
//!    and a saw-tooth fail the last. `flat` needs an interval too narrow to hide a rise that matters.

use crate::model::{Growth, GrowthClass, GrowthUnit};
use crate::stats::{self, Slope, XY};

/// Fewer points after warm-up give no verdict.
pub const LEAST_POINTS: usize = 8;
/// A rise over the whole series below this is no growth, whatever its significance.
const LEAST_RISE_BYTES: f64 = 512.0 * 1024.0;
const LEAST_RISE_SHARE: f64 = 0.001;
/// An interval that leaves room for a rise larger than this cannot be called flat.
const FLAT_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
const FLAT_SHARE: f64 = 0.02;
/// Two lines must leave less than this share of one line's squares to be believed.
const CUT_GAIN: f64 = 0.6;

/// What the series shows, without its unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Trend {
    pub class: GrowthClass,
    pub reason: String,
    pub slope: Option<Slope>,
    /// First `x` after warm-up, and the points from there on.
    pub since_x: f64,
    pub points: usize,
    /// Level at the end, by the fitted line.
    pub end_level: f64,
}

/// The verdict on a series in increasing `x`. `slack` is how far a level may be off by itself, in bytes.
pub fn trend(points: &[XY], slack: f64) -> Trend {
    if points.len() < LEAST_POINTS {
        return cannot_tell(points, format!("only {} points, {LEAST_POINTS} are needed", points.len()));
    }
    let binned = stats::bin(points, stats::MAX_POINTS);
    let cut = warm_up(&binned);
    let settled = &binned[cut.from..];
    if cut.repeats {
        return cannot_tell(settled, "memory fell and climbed again: saw-tooth, too few periods".into());
    }
    match stats::slope(settled) {
        None => cannot_tell(settled, "no progress along the axis".into()),
        Some(slope) => judge(settled, points.len() * settled.len() / binned.len(), slope, slack),
    }
}

/// A process that ends gives its memory back piece by piece: the last points may be of that. `least` is a fall that means
/// nothing by itself, in bytes.
pub(crate) fn before_teardown(points: &[XY], least: f64) -> &[XY] {
    let most = 2.max(points.len() / 20);
    let mut end = points.len();
    while end > 8 && points.len() - end < most {
        let mut before: Vec<f64> = points[end - 8..end - 1].iter().map(|point| point.1).collect();
        let lowest = before.iter().copied().fold(f64::INFINITY, f64::min);
        let middle = stats::median(&mut before).unwrap_or(lowest);
        if points[end - 1].1 >= middle - 2.0 * (middle - lowest).max(least) {
            break;
        }
        end -= 1;
    }
    &points[..end]
}

/// The verdict on the levels of a process tree, up to its end.
pub(crate) fn trend_of_memory(points: &[XY], slack: f64) -> Trend {
    let points = before_teardown(points, LEAST_RISE_BYTES.max(slack));
    let trend = trend(points, slack);
    let settled = &points[points.partition_point(|point| point.0 < trend.since_x)..];
    Trend { slope: trend.slope.map(|slope| with_lateness(settled, slope)), ..trend }
}

fn with_lateness(points: &[XY], slope: Slope) -> Slope {
    let half = stats::slope_of_lateness(points, slope.value, f64::INFINITY);
    Slope { low: slope.low.min(slope.value - half), high: slope.high.max(slope.value + half), ..slope }
}

fn cannot_tell(points: &[XY], reason: String) -> Trend {
    Trend {
        class: GrowthClass::CannotTell,
        reason,
        slope: None,
        since_x: points.first().map_or(0.0, |point| point.0),
        points: points.len(),
        end_level: points.last().map_or(0.0, |point| point.1),
    }
}

struct Cut {
    from: usize,
    /// What looks like warm-up is the same climb as afterwards.
    repeats: bool,
}

/// Where the settled part begins: at most 60 % are warm-up, at least eight points are left.
fn warm_up(points: &[XY]) -> Cut {
    let least_after = LEAST_POINTS.max(points.len() * 2 / 5);
    let Some(split) = stats::split(points, 2, least_after).filter(|split| split.left < CUT_GAIN) else {
        return Cut { from: 0, repeats: false };
    };
    let climbed = split.slope_before * (points[split.at - 1].0 - points[0].0);
    let alike = split.slope_before > 0.0
        && split.slope_after > split.slope_before / 2.0
        && split.slope_after < split.slope_before * 2.0;
    Cut { from: split.at, repeats: alike && -split.jump > climbed / 2.0 }
}

fn judge(settled: &[XY], points: usize, slope: Slope, slack: f64) -> Trend {
    let (class, reason) = class_of(settled, slope, slack);
    let intercept =
        stats::median(&mut settled.iter().map(|point| point.1 - slope.value * point.0).collect::<Vec<_>>());
    let last_x = settled.last().map_or(0.0, |point| point.0);
    Trend {
        class,
        reason,
        slope: Some(slope),
        since_x: settled.first().map_or(0.0, |point| point.0),
        points,
        end_level: intercept.unwrap_or(0.0) + slope.value * last_x,
    }
}

fn class_of(settled: &[XY], slope: Slope, slack: f64) -> (GrowthClass, String) {
    let span = settled.last().map_or(0.0, |last| last.0 - settled[0].0);
    let level = stats::median(&mut settled.iter().map(|point| point.1).collect::<Vec<_>>()).unwrap_or(0.0);
    let least = LEAST_RISE_BYTES.max(slack).max(LEAST_RISE_SHARE * level);
    let hidden = FLAT_BYTES.max(slack).max(FLAT_SHARE * level);
    let steady = rises_steadily(settled);
    let could_rise = slope.high.abs().max(slope.low.abs()) * span;
    if slope.low > 0.0 && slope.value * span >= least && steady {
        (GrowthClass::Grows, "every quarter is higher than the one before".into())
    } else if could_rise < hidden {
        (GrowthClass::Flat, "no rise beyond the noise".into())
    } else if slope.low > 0.0 && !steady {
        (GrowthClass::CannotTell, "it rose, but not steadily: a jump, a saw-tooth, or levelling off".into())
    } else {
        (GrowthClass::CannotTell, "the noise is larger than the trend".into())
    }
}

/// The middle and the floor of each quarter lie above those of the quarter before, no quarter has more than two
/// thirds of the rise, and the last one (a plateau in the making) has at least half of its share.
fn rises_steadily(settled: &[XY]) -> bool {
    let quarter = settled.len().div_ceil(4);
    let quarters: Vec<(f64, f64)> = settled.chunks(quarter).filter_map(middle_and_floor).collect();
    let rises: Vec<f64> = quarters.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let total: f64 = rises.iter().sum();
    let share = total / rises.len().max(1) as f64;
    rises.len() >= 2
        && quarters.windows(2).all(|pair| pair[1].1 > pair[0].1)
        && rises.iter().all(|rise| *rise > 0.0 && *rise < total * 2.0 / 3.0)
        && rises.last().is_some_and(|last| *last >= share / 2.0)
}

fn middle_and_floor(points: &[XY]) -> Option<(f64, f64)> {
    let mut levels: Vec<f64> = points.iter().map(|point| point.1).collect();
    let floor = levels.iter().copied().fold(f64::INFINITY, f64::min);
    Some((stats::median(&mut levels)?, floor))
}

/// The axis of a growth verdict and what is known along it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) per: GrowthUnit,
    /// Steps are numbered as the target numbers them (else counted).
    pub(crate) numbered: bool,
    pub(crate) last_x: f64,
}

/// The model for a view: rates in the axis' unit, and where the limit would be reached.
pub(crate) fn model(trend: &Trend, axis: Axis, limit_bytes: Option<u64>) -> Growth {
    let steps = axis.per == GrowthUnit::Step;
    let scale = if steps { 1.0 } else { 60.0 };
    let rate = |value: f64| value * scale;
    let reached = limit_bytes.and_then(|limit| reached(trend, axis.last_x, limit as f64));
    Growth {
        class: trend.class,
        reason: trend.reason.clone(),
        per: axis.per,
        bytes: trend.slope.map(|slope| rate(slope.value)),
        low_bytes: trend.slope.map(|slope| rate(slope.low)),
        high_bytes: trend.slope.map(|slope| rate(slope.high)),
        since_step: (steps && axis.numbered).then_some(trend.since_x as u64),
        since_s: (!steps).then_some(trend.since_x),
        points: trend.points,
        limit_at_step: reached.filter(|_| steps).map(|x| x.ceil() as u64),
        limit_at_s: reached.filter(|_| !steps),
    }
}

fn reached(trend: &Trend, last_x: f64, limit: f64) -> Option<f64> {
    let slope = trend.slope.filter(|slope| trend.class == GrowthClass::Grows && slope.value > 0.0)?;
    Some(last_x + (limit - trend.end_level).max(0.0) / slope.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1024.0 * 1024.0;

    /// Deterministic noise in -1..1.
    fn noise(n: usize) -> f64 {
        let mixed = (n as u64 + 11).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    fn series(count: usize, level: impl Fn(usize) -> f64) -> Vec<XY> {
        (0..count).map(|n| (n as f64, level(n) * MIB)).collect()
    }

    fn class(count: usize, level: impl Fn(usize) -> f64) -> GrowthClass {
        trend(&series(count, level), 0.0).class
    }

    #[test]
    fn flat_with_noise_is_flat() {
        for count in [12, 40, 100, 1_000] {
            assert_eq!(class(count, |n| 1_000.0 + 3.0 * noise(n)), GrowthClass::Flat, "{count}");
        }
    }

    #[test]
    fn what_a_process_gives_back_while_it_ends_hides_no_growth() {
        let level = |n: usize| if n < 59 { 16.0 + 1.9 * n as f64 + 0.2 * noise(n) } else { 55.0 };
        let found = trend_of_memory(&series(60, level), 0.0);
        assert_eq!(found.class, GrowthClass::Grows, "{}", found.reason);
        assert_eq!(trend(&series(60, level), 0.0).class, GrowthClass::CannotTell);
    }

    #[test]
    fn a_constant_is_flat() {
        assert_eq!(class(30, |_| 100.0), GrowthClass::Flat);
    }

    #[test]
    fn a_plateau_after_warm_up_is_not_growth() {
        let rise = |n: usize| 1_000.0 * (1.0 - (-(n as f64) / 8.0).exp());
        for count in [40, 60, 100, 400] {
            assert_ne!(class(count, |n| rise(n) + noise(n)), GrowthClass::Grows, "{count}");
        }
        assert_eq!(class(100, |n| (n as f64).min(20.0) * 50.0 + noise(n)), GrowthClass::Flat);
    }

    #[test]
    fn a_saw_tooth_is_not_growth() {
        for period in [5, 7, 12, 20, 30, 50] {
            for phase in [0, 3, 11] {
                let found = class(100, |n| 500.0 + 10.0 * ((n + phase) % period) as f64 + noise(n));
                assert_ne!(found, GrowthClass::Grows, "period {period} phase {phase}");
            }
        }
    }

    #[test]
    fn a_linear_leak_grows_at_its_rate() {
        for count in [8, 10, 30, 500, 20_000] {
            let found = trend(&series(count, |n| 700.0 + 2.0 * n as f64), 0.0);
            assert_eq!(found.class, GrowthClass::Grows, "{count}");
            assert!((found.slope.unwrap().value - 2.0 * MIB).abs() < 1.0);
            assert!(found.since_x < 0.5 + count as f64 / 96.0);
        }
    }

    #[test]
    fn a_leak_in_noise_is_found_and_its_interval_holds_the_truth() {
        let held = (0..20).filter(|round| {
            let found = trend(&series(120, |n| 900.0 + 1.8 * n as f64 + 12.0 * noise(n + 997 * round)), 0.0);
            let slope = found.slope.unwrap();
            found.class == GrowthClass::Grows && slope.low <= 1.8 * MIB && 1.8 * MIB <= slope.high
        });
        assert!(held.count() >= 17);
    }

    #[test]
    fn warm_up_is_cut_before_a_leak() {
        let found =
            trend(&series(120, |n| if n < 20 { 100.0 * n as f64 } else { 2_000.0 + 1.5 * n as f64 }), 0.0);
        assert_eq!(found.class, GrowthClass::Grows);
        assert!((18.0..=22.0).contains(&found.since_x), "{}", found.since_x);
        assert!((found.slope.unwrap().value / MIB - 1.5).abs() < 0.01);
    }

    #[test]
    fn one_jump_is_not_growth_wherever_it_is() {
        for at in (5..98).step_by(3) {
            let found = class(100, |n| if n < at { 500.0 } else { 800.0 } + noise(n));
            assert_ne!(found, GrowthClass::Grows, "jump at {at}");
        }
    }

    #[test]
    fn a_leaking_saw_tooth_grows() {
        assert_eq!(class(200, |n| 500.0 + 3.0 * n as f64 + 10.0 * (n % 5) as f64), GrowthClass::Grows);
    }

    #[test]
    fn a_high_start_does_not_hide_a_leak() {
        let found = class(100, |n| if n < 6 { 4_000.0 } else { 1_000.0 + 2.0 * n as f64 } + noise(n));
        assert_eq!(found, GrowthClass::Grows);
    }

    #[test]
    fn seven_points_are_too_few() {
        let found = trend(&series(7, |n| 100.0 * n as f64), 0.0);
        assert_eq!(found.class, GrowthClass::CannotTell);
        assert!(found.reason.contains("only 7"), "{}", found.reason);
    }

    #[test]
    fn the_limit_is_projected_from_the_fitted_end() {
        let trend = trend(&series(101, |n| 1_000.0 + 10.0 * n as f64), 0.0);
        let axis = Axis { per: GrowthUnit::Step, numbered: true, last_x: 100.0 };
        let growth = model(&trend, axis, Some((3_000.0 * MIB) as u64));
        assert_eq!((growth.limit_at_step, growth.limit_at_s), (Some(200), None));
    }
}
