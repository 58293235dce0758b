//! The document that tools rely on: `schema/report.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::Run;
use serde_json::Value;

/// The schema of [`report`], JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../schema/report.schema.json");

/// Counts up when a field changes its meaning, never for additions.
const SCHEMA_VERSION: u32 = 1;

pub fn report(run: &Run) -> Value {
    let mut document = serde_json::to_value(run).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("schema_version".into(), SCHEMA_VERSION.into());
        fields.insert("command_line".into(), run.command.join(" ").into());
    }
    document
}
