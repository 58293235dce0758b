//! What a foreign recording turned out to be: for the manifest and the last record.

use nilometer_trace::record::{Cost, End};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Wall-clock time of the first stamp, and log time of the first and last record.
    pub realtime_ns: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub ticks: u64,
    /// Tables of objects.
    pub tables: u64,
    /// As the first reading told it.
    pub memory_kib: u64,
    pub swap_kib: u64,
    /// How the figures were obtained, a sentence each.
    pub notes: Vec<String>,
}

impl Outline {
    pub fn duration_s(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }

    /// The last record. What the sampler cost is not known; only what was written here is.
    pub fn end(&self, written_bytes: u64) -> End {
        End {
            at_ns: self.last_ns,
            exit: None,
            cost: Cost { written_bytes, ..Cost::default() },
            ticks: self.ticks,
            missed_ticks: 0,
            cgroup_peak_bytes: None,
        }
    }
}
