//! A process image whose files we hold: its rings are read here. It may be dead already.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nilometer_kernel::sys::process::pidfd;
use nilometer_ring::cursor::Source;
use nilometer_ring::event::{Level, Mode};
use nilometer_ring::layout::degraded;
use nilometer_ring::reader::{Process as Ring, Totals};
use nilometer_ring::{Decoder, Event};
use nilometer_trace::allocs::Process;

use super::clock::Clock;
use super::events::Events;
use super::tracked::{Sums, Tracked};
use super::untracked::program_of;

/// How long after its start a process is told the mode again: it sets its own just after it introduced itself.
const SETTLING_NS: u64 = 100_000_000;
/// How long a child waits for its parent's word.
const PATIENCE_NS: u64 = 200_000_000;
/// Bytes of a lane that may wait for their time; a clock that makes no sense must not fill our memory.
const MOST_HELD: usize = 16 << 20;
/// Beyond what may wait to be understood anyway, a lane whose times are in the future is not waited for.
const MOST_AHEAD: usize = 128 << 20;
/// Events that are understood before the rings are looked at again: about a millisecond.
const AT_ONCE: usize = 20_000;
/// A buffer may stay as large as a ring.
const KEPT_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub struct Living {
    ring: Ring,
    lanes: Vec<Lane>,
    /// Lanes with an event that waits, by its time.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    pub tracked: Tracked,
    pub pid: i32,
    /// The program it was when it came.
    pub program: PathBuf,
    /// Inode of its book.
    pub book: u64,
    /// Becomes readable when it ends; `None` if it had ended when we looked.
    pub end: Option<OwnedFd>,
    pub is_over: bool,
    introduced_ns: u64,
    wanted: Option<Mode>,
    /// The fullest mode that blocks may have been told in.
    fullest: Level,
    pub totals: Totals,
    /// Bytes taken from its rings so far.
    taken_bytes: u64,
}

/// A lane's bytes on their way through its decoder.
#[derive(Debug, Default)]
struct Lane {
    decoder: Decoder,
    /// Taken, and not yet of this turn.
    fresh: Vec<u8>,
    bytes: Vec<u8>,
    /// Bytes that are decoded.
    at: usize,
    /// The event that comes next; the decoder stands behind it.
    next: Option<Event>,
    /// Its bytes made no sense from some point on.
    broken: bool,
}

impl Lane {
    /// What was taken belongs to the turn that begins.
    fn adopt(&mut self) {
        if self.at >= self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
            std::mem::swap(&mut self.bytes, &mut self.fresh);
        } else {
            self.bytes.extend_from_slice(&self.fresh);
        }
        self.fresh.clear();
        self.fresh.shrink_to(KEPT_BYTES);
    }

    /// Not understood yet.
    fn waiting_bytes(&self) -> usize {
        self.fresh.len() + self.bytes.len().saturating_sub(self.at)
    }

    /// When the next event happened, if there is one.
    fn next_ticks(&mut self) -> Option<u64> {
        if self.next.is_none() {
            let mut source = Source::new(self.bytes.get(self.at..).unwrap_or_default());
            self.next = advance(&mut self.decoder, &mut source, &mut self.broken);
            self.at = self.bytes.len() - source.remaining();
        }
        self.next.is_some().then(|| self.decoder.ticks())
    }

    /// Hands over events up to this time, as many as there is room for; when the one after them happened.
    #[inline]
    fn run(&mut self, until: u64, room: &mut usize, mut sink: impl FnMut(&Decoder, Event)) -> Option<u64> {
        let mut source = Source::new(self.bytes.get(self.at..).unwrap_or_default());
        let mut next = self.next.take();
        while let Some(event) = next {
            if self.decoder.ticks() > until || *room == 0 {
                break;
            }
            *room -= 1;
            sink(&self.decoder, event);
            next = advance(&mut self.decoder, &mut source, &mut self.broken);
        }
        self.next = next;
        self.at = self.bytes.len() - source.remaining();
        self.next.is_some().then(|| self.decoder.ticks())
    }
}

#[inline]
fn advance(decoder: &mut Decoder, source: &mut Source<'_>, broken: &mut bool) -> Option<Event> {
    if *broken {
        *source = Source::new(&[]);
        return None;
    }
    decoder.next(source).unwrap_or_else(|_| {
        *broken = true;
        *source = Source::new(&[]);
        None
    })
}

