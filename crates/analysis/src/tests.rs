//! Whole runs as hand-written record streams with exact totals.

mod absurd;
mod death;
mod machine;
mod stream;
mod tree;

pub(crate) use stream::manifest;
