//! Looking at which pages of a process tree are touched: ways to see it behind one trait, windows, what is stored.
//!
//! A mark forgets what was touched, a look tells what was touched since. Marks come first, so that no window contains
//! what happened before it. The one invariant: nothing is marked inside a window, and what was written is read before
//! what was accessed, so that the written is always part of the accessed.

mod allowance;
mod around;
mod backend;
mod births;
mod choose;
mod damon;
mod errand;
mod filter;
mod guards;
mod idle;
mod owner;
mod referenced;
mod session;
mod split;
mod table;
mod wait;
mod watch;
mod written;

use std::time::Duration;

pub use choose::{Choice, Way, choose};
pub use filter::{Filters, Skip};
pub use session::{Ended, Session};
pub use wait::Waiter;
pub(crate) use watch::{Task, Watch};

/// Chunks are between these.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(2 << 20);

/// What was asked for.
#[derive(Debug, Clone)]
pub struct PageOptions {
    /// Times after a mark at which is looked, shortest first; not empty.
    pub windows: Vec<Duration>,
    /// Look at steps instead: so many of them in a window.
    pub per_steps: Option<u64>,
    pub duration: Option<Duration>,
    /// Look ever more seldom: between two rounds lies one part in so many of the time so far.
    pub spread: Option<u32>,
    pub way: Option<Way>,
    pub chunk_bytes: u64,
    /// Whether system calls may be made in the target.
    pub may_inject: bool,
    pub written: bool,
    /// In every window, whatever it costs the target.
    pub written_always: bool,
    /// Page faults, one by one.
    pub births: bool,
    pub pause: bool,
    pub single: bool,
    pub names: bool,
    pub filters: Filters,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            windows: vec![Duration::from_secs(1)],
            per_steps: None,
            duration: None,
            spread: None,
            way: None,
            chunk_bytes: 256 << 10,
            may_inject: false,
            written: true,
            written_always: false,
            births: false,
            pause: false,
            single: false,
            names: true,
            filters: Filters::default(),
        }
    }
}

/// Why there are no looks.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no process {pid}")]
    Gone { pid: i32 },
    #[error("process {pid} ended before its first window was over")]
    TooShort { pid: i32 },
    #[error("the kernel does not allow it for process {pid}: {source}")]
    NotPermitted { pid: i32, source: nilometer_kernel::Error },
    #[error("{way} is not available here: {why}")]
    NotAvailable { way: &'static str, why: String },
    #[error("touched pages cannot be seen here: {0}")]
    Nothing(String),
    #[error(transparent)]
    Kernel(nilometer_kernel::Error),
    #[error("cannot write the recording: {0}")]
    Store(#[from] std::io::Error),
}

impl Error {
    fn of(pid: i32, error: nilometer_kernel::Error) -> Self {
        match error {
            nilometer_kernel::Error::Gone { .. } => Self::Gone { pid },
            nilometer_kernel::Error::NotPermitted { .. } => Self::NotPermitted { pid, source: error },
            other => Self::Kernel(other),
        }
    }

    fn of_io(pid: i32, error: std::io::Error) -> Self {
        let path = std::path::PathBuf::from(format!("/proc/{pid}"));
        Self::of(pid, nilometer_kernel::Error::from_io(&path, error))
    }
}
