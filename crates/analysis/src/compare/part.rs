//! What memory was made of on both sides: lines of the ledger where both have one, else kinds of mapping.
//!
//! The one invariant: a part that one side alone has is there too, with nothing on the other.

use super::side::Side;

const LEDGER: &str = "ledger.";
const MAPPINGS: &str = "made.";

/// Means over the runs of each side.
#[derive(Debug, Clone, PartialEq)]
pub struct PartChange {
    pub name: String,
    pub base_bytes: f64,
    pub other_bytes: f64,
}

/// Both sides near their peaks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parts {
    /// By the ledgers of the largest process; else by mappings of the tree.
    pub of_ledger: bool,
    /// The largest change first.
    pub changes: Vec<PartChange>,
}

impl PartChange {
    pub fn bytes(&self) -> f64 {
        self.other_bytes - self.base_bytes
    }
}

pub(super) fn parts(base: &Side, other: &Side) -> Option<Parts> {
    let has = |side: &Side, prefix: &str| side.names().iter().any(|name| name.starts_with(prefix));
    let prefix = [LEDGER, MAPPINGS].into_iter().find(|prefix| has(base, prefix) && has(other, prefix))?;
    let mut names = base.names();
    let more: Vec<&str> = other.names().into_iter().filter(|name| !names.contains(name)).collect();
    names.extend(more);
    let change = |name: &str| {
        let word = name.strip_prefix(prefix)?.replace(['_', '-'], " ");
        Some(PartChange { name: word, base_bytes: mean(base, name), other_bytes: mean(other, name) })
    };
    let mut changes: Vec<PartChange> = names.into_iter().filter_map(change).collect();
    changes.sort_by(|a, b| b.bytes().abs().total_cmp(&a.bytes().abs()));
    Some(Parts { of_ledger: prefix == LEDGER, changes })
}

fn mean(side: &Side, name: &str) -> f64 {
    let figures = side.figures(name);
    figures.iter().map(|figure| figure.value).sum::<f64>() / figures.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Metric, Unit};

    fn side(parts: &[(&str, f64)]) -> Side {
        let metric = |(name, value): &(&str, f64)| Metric {
            name: (*name).to_owned(),
            unit: Unit::Bytes,
            value: *value,
            low: *value,
            high: *value,
        };
        Side { samples: vec![parts.iter().map(metric).collect()], ..Side::default() }
    }

    #[test]
    fn ledgers_come_before_mappings_and_a_new_part_is_told() {
        let base = side(&[("made.heap", 5.0), ("ledger.malloc_held", 10.0), ("ledger.code", 7.0)]);
        let other = side(&[("made.heap", 9.0), ("ledger.malloc_held", 4.0), ("ledger.arrays", 30.0)]);
        let found = parts(&base, &other).unwrap();
        let told: Vec<(&str, f64)> =
            found.changes.iter().map(|part| (part.name.as_str(), part.bytes())).collect();
        assert!(found.of_ledger);
        assert_eq!(told, [("arrays", 30.0), ("code", -7.0), ("malloc held", -6.0)]);
        let mapped = parts(&base, &side(&[("made.heap", 9.0)])).unwrap();
        assert_eq!((mapped.of_ledger, mapped.changes[0].bytes()), (false, 4.0));
        assert_eq!(parts(&base, &side(&[])), None);
    }
}
