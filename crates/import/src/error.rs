//! Why a foreign recording was refused.

use std::io;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{what}")]
    Unknown { what: String, hint: &'static str },
    #[error("line {line}: {what}")]
    Line { line: u64, what: String, hint: &'static str },
    #[error("reading line {line}: {source}")]
    Read { line: u64, source: io::Error },
    #[error(transparent)]
    Store(#[from] nilometer_trace::Error),
}

impl Error {
    /// What the user can do about it, as one line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { hint, .. } | Self::Line { hint, .. } => Some(hint),
            Self::Read { .. } => None,
            Self::Store(error) => error.hint(),
        }
    }
}

/// What is wrong with a line, before its number is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) hint: &'static str,
}

impl Fault {
    /// With the line where it is.
    pub(crate) fn at(self, line: u64) -> Error {
        Error::Line { line, what: self.what, hint: self.hint }
    }

    pub(crate) fn new(what: impl Into<String>, hint: &'static str) -> Self {
        Self { what: what.into(), hint }
    }
}

/// A text from outside as it may be shown: short, on one line, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut shown: String = text.chars().take(LONGEST).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
