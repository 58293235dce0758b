//! Why a run could not be written or read.

use std::{io, path::PathBuf};

/// Bytes that do not decode are no error: they are skipped, counted and told by [`crate::Ending`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("reading the log at byte {offset}: {source}")]
    Read { offset: u64, source: io::Error },
    #[error("{} is not a run directory: no manifest.json in it", path.display())]
    NotARun { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Manifest { path: PathBuf, source: serde_json::Error },
    #[error("format {found} was made by a newer nilo; this one reads up to format {supported}")]
    Newer { found: u32, supported: u32 },
    #[error("a record cannot be stored as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a record of {bytes} bytes is longer than a frame may be")]
    TooLong { bytes: usize },
    #[error("a tick cannot be stored: {0}")]
    Tick(#[from] crate::tick::Error),
}

impl Error {
    /// What the user can do about it, as one line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Newer { .. } => Some("upgrade nilo to the version that made this run, or a later one"),
            Self::NotARun { .. } => Some("name a directory that `nilo run` made (*.nilo)"),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or name another place with -o")
            }
            _ => None,
        }
    }
}
