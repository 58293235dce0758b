//! When understanding what was taken from the rings may wait: all processors have something better to do.
//!
//! Taking is cheap, understanding costs as much as it cost the target to tell. Where the target keeps all processors busy, the
//! two would share them, and the target would be slower for it. The invariant: what waits is bounded, in bytes and in time.

use std::path::Path;

use nilometer_kernel::read::cgroup::Chain;
use nilometer_kernel::read::host::{self, Host};
use nilometer_kernel::read::proc::{Proc, Running};
use nilometer_kernel::sys::limits::page_bytes;

/// What may wait at most, of a machine with enough memory.
const MOST_BYTES: u64 = 96 << 20;
/// Of the memory that there is, or that our group may have, one part in so many.
const SHARE: u64 = 64;
/// What is told while the run goes on is not older than this.
const LONGEST_NS: u64 = 1_000_000_000;
/// Between two looks at how busy the machine is.
const LOOK_NS: u64 = 5_000_000;

#[derive(Debug)]
pub struct Patience {
    running: Option<Running>,
    processors: u64,
    most_bytes: usize,
    looked_ns: u64,
    is_crowded: bool,
    /// Since when something waits.
    since_ns: Option<u64>,
}

impl Patience {
    pub fn read() -> Self {
        let Host { cpus, memory_bytes, .. } = host::read(Path::new("/"), page_bytes());
        Self {
            running: Proc::default().open_running(),
            processors: cpus,
            most_bytes: most_bytes(memory_bytes.min(group_limit())),
            looked_ns: 0,
            is_crowded: false,
            since_ns: None,
        }
    }

    /// What was taken and is not understood yet may be this much.
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Whether what was taken may wait a little longer.
    pub fn lasts(&mut self, waiting_bytes: usize, now_ns: u64) -> bool {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let lasts = waiting_bytes < self.most_bytes
            && now_ns.saturating_sub(since_ns) < LONGEST_NS
            && self.is_crowded(now_ns);
        if !lasts {
            self.since_ns = None;
        }
        lasts
    }

    /// More threads want to run than there are processors; we are one of them.
    fn is_crowded(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
            self.looked_ns = now_ns;
            let running = self.running.as_ref().and_then(Running::read);
            self.is_crowded = running.is_some_and(|running| running > self.processors);
        }
        self.is_crowded
    }
}

fn most_bytes(memory_bytes: u64) -> usize {
    MOST_BYTES.min(memory_bytes / SHARE) as usize
}

/// The tightest limit of our own group and those around it.
fn group_limit() -> u64 {
    let chain = Chain::of(Path::new("/proc"), Path::new("/"), std::process::id() as i32);
    let mut buffer = Vec::new();
    let limits = |chain: Chain| (0..chain.levels()).map(|level| chain.read_limit(level, &mut buffer)).min();
    chain.and_then(limits).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn patience(is_crowded: bool) -> Patience {
        let looked_ns = u64::MAX; // nobody looks
        Patience { running: None, processors: 2, most_bytes: 1000, looked_ns, is_crowded, since_ns: None }
    }

    #[test]
    fn on_an_idle_machine_nothing_waits() {
        assert!(!patience(false).lasts(1, SECOND));
        assert!(patience(true).lasts(1, SECOND));
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_in_time() {
        let mut patience = patience(true);
        assert!(!patience.lasts(1000, SECOND));
        assert!(patience.lasts(999, SECOND) && patience.lasts(999, 2 * SECOND - 1));
        assert!(!patience.lasts(999, 2 * SECOND));
        assert!(patience.lasts(999, 2 * SECOND), "from then on it is counted anew");
    }

    #[test]
    fn little_memory_makes_it_shorter() {
        assert_eq!(most_bytes(64 << 20), 1 << 20);
        assert_eq!(most_bytes(u64::MAX), 96 << 20);
    }
}
