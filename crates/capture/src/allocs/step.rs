//! Live bytes of each site at the steps, in little room however many steps there are.
//!
//! At most [`POINTS`] evenly spaced steps are kept; when there are more, every second one is dropped. A site's own
//! values are brought up to date when it next changes: what it has now it had at all steps since the last time.

use nilometer_trace::allocs::Step;

use super::site::Site;

/// Steps that are kept.
pub const POINTS: usize = 32;
/// Sites that had nothing at any step need no series.
pub const NO_SERIES: u32 = u32::MAX;
/// Too many have one already.
const NO_ROOM: u32 = u32::MAX - 1;
const MOST_SERIES: usize = 50_000;
/// Sites with less must leave half of the room to those with more: a program has far more of them.
const SMALL_BYTES: u64 = 4096;

/// Values of a site at the kept steps; `stride` is that of the steps when it was last brought up to date.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    stride: u32,
    pub bytes: [u64; POINTS],
}

#[derive(Debug, Clone)]
pub struct Steps {
    kept: Vec<Step>,
    rows: Vec<Row>,
    /// Steps so far, kept or not; the step of index `k` is kept if `k` is a multiple of the stride.
    count: u32,
    stride: u32,
    last_ticks: u64,
    pub folded: u64,
    /// A copy without series.
    is_closed: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            rows: Vec::new(),
            count: 0,
            stride: 1,
            last_ticks: 0,
            folded: 0,
            is_closed: false,
        }
    }
}

impl Steps {
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn stride(&self) -> u32 {
        self.stride
    }

    pub fn kept(&self) -> &[Step] {
        &self.kept
    }

    /// When the last step was marked, in ticks.
    #[inline]
    pub fn last_ticks(&self) -> u64 {
        self.last_ticks
    }

    /// A step begins: what lives now has outlived the one before.
    pub fn mark(&mut self, step: Step, ticks: u64) {
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == POINTS {
                thin(&mut self.kept, 2);
                self.stride = self.stride.saturating_mul(2);
            }
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(step);
            }
        }
        self.count = self.count.saturating_add(1);
        self.last_ticks = ticks;
    }

    /// Brings a site's values up to date, before it changes.
    #[inline]
    pub fn catch_up(&mut self, site: &mut Site) {
        if site.steps != self.count {
            self.fill(site);
        }
    }

    #[cold]
    fn fill(&mut self, site: &mut Site) {
        let from = site.steps.div_ceil(self.stride) as usize;
        site.steps = self.count;
        let is_new = site.series == NO_SERIES && site.live.bytes != 0;
        let has_grown = site.series == NO_ROOM && site.live.bytes >= SMALL_BYTES;
        if (is_new || has_grown) && !self.is_closed {
            self.folded -= u64::from(has_grown);
            site.series = self.new_row(site.live.bytes);
        }
        if let Some(row) = self.rows.get_mut(site.series as usize) {
            row.thin_to(self.stride);
            let to = self.kept.len();
            if let Some(values) = row.bytes.get_mut(from..to) {
                values.fill(site.live.bytes);
            }
        }
    }

    fn new_row(&mut self, bytes: u64) -> u32 {
        let most = if bytes < SMALL_BYTES { MOST_SERIES / 2 } else { MOST_SERIES };
        if self.rows.len() >= most {
            self.folded += 1;
            return NO_ROOM;
        }
        self.rows.push(Row { stride: self.stride, bytes: [0; POINTS] });
        (self.rows.len() - 1) as u32
    }

    /// All of it, without the series if there are more than `most`.
    pub fn copy(&self, most: usize) -> Self {
        let is_closed = self.rows.len() > most;
        let rows = if is_closed { Vec::new() } else { self.rows.clone() };
        Self { rows, kept: self.kept.clone(), is_closed, ..*self }
    }

    /// The values of a site that is up to date.
    pub fn values(&self, site: &Site) -> Option<&[u64]> {
        self.rows.get(site.series as usize)?.bytes.get(..self.kept.len())
    }
}

impl Row {
    fn thin_to(&mut self, stride: u32) {
        let factor = (stride / self.stride.max(1)).max(1) as usize;
        if factor > 1 {
            for at in 0..POINTS {
                self.bytes[at] = self.bytes.get(at * factor).copied().unwrap_or(0);
            }
        }
        self.stride = stride;
    }
}

