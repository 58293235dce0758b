//! Sums by site, and what they were at the highest moment.
//!
//! The composition at the peak is exact and costs a comparison an event: each new peak has a number, and a
//! site keeps its value from before a change when it has not done so since the last peak. A site that did not change
//! since then has that value still.

use nilometer_trace::allocs::{Amount, Source};

use super::meaning::Meaning;
use super::phase::Turns;
use super::step::{NO_SERIES, Steps};
use super::weight::Sum;

/// Sites beyond this share one per process, without stacks: the recorder's own memory is bounded.
const MOST_SITES: usize = 1 << 20;

/// A value as it was at the last peak, if it changed since.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kept<T> {
    value: T,
    /// The peak after which it was kept; 0 is before the first.
    peak: u64,
}

impl<T: Copy> Kept<T> {
    #[inline]
    pub fn keep(&mut self, now: T, peak: u64) {
        if self.peak != peak {
            *self = Self { value: now, peak };
        }
    }

    pub fn at(&self, peak: u64, now: T) -> T {
        if self.peak == peak { self.value } else { now }
    }
}

/// One place that allocates. Stacks are numbers of the process's book.
#[derive(Debug, Clone, Copy, Default)]
pub struct Site {
    pub live: Amount,
    at_peak: Kept<Amount>,
    at_own_peak: Kept<u64>,
    pub highest_bytes: u64,
    pub total: Amount,
    pub temporary_bytes: u64,
    pub temporary_count: u64,
    pub freed_in_step_bytes: u64,
    pub lifetime_ticks: u64,
    pub native: u32,
    pub python: u32,
    pub process: u32,
    /// Row of its series, and the steps that are in it.
    pub series: u32,
    pub steps: u32,
    pub source: Source,
    /// The phases on its stack.
    pub meaning: Meaning,
    /// It has changed since its phase last ended.
    is_touched: bool,
    /// The most that was left of it when its phase ended.
    pub kept: Amount,
}

/// Sums of one process. Its peaks are numbered from 1.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    pub live: Amount,
    pub total: Amount,
    pub peak_bytes: u64,
    pub peak_ticks: u64,
    peak: u64,
    /// The tree's peak when the process ended: its sites had no part in later ones.
    ended_at: Option<u64>,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            live: Amount::default(),
            total: Amount::default(),
            peak_bytes: 0,
            peak_ticks: 0,
            peak: 1,
            ended_at: None,
        }
    }
}

/// All sites of all processes.
#[derive(Debug)]
pub struct Sites {
    pub all: Vec<Site>,
    /// Live in the whole tree now.
    pub live: Amount,
    pub peak: Amount,
    pub peak_ticks: u64,
    number: u64,
    pub steps: Steps,
    pub turns: Turns,
    /// Sites that got no row of their own.
    pub folded: u64,
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            live: Amount::default(),
            peak: Amount::default(),
            peak_ticks: 0,
            number: 1,
            steps: Steps::default(),
            turns: Turns::default(),
            folded: 0,
        }
    }
}

impl Sites {
    /// A new row; `None` when there are too many.
    pub fn push(
        &mut self,
        process: u32,
        native: u32,
        python: u32,
        source: Source,
        meaning: Meaning,
    ) -> Option<u32> {
        if self.all.len() >= MOST_SITES {
            self.folded += 1;
            return None;
        }
        let number = self.push_always(process, native, python, source);
        if let Some(site) = self.all.get_mut(number as usize) {
            site.meaning = meaning;
        }
        Some(number)
    }

    /// The row that takes what gets no row of its own: one per process and source.
    pub fn push_always(&mut self, process: u32, native: u32, python: u32, source: Source) -> u32 {
        let steps = self.steps.count();
        let site = Site { native, python, process, source, series: NO_SERIES, steps, ..Site::default() };
        self.all.push(site);
        (self.all.len() - 1) as u32
    }

    /// A block was handed out at a site. True if that is the first change since its phase ended.
    #[inline]
    pub fn grow(&mut self, own: &mut Own, site: u32, amount: &Amount, ticks: u64) -> bool {
        let Some(site) = self.all.get_mut(site as usize) else { return false };
        self.steps.catch_up(site);
        site.keep(self.number, own.peak);
        site.live.add(amount);
        site.total.add(amount);
        site.highest_bytes = site.highest_bytes.max(site.live.bytes);
        own.live.add(amount);
        own.total.add(amount);
        if own.live.bytes > own.peak_bytes {
            own.peak_bytes = own.live.bytes;
            own.peak_ticks = ticks;
            own.peak += 1;
        }
        self.live.add(amount);
        self.turns.see(self.live.bytes);
        let is_new = site.meaning.inner != 0 && !std::mem::replace(&mut site.is_touched, true);
        if self.live.bytes > self.peak.bytes {
            self.peak = self.live;
            self.peak_ticks = ticks;
            self.number += 1;
        }
        is_new
    }

    /// One was given back. The site, for what more there is to say about it.
    #[inline]
    pub fn shrink(&mut self, own: &mut Own, site: u32, amount: &Amount) -> Option<&mut Site> {
        let site = self.all.get_mut(site as usize)?;
        self.steps.catch_up(site);
        site.keep(self.number, own.peak);
        site.live.sub(amount);
        own.live.sub(amount);
        self.live.sub(amount);
        Some(site)
    }

    /// A free that did not happen.
    pub fn regrow(&mut self, own: &mut Own, site: u32, amount: &Amount, ticks: u64) {
        let is_new = self.grow(own, site, amount, ticks);
        own.total.sub(amount);
        if let Some(site) = self.all.get_mut(site as usize) {
            site.is_touched &= !is_new; // nobody takes note of it here
            site.total.sub(amount);
        }
    }

