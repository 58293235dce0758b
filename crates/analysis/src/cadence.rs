//! The real distances of ticks: what was achieved, not what was asked.

use crate::bounded::Thinned;
use crate::model::Interval;
use crate::stats;

#[derive(Debug)]
pub(crate) struct Cadence {
    asked_ms: f64,
    last_ns: Option<u64>,
    sum_ms: f64,
    distances_ms: Thinned<f64>,
    pub(crate) ticks: u64,
}

impl Cadence {
    pub(crate) fn new(asked_ms: f64) -> Self {
        Self { asked_ms, last_ns: None, sum_ms: 0.0, distances_ms: Thinned::new(4_096), ticks: 0 }
    }

    pub(crate) fn during(&mut self, at_ns: u64) {
        self.ticks += 1;
        if let Some(last_ns) = self.last_ns.replace(at_ns) {
            let distance_ms = at_ns.saturating_sub(last_ns) as f64 / 1e6;
            self.sum_ms += distance_ms;
            self.distances_ms.push(distance_ms);
        }
    }

    pub(crate) fn finish(&self, missed: Option<u64>) -> Interval {
        let count = self.distances_ms.seen();
        let mean = (count > 0).then(|| self.sum_ms / count as f64);
        let median = stats::median(&mut self.distances_ms.items().to_vec());
        Interval { asked: self.asked_ms, achieved: median, achieved_mean: mean, missed }
    }
}
