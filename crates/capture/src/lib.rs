//! Recording: launches a command (or looks at a running one), samples its process tree, writes the run
//! directory. Knows the kernel and the trace, nothing of analysis or views.
//!
//! The one invariant: the target runs, and ends, as it would without us. Whatever fails here after the
//! start is noted in the log and never changes the target's life.

pub mod allocs;
mod answer;
pub mod attach;
pub mod bounds;
pub mod budget;
pub mod census;
mod closing;
pub mod control;
pub mod describe;
mod enforce;
mod errand;
pub mod forward;
pub mod heap_watch;
pub mod hook;
mod inside;
pub mod job;
pub mod launch;
pub mod ledger;
pub mod ledger_watch;
pub mod marks;
pub mod member;
mod metrics;
pub mod observe;
pub mod options;
pub mod pages;
pub mod privacy;
pub mod rank;
pub mod recorder;
pub mod relay;
pub mod role;
pub mod rundir;
pub mod shm;
pub mod slow;
pub mod stacks;
pub mod stop_after;
pub mod store;
pub mod system;
pub mod tree;
pub mod watchdog;

mod error;
mod session;
mod standstill;

pub use error::{Error, not_found_hint};
pub use options::Options;
