//! The latest snapshot, shared between the tick loop and the threads that tell it.
//!
//! Nobody holds the lock for longer than it takes to copy a pointer; the tick loop does not even wait for that.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::snapshot::Snapshot;

#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    closing: Condvar,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<Arc<Snapshot>>,
    is_closing: bool,
}

impl Slot {
    /// Leaves the snapshot, unless somebody looks just now: the next one will be newer.
    pub fn leave(&self, snapshot: Snapshot) {
        if let Ok(mut state) = self.state.try_lock() {
            state.latest = Some(Arc::new(snapshot));
        }
    }

    /// The last snapshot there will be.
    pub fn close(&self, last: Option<Snapshot>) {
        let mut state = self.lock();
        state.latest = last.map(Arc::new).or(state.latest.take());
        state.is_closing = true;
        drop(state);
        self.closing.notify_all();
    }

    pub fn latest(&self) -> Option<Arc<Snapshot>> {
        self.lock().latest.clone()
    }

    pub fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Waits this long, or until it is closed; true when it is.
    pub fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.is_closing || left.is_zero() {
                return state.is_closing;
            }
            state = self.closing.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_a_snapshot_never_waits() {
        let slot = Slot::default();
        let held = slot.lock();
        slot.leave(Snapshot { ticks: 1, ..Snapshot::default() });
        drop(held);
        assert!(slot.latest().is_none());
        slot.leave(Snapshot { ticks: 2, ..Snapshot::default() });
        assert_eq!(slot.latest().unwrap().ticks, 2);
    }

    #[test]
    fn whoever_waits_is_woken_by_the_end() {
        let slot = Arc::new(Slot::default());
        let waiting = Arc::clone(&slot);
        let thread = std::thread::spawn(move || waiting.wait(Duration::from_secs(60)));
        slot.close(None);
        assert!(thread.join().unwrap());
        assert!(slot.wait(Duration::ZERO));
    }
}
