//! Reuse distances of an address trace of any length, in bounded memory: exact while it touches few different units, of a
//! sample beyond.
//!
//! The last units are in a list of their own, so that short distances, which are most, are always exact and quickly found. A
//! unit that leaves it comes to the top of those below. When these become too many, they are parted by their hashes into two
//! samples, each with its own stack, halved whenever it has no room. Both estimate the same, each from other units, so that
//! their difference tells how far off they are. The one invariant: as long as there was room, every number is exact.

use nilometer_trace::pages::{Accesses, Distances};

use super::curve::Histogram;
use super::order::Stack;
use super::shards::Shards;

/// Distances up to this are exact in any case.
const NEAR: usize = 64;

/// Touches of a trace, in their order.
#[derive(Debug, Clone)]
pub struct Touches {
    /// A unit is so large: 2 to the power of this.
    shift: u32,
    most: usize,
    count: u64,
    crossing: u64,
    near: Near,
    far: Far,
    /// Instead of `far`, from when there was no room.
    halves: Option<[Shards; 2]>,
}

impl Touches {
    /// Units of a power of two of bytes; up to about `most` different ones are followed.
    pub fn new(unit_bytes: u64, most: usize) -> Self {
        let shift = unit_bytes.max(1).ilog2();
        let (near, far) = (Near::default(), Far::default());
        Self { shift, most: most.max(2), count: 0, crossing: 0, near, far, halves: None }
    }

    /// An access touches every unit in which some of it lies.
    pub fn access(&mut self, start: u64, bytes: u64) {
        let first = start >> self.shift;
        let last = start.saturating_add(bytes.saturating_sub(1)) >> self.shift;
        self.crossing += u64::from(last > first);
        for unit in first..=last {
            self.touch(unit);
        }
    }

    fn touch(&mut self, unit: u64) {
        self.count += 1;
        if self.near.touch(unit) {
            return;
        }
        let left = self.near.push(unit);
        if let Some(halves) = &mut self.halves {
            for half in halves {
                half.take(unit);
                if let Some(left) = left {
                    half.put(left);
                }
            }
        } else {
            self.far.take(unit);
            if let Some(left) = left {
                self.put(left);
            }
        }
    }

    fn put(&mut self, unit: u64) {
        self.far.stack.touch(unit);
        if self.far.stack.len() > self.most {
            self.part();
        }
    }

    /// From here on a sample is followed; what was counted stays.
    fn part(&mut self) {
        let stack = std::mem::take(&mut self.far.stack);
        let mut halves = Shards::halves(self.most / 2);
        for unit in stack.in_order() {
            for half in &mut halves {
                half.put(unit);
            }
        }
        self.halves = Some(halves);
    }

    /// Units that are followed now.
    pub fn followed(&self) -> usize {
        let sampled = self.halves.iter().flatten().map(Shards::followed).sum::<usize>();
        self.near.units.len() + self.far.stack.len() + sampled
    }

    pub fn finish(self) -> Distances {
        let followed = self.followed() as u64;
        let share = self.halves.as_ref().map_or(1.0, |halves| halves.iter().map(Shards::share).sum());
        let mut known = Histogram { cold: self.far.cold, ..Histogram::default() };
        for (distance, touches) in (1..).zip(self.near.counts.into_iter().chain(self.far.counts)) {
            known.add(distance, touches);
        }
        let halves = self.halves.map(|halves| halves.map(Shards::finish));
        let error = halves.as_ref().map(|[one, other]| difference(&known, one, other) / 2.0);
        for half in halves.iter().flatten() {
            add(&mut known, half, 1);
        }
        Distances {
            unit_bytes: 1 << self.shift,
            touches: self.count,
            cold: known.cold,
            counts: known.counts.into_iter().collect(),
            followed,
            share,
            error,
            accesses: Accesses { crossing: self.crossing, ..Accesses::default() },
        }
    }
}

/// The units that were touched last, the very last first.
#[derive(Debug, Clone)]
struct Near {
    units: Vec<u64>,
    /// Touches by distance, from 1.
    counts: [u64; NEAR],
}

