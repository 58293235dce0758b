//! Splitting mappings into chunks, so that the kernel counts the touched pages of each.
//!
//! Every other chunk is left out of core dumps: the kernel does not join neighbours that differ in that. The calls are
//! made by a thread of the target. The one invariant: a chunk's borders are multiples of the chunk's size, and what was
//! set is taken back at the end.

use std::ops::Range;

use nilometer_kernel::parse::maps::{Mapping, parse_header};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::pagemap::Pagemap;

use super::errand;
use super::filter::Filters;

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
    /// Mappings that are longer than a chunk, as of the last look.
    seen: Vec<Range<u64>>,
    /// What was set.
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
    pub fn new(pid: i32, chunk_bytes: u64, filters: Filters) -> Self {
        Self {
            pid,
            chunk_bytes,
            filters,
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
        let is_own = self.own.iter().any(|own| own.start < mapping.end && mapping.start < own.end);
        if rss_bytes >= self.chunk_bytes && is_splittable(mapping, self.chunk_bytes) && !is_own {
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
        let chunks: Vec<Range<u64>> =
            resident.iter().flat_map(|range| every_other(range, self.chunk_bytes)).collect();
        self.set_apart(&chunks);
    }

    fn look(&mut self) {
        let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", self.pid));
        self.own = smaps.map(|text| parse_left_out(&text)).unwrap_or_default();
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

    fn set_apart(&mut self, chunks: &[Range<u64>]) {
        let until_ns = monotonic_ns() + LONGEST_NS;
        let done = errand::run(self.pid, |lent| {
            let mut set = Vec::new();
            for chunk in chunks {
                if monotonic_ns() >= until_ns {
                    break;
                }
                // A mapping that is gone meanwhile, or of a kind that cannot be split, stays whole.
                if lent.set_dumped(chunk, false).is_ok() {
                    set.push(chunk.clone());
                }
            }
            set
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

    /// Takes back what was set: the kernel joins the chunks again.
    pub fn join(&mut self) {
        let mut set = std::mem::take(&mut self.set);
        set.sort_unstable_by_key(|chunk| chunk.start);
        if set.is_empty() || Proc::default().read_maps(self.pid, |_| ()).is_err() {
            return;
        }
        let (spans, own) = (neighbours(set, self.chunk_bytes), &self.own);
        let done = errand::run(self.pid, |lent| {
            for span in &spans {
                let _ = lent.set_dumped(span, true);
            }
            for own in own.iter().filter(|own| spans.iter().any(|s| s.start < own.end && own.start < s.end)) {
                let _ = lent.set_dumped(own, false);
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

/// The chunks of a range with an even number.
fn every_other(range: &Range<u64>, chunk_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let (range, first) = (range.clone(), range.start / chunk_bytes);
    let last = range.end.div_ceil(chunk_bytes);
    (first..last).filter(|number| number % 2 == 0).map(move |number| {
        (number * chunk_bytes).max(range.start)..((number + 1) * chunk_bytes).min(range.end)
    })
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
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_dumps_is_known_by_its_flag() {
        let smaps = "1000-9000 rw-p 0 00:00 0 \nRss: 4 kB\nVmFlags: rd wr mr dd \n\
                     9000-a000 rw-p 0 00:00 0 \nVmFlags: rd wr mr ac \n";
        assert_eq!(parse_left_out(smaps), std::slice::from_ref(&(0x1000..0x9000)));
    }

    #[test]
    fn every_other_chunk_is_set_apart_within_the_range() {
        let told: Vec<Range<u64>> = every_other(&(50..460), 100).collect();
        assert_eq!(told, [50..100, 200..300, 400..460]);
        assert_eq!(neighbours(told, 100).first(), Some(&(50..460)));
        assert_eq!(every_other(&(110..190), 100).count(), 0);
    }

    #[test]
    fn stacks_reserves_and_small_ones_stay_whole() {
        let splittable = |line: &str| is_splittable(&parse_header(line.as_bytes()).unwrap(), 0x1000);
        assert!(splittable("10000-90000 rw-p 0 00:00 0 ") && splittable("10000-90000 rw-p 0 00:00 0 [heap]"));
        assert!(!splittable("10000-90000 rw-p 0 00:00 0 [stack]"));
        assert!(!splittable("10000-90000 ---p 0 00:00 0 ") && !splittable("10000-11000 rw-p 0 00:00 0 "));
    }
}
