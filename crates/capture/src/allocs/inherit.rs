//! What a forked child has from its parent: blocks that are shared until somebody writes to them.
//!
//! They are in none of the child's sums. They are known so that the child's frees of them are not taken for riddles, and to
//! say how much of its parent's memory it never gave back. The child may speak before its parent says that it
//! forked: frees of unknown blocks are remembered until then.

use nilometer_trace::allocs::Amount;
use rustc_hash::FxHashSet;

use super::block::Blocks;

/// A set of blocks that is larger than this is not copied for each child.
const MOST_BLOCKS: usize = 4 << 20;
/// Frees that are remembered until the parent has said what it had.
const MOST_FREES: usize = 1 << 20;

/// What a parent had when it forked.
#[derive(Debug, Clone, Default)]
pub struct Seed {
    blocks: Blocks,
    /// There were too many to copy.
    too_many: bool,
}

impl Seed {
    /// The parent has ended and never said: every free that nothing explains is taken for one of its blocks.
    pub fn unknown() -> Self {
        Self { too_many: true, ..Self::default() }
    }

    /// The parent's own blocks and those it has from its own parent.
    pub fn of(own: &Blocks, inherited: &Inherited) -> Self {
        if own.len() + inherited.blocks.len() > MOST_BLOCKS {
            return Self { too_many: true, ..Self::default() };
        }
        let mut blocks = own.clone();
        for (address, block) in inherited.blocks.iter() {
            blocks.insert(address, &block);
        }
        Self { blocks, too_many: false }
    }
}

#[derive(Debug, Default)]
pub struct Inherited {
    blocks: Blocks,
    /// Frees that came before it was known what was there; `None` when nothing is awaited.
    early: Option<FxHashSet<u64>>,
    pub at_fork: Amount,
    pub live: Amount,
    pub too_many: bool,
}

impl Inherited {
    /// A forked child whose parent has not yet said what it had.
    pub fn awaited() -> Self {
        Self { early: Some(FxHashSet::default()), ..Self::default() }
    }

    pub fn is_awaited(&self) -> bool {
        self.early.is_some()
    }

    pub fn seed(&mut self, seed: Seed) {
        let Some(early) = self.early.take() else { return };
        self.too_many = seed.too_many;
        self.blocks = seed.blocks;
        for (_, block) in self.blocks.iter() {
            self.at_fork.bytes = self.at_fork.bytes.wrapping_add(block.bytes);
            self.at_fork.count += 1;
        }
        self.live = self.at_fork;
        for address in early {
            self.remove(address);
        }
    }

    pub fn holds(&self, address: u64) -> bool {
        self.early.is_none() && self.blocks.len() > 0 && self.blocks.contains(address)
    }

    /// A free that no own block explains. True if this does, now or when the parent has spoken.
    pub fn free(&mut self, address: u64) -> bool {
        if let Some(early) = &mut self.early {
            return early.len() < MOST_FREES && early.insert(address);
        }
        self.remove(address) || self.too_many
    }

    fn remove(&mut self, address: u64) -> bool {
        let Some(block) = self.blocks.remove(address) else { return false };
        self.live.bytes = self.live.bytes.wrapping_sub(block.bytes);
        self.live.count = self.live.count.wrapping_sub(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocs::block::Block;

    fn parent() -> Blocks {
        let mut blocks = Blocks::default();
        for (address, bytes) in [(64, 10), (128, 20), (192, 30)] {
            blocks.insert(address, &Block { bytes, born: 0, draw: 0, site: 0 });
        }
        blocks
    }

    #[test]
    fn a_child_that_spoke_first_has_what_it_did_not_free() {
        let mut child = Inherited::awaited();
        assert!(child.free(128) && !child.holds(64));
        child.seed(Seed::of(&parent(), &Inherited::default()));
        assert_eq!((child.at_fork.bytes, child.live.bytes, child.live.count), (60, 40, 2));
        assert!(child.holds(64) && child.free(64) && !child.free(64));
        assert_eq!(child.live.bytes, 30);
    }

    #[test]
    fn a_grandchild_has_what_its_parent_had_from_its_own() {
        let mut child = Inherited::awaited();
        child.seed(Seed::of(&parent(), &Inherited::default()));
        child.free(64);
        let mut own = Blocks::default();
        own.insert(256, &Block { bytes: 1000, born: 0, draw: 0, site: 0 });
        let mut grandchild = Inherited::awaited();
        grandchild.seed(Seed::of(&own, &child));
        assert_eq!((grandchild.live.bytes, grandchild.live.count), (1050, 3));
    }
}