/// Keeps the first of every `factor`.
fn thin<T: Copy>(values: &mut Vec<T>, factor: usize) {
    let kept = values.iter().copied().step_by(factor).collect();
    *values = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocs::meaning::Meaning;
    use crate::allocs::site::{Own, Sites};
    use nilometer_trace::allocs::{Amount, Source};

    fn run(steps: u64, mut at: impl FnMut(&mut Sites, &mut Own, u64)) -> Sites {
        let (mut sites, mut own) = (Sites::default(), Own::default());
        for number in 0..steps {
            at(&mut sites, &mut own, number);
            let live_bytes = sites.live.bytes;
            sites.steps.mark(Step { number, at_ns: number, live_bytes }, number);
        }
        sites.catch_up();
        sites
    }

    fn bytes(bytes: u64) -> Amount {
        Amount { bytes, count: 1, variance: 0 }
    }

    #[test]
    fn each_kept_step_has_the_value_of_that_step() {
        for steps in [1, 2, 31, 32, 33, 64, 65, 1000] {
            let sites = run(steps, |sites, own, number| {
                // One grows at each step, one every seventh, one lives within steps only.
                while sites.all.len() < 3 {
                    sites.push(0, sites.all.len() as u32, 0, Source::Heap, Meaning::default()).unwrap();
                }
                sites.grow(own, 0, &bytes(10), 0);
                if number % 7 == 3 {
                    sites.grow(own, 1, &bytes(1), 0);
                }
                sites.grow(own, 2, &bytes(5), 0);
                sites.shrink(own, 2, &bytes(5));
            });
            let kept: Vec<u64> = sites.steps.kept().iter().map(|step| step.number).collect();
            assert!(kept.len() <= POINTS && (steps < 32 || kept.len() >= POINTS / 2), "{steps}");
            let stride = u64::from(sites.steps.stride());
            assert_eq!(kept, (0..steps).step_by(stride as usize).collect::<Vec<_>>());
            let values = |site: usize| sites.steps.values(&sites.all[site]).map(<[u64]>::to_vec);
            assert_eq!(values(0).unwrap(), kept.iter().map(|k| (k + 1) * 10).collect::<Vec<_>>());
            let sevens: Vec<u64> = kept.iter().map(|k| (k + 4) / 7).collect();
            assert_eq!(values(1).unwrap_or_else(|| vec![0; kept.len()]), sevens, "{steps}");
            assert_eq!(values(2), None);
        }
    }

    #[test]
    fn many_small_sites_leave_room_for_large_ones() {
        let sites = run(3, |sites, own, number| {
            while number == 0 && sites.all.len() < MOST_SERIES {
                let site =
                    sites.push(0, sites.all.len() as u32, 0, Source::Heap, Meaning::default()).unwrap();
                sites.grow(own, site, &bytes(10), 0);
            }
            let last = sites.all.len() as u32 - 1;
            if number == 1 {
                sites.catch_up();
                sites.grow(own, last, &bytes(SMALL_BYTES), 0);
            }
        });
        let values = |site: usize| sites.steps.values(&sites.all[site]).map(<[u64]>::to_vec);
        assert_eq!(values(0).unwrap(), [10, 10, 10]);
        assert_eq!(values(MOST_SERIES - 2), None, "no room");
        assert_eq!(values(MOST_SERIES - 1).unwrap(), [0, 10 + SMALL_BYTES, 10 + SMALL_BYTES]);
        assert_eq!(sites.steps.folded, MOST_SERIES as u64 / 2 - 1);
    }

    #[test]
    fn a_site_that_comes_late_had_nothing_before() {
        let sites = run(100, |sites, own, number| {
            if number == 60 {
                let site = sites.push(0, 1, 0, Source::Heap, Meaning::default()).unwrap();
                sites.grow(own, site, &bytes(7), 0);
            }
        });
        let values = sites.steps.values(&sites.all[0]).unwrap();
        let expected: Vec<u64> =
            sites.steps.kept().iter().map(|step| if step.number >= 60 { 7 } else { 0 }).collect();
        assert_eq!(values, expected);
    }
}
