//! `nilo report JOB --json`: `schema/job.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::rank::Job;
use serde_json::{Value, json as value};

/// The schema of [`json()`], JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/job.schema.json");
const SCHEMA_VERSION: u32 = 1;

pub fn json(job: &Job) -> Value {
    let mut document = value!({"schema_version": SCHEMA_VERSION, "sentence": super::sentence(job)});
    if let (Some(document), Ok(Value::Object(fields))) = (document.as_object_mut(), serde_json::to_value(job))
    {
        document.extend(fields);
    }
    document
}
