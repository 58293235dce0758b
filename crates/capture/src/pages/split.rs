//! Splitting mappings into chunks, so that the kernel counts the touched pages of each.
//!
//! Chunks are registered in turn with two userfaultfds that we hold (see `guards`): from outside, and gone with us. Where
//! the kernel does not offer that (before Linux 6.7), every other chunk is left out of core dumps by calls of a thread of
//! the target: the kernel does not join neighbours that differ in that either. The one invariant: a chunk's borders are
//! multiples of the chunk's size, and what was set is taken back at the end.

use std::ops::Range;

use nilometer_kernel::parse::maps::{Mapping, parse_header};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::pagemap::Pagemap;

use super::errand;
use super::filter::Filters;
use super::guards::{Refused, Shared, pieces};

/// `vm.max_map_count` where it cannot be read.
const USUAL_MAPPINGS: u64 = 65_530;
/// The target must still be able to map: so much of its mappings may be ours.
const OUR_SHARE: f64 = 0.7;
/// A thread stands still no longer than this at a time; the rest is split at the next mark.
const LONGEST_NS: u64 = 200_000_000;

/// The chunks of one process.
#[derive(Debug)]
pub(super) struct Splitter {
    pid: i32,
    chunk_bytes: u64,
    filters: Filters,
    /// Nothing where they are not to be had.
    guards: Option<Shared>,
    /// Mappings that are longer than a chunk, as of the last look.
    seen: Vec<Range<u64>>,
    /// What was left out of core dumps.
    set: Vec<Range<u64>>,
    /// What the target itself had left out of core dumps before us: not split, and left so.
    own: Vec<Range<u64>>,
    mappings: u64,
    has_looked: bool,
    stopped_ns: u64,
    notes: Vec<String>,
    gave_up: bool,
}

impl Splitter {
    pub fn new(pid: i32, chunk_bytes: u64, filters: Filters, guards: Option<Shared>) -> Self {
        Self {
            pid,
            chunk_bytes,
            filters,
            guards,
            seen: Vec::new(),
            set: Vec::new(),
            own: Vec::new(),
            mappings: 0,
            has_looked: false,
            stopped_ns: 0,
            notes: Vec::new(),
            gave_up: false,
        }
    }

    /// Notes a mapping with resident memory.
    pub fn see(&mut self, mapping: &Mapping<'_>, rss_bytes: u64) {
        self.mappings += 1;
        if rss_bytes >= self.chunk_bytes && is_splittable(mapping, self.chunk_bytes) {
            self.seen.push(mapping.start..mapping.end);
        }
    }

    /// Splits what the last look has seen; before the first look, what there is.
    pub fn split(&mut self) {
        if !std::mem::replace(&mut self.has_looked, true) {
            self.look();
        }
        let seen = std::mem::take(&mut self.seen);
        let mappings = std::mem::take(&mut self.mappings);
        if seen.is_empty() || self.gave_up {
            return;
        }
        let resident = self.resident(&seen);
        self.fit(&resident, mappings);
        if !self.register(&resident) {
            self.leave_out(&resident);
        }
    }

    /// False where there are no guards and never will be.
    fn register(&mut self, resident: &[Range<u64>]) -> bool {
        let Some(guards) = &self.guards else { return false };
        let mut guards = guards.borrow_mut();
        guards.chunk_bytes = Some(self.chunk_bytes);
        match guards.open() {
            Ok(()) => {}
            Err(Refused::Now) => return true,
            Err(Refused::Forever(_)) => return false,
        }
        for range in resident {
            // A mapping that is gone meanwhile, or of a kind that cannot be split, stays whole.
            guards.register(range, false);
        }
        true
    }

    fn look(&mut self) {
        self.seen.clear();
        self.mappings = 0;
        let (proc, filters) = (Proc::default(), self.filters.clone());
        let page = nilometer_kernel::sys::limits::page_bytes();
        let mut buffer = Vec::new();
        let _ = proc.read_smaps(self.pid, &mut buffer, |mapping, usage| {
            if filters.keeps(mapping, page) {
                self.see(mapping, usage.rss.saturating_mul(1024));
            }
        });
    }

    /// The parts of mappings that hold something: a reserve of many gigabytes needs no chunks.
    fn resident(&self, seen: &[Range<u64>]) -> Vec<Range<u64>> {
        let Ok(map) = Pagemap::open(self.pid) else { return seen.to_vec() };
        let mut resident: Vec<Range<u64>> = Vec::new();
        let mut runs = Vec::new();
        for mapping in seen {
            runs.clear();
            if map.read_runs(mapping.clone(), &mut runs).is_err() {
                resident.push(mapping.clone());
                continue;
            }
            for run in &runs {
                let start = (run.start - run.start % self.chunk_bytes).max(mapping.start);
                let end = run.end.next_multiple_of(self.chunk_bytes).min(mapping.end);
                match resident.last_mut() {
                    Some(last) if last.end >= start && last.end <= end => last.end = end,
                    Some(last) if last.end > end => {}
                    _ => resident.push(start..end),
                }
            }
        }
        resident
    }

