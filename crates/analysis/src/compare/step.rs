//! Two sides along their steps: where their levels part.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::Run;
use crate::stats;

/// Steps that are listed.
const LISTED: usize = 7;
/// Levels that differ by less than this share, or less than this many bytes, are the same.
const SHARE: f64 = 0.01;
const LEAST_BYTES: f64 = 1_048_576.0;

/// The levels at the end of one step, medians over the runs of each side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepChange {
    pub step: u64,
    pub base_bytes: f64,
    pub other_bytes: f64,
}

/// Both sides by step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alignment {
    /// Steps that both sides have.
    pub steps: u64,
    /// First of the steps from which on every later one differs.
    pub part_at: Option<u64>,
    /// Steps at whose ends the levels differ.
    pub differ: u64,
    /// Some steps, evenly spaced, the first and the last among them.
    pub listed: Vec<StepChange>,
}

pub fn align(base: &[&Run], other: &[&Run]) -> Option<Alignment> {
    let (base, other) = (levels(base), levels(other));
    let both: Vec<StepChange> = base
        .iter()
        .filter_map(|(step, a)| {
            Some(StepChange { step: *step, base_bytes: *a, other_bytes: *other.get(step)? })
        })
        .collect();
    let differ = |change: &&StepChange| {
        (change.other_bytes - change.base_bytes).abs() > (SHARE * change.base_bytes).max(LEAST_BYTES)
    };
    let tail = both.iter().rev().take_while(differ).count();
    let part_at = both.get(both.len() - tail).filter(|_| tail > 0).map(|change| change.step);
    let differ = both.iter().filter(differ).count() as u64;
    (!both.is_empty()).then(|| Alignment { steps: both.len() as u64, part_at, differ, listed: some(&both) })
}

pub(super) fn levels(runs: &[&Run]) -> BTreeMap<u64, f64> {
    let mut levels: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for step in runs.iter().flat_map(|run| &run.steps) {
        levels.entry(step.step).or_default().push(step.end_bytes as f64);
    }
    let median = |(step, mut values): (u64, Vec<f64>)| Some((step, stats::median(&mut values)?));
    levels.into_iter().filter_map(median).collect()
}

fn some(all: &[StepChange]) -> Vec<StepChange> {
    let last = all.len().saturating_sub(1);
    let count = LISTED.min(all.len());
    let place = |n: usize| n * last / (count - 1).max(1);
    (0..count).filter_map(|n| all.get(place(n)).copied()).collect()
}
