//! Selections of objects.

use nilometer_trace::heap::ObjectId;

/// Some objects of one census, and how they were selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// Increasing.
    pub(crate) ids: Vec<ObjectId>,
    /// How it came about, in words.
    pub(crate) selection: Vec<String>,
}

/// What an object must be to stay in a set. The default lets everything pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Kind as in the table by kind: a glob when it has `*` or `?`, otherwise a part of the name.
    pub kind: Option<String>,
    /// Module that defines the type, or a package it is in.
    pub module: Option<String>,
    /// Header and payload together.
    pub min_bytes: u64,
    /// Only what no root reaches.
    pub unreachable: bool,
    /// Only what a path reaches, itself included.
    pub under: Option<String>,
}

impl Set {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
