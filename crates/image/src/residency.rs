//! Which pages were resident at an instant, for all that was looked at.

use std::ops::Range;

/// Resident runs, sorted, with the sum of what is before each: a question costs two binary searches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Residency {
    runs: Vec<Run>,
    /// Sorted, not overlapping: where nothing is known of the rest.
    looked_at: Vec<Range<u64>>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
    /// Resident bytes in the runs before this one.
    before: u64,
}

impl Residency {
    /// Both may come in any order; overlapping ones are merged.
    pub fn new(runs: Vec<Range<u64>>, looked_at: Vec<Range<u64>>) -> Self {
        let mut before = 0;
        let runs = merged(runs).into_iter().map(|run| {
            let run = Run { start: run.start, end: run.end, before };
            before += run.end - run.start;
            run
        });
        Self { runs: runs.collect(), looked_at: merged(looked_at) }
    }

    /// Resident bytes within `range`; `None` where a part of it was not looked at.
    pub fn within(&self, range: Range<u64>) -> Option<u64> {
        let index = self.looked_at.partition_point(|looked| looked.start <= range.start).checked_sub(1)?;
        if range.start > range.end || self.looked_at.get(index)?.end < range.end {
            return None;
        }
        Some(self.known_within(&range))
    }

    /// Resident bytes within `range` as far as it was looked at.
    pub fn known_within(&self, range: &Range<u64>) -> u64 {
        self.below(range.end).saturating_sub(self.below(range.start))
    }

    /// The resident parts of a range, in order.
    pub fn runs_within(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.runs.partition_point(|run| run.end <= range.start);
        let Range { start, end } = *range;
        let here = self.runs.get(first..).unwrap_or_default().iter().take_while(move |run| run.start < end);
        here.map(move |run| run.start.max(start)..run.end.min(end))
    }

    pub fn holds(&self, range: &Range<u64>) -> bool {
        let index = self.runs.partition_point(|run| run.start <= range.start).checked_sub(1);
        index.and_then(|index| self.runs.get(index)).is_some_and(|run| range.end <= run.end)
    }

    /// Resident bytes below `address`.
    fn below(&self, address: u64) -> u64 {
        let after = self.runs.partition_point(|run| run.start < address);
        let last = after.checked_sub(1).and_then(|index| self.runs.get(index));
        last.map_or(0, |run| run.before + run.end.min(address) - run.start)
    }
}

/// Sorted, empty ones dropped, overlapping and touching ones joined.
pub fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touch = next.start <= last.end;
        if touch {
            last.end = last.end.max(next.end);
        }
        touch
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_within_what_was_looked_at() {
        let residency = Residency::new(vec![30..40, 10..20, 20..25], vec![50..100, 0..50]);
        for (range, expected) in
            [(0..100, 25), (12..13, 1), (24..31, 2), (40..41, 0), (10..40, 25), (15..15, 0)]
        {
            assert_eq!(residency.within(range.clone()), Some(expected), "{range:?}");
        }
        assert_eq!(residency.within(90..101), None);
        assert_eq!(Residency::default().within(0..1), None);
        assert_eq!(residency.runs_within(&(12..35)).collect::<Vec<_>>(), [12..25, 30..35]);
        assert!(residency.holds(&(10..25)) && !residency.holds(&(10..26)) && !residency.holds(&(0..1)));
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn a_range_that_ends_before_it_begins_is_not_known() {
        assert_eq!(Residency::new(Vec::new(), vec![0..5, 5..10]).within(5..4), None);
    }
}
