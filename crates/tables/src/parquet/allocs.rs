//! The table of allocations, where they were recorded.

use std::path::Path;

use nilometer_analysis::allocs::{Options, each_stack};

use super::Place;
use super::sheet::{Cell, Unfinished, float, int, maybe, text};
use crate::Error;
use crate::allocs::{NUMBERS, read_allocs, row};

/// Its file in a partition.
pub(super) const FILE: &str = "allocs.parquet";

/// Writes it; `None` if the run has no allocations.
pub(super) fn write(run: &Path, place: &Place<'_>) -> Result<Option<Unfinished>, Error> {
    let Some((recording, symbols)) = read_allocs(run)? else { return Ok(None) };
    let mut fields = vec![text("function"), maybe(text("file")), maybe(int("line")), maybe(text("library"))];
    fields.extend(NUMBERS.map(int));
    fields.extend([maybe(float("growth_bytes_per_step")), text("stack")]);
    let mut sheet = place.sheet(FILE, &fields)?;
    let mut written = Ok(());
    each_stack(&recording, &symbols, &Options::default(), |site, _, _| {
        if written.is_ok() {
            let row = row(site);
            let texts: [Cell<'_>; 4] = [
                (&row.function).into(),
                row.file.as_ref().into(),
                row.line.into(),
                row.library.as_ref().into(),
            ];
            let numbers = row.numbers.into_iter().map(Cell::from);
            written =
                sheet.row(texts.into_iter().chain(numbers).chain([row.growth.into(), (&row.stack).into()]));
        }
    });
    written?;
    sheet.close().map(Some)
}
