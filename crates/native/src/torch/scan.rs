//! Finding a few known words in a lot of memory.
//!
//! The words are addresses of virtual tables, which stand close together: what does not share their upper bits is
//! passed over in blocks that the compiler turns into code without branches.

/// Words looked at between two decisions.
const BLOCK: usize = 32;
/// Virtual tables of one library lie within one or two stretches of this size, by its power of two.
const NEAR: u32 = 22;
/// Stretches that are looked for at once.
const AT_ONCE: usize = 4;

/// Known words, ready for the search.
#[derive(Debug, Clone)]
pub(super) struct Needles {
    /// Sorted.
    words: Vec<u64>,
    /// Which stretches they are in; as many at a time as are looked for at once, repeated where there are fewer.
    stretches: Vec<[u32; AT_ONCE]>,
}

impl Needles {
    pub fn new(mut words: Vec<u64>) -> Self {
        words.sort_unstable();
        words.dedup();
        let mut near: Vec<u32> = words.iter().map(|word| stretch(*word)).collect();
        near.dedup();
        let stretches = near.chunks(AT_ONCE).map(|few| std::array::from_fn(|i| few[i % few.len()]));
        Self { stretches: stretches.collect(), words }
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    #[inline]
    pub fn contains(&self, word: u64) -> bool {
        self.words.binary_search(&word).is_ok()
    }

    /// Calls `found` with the offset of every aligned word that is one of ours; `bytes` begins at an aligned address.
    pub fn find(&self, bytes: &[u8], mut found: impl FnMut(usize)) {
        for near in &self.stretches {
            self.find_near(bytes, *near, &mut found);
        }
    }

    fn find_near(&self, bytes: &[u8], near: [u32; AT_ONCE], found: &mut impl FnMut(usize)) {
        for (index, block) in bytes.chunks(8 * BLOCK).enumerate() {
            let hits = words(block).fold(0, |hits, word| hits | is_near(word, near));
            if hits != 0 {
                self.report(block, index * 8 * BLOCK, near, found);
            }
        }
    }

    #[inline(never)]
    fn report(&self, block: &[u8], offset: usize, near: [u32; AT_ONCE], found: &mut impl FnMut(usize)) {
        let ours =
            words(block).enumerate().filter(|(_, word)| is_near(*word, near) != 0 && self.contains(*word));
        ours.for_each(|(index, _)| found(offset + 8 * index));
    }
}

/// Half a word wide, so that a vector holds twice as many.
#[inline]
fn stretch(word: u64) -> u32 {
    (word >> NEAR) as u32
}

#[inline]
fn is_near(word: u64, near: [u32; AT_ONCE]) -> u32 {
    near.into_iter().fold(0, |hits, one| hits | u32::from(stretch(word) == one))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(needles: &[u64], words: &[u64]) -> Vec<usize> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut places = Vec::new();
        Needles::new(needles.to_vec()).find(&bytes, |offset| places.push(offset / 8));
        places
    }

    #[test]
    fn every_known_word_is_found_and_its_neighbours_are_not() {
        let mut words: Vec<u64> = (0..1000).map(|i| 0x7f00_0000_0000 + i * 8).collect();
        words[999] = 0x1234_5678_9000;
        assert_eq!(places(&[0x7f00_0000_0008, 0x7f00_0000_1000], &words), [1, 512]);
        assert_eq!(places(&[0x1234_5678_9000], &words), [999]);
        assert!(places(&[], &words).is_empty());
        let far: Vec<u64> = (1..10).map(|i| i << 40).collect();
        let mut found = places(&far, &[5, 9 << 40, 3 << 40]);
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
    }
}
