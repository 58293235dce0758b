//! The document of `nilo leak --json`: `schema/leak.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::Run;
use nilometer_analysis::leak::Leak;
use serde_json::{Value, json};

/// The schema of [`document`], JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/leak.schema.json");

const SCHEMA_VERSION: u32 = 1;

/// `exit_code` is what `nilo leak` ends with.
pub fn document(leak: &Leak, run: &Run, exit_code: u8) -> Value {
    let mut document = serde_json::to_value(leak).unwrap_or_default();
    if let Value::Object(fields) = &mut document {
        fields.insert("schema_version".into(), SCHEMA_VERSION.into());
        fields.insert("command".into(), json!(run.command));
        fields.insert("duration_s".into(), json!(run.duration_s));
        fields.insert(
            "target".into(),
            json!({"code": run.exit.code, "signal": run.exit.signal, "cause": run.exit.cause}),
        );
        fields.insert("saved".into(), json!(run.saved));
        fields.insert("exit_code".into(), exit_code.into());
    }
    document
}
