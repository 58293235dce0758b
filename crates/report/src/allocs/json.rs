//! The document that tools rely on: `schema/allocs.schema.json` describes it. Add fields freely, rename none.

use std::io::{self, Write};

use nilometer_analysis::allocs::model::Allocs;
use serde::Serialize;

/// The schema of what [`write()`] writes, JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/allocs.schema.json");

/// Counts up when a field changes its meaning, never for additions.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    view: &'static str,
    #[serde(flatten)]
    allocs: &'a Allocs,
}

/// Writes the document as it is made: with every stack listed it is far larger than the model. `out` should be
/// buffered.
pub fn write(allocs: &Allocs, out: &mut impl Write) -> io::Result<()> {
    let document = Document { schema_version: SCHEMA_VERSION, view: "allocs", allocs };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")?;
    out.flush()
}
