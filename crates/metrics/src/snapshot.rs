//! The values of one tick, as plain data. Sizes are bytes, times are nanoseconds since 1970.

use std::sync::Arc;

/// Who is recorded; the same at every tick.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// Name of the run directory: tells the series of one run from those of another.
    pub name: String,
    /// Short name of the command.
    pub command: String,
    pub host: String,
    pub version: String,
    pub started_ns: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    pub run: Arc<Run>,
    pub at_ns: u64,
    /// Ticks taken so far: this is the last of them.
    pub ticks: u64,
    pub missed_ticks: u64,
    /// Memory of the whole tree, counted once.
    pub tree: Option<Bound>,
    /// The highest so far.
    pub peak: Option<Bound>,
    /// Processes that are alive, whether or not they have series of their own.
    pub alive: u64,
    /// At most [`crate::MOST_PROCESSES`], the largest.
    pub processes: Vec<Process>,
    pub steps: u64,
    /// The number that the last mark of a step told.
    pub last_step: Option<u64>,
    pub machine: Machine,
    pub limit: Option<Limit>,
    /// CPU time of nilo itself.
    pub own_cpu_s: f64,
    pub ended: Option<Ended>,
}

/// The value lies between the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bound {
    pub low: u64,
    pub high: u64,
}

impl Bound {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.max(other.high) }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Process {
    pub pid: i32,
    /// The kernel's short name.
    pub command: String,
    pub role: String,
    pub rank: Option<u64>,
    pub anon: u64,
    pub file: u64,
    pub shmem: u64,
    pub swap: u64,
    pub hwm: u64,
    pub address_space: u64,
    /// Of the last page-table walk, if there was one.
    pub pss: Option<u64>,
    pub uss: Option<u64>,
    pub user_s: f64,
    pub system_s: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub threads: u64,
}

impl Process {
    pub fn rss(&self) -> u64 {
        self.anon.saturating_add(self.file).saturating_add(self.shmem)
    }
}

/// Of `/proc/meminfo` and the pressure file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Machine {
    pub total: u64,
    pub free: u64,
    pub available: u64,
    pub cached: u64,
    pub buffers: u64,
    pub swap_total: u64,
    pub swap_free: u64,
    pub swap_cached: u64,
    /// Share of the last ten seconds in which somebody waited for memory.
    pub pressure: Option<f64>,
}

impl Machine {
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free).saturating_sub(self.cached).saturating_sub(self.buffers)
    }

    pub fn swap_used(&self) -> u64 {
        self.swap_total.saturating_sub(self.swap_free).saturating_sub(self.swap_cached)
    }
}

/// The limit that binds now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limit {
    pub bytes: u64,
    pub free: u64,
    /// `machine RAM` or `cgroup /path`.
    pub source: String,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}
