//! A recording as a file: `allocs.nal`. `FORMAT.md` has the layout.
//!
//! A file of columns whose rows are whole tables. It is written beside and renamed, so that it is there whole or not at
//! all; one that is cut or damaged is refused and says where.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::{About, Code, Module, Node, Process, Recording, Series, Site, Unsound};
use crate::columns::{Fault, Sort};

/// What this version writes, and the highest it reads.
pub const ALLOCS_VERSION: u32 = 1;
/// Its name in a run directory.
pub const ALLOCS_FILE: &str = "allocs.nal";

/// Level 3 is fast enough for the end of a run; higher ones gain little on numbers.
const SORT: Sort = Sort { header: 48, chunk: 49, end: 50, level: 3, most_blow_up: 64 };

/// Tables in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Table {
    Processes = 1,
    Modules = 2,
    Codes = 3,
    Nodes = 4,
    Sites = 5,
    Series = 6,
}

impl Table {
    const ALL: [Self; 6] =
        [Self::Processes, Self::Modules, Self::Codes, Self::Nodes, Self::Sites, Self::Series];

    /// What a row takes in memory, texts and values apart.
    fn row_bytes(self) -> usize {
        match self {
            Self::Processes => size_of::<Process>(),
            Self::Modules => size_of::<Module>(),
            Self::Codes => size_of::<Code>(),
            Self::Nodes => size_of::<Node>(),
            Self::Sites => size_of::<Site>(),
            Self::Series => size_of::<Series>(),
        }
    }
}

impl Table {
    /// What a byte of a row may become: numbers of variable length are kept in full.
    fn spread(self) -> u64 {
        if matches!(self, Self::Series | Self::Modules) { 8 } else { 1 }
    }
}

/// The first frame.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Header {
    allocs_version: u32,
    about: About,
    /// Rows of each table.
    rows: [u64; Table::ALL.len()],
}

/// Why a recording of allocations could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("not a recording of allocations")]
    NotAllocs,
    #[error("allocations of format {found} were recorded by a newer nilo; this one reads up to {supported}")]
    Newer { found: u32, supported: u32 },
    #[error("the recording of allocations is cut at byte {offset}")]
    Cut { offset: u64 },
    #[error("the recording of allocations is damaged at byte {offset}: {what}")]
    Damaged { offset: u64, what: &'static str },
    #[error("the recording of allocations contradicts itself: {0}")]
    Unsound(#[from] Unsound),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] crate::Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Foreign => Self::NotAllocs,
            Fault::Cut { offset } => Self::Cut { offset },
            Fault::Damaged { offset, what } => Self::Damaged { offset, what },
            Fault::Io(error) => Self::Io(error),
            Fault::Frame(error) => Self::Frame(error),
        }
    }
}

/// Writes the whole recording.
pub fn write(recording: &Recording, out: impl Write) -> Result<(), Error> {
    encode::write(recording, out)
}

/// Reads a whole recording, or says why not.
pub fn read(from: impl Read) -> Result<Recording, Error> {
    decode::read(from)
}

/// What the recording says of itself, without its tables.
pub fn read_about(from: impl Read) -> Result<About, Error> {
    decode::read_about(from)
}
