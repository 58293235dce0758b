//! Exact reuse distances: how many different pages were touched since a page was touched last, itself included.
//!
//! Each page has a place in the order of last touches; those that are taken are bits, and a small tree of partial sums counts
//! them by blocks, so that both stay in the nearest cache. Places are given out in order and never again: when they run out all
//! pages are moved down, without holes. The one invariant: the bits that are set are as many as there are different pages.

use rustc_hash::FxHashMap;

/// Places of a block: what one look at a few words counts.
const BLOCK: usize = 512;
const WORD: usize = u64::BITS as usize;
const FEWEST: usize = 2 * BLOCK;
/// Pages whose places share a line of the cache.
const LINE: u64 = 16;
const NOWHERE: u32 = u32::MAX;
/// Places for each page: the more, the less often they run out.
const ROOM: usize = 4;

/// A stack of pages, the last touched on top.
#[derive(Debug, Clone)]
pub struct Stack {
    places: Places,
    /// The page that was given each place; it may have left it.
    pages: Vec<u64>,
    /// A bit for each place that is taken.
    taken: Vec<u64>,
    /// Partial sums of the blocks (a Fenwick tree): `sums[i]` counts those that end at `i` (from 1).
    sums: Vec<u32>,
}

impl Default for Stack {
    fn default() -> Self {
        let mut stack =
            Self { places: Places::default(), pages: Vec::new(), taken: Vec::new(), sums: Vec::new() };
        stack.make_room(FEWEST);
        stack
    }
}

impl Stack {
    /// Different pages so far.
    pub fn len(&self) -> usize {
        self.places.count
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The distance of this touch, from 1; none for the first of its page.
    pub fn touch(&mut self, page: u64) -> Option<u64> {
        if self.pages.len() >= self.taken.len() * WORD {
            self.move_down();
        }
        let place = self.pages.len();
        self.pages.push(page);
        let (before, count) = (self.places.put(page, place), self.len());
        let distance = before.map(|before| self.leave(before, count));
        self.taken[place / WORD] |= 1 << (place % WORD);
        self.add(place / BLOCK, 1);
        distance
    }

    /// Forgets the page; the distance that a touch of it would have had.
    pub fn take(&mut self, page: u64) -> Option<u64> {
        let count = self.len();
        let before = self.places.take(page)?;
        Some(self.leave(before, count))
    }

    /// The distance of the page that had this place when there were so many.
    fn leave(&mut self, place: usize, count: usize) -> u64 {
        let distance = count - self.taken_before(place);
        self.taken[place / WORD] ^= 1 << (place % WORD);
        self.add(place / BLOCK, u32::MAX); // minus one
        distance as u64
    }

    fn taken_before(&self, place: usize) -> usize {
        let (block, word) = (place / BLOCK, place / WORD);
        let words = &self.taken[block * (BLOCK / WORD)..word];
        let below = self.taken[word] & ((1 << (place % WORD)) - 1);
        let within: u32 = words.iter().map(|word| word.count_ones()).sum::<u32>() + below.count_ones();
        (self.sum_before(block) + within) as usize
    }

    fn sum_before(&self, mut block: usize) -> u32 {
        let mut sum = 0_u32;
        while block > 0 {
            sum = sum.wrapping_add(self.sums[block]);
            block &= block - 1;
        }
        sum
    }

    fn add(&mut self, block: usize, change: u32) {
        let mut at = block + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = sum.wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    /// The pages, the last touched last.
    pub fn in_order(&self) -> impl Iterator<Item = u64> {
        at_their_places(&self.pages, &self.taken)
    }

    /// All pages to the lowest places, in their order.
    fn move_down(&mut self) {
        let (taken, pages) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.pages));
        self.make_room(self.len() * ROOM);
        for page in at_their_places(&pages, &taken) {
            let place = self.pages.len();
            self.pages.push(page);
            self.places.put(page, place);
            self.taken[place / WORD] |= 1 << (place % WORD);
            self.add(place / BLOCK, 1);
        }
    }

