//! Reuse distances of a sample of the pages, for traces that are too long to be followed whole.
//!
//! A page is followed if its hash is below a threshold, whatever happens to it: its touches are all seen or none. Among
//! the followed a distance is shorter by the sampled share, so it is divided by that; the difference between the touches
//! that were expected and seen is added at the shortest distance (Waldspurger and others, FAST 2015).

use super::curve::Histogram;
use super::order::Stack;

/// Followed touches of a long trace.
#[derive(Debug, Clone)]
pub struct Shards {
    stack: Stack,
    threshold: u64,
    share: f64,
    touches: u64,
    followed: u64,
    histogram: Histogram,
}

impl Shards {
    /// `share` of the pages, above 0 and at most 1.
    pub fn new(share: f64) -> Self {
        let share = if share > 0.0 { share.min(1.0) } else { 1.0 };
        let threshold = (share * u64::MAX as f64) as u64;
        let histogram = Histogram::default();
        Self { stack: Stack::default(), threshold, share, touches: 0, followed: 0, histogram }
    }

    pub fn touch(&mut self, page: u64) {
        self.touches += 1;
        if spread(page) > self.threshold {
            return;
        }
        self.followed += 1;
        match self.stack.touch(page) {
            Some(distance) => self.histogram.add(((distance as f64 / self.share).round() as u64).max(1), 1),
            None => self.histogram.add_cold(1),
        }
    }

    /// How many pages there are, estimated.
    pub fn pages(&self) -> u64 {
        (self.stack.len() as f64 / self.share).round() as u64
    }

    pub fn touches(&self) -> u64 {
        self.touches
    }

    /// As if every touch had been followed: in touches of the sample.
    pub fn finish(mut self) -> Histogram {
        let expected = (self.touches as f64 * self.share).round() as u64;
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
