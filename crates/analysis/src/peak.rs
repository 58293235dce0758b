//! The tree's peak: the kernel's own mark where there is one, otherwise an interval that holds the truth.
//!
//! RSS of different processes is never added up as a headline. In a tree the lower bound is the highest of all
//! lower bounds and of every single mark; the upper bound is the highest of all upper bounds, where a process whose
//! mark moved since the tick before counts with that mark. The estimate is the middle: it is off by at most half
//! the width, which is printed beside it.

use crate::model::Peak;
use crate::process::Together;
use crate::tracked::{MAXRSS_METHOD, Rise};
use crate::unit::mid;

/// The tree at one tick, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) step: Option<u64>,
    pub(crate) together: Together,
}

impl Moment {
    pub(crate) fn mid(&self) -> u64 {
        mid(self.low, self.high)
    }

    /// Upper bound since the tick before.
    fn spike_high(&self) -> u64 {
        self.high.saturating_add(self.together.above_sum).max(self.together.rose_to)
    }

    /// Estimate of the highest since the tick before.
    pub(crate) fn spike_mid(&self) -> u64 {
        self.mid().saturating_add(self.together.above_largest)
    }
}

#[derive(Debug, Default)]
pub(crate) struct PeakFinder {
    low: u64,
    high: u64,
    at_ns: u64,
    step: Option<u64>,
    last: Option<Moment>,
}

/// Of a process smaller than the launcher, which `wait4` cannot tell apart.
const BLIND_METHOD: &str = "VmHWM at the last sample";

/// What the rest of the run knows about the peak.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    pub(crate) processes: u64,
    pub(crate) cgroup_peak_bytes: Option<u64>,
    /// Highest mark of one process and when it was seen.
    pub(crate) largest: Option<(u64, u64)>,
    /// Highest `ru_maxrss` that tells more than the marks, and when.
    pub(crate) maxrss: Option<(u64, u64)>,
    /// Children that no sample saw left traces.
    pub(crate) unseen: bool,
    /// `wait4` told nothing because it begins with the launcher's own high water: after the last sample the
    /// process may have risen up to here unseen.
    pub(crate) blind_below: Option<u64>,
    /// Another tool's readings, which know of no mark of the kernel's: between two of them it may have been higher.
    pub(crate) imported: bool,
    /// Page tables were walked: the bounds know what processes share.
    pub(crate) walked: bool,
}

struct Bounds {
    low: u64,
    high: u64,
    at_ns: u64,
    method: &'static str,
    exact: bool,
}

impl PeakFinder {
    pub(crate) fn tick(&mut self, moment: Moment) {
        self.low = self.low.max(moment.low).max(moment.together.rose_to);
        self.candidate(moment.spike_high(), moment.at_ns, moment.step);
        self.last = Some(moment);
    }

    /// A process told a higher mark at its end than at its last sample.
    pub(crate) fn end(&mut self, at_ns: u64, rise: Rise, step: Option<u64>) {
        self.low = self.low.max(rise.hwm_bytes);
        let before = self.last.map_or(0, |moment| moment.high);
        self.candidate(before.saturating_add(rise.above()).max(rise.hwm_bytes), at_ns, step);
    }

    fn candidate(&mut self, high: u64, at_ns: u64, step: Option<u64>) {
        if high > self.high {
            (self.high, self.at_ns, self.step) = (high, at_ns, step);
        }
    }

    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }

    fn bounds(&self, marks: Marks) -> Option<Bounds> {
        if let Some(bytes) = marks.cgroup_peak_bytes {
            let (low, high, at_ns) = (bytes, bytes, self.at_ns);
            return Some(Bounds { low, high, at_ns, method: "cgroup memory.peak", exact: true });
        }
        if marks.processes <= 1 {
            return single(marks);
        }
        let largest = marks.largest.map_or(0, |(bytes, _)| bytes);
        let maxrss = marks.maxrss.map_or(0, |(bytes, _)| bytes);
        let low = self.low.max(largest).max(maxrss);
        let method =
            if marks.walked { "PSS of the tree, bounds" } else { "largest RSS to sum of RSS, bounds" };
        Some(Bounds { low, high: self.high.max(low), at_ns: self.at_ns, method, exact: false })
    }

    pub(crate) fn finish(&self, marks: Marks, seconds: impl Fn(u64) -> f64) -> Option<Peak> {
        // Nothing was seen: the launcher's mark, the upper bound, says nothing of the target.
        let bounds = self.bounds(marks).filter(|bounds| bounds.low > 0)?;
        let early = bounds.at_ns == self.at_ns;
        // A small process that was sampled and could have spiked below the launcher's mark most likely did not.
        let is_single = marks.processes <= 1;
        Some(Peak {
            bytes: if is_single { bounds.low } else { mid(bounds.low, bounds.high) },
            low_bytes: bounds.low,
            high_bytes: bounds.high,
            at_s: seconds(bounds.at_ns),
            step: if early { self.step } else { self.last.and_then(|moment| moment.step) },
            method: bounds.method.into(),
            exact: bounds.exact,
        })
    }
}