    /// Larger chunks where there would be too many.
    fn fit(&mut self, ranges: &[Range<u64>], mappings: u64) {
        let most = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let most = most.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_MAPPINGS);
        let room = (most as f64 * OUR_SHARE) as u64;
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let asked = self.chunk_bytes;
        while bytes / self.chunk_bytes + mappings > room && self.chunk_bytes < 1 << 40 {
            self.chunk_bytes *= 2;
        }
        if self.chunk_bytes > asked {
            let kib = self.chunk_bytes >> 10;
            self.notes.push(format!("chunks of {kib} KiB: smaller ones would be more than vm.max_map_count"));
        }
    }

    /// Leaves every other chunk out of core dumps, but nothing that the target itself has left out.
    fn leave_out(&mut self, resident: &[Range<u64>]) {
        let left_out = read_left_out(self.pid);
        self.own.extend(left_out.iter().filter(|range| !self.set.iter().any(|s| holds(s, range))).cloned());
        let is_own = |range: &Range<u64>| self.own.iter().any(|own| overlap(own, range));
        let chunks: Vec<Range<u64>> = resident
            .iter()
            .flat_map(|range| pieces(range, self.chunk_bytes))
            .filter(|(number, chunk)| number % 2 == 0 && !is_own(chunk))
            .map(|(_, chunk)| chunk)
            .collect();
        let until_ns = monotonic_ns() + LONGEST_NS;
        let done = errand::run(self.pid, |lent| {
            let in_time = chunks.into_iter().take_while(|_| monotonic_ns() < until_ns);
            in_time.filter(|chunk| lent.set_dumped(chunk, false).is_ok()).collect::<Vec<_>>()
        });
        self.stopped_ns += done.stopped_ns;
        match done.result {
            Ok(mut set) => self.set.append(&mut set),
            Err(why) => {
                self.gave_up = true;
                self.notes.push(format!("mappings of {} were not split: {why}", self.pid));
            }
        }
    }

    /// Takes back what was set: the kernel joins the chunks again. What is left out beyond our chunks is the target's.
    pub fn join(&mut self) {
        let set = std::mem::take(&mut self.set);
        if set.is_empty() {
            return;
        }
        let ours = |range: &Range<u64>| set.iter().any(|set| holds(set, range));
        let left: Vec<Range<u64>> = without(&read_left_out(self.pid), &self.own);
        let spans = neighbours(left.into_iter().filter(ours).collect(), self.chunk_bytes);
        if spans.is_empty() {
            return;
        }
        let done = errand::run(self.pid, |lent| {
            for span in &spans {
                let _ = lent.set_dumped(span, true);
            }
        });
        self.stopped_ns += done.stopped_ns;
    }

    pub fn take_stopped_ns(&mut self) -> u64 {
        std::mem::take(&mut self.stopped_ns)
    }

    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// Mappings with the flag `dd`: left out of core dumps.
fn parse_left_out(smaps: &str) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut last = 0..0;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            found.extend(flags.split(' ').any(|flag| flag == "dd").then(|| last.clone()));
        } else if let Some(mapping) = parse_header(line.as_bytes()) {
            last = mapping.start..mapping.end;
        }
    }
    found
}

/// Not the kernel's own, not what grows by faults, not what cannot be accessed.
fn is_splittable(mapping: &Mapping<'_>, chunk_bytes: u64) -> bool {
    let is_special = mapping.name.starts_with(b"[") && mapping.name != b"[heap]";
    mapping.bytes() > chunk_bytes && !is_special && mapping.perms[0] == b'r'
}

/// Nothing where it has ended.
fn read_left_out(pid: i32) -> Vec<Range<u64>> {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps"));
    smaps.map(|text| parse_left_out(&text)).unwrap_or_default()
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn holds(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// What is left of `ranges` outside `taken`.
fn without(ranges: &[Range<u64>], taken: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = ranges.to_vec();
    for hole in taken {
        let cut = |range: Range<u64>| {
            [range.start..range.end.min(hole.start), range.start.max(hole.end)..range.end]
        };
        left = left.into_iter().flat_map(cut).filter(|range| range.start < range.end).collect();
    }
    left
}

/// Chunks with the chunk between them as one: fewer calls take them back.
fn neighbours(chunks: Vec<Range<u64>>, chunk_bytes: u64) -> Vec<Range<u64>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for chunk in chunks {
        match spans.last_mut() {
            Some(last) if chunk.start <= last.end + chunk_bytes => last.end = last.end.max(chunk.end),
            _ => spans.push(chunk),
        }
    }
    spans
}

#[cfg(test)]
mod tests;
