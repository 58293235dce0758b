//! The document that tools rely on: `schema/heap.schema.json` describes it. Add fields freely, rename none.
//!
//! Every document begins with the summary of the census; what was asked for follows under its own name. The rows of the
//! table, or of the difference, are always `rows` at the top.

use nilometer_analysis::heap::model::{Diff, Summary};
use serde::Serialize;
use serde_json::{Map, Value};

/// The schema of every document of `nilo heap --json`, JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/heap.schema.json");

/// Counts up when a field changes its meaning, never for additions.
const SCHEMA_VERSION: u32 = 1;

/// A document under way.
#[derive(Debug, Clone)]
#[must_use]
pub struct Document(Map<String, Value>);

impl Document {
    /// `reading` is the word for what was asked: `table`, `diff`, `paths`, …
    pub fn new(reading: &str, summary: &Summary) -> Self {
        let mut document = Self(fields(summary));
        document.set("schema_version", SCHEMA_VERSION.into());
        document.set("reading", reading.into());
        document
    }

    /// The fields of a model beside those of the summary: a table's `rows`, an object's `paths`.
    pub fn merge(mut self, model: &impl Serialize) -> Self {
        self.0.extend(fields(model));
        self
    }

    /// One more section.
    pub fn with(mut self, name: &str, section: &impl Serialize) -> Self {
        self.set(name, serde_json::to_value(section).unwrap_or_default());
        self
    }

    pub fn finish(self) -> Value {
        Value::Object(self.0)
    }

    fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.into(), value);
    }
}

/// The summary at the top is that of the later census.
pub fn diff(diff: &Diff) -> Value {
    Document::new("diff", &diff.after).merge(diff).finish()
}

fn fields(model: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(model) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
