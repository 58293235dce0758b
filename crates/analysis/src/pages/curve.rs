//! Distances as a histogram, its cumulated curve, and what a smaller memory would cost.

use std::collections::BTreeMap;

use serde::Serialize;

/// Points of a curve that are told.
const MOST_POINTS: usize = 200;

/// Touches by distance, those of pages never seen before apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    pub cold: u64,
    pub counts: BTreeMap<u64, u64>,
}

/// A point of a curve: with so much memory, this share of the touches would miss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Miss {
    pub resident_bytes: u64,
    pub miss_ratio: f64,
}

/// A point of the cumulated histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    pub distance_bytes: u64,
    /// Touches of up to this distance, of all touches.
    pub share: f64,
}

impl Histogram {
    pub fn add(&mut self, distance: u64, touches: u64) {
        if touches > 0 {
            *self.counts.entry(distance).or_default() += touches;
        }
    }

    pub fn add_cold(&mut self, touches: u64) {
        self.cold += touches;
    }

    /// Moves the lowest bin by what sampling saw too much or too little.
    pub(super) fn correct(&mut self, missing: i64) {
        let lowest = self.counts.entry(1).or_default();
        *lowest = lowest.saturating_add_signed(missing);
        if *lowest == 0 {
            self.counts.remove(&1);
        }
    }

    pub fn warm(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn touches(&self) -> u64 {
        self.cold + self.warm()
    }

    pub fn cold_share(&self) -> f64 {
        share(self.cold, self.touches())
    }

    /// The share of all touches that would miss in a memory of so many units, least recently used out first.
    pub fn miss_ratio(&self, units: u64) -> f64 {
        let hits: u64 = self.counts.range(..=units).map(|(_, touches)| touches).sum();
        share(self.touches() - hits, self.touches())
    }

    /// The smallest distance up to which `part` of the warm touches lie.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = (self.warm() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (distance, touches) in &self.counts {
            seen += touches;
            if seen >= wanted {
                return Some(*distance);
            }
        }
        None
    }

    /// The cumulated histogram, thinned to some hundred points; the last is always there.
    pub fn cdf(&self, unit_bytes: u64) -> Vec<Point> {
        let all = self.touches();
        let step = self.counts.len().div_ceil(MOST_POINTS).max(1);
        let mut seen = 0;
        let mut points = Vec::new();
        for (number, (distance, touches)) in (1..).zip(&self.counts) {
            seen += touches;
            if number % step == 0 || number == self.counts.len() {
                let distance_bytes = distance.saturating_mul(unit_bytes);
                points.push(Point { distance_bytes, share: share(seen, all) });
            }
        }
        points
    }

    /// The curve at powers of two of the unit, up to the first size at which only cold touches miss.
    pub fn misses(&self, unit_bytes: u64) -> Vec<Miss> {
        let Some(deepest) = self.counts.keys().next_back().copied() else { return Vec::new() };
        let sizes =
            std::iter::successors(Some(1_u64), |units| units.checked_mul(2).filter(|_| *units < deepest));
        let miss = |units: u64| Miss {
            resident_bytes: units.saturating_mul(unit_bytes),
            miss_ratio: self.miss_ratio(units),
        };
        sizes.map(miss).collect()
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // ratios of small whole numbers
mod tests {
    use super::*;

    fn histogram() -> Histogram {
        Histogram { cold: 6, counts: BTreeMap::from([(3, 1), (5, 4), (6, 1)]) }
    }

    #[test]
    fn the_last_jump_is_the_cold_share() {
        let histogram = histogram();
        assert_eq!((histogram.touches(), histogram.cold_share()), (12, 0.5));
        let cdf = histogram.cdf(4096);
        assert_eq!(cdf.last().map(|point| (point.distance_bytes, point.share)), Some((6 * 4096, 0.5)));
        assert!(cdf.is_sorted_by(|a, b| a.share <= b.share && a.distance_bytes < b.distance_bytes));
    }

    #[test]
    fn a_larger_memory_never_misses_more() {
        let histogram = histogram();
        assert_eq!(histogram.miss_ratio(0), 1.0);
        assert_eq!((histogram.miss_ratio(3), histogram.miss_ratio(5)), (11.0 / 12.0, 7.0 / 12.0));
        assert_eq!(histogram.miss_ratio(6), 0.5);
        let misses = histogram.misses(1);
        assert_eq!(misses.iter().map(|miss| miss.resident_bytes).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert!(misses.is_sorted_by(|a, b| a.miss_ratio >= b.miss_ratio));
        assert_eq!((histogram.quantile(0.1), histogram.quantile(0.5)), (Some(3), Some(5)));
        assert_eq!((Histogram::default().quantile(0.5), Histogram::default().misses(1)), (None, vec![]));
    }
}
