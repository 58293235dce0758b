//! The sums at one moment, ready to be stored by another thread.

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_trace::allocs::{About, Point};

use super::hear::{Hearing, Row};
use super::site::{Site, Sites};
use super::step::Steps;

/// Sites that are copied in one turn of the recorder: about a millisecond.
const AT_ONCE: usize = 8192;
/// Series that are copied while the run goes on.
const MOST_SERIES: usize = 10_000;

#[derive(Debug)]
pub struct Snapshot {
    pub about: About,
    pub rows: Vec<Row>,
    pub sites: Sites,
    /// As in [`super::clock::Clock`].
    pub tick_scale: u64,
}

/// A copy in the making, some sites a turn.
#[derive(Debug, Default)]
pub struct Copying {
    sites: Vec<Site>,
}

impl Copying {
    /// Goes on; the whole copy when it is done. Sites that change meanwhile are as they were when their turn came.
    pub fn go_on(&mut self, hearing: &mut Hearing, about: &About) -> Option<Box<Snapshot>> {
        let all = &hearing.sums.sites.all;
        let from = self.sites.len();
        self.sites.extend_from_slice(all.get(from..all.len().min(from + AT_ONCE)).unwrap_or_default());
        if self.sites.len() < all.len() {
            return None;
        }
        let sites = std::mem::take(&mut self.sites);
        let steps = hearing.sums.sites.steps.copy(MOST_SERIES);
        let about = describe(hearing, about, false);
        let sites = hearing.sums.sites.with(sites, steps);
        let tick_scale = hearing.clock.scale;
        Some(Box::new(Snapshot { about, rows: hearing.rows.clone(), sites, tick_scale }))
    }
}

/// Everything, at the end.
pub fn last(mut hearing: Hearing, about: &About) -> Box<Snapshot> {
    let about = describe(&mut hearing, about, true);
    let mut sites = hearing.sums.sites;
    sites.catch_up();
    Box::new(Snapshot { about, rows: hearing.rows, sites, tick_scale: hearing.clock.scale })
}

fn describe(hearing: &mut Hearing, asked: &About, finished: bool) -> About {
    hearing.look();
    hearing.describe_all();
    let (total, frees, events) = hearing.total();
    let sites = &hearing.sums.sites;
    let peak_at_ns = if sites.peak.bytes == 0 { 0 } else { hearing.clock.ns(sites.peak_ticks) };
    let live = hearing.rows.iter().fold(nilometer_trace::allocs::Amount::default(), |mut sum, row| {
        super::weight::Sum::add(&mut sum, &row.process.live);
        sum
    });
    About {
        ended_ns: monotonic_ns(),
        finished,
        peak: sites.peak,
        peak_at_ns,
        live,
        total,
        frees,
        events,
        raw_bytes: hearing.rows.iter().map(|row| row.process.raw_bytes).sum(),
        lost_events: hearing.rows.iter().map(|row| row.process.lost_events).fold(0, u64::saturating_add),
        unheard_processes: hearing.unheard_processes(),
        unknown_frees: hearing.rows.iter().map(|row| row.process.unknown_frees).sum(),
        steps_seen: sites.steps.count().into(),
        step_stride: sites.steps.stride().into(),
        steps: sites.steps.kept().to_vec(),
        turns: sites.turns.count,
        phase_peaks: sites.turns.peaks.clone(),
        sizes: hearing.sums.sizes.clone().trimmed(),
        lifetimes: hearing.sums.lifetimes.clone().trimmed(),
        curve: hearing.curve.points(Point { at_ns: peak_at_ns, live_bytes: sites.peak.bytes }),
        tracker_bytes: hearing.tracker_bytes,
        ..asked.clone()
    }
}

impl Sites {
    /// These sums with other copies of the sites.
    fn with(&self, all: Vec<Site>, steps: Steps) -> Self {
        let mut copy = self.sums();
        copy.all = all;
        copy.steps = steps;
        copy
    }
}
