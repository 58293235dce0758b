//! What a recording of allocations turned out to be: sites with their stacks, and their names.

use nilometer_trace::allocs::Recording;
use nilometer_trace::symbols::Symbols;

use crate::outline::Outline;
use crate::time::FIRST_NS;

#[derive(Debug, Clone, Default)]
pub struct Sites {
    pub recording: Recording,
    /// The names of its native frames.
    pub symbols: Symbols,
    /// Wall-clock time of its start; 0 where it is not told.
    pub realtime_ns: u64,
    /// Log time of its end.
    pub last_ns: u64,
    /// What it says of itself as a whole, a sentence each.
    pub notes: Vec<String>,
}

impl Sites {
    pub fn outline(&self) -> Outline {
        Outline {
            realtime_ns: self.realtime_ns,
            first_ns: FIRST_NS,
            last_ns: self.last_ns.max(FIRST_NS),
            notes: self.notes.clone(),
            ..Outline::default()
        }
    }
}