    fn make_room(&mut self, places: usize) {
        let blocks = places.max(FEWEST).div_ceil(BLOCK);
        self.taken = vec![0; blocks * (BLOCK / WORD)];
        self.sums = vec![0; blocks + 1];
        self.pages.reserve_exact(blocks * BLOCK);
    }
}

/// Pages that have not left the place that they were given.
fn at_their_places(pages: &[u64], taken: &[u64]) -> impl Iterator<Item = u64> {
    let is_taken = |place: usize| taken[place / WORD] >> (place % WORD) & 1 == 1;
    pages.iter().enumerate().filter(move |(place, _)| is_taken(*place)).map(|(_, page)| *page)
}

/// The place of each page. Neighbours share a line of the cache: what is touched lies together.
#[derive(Debug, Clone, Default)]
struct Places {
    lines: FxHashMap<u64, u32>,
    slots: Vec<[u32; LINE as usize]>,
    count: usize,
}

impl Places {
    /// Gives the page a place, and tells the one before.
    fn put(&mut self, page: u64, place: usize) -> Option<usize> {
        let fresh = self.slots.len() as u32;
        let line = *self.lines.entry(page / LINE).or_insert(fresh);
        if line == fresh {
            self.slots.push([NOWHERE; LINE as usize]);
        }
        let slot = &mut self.slots[line as usize][(page % LINE) as usize];
        let before = std::mem::replace(slot, place as u32);
        self.count += usize::from(before == NOWHERE);
        (before != NOWHERE).then_some(before as usize)
    }

    /// Takes the page's place away.
    fn take(&mut self, page: u64) -> Option<usize> {
        let line = *self.lines.get(&(page / LINE))?;
        let slot = &mut self.slots[line as usize][(page % LINE) as usize];
        let before = std::mem::replace(slot, NOWHERE);
        self.count -= usize::from(before != NOWHERE);
        (before != NOWHERE).then_some(before as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By searching a list.
    fn naive(pages: &[u64]) -> Vec<Option<u64>> {
        let mut stack: Vec<u64> = Vec::new();
        let mut distances = Vec::new();
        for page in pages {
            let at = stack.iter().rposition(|other| other == page);
            distances.push(at.map(|at| (stack.len() - at) as u64));
            if let Some(at) = at {
                stack.remove(at);
            }
            stack.push(*page);
        }
        distances
    }

    #[test]
    fn distances_count_the_page_itself() {
        let mut stack = Stack::default();
        let told: Vec<_> = [1, 2, 3, 1, 1, 3, 2].into_iter().map(|page| stack.touch(page)).collect();
        assert_eq!(told, [None, None, None, Some(3), Some(1), Some(2), Some(3)]);
        assert_eq!((stack.len(), stack.is_empty()), (3, false));
        assert_eq!(stack.in_order().collect::<Vec<_>>(), [1, 3, 2]);
    }

    #[test]
    fn places_run_out_and_nothing_changes() {
        let pages: Vec<u64> = (0..20_000_u64).map(|i| i.wrapping_mul(i ^ 0x9e37) % 700).collect();
        let mut stack = Stack::default();
        let told: Vec<_> = pages.iter().map(|page| stack.touch(*page)).collect();
        assert_eq!(told, naive(&pages));
    }

    #[test]
    fn a_page_that_is_taken_lies_between_no_others() {
        let mut stack = Stack::default();
        assert!([1, 2, 3].into_iter().all(|page| stack.touch(page).is_none()));
        assert_eq!((stack.take(2), stack.take(2), stack.take(9), stack.len()), (Some(2), None, None, 2));
        assert_eq!((stack.touch(1), stack.touch(2), stack.touch(3)), (Some(2), None, Some(3)));
    }

    proptest::proptest! {
        #[test]
        fn it_is_what_a_list_says(pages in proptest::collection::vec(0u64..40, 0..400)) {
            let mut stack = Stack::default();
            let told: Vec<_> = pages.iter().map(|page| stack.touch(*page)).collect();
            proptest::prop_assert_eq!(told, naive(&pages));
        }
    }
}