impl Default for Near {
    fn default() -> Self {
        Self { units: Vec::with_capacity(NEAR), counts: [0; NEAR] }
    }
}

impl Near {
    /// Whether it is here, and then counted.
    fn touch(&mut self, unit: u64) -> bool {
        let Some(at) = self.units.iter().position(|other| *other == unit) else { return false };
        self.counts[at] += 1;
        self.units[..=at].rotate_right(1);
        true
    }

    /// One that is not here; the one that leaves for it.
    fn push(&mut self, unit: u64) -> Option<u64> {
        let left = if self.units.len() == NEAR { self.units.pop() } else { None };
        self.units.insert(0, unit);
        left
    }
}

/// All other units, while they are few.
#[derive(Debug, Clone, Default)]
struct Far {
    stack: Stack,
    cold: u64,
    /// Touches by distance, from the first that is not near.
    counts: Vec<u64>,
}

impl Far {
    fn take(&mut self, unit: u64) {
        let Some(distance) = self.stack.take(unit) else {
            self.cold += 1;
            return;
        };
        let distance = distance as usize;
        if distance > self.counts.len() {
            self.counts.resize(distance.next_power_of_two(), 0);
        }
        self.counts[distance - 1] += 1;
    }
}

/// Each touch of a sample as so many.
fn add(to: &mut Histogram, sample: &Histogram, weight: u64) {
    to.add_cold(sample.cold * weight);
    for (distance, touches) in &sample.counts {
        to.add(distance.saturating_add(NEAR as u64), touches * weight);
    }
}

