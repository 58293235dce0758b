//! The document that tools rely on: `schema/pages.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::pages::Pages;
use serde_json::Value;

/// The schema of `nilo pages --json`, JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/pages.schema.json");

/// Counts up when a field changes its meaning, never for additions.
const SCHEMA_VERSION: u32 = 1;

pub fn document(pages: &Pages) -> Value {
    let mut document = serde_json::to_value(pages).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("schema_version".into(), SCHEMA_VERSION.into());
    }
    document
}
