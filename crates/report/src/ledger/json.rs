//! The document that tools rely on: `schema/where.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::ledger::{Account, Tree};
use serde_json::{Value, json};

/// The schema of `nilo where --json`, JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/where.schema.json");

/// Counts up when a field changes its meaning, never for additions.
const SCHEMA_VERSION: u32 = 1;

/// The first process at the top, the others under `processes`, the sum under `tree`.
pub fn document(accounts: &[Account], tree: &Tree) -> Value {
    let mut first = accounts.first().map_or_else(|| json!({}), account);
    if let Value::Object(fields) = &mut first {
        fields.insert("schema_version".into(), SCHEMA_VERSION.into());
        let rest: Vec<Value> = accounts.iter().skip(1).map(account).collect();
        fields.insert("processes".into(), rest.into());
        fields.insert("tree".into(), serde_json::to_value(tree).unwrap_or_default());
    }
    first
}

fn account(account: &Account) -> Value {
    serde_json::to_value(account).unwrap_or_default()
}