/// How far apart the two samples are, where they are farthest: the one stands for as many as both do.
fn difference(known: &Histogram, one: &Histogram, other: &Histogram) -> f64 {
    let curve = |half: &Histogram| {
        let mut whole = known.clone();
        add(&mut whole, half, 2);
        whole
    };
    let (one, other) = (curve(one), curve(other));
    let sizes = one.doublings().chain(other.doublings());
    sizes.map(|units| (one.miss_ratio(units) - other.miss_ratio(units)).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exactly one
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::pages::shards::spread;

    const PAGE: u64 = 4096;

    /// By looking back for the last touch of the same page, and counting what lies between.
    fn naive(accesses: &[(u64, u64)], unit: u64) -> (u64, BTreeMap<u64, u64>) {
        let units: Vec<u64> =
            accesses.iter().flat_map(|(start, bytes)| start / unit..=(start + bytes - 1) / unit).collect();
        let (mut cold, mut counts) = (0, BTreeMap::new());
        for (at, unit) in units.iter().enumerate() {
            match units[..at].iter().rposition(|other| other == unit) {
                Some(before) => {
                    let between: BTreeSet<u64> = units[before..at].iter().copied().collect();
                    *counts.entry(between.len() as u64).or_default() += 1;
                }
                None => cold += 1,
            }
        }
        (cold, counts)
    }

    fn told(accesses: &[(u64, u64)], unit: u64, most: usize) -> Distances {
        let mut touches = Touches::new(unit, most);
        for (start, bytes) in accesses {
            touches.access(*start, *bytes);
            assert!(touches.followed() <= most + NEAR, "{} units are followed", touches.followed());
        }
        touches.finish()
    }

    fn curve(told: &Distances) -> Histogram {
        Histogram { cold: told.cold, counts: told.counts.iter().copied().collect() }
    }

    #[test]
    fn an_access_over_a_border_touches_both_sides() {
        let told = told(&[(0xffc, 8), (0xfff, 1), (0x1000, 1), (0x0, PAGE + 1)], PAGE, 100);
        // 0 1 | 0 | 1 | 0 1
        assert_eq!((told.touches, told.cold, told.accesses.crossing), (6, 2, 2));
        assert_eq!(told.counts, [(2, 4)]);
        assert_eq!((told.share, told.error, told.followed), (1.0, None, 2));
    }

    #[test]
    fn the_highest_addresses_have_their_units() {
        let told = told(&[(u64::MAX - 1, 2), (u64::MAX, 1)], 64, 100);
        assert_eq!((told.cold, told.counts), (1, vec![(1, 1)]));
    }

    /// Half of the accesses in a sixteenth of the pages, some in a single one.
    fn skewed(pages: u64, accesses: u64) -> Vec<(u64, u64)> {
        let page = |i: u64| {
            let random = spread(i ^ 0xabcd);
            match random & 7 {
                0 => 0,
                1..=4 => (random >> 8) % (pages / 16),
                _ => (random >> 8) % pages,
            }
        };
        (0..accesses).map(|i| (page(i) * PAGE, 8)).collect()
    }

    /// A loop over all pages, so that there is one cliff.
    fn laps(pages: u64, accesses: u64) -> Vec<(u64, u64)> {
        (0..accesses).map(|i| (i % pages * PAGE, 8)).collect()
    }

    /// Most accesses go to two pages in turn, as to a stack and an array.
    fn hot(pages: u64, accesses: u64) -> Vec<(u64, u64)> {
        let page = |i: u64| if i.is_multiple_of(4) { 2 + spread(i) % pages } else { i % 2 };
        (0..accesses).map(|i| (page(i) * PAGE, 8)).collect()
    }

    #[test]
    fn beyond_the_room_a_sample_tells_the_same_curve_and_how_far_it_is_off() {
        let (pages, accesses) = (20_000, 150_000);
        let traces = [
            ("skewed", skewed(pages, accesses)),
            ("laps", laps(pages, accesses)),
            ("hot", hot(pages, accesses)),
        ];
        for (name, trace) in traces {
            let exact = told(&trace, PAGE, 1 << 20);
            assert_eq!((exact.share, exact.error), (1.0, None));
            for (most, bound) in [(10_000, 0.01), (2_000, 0.05)] {
                let sampled = told(&trace, PAGE, most);
                assert!(sampled.share < 1.0 && sampled.share > 0.01, "{name}: {}", sampled.share);
                assert_eq!((sampled.touches, sampled.accesses), (exact.touches, exact.accesses));
                let off = sampled.cold.abs_diff(exact.cold) as f64 / exact.cold as f64;
                assert!(off < 0.05, "{name}, {most}: {off} of the pages");
                let (error, said) = (farthest(&exact, &sampled), sampled.error.unwrap());
                assert!(error < bound, "{name}, {most}: {error}");
                assert!(error <= 4.0 * said + 0.002, "{name}, {most}: {error}, and {said} was told");
            }
        }
    }

    fn farthest(one: &Distances, other: &Distances) -> f64 {
        let (one, other) = (curve(one), curve(other));
        let sizes = (0..=16).map(|doublings| 1_u64 << doublings);
        sizes.map(|size| (one.miss_ratio(size) - other.miss_ratio(size)).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn short_distances_are_exact_beyond_the_room_too() {
        let trace = hot(20_000, 100_000);
        let near = |most: usize| -> Vec<(u64, u64)> {
            let counts = told(&trace, PAGE, most).counts;
            counts.into_iter().filter(|(distance, _)| *distance <= NEAR as u64).collect()
        };
        let exact = near(1 << 20);
        assert!(exact.iter().map(|(_, touches)| touches).sum::<u64>() > 70_000, "{exact:?}");
        assert_eq!(near(500), exact);
    }

    proptest::proptest! {
        #[test]
        fn it_is_what_looking_back_says(
            accesses in proptest::collection::vec((0u64..9_000, 1u64..300), 0..300),
            doublings in 4u32..10,
        ) {
            let unit = 1 << doublings;
            let told = told(&accesses, unit, 1 << 20);
            let (cold, counts) = naive(&accesses, unit);
            proptest::prop_assert_eq!((told.cold, told.counts), (cold, counts.into_iter().collect::<Vec<_>>()));
            proptest::prop_assert_eq!((told.share, told.followed), (1.0, cold));
        }
    }
}
