//! What a run stores, and nothing else: the framed log with its records, and the manifest.
//!
//! `FORMAT.md` beside this crate is normative; the code follows it. Writers live in `capture` and
//! `import`, readers in `analysis` and `tables`; this crate knows neither the kernel nor the terminal.
//! The one invariant: a frame exists whole or not at all, and a log cut anywhere is readable up to the cut.

pub mod allocs;
mod columns;
pub mod error;
pub mod follow;
pub mod frame;
pub mod heap;
pub mod job;
pub mod ledger;
pub mod log;
pub mod manifest;
pub mod pages;
mod rare;
pub mod reader;
pub mod record;
mod scan;
pub mod symbols;
pub mod tick;
mod varint;

pub use error::Error;
pub use follow::Follower;
pub use log::LogWriter;
pub use manifest::Manifest;
pub use reader::{Ending, Reader};
pub use record::Record;
pub use tick::TickRef;

/// What this version writes, and the highest it reads. `FORMAT.md` has the table.
pub const FORMAT_VERSION: u32 = 1;
