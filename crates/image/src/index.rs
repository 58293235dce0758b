//! Which segment holds an address, in constant time.
//!
//! Following references jumps all over the image: a binary search at each step costs more than the reading itself.

use std::ops::Range;

/// Addresses are grouped by chunks of at least this size.
const SMALLEST_SHIFT: u32 = 20;
/// Bounds the table, whatever a core claims to hold.
const MOST_CHUNKS: u64 = 1 << 20;
/// 2^64 divided by the golden ratio: neighbours fall far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash table from chunks of the address space to the segments in them.
#[derive(Debug, Default)]
pub(crate) struct Index {
    shift: u32,
    /// How many bits of the hash count.
    bits: u32,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    chunk: u64,
    first: u32,
    /// 0: the slot is free.
    count: u32,
}

impl Index {
    /// `segments` sorted, not overlapping, none empty.
    pub fn new(segments: impl Iterator<Item = Range<u64>> + Clone) -> Self {
        let chunks = |shift: u32| {
            segments.clone().map(move |s| ((s.end - 1) >> shift) - (s.start >> shift) + 1).sum::<u64>()
        };
        let shift = (SMALLEST_SHIFT..63).find(|shift| chunks(*shift) <= MOST_CHUNKS).unwrap_or(63);
        let bits = (chunks(shift).max(8) * 2).next_power_of_two().trailing_zeros();
        let free = Slot { chunk: 0, first: 0, count: 0 };
        let mut index = Self { shift, bits, slots: vec![free; 1 << bits] };
        for (number, segment) in segments.enumerate() {
            for chunk in segment.start >> shift..=(segment.end - 1) >> shift {
                index.add(chunk, number as u32);
            }
        }
        index
    }

    fn add(&mut self, chunk: u64, segment: u32) {
        let mask = self.slots.len() - 1;
        let mut at = self.hash(chunk);
        loop {
            let slot = &mut self.slots[at];
            if slot.count == 0 {
                *slot = Slot { chunk, first: segment, count: 1 };
                return;
            }
            if slot.chunk == chunk {
                slot.count += 1; // segments come in order: those of a chunk follow each other
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// The segments that may hold `address`, by number.
    #[inline]
    pub fn candidates(&self, address: u64) -> Range<usize> {
        if self.slots.is_empty() {
            return 0..0;
        }
        let chunk = address >> self.shift;
        let mask = self.slots.len() - 1;
        let mut at = self.hash(chunk);
        loop {
            let slot = self.slots[at & mask];
            if slot.chunk == chunk || slot.count == 0 {
                return slot.first as usize..slot.first as usize + slot.count as usize;
            }
            at += 1;
        }
    }

    #[inline]
    fn hash(&self, chunk: u64) -> usize {
        (chunk.wrapping_mul(SPREAD) >> (64 - self.bits)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_finds_its_segment_and_no_other() {
        let segments =
            [0x1000..0x2000, 0x2000..0x3000, 0xf_ffff..0x50_0001, 0x7fff_0000_0000..0x7fff_4000_0000];
        let index = Index::new(segments.iter().cloned());
        let found = |address| segments[index.candidates(address)].iter().find(|s| s.contains(&address));
        for (number, segment) in segments.iter().enumerate() {
            for address in [segment.start, segment.end - 1, u64::midpoint(segment.start, segment.end)] {
                assert_eq!(found(address), Some(&segments[number]), "{address:x}");
            }
        }
        for address in [0, 0xfff, 0x3000, 0x50_0001, 0x7fff_4000_0000, u64::MAX] {
            assert_eq!(found(address), None, "{address:x}");
        }
        assert_eq!(Index::default().candidates(0x1000), 0..0);
    }

    #[test]
    fn a_huge_segment_does_not_make_a_huge_table() {
        let index = Index::new([0..1 << 62, 1 << 62..u64::MAX].into_iter());
        assert!(index.slots.len() <= 4 << 20);
        assert_eq!((index.candidates(5), index.candidates(u64::MAX - 1)), (0..1, 1..2));
    }
}
