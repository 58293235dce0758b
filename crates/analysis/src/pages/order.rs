//! Exact reuse distances: how many different pages were touched since a page was touched last, itself included.
//!
//! Each page has a place in the order of last touches; a tree of partial sums counts the places behind it. Places are
//! given out in order and never again, so the tree is rebuilt, without holes, when they run out. The one invariant:
//! the sum over all places is the number of different pages.

use rustc_hash::FxHashMap;

const FEWEST: usize = 1 << 10;

/// A stack of pages, the last touched on top.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The place of each page.
    places: FxHashMap<u64, u32>,
    /// Partial sums (a Fenwick tree): `sums[i]` counts the places that end at `i` (from 1).
    sums: Vec<u32>,
    /// The place that is given out next.
    next: u32,
}

impl Default for Stack {
    fn default() -> Self {
        Self { places: FxHashMap::default(), sums: vec![0; FEWEST + 1], next: 1 }
    }
}

impl Stack {
    /// Different pages so far.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The distance of this touch, from 1; none for the first of its page.
    pub fn touch(&mut self, page: u64) -> Option<u64> {
        if self.next as usize >= self.sums.len() {
            self.renumber();
        }
        let place = self.next;
        self.next += 1;
        let before = self.places.insert(page, place);
        let distance = before.map(|before| {
            let distance = self.places.len() as u32 - self.up_to(before - 1);
            self.add(before, u32::MAX); // minus one
            u64::from(distance)
        });
        self.add(place, 1);
        distance
    }

    fn up_to(&self, mut place: u32) -> u32 {
        let mut sum = 0_u32;
        while place > 0 {
            sum = sum.wrapping_add(self.sums[place as usize]);
            place &= place - 1;
        }
        sum
    }

    fn add(&mut self, mut place: u32, change: u32) {
        while let Some(sum) = self.sums.get_mut(place as usize) {
            *sum = sum.wrapping_add(change);
            place += place & place.wrapping_neg();
        }
    }

    /// Places from 1 without holes, and as many again.
    fn renumber(&mut self) {
        let mut order: Vec<(u32, u64)> = self.places.iter().map(|(page, place)| (*place, *page)).collect();
        order.sort_unstable();
        let room = (order.len() * 2).next_power_of_two().max(FEWEST);
        self.sums = vec![0; room + 1];
        for ((_, page), place) in order.iter().zip(1..) {
            self.places.insert(*page, place);
            self.sums[place as usize] = 1;
        }
        for place in 1..=room {
            let above = place + (place & place.wrapping_neg());
            if above <= room {
                self.sums[above] += self.sums[place];
            }
        }
        self.next = order.len() as u32 + 1;
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
    }

    #[test]
    fn places_run_out_and_nothing_changes() {
        let pages: Vec<u64> = (0..20_000_u64).map(|i| i.wrapping_mul(i ^ 0x9e37) % 700).collect();
        let mut stack = Stack::default();
        let told: Vec<_> = pages.iter().map(|page| stack.touch(*page)).collect();
        assert_eq!(told, naive(&pages));
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