    /// A process ended: what it had is no part of the tree any more, and stays as what it left behind.
    pub fn end(&mut self, own: &mut Own, sites: &[u32]) {
        for &site in sites {
            if let Some(site) = self.all.get_mut(site as usize) {
                self.steps.catch_up(site);
                site.keep(self.number, own.peak);
            }
        }
        self.live.sub(&own.live);
        own.ended_at = Some(self.number);
    }

    /// The sums alone.
    pub fn sums(&self) -> Self {
        Self {
            all: Vec::new(),
            live: self.live,
            peak: self.peak,
            peak_ticks: self.peak_ticks,
            number: self.number,
            steps: Steps::default(),
            turns: self.turns.clone(),
            folded: self.folded,
        }
    }

    /// Brings the series of all sites up to date.
    pub fn catch_up(&mut self) {
        for site in &mut self.all {
            self.steps.catch_up(site);
        }
    }

    /// What a site had at the peak of the tree, and at that of its process.
    pub fn at_peak(&self, own: &Own, site: &Site) -> (Amount, u64) {
        let tree = match own.ended_at {
            Some(peak) if peak != self.number => Amount::default(),
            _ => site.at_peak.at(self.number, site.live),
        };
        (tree, site.at_own_peak.at(own.peak, site.live.bytes))
    }
}

impl Site {
    /// Its phase has ended: what is left is what it keeps.
    pub fn leave(&mut self) {
        self.is_touched = false;
        self.hold();
    }

    /// The same, and it will be looked at again.
    pub fn hold(&mut self) {
        if self.live.bytes > self.kept.bytes {
            self.kept = self.live;
        }
    }

    #[inline]
    fn keep(&mut self, peak: u64, own_peak: u64) {
        self.at_peak.keep(self.live, peak);
        self.at_own_peak.keep(self.live.bytes, own_peak);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(bytes: u64) -> Amount {
        Amount { bytes, count: 1, variance: 0 }
    }

    fn at_peak(sites: &Sites, own: &Own) -> Vec<u64> {
        sites.all.iter().map(|site| sites.at_peak(own, site).0.bytes).collect()
    }

    #[test]
    fn the_composition_is_that_of_the_highest_moment() {
        let (mut sites, mut own) = (Sites::default(), Own::default());
        let [a, b] = [1, 2].map(|native| sites.push(0, native, 0, Source::Heap, Meaning::default()).unwrap());
        sites.grow(&mut own, a, &bytes(100), 1);
        sites.grow(&mut own, b, &bytes(50), 2);
        sites.shrink(&mut own, a, &bytes(100));
        sites.grow(&mut own, b, &bytes(60), 3);
        assert_eq!((sites.peak.bytes, sites.peak_ticks), (150, 2));
        assert_eq!(at_peak(&sites, &own), [100, 50]);
        sites.grow(&mut own, b, &bytes(60), 4);
        assert_eq!((sites.peak.bytes, at_peak(&sites, &own)), (170, vec![0, 170]));
    }

    #[test]
    fn a_process_that_ended_has_no_part_in_later_peaks() {
        let (mut sites, mut first, mut second) = (Sites::default(), Own::default(), Own::default());
        let a = sites.push(0, 1, 0, Source::Heap, Meaning::default()).unwrap();
        let b = sites.push(1, 1, 0, Source::Heap, Meaning::default()).unwrap();
        sites.grow(&mut first, a, &bytes(100), 1);
        sites.end(&mut first, &[a]);
        assert_eq!(sites.at_peak(&first, &sites.all[0]).0.bytes, 100);
        sites.grow(&mut second, b, &bytes(90), 2);
        assert_eq!((sites.live.bytes, sites.peak.bytes), (90, 100));
        assert_eq!(sites.at_peak(&second, &sites.all[1]), (Amount::default(), 90));
        sites.grow(&mut second, b, &bytes(20), 3);
        assert_eq!(sites.at_peak(&first, &sites.all[0]), (Amount::default(), 100));
        assert_eq!(sites.at_peak(&second, &sites.all[1]).0.bytes, 110);
        assert_eq!(sites.all[0].live.bytes, 100, "what it left behind is still told");
    }

    proptest! {
        #[test]
        fn the_composition_equals_that_of_a_naive_recorder(
            turns in prop::collection::vec((0_usize..5, 0_usize..2, 1_u64..100, any::<bool>()), 1..400),
        ) {
            let mut sites = Sites::default();
            let mut owns = [Own::default(); 2];
            for process in 0..2 {
                for site in 0..5 {
                    sites.push(process, site, 0, Source::Heap, Meaning::default()).unwrap();
                }
            }
            let (mut live, mut peak, mut composition) = ([0_u64; 10], 0, [0; 10]);
            let mut own_peaks = [(0, [0; 5]); 2];
            for (site, process, size, grows) in turns {
                let row = process * 5 + site;
                if grows {
                    live[row] += size;
                    sites.grow(&mut owns[process], row as u32, &bytes(size), 0);
                } else if live[row] >= size {
                    live[row] -= size;
                    sites.shrink(&mut owns[process], row as u32, &bytes(size));
                }
                if live.iter().sum::<u64>() > peak {
                    peak = live.iter().sum();
                    composition = live;
                }
                let own = &live[process * 5..process * 5 + 5];
                if own.iter().sum::<u64>() > own_peaks[process].0 {
                    own_peaks[process] = (own.iter().sum(), own.try_into().unwrap());
                }
            }
            prop_assert_eq!(sites.peak.bytes, peak);
            for (row, site) in sites.all.iter().enumerate() {
                let (tree, own) = sites.at_peak(&owns[row / 5], site);
                prop_assert_eq!(tree.bytes, composition[row]);
                prop_assert_eq!(own, own_peaks[row / 5].1[row % 5]);
            }
        }
    }
}