fn single(marks: Marks) -> Option<Bounds> {
    let exact = !marks.unseen;
    if let Some((bytes, at_ns)) = marks.maxrss {
        return Some(Bounds { low: bytes, high: bytes, at_ns, method: MAXRSS_METHOD, exact });
    }
    let (low, at_ns) = marks.largest?;
    if marks.imported {
        return Some(Bounds { low, high: low, at_ns, method: "highest reading", exact: false });
    }
    match marks.blind_below.filter(|blind| *blind > low) {
        Some(high) => Some(Bounds { low, high, at_ns, method: BLIND_METHOD, exact: false }),
        None => Some(Bounds { low, high: low, at_ns, method: "VmHWM", exact }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ns: u64, low: u64, high: u64) -> Moment {
        Moment { at_ns, low, high, ..Moment::default() }
    }

    #[test]
    fn bounds_come_from_the_ticks_and_the_largest_mark() {
        let mut finder = PeakFinder::default();
        for moment in [moment(1, 10, 30), moment(2, 25, 40), moment(3, 20, 38)] {
            finder.tick(moment);
        }
        let marks = Marks { processes: 2, largest: Some((28, 2)), ..Marks::default() };
        let peak = finder.finish(marks, |ns| ns as f64).unwrap();
        assert_eq!((peak.low_bytes, peak.bytes, peak.high_bytes), (28, 34, 40));
        assert_eq!((peak.at_s, peak.exact), (2.0, false));
        assert_eq!(peak.method, "largest RSS to sum of RSS, bounds");
        let peak = finder.finish(Marks { walked: true, ..marks }, |ns| ns as f64).unwrap();
        assert_eq!(peak.method, "PSS of the tree, bounds");
    }

    #[test]
    fn a_mark_that_moved_between_two_ticks_raises_the_upper_bound() {
        let mut finder = PeakFinder::default();
        finder.tick(moment(1, 50, 60));
        let together =
            Together { above_sum: 500, above_largest: 500, rose_to: 540, rose: true, ..Together::default() };
        finder.tick(Moment { together, ..moment(2, 50, 60) });
        let peak = finder.finish(Marks { processes: 2, ..Marks::default() }, |ns| ns as f64).unwrap();
        assert_eq!((peak.low_bytes, peak.high_bytes, peak.at_s), (540, 560, 2.0));
    }

    #[test]
    fn the_cgroup_mark_is_exact() {
        let finder = PeakFinder { low: 1, high: 5, ..PeakFinder::default() };
        let marks = Marks { processes: 9, cgroup_peak_bytes: Some(7), ..Marks::default() };
        let peak = finder.finish(marks, |_| 0.0).unwrap();
        assert_eq!((peak.low_bytes, peak.bytes, peak.high_bytes, peak.exact), (7, 7, 7, true));
    }

    #[test]
    fn readings_of_another_tool_are_no_mark_of_the_kernels() {
        let marks = Marks { processes: 1, largest: Some((7, 2)), imported: true, ..Marks::default() };
        let peak = PeakFinder::default().finish(marks, |_| 0.0).unwrap();
        assert_eq!((peak.bytes, peak.method.as_str(), peak.exact), (7, "highest reading", false));
    }

    #[test]
    fn nothing_seen_is_no_peak() {
        assert_eq!(PeakFinder::default().finish(Marks::default(), |_| 0.0), None);
        let blind =
            Marks { processes: 1, largest: Some((0, 0)), blind_below: Some(20 << 20), ..Marks::default() };
        assert_eq!(
            PeakFinder::default().finish(blind, |_| 0.0),
            None,
            "half of the launcher is nobody's peak"
        );
        let told = Marks { processes: 1, maxrss: Some((9, 4)), ..Marks::default() };
        let peak = PeakFinder::default().finish(told, |ns| ns as f64).unwrap();
        assert_eq!((peak.bytes, peak.method.as_str(), peak.at_s), (9, MAXRSS_METHOD, 4.0));
    }
}