impl Living {
    pub fn new(ring: Ring, pid: i32, book: u64, tracked: Tracked, now_ns: u64) -> Self {
        let end = pidfd(pid).ok();
        let is_over = end.is_none();
        Self {
            ring,
            lanes: Vec::new(),
            queue: BinaryHeap::new(),
            tracked,
            pid,
            program: program_of(pid),
            book,
            end,
            is_over,
            introduced_ns: now_ns,
            wanted: None,
            fullest: Level::Off,
            totals: Totals::default(),
            taken_bytes: 0,
        }
    }

    /// Says that we live, and what is wanted. A mode that the target lowered by itself stays as it is.
    pub fn beat(&mut self, now_ns: u64) {
        let _ = self.ring.beat();
        if let Some(wanted) = self.wanted {
            if now_ns.saturating_sub(self.introduced_ns) > SETTLING_NS {
                self.wanted = None;
            } else if self.ring.mode().is_ok_and(|mode| mode != wanted) {
                self.switch(wanted.level(), now_ns); // what it told meanwhile must be seen to end, too
            }
        }
    }

    /// Switches the target.
    pub fn switch(&mut self, level: Level, now_ns: u64) {
        let now = self.ring.mode().unwrap_or(Mode::new(Level::Off));
        let mode = mode_after(&mut self.fullest, now, level);
        let _ = self.ring.set_mode(mode);
        self.wanted = Some(mode).filter(|_| now_ns.saturating_sub(self.introduced_ns) <= SETTLING_NS);
    }

    /// Empties the rings; what they had is understood later. Returns the bytes taken.
    pub fn collect(&mut self, mut events: Option<&mut Events>) -> usize {
        let mut taken = 0;
        for index in 0..self.ring.lanes() {
            if self.lanes.len() <= index {
                self.lanes.push(Lane::default());
            }
            let lane = &mut self.lanes[index];
            let known = lane.fresh.len();
            let bytes = self.ring.take(index, &mut lane.fresh);
            taken += bytes;
            if let Some(events) = events.as_deref_mut().filter(|_| bytes > 0) {
                events.add(self.tracked.process, index as u32, lane.fresh.get(known..).unwrap_or_default());
            }
        }
        self.taken_bytes += taken as u64;
        taken
    }

    /// What was taken and is not understood yet.
    pub fn waiting_bytes(&self) -> usize {
        self.lanes.iter().map(Lane::waiting_bytes).sum()
    }

    /// All rings were emptied after what is understood now had happened.
    pub fn begin_turn(&mut self) {
        self.tracked.begin_turn();
        self.lanes.iter_mut().for_each(Lane::adopt);
    }

    /// A forked child speaks before its parent has said that it forked, and what it had then: what it says is taken, and
    /// understood a little later.
    pub fn awaits(&self, now_ns: u64) -> bool {
        self.tracked.inherited.is_awaited()
            && now_ns.saturating_sub(self.introduced_ns) < PATIENCE_NS
            && self.lanes.iter().all(|lane| lane.waiting_bytes() < MOST_HELD)
    }

    /// Understands what happened up to `cutoff`, in the order of times: what came later waits for the others' share of
    /// that time. False when there is more of it, and the rings want to be looked at first.
    pub fn understand(&mut self, sums: &mut Sums, cutoff: u64) -> bool {
        self.queue.clear();
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            self.queue.extend(lane.next_ticks().map(|ticks| Reverse((ticks, index))));
        }
        let mut room = AT_ONCE;
        while let Some(Reverse((ticks, index))) = self.queue.pop() {
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            if ticks > cutoff && lane.waiting_bytes() < MOST_AHEAD {
                continue;
            }
            if room == 0 {
                return false;
            }
            let others = self.queue.peek().map_or(u64::MAX, |Reverse((ticks, _))| *ticks);
            let until = others.min(cutoff).max(ticks);
            let tracked = &mut self.tracked;
            let next = lane.run(until, &mut room, |decoder, event| tracked.take(sums, index, decoder, event));
            tracked.last_ticks = tracked.last_ticks.max(ticks);
            self.queue.extend(next.map(|ticks| Reverse((ticks, index))));
        }
        true
    }

    /// Parts of the interpreter's loop, in memory.
    pub fn evaluations(&self) -> Vec<(u64, u64)> {
        self.ring.evaluations().unwrap_or_default()
    }

    /// Memory of the tracker in it, its book apart.
    pub fn look(&mut self) -> u64 {
        if let Ok(totals) = self.ring.totals() {
            self.totals = totals;
        }
        self.totals.private_bytes.saturating_add(self.totals.ring_bytes)
    }

    /// Events that happened and were not recorded, by the last look.
    pub fn lost_events(&self) -> u64 {
        let Totals { lost, nested, orphans_lost, .. } = self.totals;
        lost.saturating_add(nested).saturating_add(orphans_lost)
    }

    /// What there is to say about the process, apart from what was known when it came.
    pub fn describe(&mut self, process: &mut Process, clock: &Clock) {
        let tracker_bytes = self.look();
        let (totals, tracked) = (&self.totals, &self.tracked);
        process.tracker_bytes = process.tracker_bytes.max(tracker_bytes);
        process.python = self.ring.facts().map_or(0, |facts| facts.python);
        process.mode = self.ring.mode().map_or(String::new(), |mode| level_name(mode.level()).to_owned());
        process.degraded = reasons(totals, self.lanes.iter().filter(|lane| lane.broken).count());
        process.peak_bytes = tracked.own.peak_bytes;
        process.peak_at_ns = clock.ns(tracked.own.peak_ticks);
        process.live = tracked.own.live;
        process.total = tracked.own.total;
        process.inherited = tracked.inherited.at_fork;
        process.inherited_live = tracked.inherited.live;
        process.frees = tracked.frees;
        process.events = tracked.events;
        process.raw_bytes = self.taken_bytes;
        process.lost_events = self.lost_events();
        process.unknown_frees = tracked.unknown_frees;
        process.stacks_dropped = totals.stacks_dropped;
        process.stacks_cut = totals.stacks_cut;
        process.discarded_bytes = tracked.discarded_bytes;
        process.file_mapped_bytes = tracked.file_mapped_bytes;
        process.longest_wait_ns = clock.span_ns(totals.longest_wait_ticks);
    }
}

