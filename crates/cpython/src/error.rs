//! Why an interpreter cannot be read.

use std::path::PathBuf;

use crate::Version;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("no CPython in the process")]
    NotPython,
    #[error("{} is loaded, but no interpreter was started in it", path.display())]
    NotStarted { path: PathBuf },
    #[error("CPython {version} cannot be read: 3.8 to 3.15 can")]
    Unsupported { version: Version },
    #[error("CPython {version} is a free-threaded build, whose objects and allocator are others")]
    FreeThreaded { version: Version },
    /// The tables do not fit what was found.
    #[error("CPython {version} has a layout that is not known: {what}")]
    UnknownLayout { version: Version, what: &'static str },
    /// It is one by its name, but nothing says which.
    #[error("{} does not tell its version", path.display())]
    UnknownVersion { path: PathBuf },
    #[error("{} exports no symbols of CPython", path.display())]
    NoSymbols { path: PathBuf },
}
