//! Memory that a process mapped for itself: ranges that may be cut anywhere.

use std::collections::BTreeMap;

/// A mapped range; the key is its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub end: u64,
    pub site: u32,
    /// Ticks.
    pub born: u64,
}

/// What a cut took from a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub bytes: u64,
    pub site: u32,
    pub born: u64,
    /// Ranges that are no more; -1 where one became two.
    pub ranges: i64,
}

/// Ranges that do not overlap.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    by_start: BTreeMap<u64, Range>,
}

/// A program that maps ever more tiny ranges must not fill our memory.
const MOST: usize = 1 << 20;

impl Ranges {
    /// Adds a range that was cut free before. False if there are too many.
    pub fn insert(&mut self, start: u64, range: Range) -> bool {
        let fits = start < range.end && self.by_start.len() < MOST;
        if fits {
            self.by_start.insert(start, range);
        }
        fits
    }

    /// Takes everything between the two addresses out; each part goes to `taken`.
    pub fn cut(&mut self, start: u64, end: u64, mut taken: impl FnMut(Cut)) {
        if start >= end || self.by_start.is_empty() {
            return;
        }
        if let Some((&before, &range)) = self.by_start.range(..start).next_back()
            && range.end > start
        {
            self.by_start.insert(before, Range { end: start, ..range });
            self.put_back(end, range);
            let ranges = -i64::from(end < range.end);
            taken(Cut { bytes: range.end.min(end) - start, site: range.site, born: range.born, ranges });
        }
        while let Some((&at, &range)) = self.by_start.range(start..end).next() {
            self.by_start.remove(&at);
            self.put_back(end, range);
            let ranges = i64::from(range.end <= end);
            taken(Cut { bytes: range.end.min(end) - at, site: range.site, born: range.born, ranges });
        }
    }

    /// What of a range lies behind the cut.
    fn put_back(&mut self, start: u64, range: Range) {
        if start < range.end {
            self.by_start.insert(start, range);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.by_start.iter().map(|(start, range)| range.end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cuts_take_what_was_there(
            turns in prop::collection::vec((0_u64..100, 1_u64..40, any::<bool>()), 0..100),
        ) {
            let mut ranges = Ranges::default();
            let mut pages = [None; 140];
            for (site, (start, length, maps)) in turns.into_iter().enumerate() {
                let end = start + length;
                let mut taken = std::collections::HashMap::<u32, u64>::new();
                ranges.cut(start, end, |cut| *taken.entry(cut.site).or_default() += cut.bytes);
                let mut expected = std::collections::HashMap::<u32, u64>::new();
                for page in &mut pages[start as usize..end as usize] {
                    if let Some(owner) = page.take() {
                        *expected.entry(owner).or_default() += 1;
                    }
                    *page = maps.then_some(site as u32);
                }
                prop_assert_eq!(taken, expected);
                if maps {
                    let range = Range { end, site: site as u32, born: 0 };
                    prop_assert!(ranges.insert(start, range));
                }
                prop_assert_eq!(ranges.bytes(), pages.iter().flatten().count() as u64);
            }
        }
    }

    #[test]
    fn ranges_are_counted_as_they_split_and_vanish() {
        let mut ranges = Ranges::default();
        ranges.insert(100, Range { end: 200, site: 1, born: 0 });
        let mut cuts = Vec::new();
        for (start, end) in [(150, 160), (0, 150), (160, 300)] {
            ranges.cut(start, end, |cut| cuts.push((cut.bytes, cut.ranges)));
        }
        assert_eq!(cuts, [(10, -1), (50, 1), (40, 1)]);
    }
}
