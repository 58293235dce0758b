//! Distances as a histogram, its cumulated curve, and what a smaller memory would cost.

use std::collections::BTreeMap;

use serde::Serialize;

/// Points of a curve that are told, whatever they are.
const MOST_POINTS: usize = 200;
/// Of more, so many in each doubling of the distance.
const PER_DOUBLING: f64 = 10.0;

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

/// Touches whose distance is up to this, and more than half of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    pub up_to_bytes: u64,
    pub touches: u64,
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
        self.cold.saturating_add(self.warm())
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

    /// The cumulated histogram. Where it has many distances, those that lie close together are one point, at the last of them:
    /// what is told of a distance is always true, and short ones are all there.
    pub fn cdf(&self, unit_bytes: u64) -> Vec<Point> {
        let (all, thinned) = (self.touches(), self.counts.len() > MOST_POINTS);
        let (mut seen, mut stretch) = (0, None);
        let mut points: Vec<Point> = Vec::new();
        for (distance, touches) in &self.counts {
            seen += touches;
            let before = std::mem::replace(&mut stretch, thinned.then(|| stretch_of(*distance)));
            if stretch.is_some() && stretch == before {
                points.pop();
            }
            let distance_bytes = distance.saturating_mul(unit_bytes);
            points.push(Point { distance_bytes, share: share(seen, all) });
        }
        points
    }

    /// Powers of two, up to the first below which all distances lie.
    pub(super) fn doublings(&self) -> impl Iterator<Item = u64> + use<> {
        let deepest = self.counts.keys().next_back().copied().unwrap_or(0);
        let next = move |units: &u64| units.checked_mul(2).filter(|_| *units < deepest);
        std::iter::successors((deepest > 0).then_some(1), next)
    }

    /// Touches by distance, each bin twice as wide as the one before.
    pub fn bins(&self, unit_bytes: u64) -> Vec<Bin> {
        let bin = |units: u64| Bin {
            up_to_bytes: units.saturating_mul(unit_bytes),
            touches: self.counts.range(units / 2 + 1..=units).map(|(_, touches)| touches).sum(),
        };
        self.doublings().map(bin).collect()
    }

    /// The curve at powers of two of the unit, up to the first size at which only cold touches miss.
    pub fn misses(&self, unit_bytes: u64) -> Vec<Miss> {
        let miss = |units: u64| Miss {
            resident_bytes: units.saturating_mul(unit_bytes),
            miss_ratio: self.miss_ratio(units),
        };
        self.doublings().map(miss).collect()
    }
}

/// Distances of one stretch cannot be told apart on an axis of doublings.
fn stretch_of(distance: u64) -> u64 {
    ((distance as f64).log2() * PER_DOUBLING) as u64
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
    fn a_thinned_curve_is_true_at_its_points_and_has_them_everywhere() {
        let histogram = Histogram { cold: 0, counts: (1..=100_000).map(|distance| (distance, 1)).collect() };
        let cdf = histogram.cdf(1);
        assert!(cdf.len() < 200, "{}", cdf.len());
        assert!(cdf.iter().all(|point| point.share == point.distance_bytes as f64 / 100_000.0));
        let near: Vec<_> = cdf.iter().map(|point| point.distance_bytes).take(8).collect();
        assert_eq!(near, [1, 2, 3, 4, 5, 6, 7, 8]);
        let apart = |pair: &[Point]| pair[1].distance_bytes as f64 / pair[0].distance_bytes as f64;
        assert!(cdf[8..].windows(2).all(|pair| apart(pair) < 1.2), "{cdf:?}");
        assert_eq!(cdf.last().map(|point| point.share), Some(1.0));
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
        let bins: Vec<_> = histogram.bins(10).iter().map(|bin| (bin.up_to_bytes, bin.touches)).collect();
        assert_eq!(bins, [(10, 0), (20, 0), (40, 1), (80, 5)]);
        assert_eq!((Histogram::default().quantile(0.5), Histogram::default().misses(1)), (None, vec![]));
    }
}
