use std::path::{Path, PathBuf};

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process ended (ENOENT or ESRCH below `/proc/PID`).
    #[error("{} is gone", path.display())]
    Gone { path: PathBuf },
    #[error("no permission to read {}", path.display())]
    NotPermitted { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{file}: {field} is missing or malformed")]
    Malformed { file: &'static str, field: &'static str },
}

impl Error {
    /// Sorts an I/O error on `path` into what it means here.
    pub fn from_io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Self::Gone { path },
            Some(libc::EACCES | libc::EPERM) => Self::NotPermitted { path },
            _ => Self::Unreadable { path, source },
        }
    }

    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }
}
