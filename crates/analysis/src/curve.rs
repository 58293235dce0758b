//! Series for charts: buckets of equal width with the lowest and highest value, never more than a given number.

use crate::clock::Clock;
use crate::column::View;
use crate::model;

/// Buckets of one series, and of the RSS of one process.
pub(crate) const BUCKETS: u64 = 2_048;
pub(crate) const PROCESS_BUCKETS: u64 = 512;
/// The narrowest bucket: the shortest interval there is.
const NARROWEST_NS: u64 = 5_000_000;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    number: u64,
    min: u64,
    max: u64,
}

/// A series that halves its resolution whenever it grows out of its buckets.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    origin_ns: Option<u64>,
    width_ns: u64,
    limit: u64,
    buckets: Vec<Bucket>,
}

impl Series {
    pub(crate) fn new(limit: u64) -> Self {
        Self { origin_ns: None, width_ns: NARROWEST_NS, limit, buckets: Vec::new() }
    }

    pub(crate) fn push(&mut self, at_ns: u64, value: u64) {
        let since = at_ns.saturating_sub(*self.origin_ns.get_or_insert(at_ns));
        while since / self.width_ns >= self.limit {
            self.halve();
        }
        merge(&mut self.buckets, Bucket { number: since / self.width_ns, min: value, max: value });
    }

    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let wider = Vec::with_capacity(self.buckets.len() / 2 + 1);
        let narrow = std::mem::replace(&mut self.buckets, wider);
        for bucket in narrow {
            merge(&mut self.buckets, Bucket { number: bucket.number / 2, ..bucket });
        }
    }

    pub(crate) fn model(&self, clock: &Clock) -> model::Series {
        let origin_ns = self.origin_ns.unwrap_or(0);
        let at_ns = |number: u64| origin_ns.saturating_add(number.saturating_mul(self.width_ns));
        let point = |bucket: &Bucket| model::Point {
            at_s: clock.seconds(at_ns(bucket.number)),
            min: bucket.min,
            max: bucket.max,
        };
        model::Series {
            width_s: self.width_ns as f64 / 1e9,
            points: self.buckets.iter().map(point).collect(),
        }
    }
}

/// Times that go backwards fall into the last bucket.
fn merge(buckets: &mut Vec<Bucket>, new: Bucket) {
    match buckets.last_mut() {
        Some(last) if last.number >= new.number => {
            last.min = last.min.min(new.min);
            last.max = last.max.max(new.max);
        }
        _ => buckets.push(new),
    }
}

/// All series of a run but those of single processes.
#[derive(Debug)]
pub(crate) struct Curves {
    low: Series,
    high: Series,
    anon: Series,
    file: Series,
    shmem: Series,
    available: Series,
    swap: Series,
    usage: Series,
}

/// Sums of a tick over its processes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KindSums {
    pub(crate) anon: u64,
    pub(crate) file: u64,
    pub(crate) shmem: u64,
}

impl Curves {
    pub(crate) fn new() -> Self {
        let new = || Series::new(BUCKETS);
        Self {
            low: new(),
            high: new(),
            anon: new(),
            file: new(),
            shmem: new(),
            available: new(),
            swap: new(),
            usage: new(),
        }
    }

    pub(crate) fn tree(&mut self, at_ns: u64, low: u64, high: u64, sums: KindSums) {
        self.low.push(at_ns, low);
        self.high.push(at_ns, high);
        self.anon.push(at_ns, sums.anon);
        self.file.push(at_ns, sums.file);
        self.shmem.push(at_ns, sums.shmem);
    }

    pub(crate) fn system(&mut self, at_ns: u64, view: &View<'_>) {
        let push = |series: &mut Series, value: Option<u64>| {
            if let Some(value) = value {
                series.push(at_ns, value);
            }
        };
        push(&mut self.available, view.available());
        push(&mut self.swap, view.swap_used());
        push(&mut self.usage, view.groups().next().and_then(|group| group.usage));
    }

    pub(crate) fn finish(&self, clock: &Clock, processes: Vec<model::ProcessSeries>) -> model::Curve {
        model::Curve {
            tree_low: self.low.model(clock),
            tree_high: self.high.model(clock),
            anon_sum: self.anon.model(clock),
            file_sum: self.file.model(clock),
            shmem_sum: self.shmem.model(clock),
            available: self.available.model(clock),
            swap: self.swap.model(clock),
            cgroup_usage: self.usage.model(clock),
            processes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_extremes_in_few_buckets() {
        let mut series = Series::new(BUCKETS);
        for n in 0..864_000_u64 {
            series.push(n * 100_000_000, if n == 500_001 { 9_999 } else { 10 + n % 7 });
        }
        let model = series.model(&Clock::default());
        assert!(model.points.len() as u64 <= BUCKETS && model.points.len() as u64 > BUCKETS / 4);
        assert_eq!(model.points.iter().map(|point| point.max).max(), Some(9_999));
        assert_eq!(model.points.iter().map(|point| point.min).min(), Some(10));
    }

    #[test]
    fn absurd_times_end_in_the_last_bucket() {
        let mut series = Series::new(8);
        for at in [5, u64::MAX, 0, 7] {
            series.push(at, at);
        }
        assert_eq!(series.buckets.len(), 2);
        assert_eq!(series.buckets[1].min, 0);
    }
}
