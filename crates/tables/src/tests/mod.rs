//! Hand-made runs, exported and compared exactly.

mod made;
mod parquet;
mod text;
