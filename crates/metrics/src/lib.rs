//! The values of a recording while it goes on, for monitoring systems: Prometheus text in a file or on a port, OTLP to a
//! collector.
//!
//! The recorder hands over a [`Snapshot`] after each tick ([`Exporter::publish`]); everything else happens in threads of
//! this crate. The one invariant: publishing never waits, whatever a disk, a client or a receiver does, and at the end
//! nobody is waited for longer than was said ([`Exporter::finish`]).

mod error;
mod exporter;
mod family;
mod file;
mod http;
mod instrument;
mod listen;
mod otlp;
mod prometheus;
mod push;
mod slot;
mod snapshot;

pub use error::Error;
pub use exporter::{Exporter, Outlets};
pub use file::MetricsFile;
pub use listen::Listener;
pub use push::{Collector, Variables};
pub use snapshot::{Bound, Ended, Limit, Machine, Process, Run, Snapshot};

/// Processes with series of their own at one time, the largest; how many have none is told.
pub const MOST_PROCESSES: usize = 64;
