//! The blocks that live in one process, by address.
//!
//! The recorder must be quicker than the program it listens to, so this is an open-addressed table of 24-byte
//! slots, cut into parts that grow one at a time: no growth may take longer than a ring takes to fill.

/// What is kept of a birth, in ticks.
pub const TICKS: u64 = (1 << 48) - 1;
/// A longer block counts as one of this length.
pub const MOST_BYTES: u64 = SIZE_MASK;

/// A block that was handed out and not given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// As asked for, up to [`MOST_BYTES`].
    pub bytes: u64,
    /// Ticks; the low 48 bits ([`TICKS`]).
    pub born: u64,
    /// How it was drawn: an index of [`super::weight::Draws`].
    pub draw: u8,
    pub site: u32,
}

/// `size`: bytes 44 | draw 4 | high bits of `born` 16.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    address: u64,
    size: u64,
    site: u32,
    born: u32,
}

const PARTS: usize = 256;
const SIZE_BITS: u32 = 44;
const SIZE_MASK: u64 = (1 << SIZE_BITS) - 1;
const FIRST_BITS: u32 = 4;

impl Slot {
    fn new(address: u64, block: &Block) -> Self {
        let size = block.bytes.min(SIZE_MASK)
            | u64::from(block.draw & 15) << SIZE_BITS
            | (block.born >> 32 & 0xffff) << 48;
        Self { address, size, site: block.site, born: block.born as u32 }
    }

    fn block(&self) -> Block {
        Block {
            bytes: self.size & SIZE_MASK,
            born: (self.size >> 48) << 32 | u64::from(self.born),
            draw: (self.size >> SIZE_BITS) as u8 & 15,
            site: self.site,
        }
    }
}

/// One part of the table. A length of zero, or a power of two of which at most three quarters are used.
#[derive(Debug, Clone, Default)]
struct Part {
    slots: Vec<Slot>,
    used: usize,
}

/// All blocks of a process.
#[derive(Debug, Clone)]
pub struct Blocks {
    parts: Vec<Part>,
    count: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { parts: vec![Part::default(); PARTS], count: 0 }
    }
}

/// Addresses need no protection from an attacker beyond a bounded loss of speed.
#[inline]
fn hash(address: u64) -> u64 {
    (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Blocks {
    pub fn len(&self) -> usize {
        self.count
    }

    /// Puts a block at an address and returns the one that was there. Address 0 is no block's.
    #[inline]
    pub fn insert(&mut self, address: u64, block: &Block) -> Option<Block> {
        if address == 0 {
            return None;
        }
        let hash = hash(address);
        let part = self.parts.get_mut((hash >> 56) as usize)?;
        let before = part.insert(hash << 8, Slot::new(address, block));
        self.count += usize::from(before.is_none());
        before
    }

    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        let hash = hash(address);
        let removed = self.parts.get_mut((hash >> 56) as usize)?.remove(hash << 8, address);
        self.count -= usize::from(removed.is_some());
        removed
    }

    pub fn contains(&self, address: u64) -> bool {
        let hash = hash(address);
        self.parts.get((hash >> 56) as usize).is_some_and(|part| part.find(hash << 8, address).is_some())
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        let slots = self.parts.iter().flat_map(|part| &part.slots);
        slots.filter(|slot| slot.address != 0).map(|slot| (slot.address, slot.block()))
    }
}

impl Part {
    /// Where a hash begins to look. The part is not empty.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    #[inline]
    fn insert(&mut self, hash: u64, slot: Slot) -> Option<Block> {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let here = &mut self.slots[at];
            if here.address == 0 {
                *here = slot;
                self.used += 1;
                return None;
            }
            if here.address == slot.address {
                let before = here.block();
                *here = slot;
                return Some(before);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let length = (self.slots.len() * 2).max(1 << FIRST_BITS);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); length]);
        let mask = length - 1;
        for slot in old.into_iter().filter(|slot| slot.address != 0) {
            let mut at = self.home(hash(slot.address) << 8);
            while self.slots[at].address != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    #[inline]
    fn remove(&mut self, hash: u64, address: u64) -> Option<Block> {
        let at = self.find(hash, address)?;
        let block = self.slots[at].block();
        self.close_gap(at, self.slots.len() - 1);
        self.used -= 1;
        Some(block)
    }

    #[inline]
    fn find(&self, hash: u64, address: u64) -> Option<usize> {
        if self.slots.is_empty() || address == 0 {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        while self.slots[at].address != address {
            if self.slots[at].address == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
        Some(at)
    }

    /// Moves later slots back over a gap, so that no search ends too early and none needs a gravestone.
    fn close_gap(&mut self, mut gap: usize, mask: usize) {
        let mut at = (gap + 1) & mask;
        while self.slots[at].address != 0 {
            let home = self.home(hash(self.slots[at].address) << 8);
            // It may move if its home does not lie (cyclically) after the gap.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[gap] = Slot::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn block(bytes: u64) -> Block {
        Block { bytes, born: bytes * 1_000_003 % (1 << 48), draw: (bytes % 16) as u8, site: bytes as u32 * 7 }
    }

    #[test]
    fn a_block_comes_back_as_it_was() {
        let mut blocks = Blocks::default();
        let large = Block { bytes: SIZE_MASK, born: (1 << 48) - 1, draw: 15, site: u32::MAX };
        assert_eq!(blocks.insert(0x7fff_ffff_fff8, &large), None);
        assert_eq!(blocks.insert(16, &block(3)), None);
        assert_eq!(blocks.insert(16, &block(4)), Some(block(3)));
        assert_eq!(blocks.remove(0x7fff_ffff_fff8), Some(large));
        assert_eq!((blocks.remove(24), blocks.remove(0), blocks.len()), (None, None, 1));
    }

    proptest! {
        #[test]
        fn it_is_a_map(turns in prop::collection::vec((any::<bool>(), 1_u64..400), 0..3000)) {
            let (mut blocks, mut model) = (Blocks::default(), HashMap::new());
            for (number, (inserts, key)) in turns.into_iter().enumerate() {
                // Few parts, so that they collide: multiples of 2^56 mod 2^64 by the inverse of the factor.
                let address = key << 3;
                if inserts {
                    let new = block(number as u64);
                    prop_assert_eq!(blocks.insert(address, &new), model.insert(address, new));
                } else {
                    prop_assert_eq!(blocks.remove(address), model.remove(&address));
                }
                prop_assert_eq!(blocks.len(), model.len());
            }
            let all: HashMap<_, _> = blocks.iter().collect();
            prop_assert_eq!(all, model);
        }

        #[test]
        fn crowded_parts_are_maps_too(keys in prop::collection::vec((any::<bool>(), 0_u64..64), 0..2000)) {
            let (mut part, mut model) = (Part::default(), HashMap::new());
            for (number, (inserts, key)) in keys.into_iter().enumerate() {
                let address = (key + 1) << 3;
                let hash = hash(address) << 8;
                if inserts {
                    let new = block(number as u64);
                    let before = part.insert(hash, Slot::new(address, &new));
                    prop_assert_eq!(before, model.insert(address, new));
                } else {
                    prop_assert_eq!(part.remove(hash, address), model.remove(&address));
                }
            }
        }
    }
}
