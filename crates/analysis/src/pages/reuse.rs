//! Bounds of reuse distances from windows: which pages were touched in each is known, their order inside is not.
//!
//! A page that was last touched in an earlier window has at least those between it and now that were touched in windows
//! in between (lower), and at most those touched since its window began (upper). The one invariant: lower ≤ exact ≤
//! upper for the first touch of a page in a window, whatever the order was.

use rustc_hash::FxHashMap;

use super::curve::Histogram;
use super::shards::spread;

/// More units than this are followed by a sample of them.
const MOST_UNITS: usize = 1 << 21;

/// Windows so far.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The last window of each unit.
    last: FxHashMap<u64, u32>,
    /// How many units have each window as their last.
    sizes: Vec<u64>,
    threshold: u64,
    lower: Histogram,
    upper: Histogram,
    most: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self::with_room(MOST_UNITS)
    }
}

impl Bounds {
    /// Follows at most `most` units: beyond, half of them are forgotten, by their hash, and distances scaled.
    pub fn with_room(most: usize) -> Self {
        Self {
            last: FxHashMap::default(),
            sizes: Vec::new(),
            threshold: u64::MAX,
            lower: Histogram::default(),
            upper: Histogram::default(),
            most: most.max(1),
        }
    }

    /// The share of units that is followed.
    pub fn share(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    pub fn windows(&self) -> usize {
        self.sizes.len()
    }

    pub fn lower(&self) -> &Histogram {
        &self.lower
    }

    pub fn upper(&self) -> &Histogram {
        &self.upper
    }

    /// The units of one window, each once.
    pub fn push(&mut self, units: impl IntoIterator<Item = u64>) {
        let now = self.sizes.len() as u32;
        let before = suffix_sums(&self.sizes);
        self.sizes.push(0);
        let mut moved = vec![0_u64; now as usize];
        for unit in units {
            if spread(unit) > self.threshold {
                continue;
            }
            match self.last.insert(unit, now) {
                Some(last) if last == now => continue, // named twice
                Some(last) => moved[last as usize] += 1,
                None => {
                    self.lower.add_cold(1);
                    self.upper.add_cold(1);
                }
            }
            self.sizes[now as usize] += 1;
        }
        for (size, moved) in self.sizes.iter_mut().zip(&moved) {
            *size -= moved;
        }
        let after = suffix_sums(&self.sizes);
        for (last, touches) in moved.iter().enumerate().filter(|(_, touches)| **touches > 0) {
            let newer = before.get(last + 1).copied().unwrap_or(0);
            self.lower.add(self.scaled(newer) + 1, *touches);
            self.upper.add(self.scaled(after[last]).max(1), *touches);
        }
        if self.last.len() > self.most {
            self.forget_half();
        }
    }

    pub(super) fn scaled(&self, units: u64) -> u64 {
        (units as f64 / self.share()).round() as u64
    }

    /// What was counted stays: it was counted by a larger sample.
    fn forget_half(&mut self) {
        self.threshold /= 2;
        let (threshold, sizes) = (self.threshold, &mut self.sizes);
        self.last.retain(|unit, last| {
            let keep = spread(*unit) <= threshold;
            if !keep {
                sizes[*last as usize] -= 1;
            }
            keep
        });
        self.last.shrink_to_fit();
        // Later touches are counted by half as many: earlier ones weigh as much as they do.
        for histogram in [&mut self.lower, &mut self.upper] {
            histogram.cold /= 2;
            histogram.counts.retain(|_, touches| {
                *touches /= 2;
                *touches > 0
            });
        }
    }
}

/// `sums[i]` = sizes from `i` on.
fn suffix_sums(sizes: &[u64]) -> Vec<u64> {
    let mut sums = sizes.to_vec();
    for at in (1..sums.len()).rev() {
        sums[at - 1] += sums[at];
    }
    sums
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exactly one
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::pages::order::Stack;

    #[test]
    fn the_vector_of_the_seed() {
        let mut bounds = Bounds::default();
        for window in [&[1, 2, 3, 4][..], &[1, 5], &[1, 2], &[2, 4, 5, 6]] {
            bounds.push(window.iter().copied());
        }
        assert_eq!((bounds.upper().cold, bounds.lower().cold), (6, 6));
        assert_eq!(bounds.upper().counts, BTreeMap::from([(3, 1), (5, 4), (6, 1)]));
        assert_eq!(bounds.lower().counts, BTreeMap::from([(1, 3), (3, 2), (4, 1)]));
        assert_eq!((bounds.windows(), bounds.share()), (4, 1.0));
    }

    #[test]
    fn a_unit_that_is_named_twice_counts_once() {
        let mut bounds = Bounds::default();
        bounds.push([7, 7, 7]);
        bounds.push([7, 7]);
        assert_eq!(bounds.upper(), &Histogram { cold: 1, counts: BTreeMap::from([(1, 1)]) });
    }

    #[test]
    fn a_sample_tells_about_the_same() {
        let (mut all, mut some) = (Bounds::with_room(1 << 20), Bounds::with_room(4_000));
        for window in 0..20_u64 {
            let units = move || (0..30_000_u64).filter(move |unit| spread(unit ^ window).is_multiple_of(3));
            all.push(units());
            some.push(units());
        }
        assert!(some.share() < 0.2 && all.share() == 1.0);
        for units in [5_000, 10_000, 20_000, 29_000] {
            let (one, other) = (all.upper().miss_ratio(units), some.upper().miss_ratio(units));
            assert!((one - other).abs() < 0.05, "{units}: {one} {other}");
        }
    }

    type Windows = Vec<Vec<u64>>;

    /// Distances of the first touches of each window, one by one; `None` is cold.
    fn exact(windows: &Windows) -> Vec<Option<u64>> {
        let mut stack = Stack::default();
        let mut distances = Vec::new();
        for window in windows {
            let mut seen = BTreeSet::new();
            for page in window {
                let distance = stack.touch(*page);
                if seen.insert(*page) {
                    distances.push(distance);
                }
            }
        }
        distances
    }

    /// The same by bounds: (lower, upper) of each touch, in the same order.
    fn bounded(windows: &Windows) -> Vec<Option<(u64, u64)>> {
        let mut told = Vec::new();
        for (number, window) in windows.iter().enumerate() {
            let mut seen = BTreeSet::new();
            for page in window.iter().filter(|page| seen.insert(**page)) {
                told.push(bounds_of(windows, number, *page));
            }
        }
        told
    }

    /// What a `Bounds` says of this one touch.
    fn bounds_of(windows: &Windows, number: usize, page: u64) -> Option<(u64, u64)> {
        let last = windows[..number].iter().rposition(|window| window.contains(&page))?;
        let pages = |windows: &[Vec<u64>]| windows.iter().flatten().copied().collect::<BTreeSet<u64>>();
        let lower = 1 + pages(&windows[last + 1..number]).len() as u64;
        Some((lower, pages(&windows[last..=number]).len() as u64))
    }

    proptest::proptest! {
        #[test]
        fn lower_is_below_exact_is_below_upper(
            windows in proptest::collection::vec(proptest::collection::vec(0u64..30, 0..40), 0..12)
        ) {
            let mut bounds = Bounds::default();
            for window in &windows {
                bounds.push(window.iter().copied());
            }
            let (mut lower, mut upper) = (Histogram::default(), Histogram::default());
            for (exact, bounded) in exact(&windows).into_iter().zip(bounded(&windows)) {
                match (exact, bounded) {
                    (Some(exact), Some((low, high))) => {
                        proptest::prop_assert!(low <= exact && exact <= high, "{} {} {}", low, exact, high);
                        lower.add(low, 1);
                        upper.add(high, 1);
                    }
                    (None, None) => {
                        lower.add_cold(1);
                        upper.add_cold(1);
                    }
                    other => proptest::prop_assert!(false, "{:?}", other),
                }
            }
            proptest::prop_assert_eq!(bounds.lower(), &lower);
            proptest::prop_assert_eq!(bounds.upper(), &upper);
        }
    }
}
