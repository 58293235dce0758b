//! A census as a file: `F.heap`. `FORMAT.md` has the layout.
//!
//! A file of the columns of the graph. A snapshot is whole or refused: what is cut says where, and still tells its header.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::{Extent, Graph, Kind, Origin, Payload, Quality, Root, ThreadStack, Unsound};
use crate::columns::{Fault, Sort};

/// What this version writes, and the highest it reads.
pub const HEAP_VERSION: u32 = 1;

/// Level 1 is the fastest; higher ones cost more time than the disk they save.
const SORT: Sort = Sort { header: 32, chunk: 33, end: 34, level: 1, most_blow_up: 1024 };

/// Columns in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Column {
    Kinds = 1,
    Names = 2,
    Addresses = 3,
    KindIds = 4,
    Bytes = 5,
    Refcounts = 6,
    Degrees = 7,
    Targets = 8,
    Labels = 9,
    Payloads = 10,
    Extents = 11,
    Roots = 12,
    Threads = 13,
}

impl Column {
    const ALL: [Self; 13] = [
        Self::Kinds,
        Self::Names,
        Self::Addresses,
        Self::KindIds,
        Self::Bytes,
        Self::Refcounts,
        Self::Degrees,
        Self::Targets,
        Self::Labels,
        Self::Payloads,
        Self::Extents,
        Self::Roots,
        Self::Threads,
    ];

    /// What a row takes in memory, texts apart.
    fn row_bytes(self) -> usize {
        match self {
            Self::Kinds => size_of::<Kind>(),
            Self::Names => size_of::<String>(),
            Self::Addresses | Self::Bytes => size_of::<u64>(),
            Self::KindIds | Self::Refcounts | Self::Degrees | Self::Targets | Self::Labels => {
                size_of::<u32>()
            }
            Self::Payloads => size_of::<Payload>(),
            Self::Extents => size_of::<Extent>(),
            Self::Roots => size_of::<Root>(),
            Self::Threads => size_of::<ThreadStack>(),
        }
    }
}

/// The first frame: what the snapshot is of, and how many rows its columns have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    pub heap_version: u32,
    pub nilo_version: String,
    pub origin: Origin,
    pub quality: Quality,
    pub objects: u64,
    pub edges: u64,
    pub labels: u64,
    pub kinds: u64,
    pub names: u64,
    pub payloads: u64,
    pub extents: u64,
    pub roots: u64,
    pub threads: u64,
    /// Addresses are stored without this many low bits, which are zero in all of them.
    pub address_shift: u32,
}

impl Header {
    fn of(graph: &Graph) -> Self {
        let any: u64 = graph.objects.address.iter().fold(0, |bits, address| bits | address);
        Self {
            heap_version: HEAP_VERSION,
            nilo_version: env!("CARGO_PKG_VERSION").into(),
            origin: graph.origin.clone(),
            quality: graph.quality.clone(),
            objects: graph.len() as u64,
            edges: graph.edges.to.len() as u64,
            labels: graph.edges.label.len() as u64,
            kinds: graph.kinds.len() as u64,
            names: graph.names.len() as u64,
            payloads: graph.payloads.len() as u64,
            extents: graph.extents.len() as u64,
            roots: graph.roots.len() as u64,
            threads: graph.threads.len() as u64,
            address_shift: if any == 0 { 0 } else { any.trailing_zeros() },
        }
    }

    /// Rows of a column.
    fn rows(&self, column: Column) -> u64 {
        match column {
            Column::Kinds => self.kinds,
            Column::Names => self.names,
            Column::Addresses | Column::KindIds | Column::Bytes | Column::Refcounts | Column::Degrees => {
                self.objects
            }
            Column::Targets => self.edges,
            Column::Labels => self.labels,
            Column::Payloads => self.payloads,
            Column::Extents => self.extents,
            Column::Roots => self.roots,
            Column::Threads => self.threads,
        }
    }
}

/// Why a snapshot could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("not a heap snapshot")]
    NotHeap,
    #[error("snapshot format {found} was made by a newer nilo; this one reads up to {supported}")]
    Newer { found: u32, supported: u32 },
    /// The header, if it was there, is still worth telling.
    #[error("the snapshot is cut at byte {offset}{}", told(header.as_deref()))]
    Cut { offset: u64, header: Option<Box<Header>> },
    #[error("the snapshot is damaged at byte {offset}: {what}")]
    Damaged { offset: u64, what: &'static str, header: Option<Box<Header>> },
    #[error("the snapshot contradicts itself: {0}")]
    Unsound(#[from] Unsound),
    #[error("reading or writing a snapshot: {0}")]
    Io(#[from] io::Error),
    #[error("a snapshot cannot be stored: {0}")]
    Frame(#[from] crate::Error),
}

fn told(header: Option<&Header>) -> String {
    let Some(header) = header else { return String::new() };
    let pid = header.origin.pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    format!("; it would have {} objects{pid}", header.objects)
}

impl Error {
    /// `header` is what the file said before it failed.
    fn of(fault: Fault, header: Option<&Header>) -> Self {
        let header = header.cloned().map(Box::new);
        match fault {
            Fault::Foreign => Self::NotHeap,
            Fault::Cut { offset } => Self::Cut { offset, header },
            Fault::Damaged { offset, what } => Self::Damaged { offset, what, header },
            Fault::Io(error) => Self::Io(error),
            Fault::Frame(error) => Self::Frame(error),
        }
    }

    /// What the file said before it failed.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::Cut { header, .. } | Self::Damaged { header, .. } => header.as_deref(),
            _ => None,
        }
    }
}

/// Do these first bytes of a file (three are enough) begin a snapshot?
pub fn is_heap(start: &[u8]) -> bool {
    SORT.begins(start)
}

/// Writes a snapshot; small writes are gathered into frames, so `out` needs no buffer.
pub fn write(graph: &Graph, out: impl Write) -> Result<(), Error> {
    encode::write(graph, out)
}

/// A snapshot as bytes.
pub fn encode(graph: &Graph) -> Vec<u8> {
    let mut out = Vec::new();
    // A vector takes everything. Should a frame ever be refused, what is there reads as cut.
    let _written = write(graph, &mut out);
    out
}

/// Reads a snapshot and checks it.
pub fn read(from: impl Read) -> Result<Graph, Error> {
    decode::read(from)
}

pub fn decode(bytes: &[u8]) -> Result<Graph, Error> {
    read(bytes)
}

/// The header alone.
pub fn read_header(from: impl Read) -> Result<Header, Error> {
    decode::read_header(from)
}
