//! Two sides over each other: levels by step where both have steps, and memory over time.
//!
//! By step runs of different speed lie over each other; by time it shows which was slower. Of several runs of a side the levels by
//! step are medians, and the curve over time is that of the first.

use super::step;
use crate::model::Run;
use crate::stats::XY;

/// Fewer points are no curve.
const FEWEST: usize = 2;

/// What the curves lie along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Step,
    /// Seconds since each one's own start.
    Time,
}

/// A curve of each side, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub axis: Axis,
    pub base: Vec<XY>,
    pub other: Vec<XY>,
}

/// What there is of both sides, by step first.
pub(super) fn pairs(base: &[&Run], other: &[&Run]) -> Vec<Pair> {
    let steps = Pair { axis: Axis::Step, base: by_step(base), other: by_step(other) };
    let time = Pair { axis: Axis::Time, base: over_time(base), other: over_time(other) };
    [steps, time].into_iter().filter(Pair::is_drawn).collect()
}

impl Pair {
    fn is_drawn(&self) -> bool {
        self.base.len() >= FEWEST && self.other.len() >= FEWEST
    }
}

fn by_step(runs: &[&Run]) -> Vec<XY> {
    step::levels(runs).into_iter().map(|(step, level)| (step as f64, level)).collect()
}

fn over_time(runs: &[&Run]) -> Vec<XY> {
    let points = runs.first().map_or(&[][..], |run| &run.curve.tree_high.points);
    points.iter().map(|point| (point.at_s, point.max as f64)).collect()
}
