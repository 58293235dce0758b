//! What frames of a stack and tags of a log mean, as data: `rules/*.toml`, with a user's own file on top.
//!
//! Pure: texts in, answers out. The one invariant: the order of rules decides, and a user's come first.

mod frame;
mod pattern;
mod tag;

pub use frame::{FrameRules, Role};
pub use tag::{Group, TagRule, TagRules};

/// A file of rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct Error {
    pub file: String,
    pub what: String,
}

impl Error {
    fn new(file: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or_else(String::new, |span| format!(" (from byte {} on)", span.start));
        Self { file: file.to_owned(), what: format!("{}{line}", error.message()) }
    }
}
