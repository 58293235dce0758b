//! Kinds of object on two sides: new, gone, grew, shrank.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::Run;

const LISTED: usize = 20;
/// A kind must differ by this much to be listed.
const LEAST_BYTES: f64 = 65_536.0;

/// One kind of object, at its largest: header and payload together, means over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindChange {
    pub kind: String,
    pub what: Movement,
    pub base_bytes: f64,
    pub other_bytes: f64,
    pub base_count: f64,
    pub other_count: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Movement {
    New,
    Gone,
    Grew,
    Shrank,
}

/// Size and count.
pub(super) type Amount = (f64, f64);

/// The largest differences first; nothing where a side kept no tables of objects.
pub fn changes(base: &[&Run], other: &[&Run]) -> Vec<KindChange> {
    let told = |runs: &[&Run]| !runs.is_empty() && runs.iter().all(|run| run.heap.is_some());
    if told(base) && told(other) { between(&kinds(base), &kinds(other)) } else { Vec::new() }
}

pub(super) fn between(base: &BTreeMap<String, Amount>, other: &BTreeMap<String, Amount>) -> Vec<KindChange> {
    let none = (0.0, 0.0);
    let names = base.keys().chain(other.keys().filter(|kind| !base.contains_key(*kind)));
    let change = |kind: &String| {
        let (a, b) = (*base.get(kind).unwrap_or(&none), *other.get(kind).unwrap_or(&none));
        KindChange {
            kind: kind.clone(),
            what: movement(a.0, b.0),
            base_bytes: a.0,
            other_bytes: b.0,
            base_count: a.1,
            other_count: b.1,
        }
    };
    let size = |change: &KindChange| (change.other_bytes - change.base_bytes).abs();
    let mut found: Vec<KindChange> = names.map(change).filter(|change| size(change) >= LEAST_BYTES).collect();
    found.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.kind.cmp(&b.kind)));
    found.truncate(LISTED);
    found
}

fn movement(base: f64, other: f64) -> Movement {
    if base == 0.0 {
        Movement::New
    } else if other == 0.0 {
        Movement::Gone
    } else if other > base {
        Movement::Grew
    } else {
        Movement::Shrank
    }
}

fn kinds(runs: &[&Run]) -> BTreeMap<String, Amount> {
    let share = 1.0 / runs.len().max(1) as f64;
    let mut kinds: BTreeMap<String, Amount> = BTreeMap::new();
    for kind in runs.iter().filter_map(|run| run.heap.as_ref()).flat_map(|heap| &heap.kinds) {
        let entry = kinds.entry(kind.kind.clone()).or_default();
        entry.0 += share * (kind.max.bytes + kind.max.payload_bytes) as f64;
        entry.1 += share * kind.max.count as f64;
    }
    kinds
}
