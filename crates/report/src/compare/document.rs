//! `nilo compare --json`: `schema/compare.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::compare::{Comparison, PointChange, Versus};
use serde_json::{Map, Value, json};

/// The schema of [`json()`], JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/compare.schema.json");
const SCHEMA_VERSION: u32 = 1;

pub fn json(comparison: &Comparison) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "base": {"name": comparison.base, "what": comparison.base_what, "runs": comparison.base_runs},
        "others": comparison.others.iter().map(versus).collect::<Vec<_>>(),
    })
}

fn versus(other: &Versus) -> Value {
    json!({
        "name": other.name,
        "what": other.what,
        "runs": other.runs,
        "differences": other.facts,
        "changes": other.changes,
        "only_in_base": other.only_base,
        "only_in_other": other.only_other,
        "steps": other.steps,
        "kinds": other.kinds,
        "sites": other.sites,
        "points": other.points.iter().map(point).collect::<Vec<_>>(),
        "gates": other.gates,
        "notes": other.notes,
    })
}

fn point(point: &PointChange) -> Value {
    let params = point.params.iter().map(|(name, value)| (name.clone(), json!(value)));
    json!({"params": params.collect::<Map<_, _>>(), "changes": point.changes})
}
