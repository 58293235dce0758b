//! What the sites of one stack, line, function or library add up to.

use nilometer_trace::allocs::{Amount, Site, Source};

use super::doubt;
use super::model::{Allocator, Amounts, What};
use crate::stats;

/// The part of the steps that is taken for warm-up: a quarter.
const WARM_UP: usize = 4;

/// Sums of several sites.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sum {
    peak: Amount,
    live: Amount,
    total: Amount,
    temporary_bytes: u64,
    temporary_count: u64,
    /// Live bytes at each step; empty where nothing changed at steps.
    series: Vec<f64>,
    pub cut: bool,
    /// Of all of them, where they are of one stack.
    pub allocator: Allocator,
}

impl Sum {
    pub fn of(source: Source) -> Self {
        Self { allocator: source.into(), ..Self::default() }
    }

    pub fn add(&mut self, site: &Site, series: Option<&[u64]>) {
        add(&mut self.peak, &site.peak);
        add(&mut self.live, &site.live);
        add(&mut self.total, &site.total);
        self.temporary_bytes = self.temporary_bytes.saturating_add(site.temporary_bytes);
        self.temporary_count = self.temporary_count.saturating_add(site.temporary_count);
        if let Some(series) = series {
            self.add_series(series.iter().map(|bytes| *bytes as f64));
        }
    }

    pub fn merge(&mut self, other: &Self) {
        add(&mut self.peak, &other.peak);
        add(&mut self.live, &other.live);
        add(&mut self.total, &other.total);
        self.temporary_bytes = self.temporary_bytes.saturating_add(other.temporary_bytes);
        self.temporary_count = self.temporary_count.saturating_add(other.temporary_count);
        self.add_series(other.series.iter().copied());
        self.cut |= other.cut;
    }

    fn add_series(&mut self, series: impl ExactSizeIterator<Item = f64>) {
        if self.series.len() < series.len() {
            self.series.resize(series.len(), 0.0);
        }
        for (sum, bytes) in self.series.iter_mut().zip(series) {
            *sum += bytes;
        }
    }

    /// Live bytes at each step; empty where there was nothing at any.
    pub fn series(&self) -> &[f64] {
        &self.series
    }

    /// The figure that was asked for, and how many blocks it is of.
    pub fn value(&self, what: What, steps: &[f64]) -> (f64, u64) {
        match what {
            What::Peak => (self.peak.bytes as f64, self.peak.count),
            What::Live => (self.live.bytes as f64, self.live.count),
            What::Cumulative => (self.total.bytes as f64, self.total.count),
            What::Temporary => (self.temporary_bytes as f64, self.temporary_count),
            What::Growth => (self.growth(steps).unwrap_or(0.0), self.live.count),
        }
    }

    fn asked(&self, what: What) -> Option<&Amount> {
        match what {
            What::Peak => Some(&self.peak),
            What::Live => Some(&self.live),
            What::Cumulative => Some(&self.total),
            What::Temporary | What::Growth => None,
        }
    }

    /// Of the figure that was asked for; 0 where all was seen.
    pub fn variance(&self, what: What) -> f64 {
        self.asked(what).map_or(0.0, |amount| amount.variance as f64)
    }

    /// More live per step, after the warm-up; `None` without two steps.
    pub fn growth(&self, steps: &[f64]) -> Option<f64> {
        match self.series.as_slice() {
            [] => (steps.len() >= 2).then_some(0.0),
            series => slope(steps, series),
        }
    }

    pub fn amounts(&self, what: What, steps: &[f64]) -> Amounts {
        let of = self.asked(what);
        Amounts {
            peak_bytes: self.peak.bytes,
            peak_count: self.peak.count,
            live_end_bytes: self.live.bytes,
            live_end_count: self.live.count,
            cumulative_bytes: self.total.bytes,
            count: self.total.count,
            temporary_bytes: self.temporary_bytes,
            temporary_count: self.temporary_count,
            growth_bytes_per_step: self.growth(steps),
            interval: of.and_then(|amount| doubt::interval(amount.bytes as f64, amount.variance as f64)),
        }
    }
}

fn add(sum: &mut Amount, other: &Amount) {
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    sum.count = sum.count.saturating_add(other.count);
    sum.variance = sum.variance.saturating_add(other.variance);
}

/// The slope of the later part of a series; robust against single steps that are off.
pub fn slope(steps: &[f64], values: &[f64]) -> Option<f64> {
    let points: Vec<stats::XY> = steps.iter().copied().zip(values.iter().copied()).collect();
    let later = points.get(points.len() / WARM_UP..).filter(|later| later.len() >= 2).unwrap_or(&points);
    stats::theil_sen(later)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(peak: u64, live: u64) -> Site {
        Site {
            peak: Amount { bytes: peak, count: 1, variance: 0 },
            live: Amount { bytes: live, count: 1, variance: 0 },
            ..Site::default()
        }
    }

    #[test]
    fn a_site_that_grows_with_the_steps_has_its_rate() {
        let steps: Vec<f64> = (0..8).map(|step| f64::from(step) * 10.0).collect();
        let mut sum = Sum::default();
        sum.add(&site(100, 100), Some(&[500, 500, 100, 200, 300, 400, 500, 600]));
        assert_eq!(sum.growth(&steps), Some(10.0));
        sum.add(&site(1, 1), None);
        assert_eq!(sum.value(What::Growth, &steps), (10.0, 2));
        assert_eq!(sum.value(What::Peak, &steps), (101.0, 2));
    }

    #[test]
    fn without_steps_there_is_no_rate_and_without_change_it_is_zero() {
        let mut sum = Sum::default();
        sum.add(&site(7, 7), None);
        assert_eq!(sum.growth(&[]), None);
        assert_eq!(sum.growth(&[0.0, 1.0]), Some(0.0));
    }
}
