//! The tables of a run as Parquet files in a partition `run=…/node=…/rank=…`. `TABLES.md` defines them.
//!
//! Run, node and rank are in the path (and in each file's key-value metadata), not in columns of their own:
//! pyarrow refuses a file that has a column of the name of a partition key.
//! All files are complete under temporary names before the first is renamed; `runs.parquet` comes last, so where
//! it is, the others are.

mod allocs;
mod merged;
mod rare;
mod runs;
mod samples;
mod sheet;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nilometer_trace::{Ending, Manifest, Reader, record::Record};

use self::{
    rare::{Events, KindTables, Marks, Processes, Shares},
    samples::TickTables,
    sheet::{Sheet, Unfinished},
};
use crate::{Error, Identity, json::Pids, outline::Outline};

pub use merged::{By, MergeOptions, Merged, Part, write_merged};

/// Where the tables are inside a run directory unless another place is named.
pub const TABLES_DIRECTORY: &str = "tables";

/// Every file that an export makes, in the order in which they get their names.
const TABLES: [&str; 11] = [
    allocs::FILE,
    "samples.parquet",
    "system.parquet",
    "tree.parquet",
    "processes.parquet",
    "shares.parquet",
    "kinds.parquet",
    "mappings.parquet",
    "marks.parquet",
    "events.parquet",
    "runs.parquet",
];

/// What [`write_parquet`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The partition with the files in it.
    pub directory: PathBuf,
    pub ending: Ending,
}

/// Writes the tables of a run directory below `base`, or below its own `tables` without one.
///
/// Refuses if any of the files is there, unless `replace`.
pub fn write_parquet(run: &Path, base: Option<&Path>, replace: bool) -> Result<Written, Error> {
    let manifest = Manifest::read(run)?;
    let identity = Identity::of(run, &manifest);
    let base = base.map_or_else(|| run.join(TABLES_DIRECTORY), Path::to_owned);
    let directory = base.join(identity.partition());
    if !replace {
        refuse_existing(&directory)?;
    }
    let (outline, _) = Outline::read(run)?;
    fs::create_dir_all(&directory).map_err(|source| Error::Io { path: directory.clone(), source })?;
    let place = Place { directory: &directory, identity: &identity };
    let mut reader = Reader::open(run)?;
    let mut files = write_tables(&mut reader, &place, &outline)?;
    let ending = reader.ending();
    files.extend(allocs::write(run, &place)?);
    files.push(runs::write(&place, &outline, &manifest, ending)?);
    files.into_iter().try_for_each(Unfinished::rename)?;
    Ok(Written { directory, ending })
}

fn refuse_existing(directory: &Path) -> Result<(), Error> {
    let there = |name: &&str| directory.join(name).symlink_metadata().is_ok();
    match TABLES.iter().find(|name| there(name)) {
        Some(name) => Err(Error::Exists { path: directory.join(name) }),
        None if directory.is_file() => {
            Err(Error::Io { path: directory.to_owned(), source: io::ErrorKind::NotADirectory.into() })
        }
        None => Ok(()),
    }
}

/// Where the files go and whose they are.
struct Place<'a> {
    directory: &'a Path,
    identity: &'a Identity,
}

impl Place<'_> {
    fn sheet(&self, name: &str, fields: &[sheet::Field]) -> Result<Sheet, Error> {
        Sheet::create(self.directory.join(name), fields, self.identity)
    }
}

/// What a row needs to know besides its record.
struct Context<'a> {
    outline: &'a Outline,
    pids: Pids,
}

impl Context<'_> {
    fn unix_ns(&self, at_ns: u64) -> i64 {
        self.outline.clock.unix_ns(at_ns)
    }

    fn seconds(&self, at_ns: u64) -> f64 {
        self.outline.clock.seconds(at_ns)
    }
}

/// All but `runs`.
fn write_tables(reader: &mut Reader, place: &Place<'_>, outline: &Outline) -> Result<Vec<Unfinished>, Error> {
    let mut context = Context { outline, pids: Pids::default() };
    let mut tables = Tables::create(place, outline)?;
    while let Some(record) = reader.next_record()? {
        context.pids.see(record);
        tables.see(&context, record)?;
    }
    tables.close(&context)
}

struct Tables {
    ticks: TickTables,
    processes: Processes,
    shares: Shares,
    kinds: KindTables,
    marks: Marks,
    events: Events,
}

impl Tables {
    fn create(place: &Place<'_>, outline: &Outline) -> Result<Self, Error> {
        Ok(Self {
            ticks: TickTables::create(place, outline)?,
            processes: Processes::create(place)?,
            shares: Shares::create(place)?,
            kinds: KindTables::create(place)?,
            marks: Marks::create(place)?,
            events: Events::create(place)?,
        })
    }

    fn see(&mut self, context: &Context<'_>, record: &Record) -> Result<(), Error> {
        match record {
            Record::Tick(tick) => self.ticks.tick(context, tick),
            Record::Columns(columns) => {
                self.ticks.columns(context, columns);
                Ok(())
            }
            Record::Process(process) => self.processes.begin(context, process),
            Record::ProcessUpdate(update) => {
                self.processes.update(update);
                Ok(())
            }
            Record::ProcessEnd(end) => self.processes.end(context, end),
            Record::Shares(shares) => self.shares.add(context, shares),
            Record::Kinds(kinds) => self.kinds.add(context, kinds),
            Record::Mark(mark) => self.marks.add(context, mark),
            Record::Event(event) => self.events.add(context, event),
            // A census and a ledger have their own reading; what is kept of them is in the JSON lines.
            Record::Header(_) | Record::End(_) | Record::HeapTable(_) | Record::Ledger(_) => Ok(()),
        }
    }

    fn close(self, context: &Context<'_>) -> Result<Vec<Unfinished>, Error> {
        let mut files = self.ticks.close()?;
        files.push(self.processes.close(context)?);
        files.push(self.shares.close()?);
        files.extend(self.kinds.close()?);
        files.push(self.marks.close()?);
        files.push(self.events.close()?);
        Ok(files)
    }
}
