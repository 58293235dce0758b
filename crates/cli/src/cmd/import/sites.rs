//! Recordings of allocations: sites and names into a run directory, as `nilo run --allocs` leaves them.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use nilometer_import::{Outline, Sites};
use nilometer_trace::allocs::{self, ALLOCS_FILE};
use nilometer_trace::record::{Header, Record};
use nilometer_trace::{FORMAT_VERSION, LogWriter, manifest, symbols};

use super::manifest::Described;
use crate::talk::Failure;

/// How such allocations were come by, where a run says `sampled` or `all`.
const MODE: &str = "imported";

/// Writes the run; its log has a beginning and an end and nothing between.
pub fn write(directory: &Path, described: &Described<'_>, mut sites: Sites) -> Result<Outline, Failure> {
    let outline = sites.outline();
    let mut log = LogWriter::create(directory)?;
    log.append(&Record::Header(Header {
        format_version: FORMAT_VERSION,
        mono_ns: outline.first_ns,
        realtime_ns: outline.realtime_ns,
        page_bytes: 4096,
        ticks_per_s: 100,
        interval_ns: 0,
        nilo_pid: 0,
    }))?;
    let end = outline.end(log.written_bytes());
    let cost = end.cost;
    log.finish(end)?;
    MODE.clone_into(&mut sites.recording.about.mode);
    sites.recording.about.notes.clone_from(&sites.notes);
    let mut file = BufWriter::new(File::create(directory.join(ALLOCS_FILE))?);
    allocs::write(&sites.recording, &mut file).map_err(io::Error::other)?;
    file.flush()?; // dropped, it would not tell of a full disk
    symbols::write(directory, &sites.symbols).map_err(io::Error::other)?;
    let mut told = described.manifest(&outline, cost)?;
    told.allocs = Some(manifest::Allocs { mode: MODE.to_owned(), ..manifest::Allocs::default() });
    told.write(directory)?;
    Ok(outline)
}
