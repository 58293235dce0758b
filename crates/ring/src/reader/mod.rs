//! The consumer's side: a process's files, mapped; its lanes, drained; its book, read.
//!
//! Nothing that a target writes is trusted: files must be sealed against shrinking, offsets are checked
//! before use, and what does not fit is an [`Error`] or an end, never a fault of the reader.

mod book;
mod map;
mod process;
mod receive;

use std::io;

pub use book::{Book, Stack};
pub use process::{Facts, Process, Totals};
pub use receive::{Introduction, receive};

/// Why a process's files cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The files could not be found, opened or mapped.
    Io(io::Error),
    /// The file could shrink under the reader: it is not the tracker's.
    NotSealed,
    /// Not a control file or book, or of another version.
    NotOurs,
    /// The message on the socket was no introduction.
    BadHello,
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the tracker's files: {error}"),
            Self::NotSealed => f.write_str("the file is not sealed against shrinking"),
            Self::NotOurs => f.write_str("not a file of this version of the tracker"),
            Self::BadHello => f.write_str("not an introduction of a tracked process"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
