//! Putting the events of several lanes in order, as far as addresses need it.
//!
//! Lanes are read one after the other, so a free may be read before the allocation that another thread made
//! before it. What was published first is read at the latest one turn after what followed it: so a free without a block waits for
//! one more turn, and an allocation at an address that is still taken means that the free between is yet to come.

use rustc_hash::FxHashMap;

/// When and where an event was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub lane: u32,
    /// The thread's time: it happened then or later.
    pub ticks: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    lane: u32,
    turn: u64,
    /// It happened before this.
    before_ticks: u64,
}

/// Frees and allocations that do not fit yet.
#[derive(Debug, Default)]
pub struct Order {
    turn: u64,
    /// Frees read before their allocation.
    early: FxHashMap<u64, Waiting>,
    /// Addresses whose free is still to be read: the block was taken for freed already.
    owed: FxHashMap<u64, Waiting>,
}

impl Order {
    /// A turn over all lanes begins. Frees whose allocation must have been read by now are handed over: nobody told
    /// of their blocks.
    pub fn begin_turn(&mut self, mut unknown: impl FnMut(u64)) {
        self.turn += 1;
        if self.early.is_empty() && self.owed.is_empty() {
            return;
        }
        let turn = self.turn;
        self.owed.retain(|_, waiting| waiting.turn + 1 >= turn);
        self.early.retain(|&address, waiting| {
            let waits = waiting.turn + 1 >= turn;
            if !waits {
                unknown(address);
            }
            waits
        });
    }

    /// A free found no block. True if that block was taken for freed before, so that there is nothing to do.
    #[cold]
    pub fn free_without_block(&mut self, address: u64, lane: u32, now_ticks: u64) -> bool {
        if self.settle(address, lane) {
            return true;
        }
        let waiting = Waiting { lane, turn: self.turn, before_ticks: now_ticks };
        self.early.insert(address, waiting);
        false
    }

    /// True if this free is the one of an earlier block at the address, not of the one that is there now.
    #[inline]
    pub fn is_settled(&mut self, address: u64, lane: u32) -> bool {
        !self.owed.is_empty() && self.settle(address, lane)
    }

    fn settle(&mut self, address: u64, lane: u32) -> bool {
        // The thread that allocated there again is later than the free that we wait for.
        let owed = self.owed.get(&address).is_some_and(|owed| owed.lane != lane);
        owed && self.owed.remove(&address).is_some()
    }

    /// An allocation: true if its free was read already.
    #[inline]
    pub fn was_freed(&mut self, address: u64, place: Place) -> bool {
        !self.early.is_empty() && self.take_early(address, place)
    }

    fn take_early(&mut self, address: u64, place: Place) -> bool {
        let Some(early) = self.early.remove(&address) else { return false };
        // Later in the same lane, or surely later: the free was of a block that nobody told of.
        early.lane != place.lane && place.ticks <= early.before_ticks
    }

    /// An allocation took the place of a block whose free was not read yet.
    #[cold]
    pub fn displaced(&mut self, address: u64, lane: u32) {
        self.owed.insert(address, Waiting { lane, turn: self.turn, before_ticks: 0 });
    }

    /// A free did not happen after all.
    pub fn forget(&mut self, address: u64) {
        self.early.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(lane: u32, ticks: u64) -> Place {
        Place { lane, ticks }
    }

    #[test]
    fn a_free_waits_one_turn_for_its_allocation() {
        let mut order = Order::default();
        order.begin_turn(|_| panic!());
        assert!(!order.free_without_block(64, 1, 100));
        order.begin_turn(|_| panic!());
        assert!(order.was_freed(64, place(0, 50)));
        assert!(!order.was_freed(64, place(0, 60)), "once");
    }

    #[test]
    fn a_free_of_an_untold_block_is_handed_over() {
        let mut order = Order::default();
        order.begin_turn(|_| panic!());
        order.free_without_block(64, 1, 100);
        order.free_without_block(72, 1, 100);
        assert!(!order.was_freed(64, place(1, 100)), "the same thread allocated after it freed");
        order.begin_turn(|_| panic!());
        assert!(!order.was_freed(72, place(0, 101)), "too late to be what was freed");
        order.free_without_block(80, 1, 200);
        let mut unknown = Vec::new();
        order.begin_turn(|address| unknown.push(address));
        assert!(unknown.is_empty());
        order.begin_turn(|address| unknown.push(address));
        assert_eq!(unknown, [80]);
    }

    #[test]
    fn the_free_of_a_displaced_block_does_not_touch_its_successor() {
        let mut order = Order::default();
        order.begin_turn(|_| panic!());
        order.displaced(64, 2);
        assert!(!order.is_settled(64, 2), "the second thread's own free is of its own block");
        assert!(order.is_settled(64, 1));
        assert!(!order.is_settled(64, 1), "once");
        order.displaced(64, 2);
        order.begin_turn(|_| panic!());
        order.begin_turn(|_| panic!());
        assert!(!order.is_settled(64, 1), "a lost free is not waited for");
    }
}
