//! One bit per object.

use nilometer_trace::heap::ObjectId;

#[derive(Debug, Clone)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(super) fn new(objects: usize) -> Self {
        Self { words: vec![0; objects.div_ceil(64)] }
    }

    pub(super) fn of(objects: usize, ids: &[ObjectId]) -> Self {
        let mut bits = Self::new(objects);
        for id in ids {
            bits.set(*id);
        }
        bits
    }

    #[inline]
    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.words[id as usize / 64] >> (id % 64) & 1 == 1
    }

    /// True when it was not set before.
    #[inline]
    pub(super) fn set(&mut self, id: ObjectId) -> bool {
        let (word, bit) = (&mut self.words[id as usize / 64], 1 << (id % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// The set ids, increasing.
    pub(super) fn ids(&self) -> Vec<ObjectId> {
        let count: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        let mut ids = Vec::with_capacity(count as usize);
        for (place, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                ids.push(place as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back_in_order() {
        let mut bits = Bits::of(200, &[3, 64, 199]);
        assert!(bits.set(63) && !bits.set(64));
        assert_eq!(bits.ids(), [3, 63, 64, 199]);
        assert!(bits.has(3) && !bits.has(4));
    }
}
