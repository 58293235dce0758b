//! The allocations of a run: one row per stack. `TABLES.md` defines the columns.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use nilometer_analysis::allocs::model::Site;
use nilometer_analysis::allocs::{Options, each_stack};
use nilometer_trace::allocs::{self, ALLOCS_FILE, Recording};
use nilometer_trace::symbols::{self, Symbols};

use crate::Error;
use crate::csv::quoted;

/// The columns of numbers, in order.
pub(crate) const NUMBERS: [&str; 8] = [
    "peak_bytes",
    "peak_count",
    "live_end_bytes",
    "live_end_count",
    "cumulative_bytes",
    "count",
    "temporary_bytes",
    "temporary_count",
];

/// The recording of a run directory and its names; `None` if its allocations were not recorded.
pub fn read_allocs(run: &Path) -> Result<Option<(Recording, Symbols)>, Error> {
    let path = run.join(ALLOCS_FILE);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|source| Error::Io { path: path.clone(), source })?,
    };
    let recording = allocs::read(BufReader::new(file)).map_err(|source| Error::Allocs { path, source })?;
    let symbols = symbols::read(run).ok().flatten().unwrap_or_default();
    Ok(Some((recording, symbols)))
}

/// One row as the tables have it.
pub(crate) struct Row {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub library: Option<String>,
    pub numbers: [u64; NUMBERS.len()],
    pub growth: Option<f64>,
    pub stack: String,
}

pub(crate) fn row(site: &Site) -> Row {
    let first = site.stack.first();
    let amounts = &site.amounts;
    Row {
        function: first.map_or_else(String::new, |frame| frame.function.clone()),
        file: first.and_then(|frame| frame.file.clone()),
        line: first.and_then(|frame| frame.line),
        library: first.and_then(|frame| frame.library.clone()),
        numbers: [
            amounts.peak_bytes,
            amounts.peak_count,
            amounts.live_end_bytes,
            amounts.live_end_count,
            amounts.cumulative_bytes,
            amounts.count,
            amounts.temporary_bytes,
            amounts.temporary_count,
        ],
        growth: amounts.growth_bytes_per_step,
        stack: folded(site),
    }
}

/// Outermost first, separated by semicolons.
fn folded(site: &Site) -> String {
    site.stack.iter().rev().map(|frame| frame.folded()).collect::<Vec<_>>().join(";")
}

/// Writes one line per stack. `out` should be buffered.
pub fn write_allocs_csv(
    recording: &Recording,
    symbols: &Symbols,
    options: &Options,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let head = format!("function,file,line,library,{},growth_bytes_per_step,stack\n", NUMBERS.join(","));
    let mut written = out.write_all(head.as_bytes());
    each_stack(recording, symbols, options, |site, _, _| {
        if written.is_ok() {
            written = out.write_all(csv_line(&row(site)).as_bytes());
        }
    });
    written.and_then(|()| out.flush()).map_err(Error::Output)
}

fn csv_line(row: &Row) -> String {
    let line = row.line.map_or_else(String::new, |line| line.to_string());
    let growth = row.growth.map_or_else(String::new, |growth| growth.to_string());
    let numbers = row.numbers.map(|number| number.to_string()).join(",");
    let texts = [Some(&row.function), row.file.as_ref()].map(|text| quoted(text.map_or("", |text| text)));
    let library = quoted(row.library.as_deref().unwrap_or(""));
    format!("{},{line},{library},{numbers},{growth},{}\n", texts.join(","), quoted(&row.stack))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nilometer_analysis::allocs::model::{Amounts, Frame};

    use super::*;

    #[test]
    fn a_line_is_quoted_where_it_must_be() {
        let frame = |function: &str| {
            Arc::new(Frame { function: function.into(), library: Some("l.so".into()), ..Frame::default() })
        };
        let amounts = Amounts { peak_bytes: 7, growth_bytes_per_step: Some(1.5), ..Amounts::default() };
        let site = Site { stack: vec![frame("f<a, b>"), frame("m;n")], amounts, ..Site::default() };
        let line = csv_line(&row(&site));
        assert_eq!(line, "\"f<a, b>\",,,l.so,7,0,0,0,0,0,0,0,1.5,\"m,n [l.so];f<a, b> [l.so]\"\n");
    }
}
