//! Events in the order of their time: the peak, what it was made of, what is left.

use std::collections::{BTreeMap, HashMap};

use nilometer_trace::allocs::{Amount, Point};

use super::pickle::Id;
use crate::sites::Sites;
use crate::stacks::{Stacks, add, one};
use crate::time::FIRST_NS;

/// A block handed out at a site, or given back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) process: u32,
    /// `None`: given back.
    pub(super) site: Option<u32>,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) at_us: u64,
}

/// Points of the curve that are kept.
const MOST_POINTS: usize = 1024;

/// Blocks that were there before the history: given back in it, or still there, without having been handed out in it.
pub(super) fn before(history: &[Event], at_end: &HashMap<u64, (u64, Option<Id>)>) -> BTreeMap<u64, u64> {
    let mut first = BTreeMap::new();
    let mut seen: HashMap<u64, bool> = HashMap::new();
    for event in history {
        // A free is told twice: when it was asked for, and when it was done.
        if event.site.is_none() && !seen.contains_key(&event.address) {
            first.insert(event.address, event.bytes);
        }
        seen.insert(event.address, event.site.is_some());
    }
    for (address, (bytes, _)) in at_end {
        if !seen.contains_key(address) {
            first.insert(*address, *bytes);
        }
    }
    first
}

struct Running {
    live: HashMap<(u32, u64), (u32, u64)>,
    sites: Vec<Amount>,
    total: u64,
}

impl Running {
    fn new(sites: usize) -> Self {
        Self { live: HashMap::new(), sites: vec![Amount::default(); sites], total: 0 }
    }

    fn apply(&mut self, event: &Event) {
        let key = (event.process, event.address);
        let gone = match event.site {
            Some(site) => self.live.insert(key, (site, event.bytes)),
            None => self.live.remove(&key),
        };
        if let Some((site, bytes)) = gone
            && let Some(amount) = self.sites.get_mut(site as usize)
        {
            amount.bytes = amount.bytes.saturating_sub(bytes);
            amount.count = amount.count.saturating_sub(1);
            self.total = self.total.saturating_sub(bytes);
        }
        if let Some(amount) = event.site.and_then(|site| self.sites.get_mut(site as usize)) {
            add(amount, &one(event.bytes));
            self.total = self.total.saturating_add(event.bytes);
        }
    }
}

/// Sites with their sums.
pub(super) fn replay(mut stacks: Stacks, mut events: Vec<Event>, notes: Vec<String>) -> Sites {
    events.sort_by_key(|event| event.at_us);
    let count = stacks.recording.sites.len();
    let first_us = events.first().map_or(0, |event| event.at_us);
    let at_ns = |us: u64| FIRST_NS.saturating_add(us.saturating_sub(first_us).saturating_mul(1000));
    let mut running = Running::new(count);
    let (mut peak, mut highest, mut curve) = (0, 0, Vec::new());
    for (index, event) in events.iter().enumerate() {
        running.apply(event);
        if let Some(site) = event.site.and_then(|site| stacks.site_mut(site)) {
            add(&mut site.total, &one(event.bytes));
        }
        if let Some((site, amount)) =
            event.site.and_then(|site| Some((stacks.site_mut(site)?, running.sites.get(site as usize)?)))
        {
            site.highest_bytes = site.highest_bytes.max(amount.bytes);
        }
        if running.total > highest {
            (peak, highest) = (index + 1, running.total);
        }
        curve.push(Point { at_ns: at_ns(event.at_us), live_bytes: running.total });
    }
    let mut at_peak = Running::new(count);
    events.iter().take(peak).for_each(|event| at_peak.apply(event));
    for (site, (end, top)) in stacks.recording.sites.iter_mut().zip(running.sites.iter().zip(&at_peak.sites))
    {
        (site.live, site.peak, site.own_peak_bytes) = (*end, *top, top.bytes);
    }
    let peak_us = peak.checked_sub(1).and_then(|at| events.get(at)).map_or(first_us, |event| event.at_us);
    let last_us = events.last().map_or(first_us, |event| event.at_us);
    let (mut recording, symbols) = stacks.finish();
    let about = &mut recording.about;
    (about.peak_at_ns, about.started_ns, about.ended_ns) = (at_ns(peak_us), FIRST_NS, at_ns(last_us));
    about.events = events.len() as u64;
    about.frees = events.iter().filter(|event| event.site.is_none()).count() as u64;
    about.curve = thinned(&curve);
    Sites { recording, symbols, realtime_ns: first_us.saturating_mul(1000), last_ns: at_ns(last_us), notes }
}

fn thinned(curve: &[Point]) -> Vec<Point> {
    let per = curve.len().div_ceil(MOST_POINTS).max(1);
    let highest = |points: &[Point]| points.iter().copied().max_by_key(|point| point.live_bytes);
    curve.chunks(per).filter_map(highest).collect()
}
