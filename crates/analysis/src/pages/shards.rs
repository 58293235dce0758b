//! Reuse distances of a sample of the pages, for traces that are too long to be followed whole.
//!
//! A page is followed if its hash is below a threshold, whatever happens to it: its touches are all seen or none. Among
//! the followed fewer pages lie between two touches by the sampled share, so their number is divided by that; the difference
//! between the touches that were expected and seen is made up at the shortest distances (Waldspurger and others, FAST 2015).
//! Where the followed become more than there is room for, half of them are forgotten, and each touch counts twice from then on.

use super::curve::Histogram;
use super::order::Stack;

/// Followed touches of a long trace.
#[derive(Debug, Clone)]
pub struct Shards {
    stack: Stack,
    most: usize,
    /// All ones to follow the pages with the highest hashes.
    flip: u64,
    threshold: u64,
    /// Of the pages, at the beginning.
    first_share: f64,
    /// What one touch counts now, in touches of the beginning's sample.
    weight: u64,
    touches: u64,
    followed: u64,
    histogram: Histogram,
}

impl Shards {
    /// `share` of the pages, above 0 and at most 1.
    pub fn new(share: f64) -> Self {
        let first_share = if share > 0.0 { share.min(1.0) } else { 1.0 };
        Self {
            stack: Stack::default(),
            most: usize::MAX,
            flip: 0,
            threshold: (first_share * u64::MAX as f64) as u64,
            first_share,
            weight: 1,
            touches: 0,
            followed: 0,
            histogram: Histogram::default(),
        }
    }

    /// Two samples that have no page in common, and all pages together; each follows at most `most`.
    pub(super) fn halves(most: usize) -> [Self; 2] {
        let half = || Self { most: most.max(1), threshold: u64::MAX / 2, ..Self::new(0.5) };
        [half(), Self { flip: u64::MAX, ..half() }]
    }

    pub fn touch(&mut self, page: u64) {
        if self.hears(page) {
            let distance = self.stack.touch(page);
            self.count(distance);
            self.make_room();
        }
    }

    /// Counts a touch of a page, which is then somewhere else until it is put back.
    pub(super) fn take(&mut self, page: u64) {
        if self.hears(page) {
            let distance = self.stack.take(page);
            self.count(distance);
        }
    }

    /// Puts a page on top, without counting.
    pub(super) fn put(&mut self, page: u64) {
        if self.follows(page) {
            self.stack.touch(page);
            self.make_room();
        }
    }

    fn hears(&mut self, page: u64) -> bool {
        self.touches += 1;
        self.follows(page)
    }

    fn count(&mut self, distance: Option<u64>) {
        self.followed += self.weight;
        match distance {
            Some(distance) => self.histogram.add(self.scaled(distance), self.weight),
            None => self.histogram.add_cold(self.weight),
        }
    }

    fn follows(&self, page: u64) -> bool {
        spread(page) ^ self.flip <= self.threshold
    }

    /// The page itself, and those between.
    fn scaled(&self, distance: u64) -> u64 {
        (((distance - 1) as f64 / self.share()).round() as u64).saturating_add(1)
    }

    fn make_room(&mut self) {
        while self.stack.len() > self.most && self.threshold > 0 {
            self.threshold /= 2;
            self.weight *= 2;
            let mut kept = Stack::default();
            for page in self.stack.in_order().filter(|page| self.follows(*page)) {
                kept.touch(page);
            }
            self.stack = kept;
        }
    }

    /// The share of the pages that is followed now.
    pub fn share(&self) -> f64 {
        self.first_share / self.weight as f64
    }

    /// How many pages are followed now.
    pub(super) fn followed(&self) -> usize {
        self.stack.len()
    }

    /// How many pages there are, estimated.
    pub fn pages(&self) -> u64 {
        (self.stack.len() as f64 / self.share()).round() as u64
    }

    pub fn touches(&self) -> u64 {
        self.touches
    }

    /// As if every touch had been followed: in touches of the sample.
    pub fn finish(mut self) -> Histogram {
        let expected = (self.touches as f64 * self.first_share).round() as u64;
        self.histogram.correct(expected as i64 - self.followed as i64);
        self.histogram
    }
}

/// Neighbouring pages must not be sampled together (the finalizer of splitmix64).
pub(super) fn spread(page: u64) -> u64 {
    let mut mixed = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Touches of a skewed kind: half of them in a sixteenth of the pages.
    fn trace(pages: u64, touches: u64) -> impl Iterator<Item = u64> {
        (0..touches).map(move |i| {
            let random = spread(i.wrapping_mul(3) ^ 0xabcd);
            let range = if random & 1 == 0 { pages / 16 } else { pages };
            (random >> 8) % range
        })
    }

    fn exact(touches: impl Iterator<Item = u64>) -> Histogram {
        let (mut stack, mut histogram) = (Stack::default(), Histogram::default());
        for page in touches {
            match stack.touch(page) {
                Some(distance) => histogram.add(distance, 1),
                None => histogram.add_cold(1),
            }
        }
        histogram
    }

    #[test]
    fn a_tenth_of_the_pages_tells_the_same_curve() {
        let (pages, touches) = (50_000, 600_000);
        let exact = exact(trace(pages, touches));
        let mut shards = Shards::new(0.1);
        trace(pages, touches).for_each(|page| shards.touch(page));
        assert!(shards.pages().abs_diff(pages) < pages / 20);
        let sampled = shards.finish();
        let sizes: Vec<u64> = (1..=100).map(|i| i * pages / 100).collect();
        let error = |size: &u64| (exact.miss_ratio(*size) - sampled.miss_ratio(*size)).abs();
        let mean = sizes.iter().map(error).sum::<f64>() / sizes.len() as f64;
        assert!(mean <= 0.01, "mean error of the miss ratio {mean}");
    }

    #[test]
    fn all_of_the_pages_is_the_exact_curve() {
        let mut shards = Shards::new(1.0);
        trace(100, 1_000).for_each(|page| shards.touch(page));
        assert_eq!(shards.finish(), exact(trace(100, 1_000)));
    }
}