/// A level for blocks to come, with the frees of those that an earlier, fuller mode told: they must be seen to end.
fn mode_after(fullest: &mut Level, now: Mode, level: Level) -> Mode {
    // Not our wish: the target lowered its mode by itself, and does not say from which.
    let is_lowered = now.has(Mode::ALL_FREES) && *fullest <= now.level();
    let told = if is_lowered { Level::Deep } else { now.level() };
    *fullest = (*fullest).max(told).max(level);
    let mode = Mode::new(level);
    if level != Level::Off && level < *fullest { mode.with(Mode::ALL_FREES) } else { mode }
}

pub fn level_name(level: Level) -> &'static str {
    match level {
        Level::Off => "off",
        Level::Sampled => "sampled",
        Level::All => "all",
        Level::Deep => "deep",
    }
}

fn reasons(totals: &Totals, broken_lanes: usize) -> Vec<String> {
    let told = [
        (degraded::RING_REFUSED, "no memory for a larger ring: sampled from then on"),
        (
            degraded::BOOK_REFUSED,
            "no memory for more stacks, or their ceiling is reached: sampled from then on",
        ),
        (degraded::RECORDER_GONE, "the recorder did not answer: nothing was recorded from then on"),
        (degraded::PYTHON_UNKNOWN, "an interpreter of an unknown version: native stacks only"),
        (degraded::BOOK_FOLDED, "the ceiling of stacks is near: inner frames of new stacks are not kept"),
        (degraded::LITTLE_ROOM, "its memory limit is near: the tracker did with less"),
        (degraded::TABLE_FULL, "too many sampled blocks: fewer were drawn from then on"),
    ];
    let mut reasons: Vec<String> = told
        .into_iter()
        .filter(|(bit, _)| totals.degraded & bit != 0)
        .map(|(_, reason)| reason.to_owned())
        .collect();
    if broken_lanes > 0 {
        reasons.push(format!("{broken_lanes} of its rings held bytes that make no sense"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each of these switches, one after the other, asks for all frees.
    fn frees(first: Mode, levels: &[Level]) -> Vec<bool> {
        let (mut now, mut fullest) = (first, Level::Off);
        let switch = |&level: &Level| {
            now = mode_after(&mut fullest, now, level);
            assert_eq!(now.level(), level);
            now.has(Mode::ALL_FREES)
        };
        levels.iter().map(switch).collect()
    }

    #[test]
    fn blocks_of_a_fuller_mode_are_seen_to_end_however_often_it_is_switched() {
        use Level::{All, Deep, Off, Sampled};
        assert_eq!(frees(Mode::new(Off), &[Sampled, All, Deep]), [false; 3]);
        assert_eq!(frees(Mode::new(All), &[Sampled, Sampled, All]), [true, true, false]);
        assert_eq!(frees(Mode::new(Deep), &[All, Sampled, All, Deep]), [true, true, true, false]);
        assert_eq!(frees(Mode::new(All), &[Off, Sampled]), [false, true]);
        let lowered = Mode::new(Sampled).with(Mode::ALL_FREES);
        assert_eq!(frees(lowered, &[Sampled, All]), [true, true]);
    }
}
