//! Why a run could not be exported.

use std::{io, path::PathBuf};

use ::parquet::errors::ParquetError;

/// The cause is in `source`, not in the sentence: whoever prints it prints the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Trace(#[from] nilometer_trace::Error),
    #[error("cannot write")]
    Output(#[source] io::Error),
    #[error("cannot write {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    #[error("cannot read {}", path.display())]
    Allocs { path: PathBuf, source: nilometer_trace::allocs::Error },
    #[error("{} is already there", path.display())]
    Exists { path: PathBuf },
    #[error("a record cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

impl Error {
    /// What the user can do about it, as one line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Trace(error) => error.hint(),
            Self::Exists { .. } => Some("overwrite with --force, or name another place with -o"),
            _ => None,
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::Output(error.into()) } else { Self::Json(error) }
    }
}
