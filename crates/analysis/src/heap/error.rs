//! Why a reading cannot be given.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The census was taken for counts only.
    #[error("{what} needs names on the references, and this census was taken without them")]
    NoLabels { what: &'static str },
    #[error("there is no row {row}: the table has {rows}")]
    NoSuchRow { row: usize, rows: usize },
    #[error("no object begins at {address}")]
    NoSuchAddress { address: String },
    #[error("`{text}` is not a path: {why}")]
    BadPath { text: String, why: &'static str },
    /// `reached` is the part of the path that exists; `near` are names that would go on.
    #[error("`{path}`: {reached} has no {missing}")]
    NoSuchName { path: String, reached: String, missing: String, near: Vec<String> },
    #[error("no objects are left to look at")]
    NothingSelected,
}
