//! Records of a run for other tools: CSV, JSON lines, Parquet. The only user of parquet.
//!
//! Not for people (that is `report`) and not computed models (those are `analysis`): every value here was
//! recorded, apart from the few sums that `TABLES.md` defines. That page is normative for the names of
//! columns and their units; they are only ever added to.
//!
//! Each writer reads the log twice, a first time for what the whole of it must tell (the union of the
//! columns, the steps, the zero of time), and then streams: memory does not grow with the length of a run.
//! The one invariant: what a cut log still holds is exported, and the returned [`Ending`] says that it is cut.

mod allocs;
mod csv;
mod error;
mod identity;
mod json;
mod layout;
mod outline;
mod parquet;

#[cfg(test)]
mod tests;

pub use allocs::{read_allocs, write_allocs_csv};
pub use csv::write_csv;
pub use error::Error;
pub use identity::Identity;
pub use json::write_json;
pub use nilometer_trace::Ending;
pub use parquet::{By, MergeOptions, Merged, Part, TABLES_DIRECTORY, Written, write_merged, write_parquet};
