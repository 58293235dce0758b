//! What is to be copied, and where to.
//!
//! Wanted is everything that the process itself has written: heap, stacks, variables of libraries, and what the
//! dynamic linker has relocated (read-only by now). Plain pages of files stay where they are, devices are not touched,
//! and memory shared with others is payload: only how much of it is resident is looked at.

use std::io;
use std::ops::Range;

use nilometer_kernel::sys::pagemap::{Backing, PageRun, PageState, Pagemap};

use crate::image::Segment;
use crate::mapping::Mapping;
use crate::residency::{Residency, merged};

/// The largest `POOL_SIZE` of CPython's allocator: a pool whose last pages were never touched must be found whole.
const ROUNDING_BYTES: u64 = 16 << 10;

/// Ranges nearer than this are looked at in one go. What lies between farther ones may be a buffer that is left out, whose
/// pages cost more to see than another call.
const NEAR_BYTES: u64 = 512 << 10;

/// Private memory shorter than this is not worth a question of its own.
const SHORT_BYTES: u64 = 1 << 20;

/// Bytes to be read and their place in the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub address: u64,
    pub length: usize,
    pub offset: usize,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// In order of importance and of `offset`.
    pub pieces: Vec<Piece>,
    pub segments: Vec<Segment>,
    /// What the destination must hold.
    pub bytes: usize,
    pub seen: Seen,
}

/// What is known of residency.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub resident: Vec<Range<u64>>,
    pub looked_at: Vec<Range<u64>>,
}

/// What to do with a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// Not even looked at.
    Skip,
    /// Only how much of it is resident.
    Look,
    /// All that was touched; zeros elsewhere.
    Touched,
    /// What was written; the rest is in the file.
    Written,
    /// What was written, and of the rest what is there: the file cannot be had.
    Present,
}

/// A mapping of which something is copied.
struct Candidate {
    importance: (bool, u64),
    treatment: Treatment,
    range: Range<u64>,
}

/// What is to be copied. `exclude` sorted and page-aligned; `has_file` tells whether the content of a mapping can be
/// had from its file.
pub(super) fn make_plan(
    mappings: &[Mapping],
    pagemap: &Pagemap,
    exclude: &[Range<u64>],
    has_file: impl Fn(&Mapping) -> bool,
) -> io::Result<Plan> {
    let mut candidates = sort_out(mappings, has_file).0;
    let ranges: Vec<_> = candidates.iter().map(|candidate| candidate.range.clone()).collect();
    let stretches = candidates.iter().flat_map(|candidate| candidate.stretches(exclude));
    let runs = read_runs(pagemap, stretches.collect())?;
    candidates.sort_by_key(|candidate| candidate.importance);
    let mut plan = Plan { seen: Seen::new(&runs, ranges), ..Plan::default() };
    for candidate in &candidates {
        plan.add(candidate, &runs, exclude);
    }
    Ok(plan)
}

/// What is not copied is looked at all the same, before the target is stopped: how much of it is resident.
pub(super) fn look_aside(
    mappings: &[Mapping],
    pagemap: &Pagemap,
    exclude: &[Range<u64>],
    has_file: impl Fn(&Mapping) -> bool,
) -> io::Result<Seen> {
    let (private, rest): (Vec<_>, Vec<_>) = mappings.iter().partition(|mapping| mapping.is_private_memory());
    let excluded_of = |mappings: Vec<&Mapping>| -> Vec<Range<u64>> {
        let mapped = merged(mappings.into_iter().map(Mapping::range).collect());
        exclude.iter().flat_map(|range| intersect(&mapped, range).collect::<Vec<_>>()).collect()
    };
    let (private, others) =
        (excluded_of(private), [sort_out(mappings, has_file).1, excluded_of(rest)].concat());
    let stretch = |backing| move |range: &Range<u64>| Stretch::new(range.clone(), backing);
    let stretches = private.iter().map(stretch(Backing::Private));
    let mut stretches: Vec<_> = stretches.chain(others.iter().map(stretch(Backing::Any))).collect();
    stretches.sort_by_key(|stretch| stretch.range.start);
    let ranges = merged([private, others].concat());
    Ok(Seen::new(&read_runs(pagemap, stretches)?, ranges))
}

/// What is looked at in one go.
struct Stretch {
    range: Range<u64>,
    backing: Backing,
}

impl Stretch {
    fn new(range: Range<u64>, backing: Backing) -> Self {
        let is_short = range.end - range.start < SHORT_BYTES;
        Self { range, backing: if is_short { Backing::Any } else { backing } }
    }
}

impl Candidate {
    /// Without what is excluded.
    fn stretches(&self, exclude: &[Range<u64>]) -> impl Iterator<Item = Stretch> + use<> {
        let backing = if self.treatment == Treatment::Touched { Backing::Private } else { Backing::Any };
        let left = subtract(std::slice::from_ref(&self.range), exclude);
        left.into_iter().map(move |range| Stretch::new(range, backing))
    }
}

/// Those of which something is copied, in order of address, and where the others are.
fn sort_out(mappings: &[Mapping], has_file: impl Fn(&Mapping) -> bool) -> (Vec<Candidate>, Vec<Range<u64>>) {
    let (mut candidates, mut others) = (Vec::new(), Vec::new());
    for mapping in mappings {
        match treatment(mapping, &has_file) {
            Treatment::Skip => {}
            Treatment::Look => others.push(mapping.range()),
            treatment => {
                let importance = (mapping.path.as_os_str().is_empty(), mapping.bytes());
                push(&mut candidates, Candidate { importance, treatment, range: mapping.range() });
            }
        }
    }
    (candidates, others)
}

/// Advice of the process about a part of its memory (huge pages, say) splits a mapping: what lies across is one again.
fn push(candidates: &mut Vec<Candidate>, next: Candidate) {
    let is_plain =
        |candidate: &Candidate| candidate.treatment == Treatment::Touched && candidate.importance.0;
    match candidates.last_mut() {
        Some(last) if last.range.end == next.range.start && is_plain(last) && is_plain(&next) => {
            last.range.end = next.range.end;
            last.importance.1 += next.importance.1;
        }
        _ => candidates.push(next),
    }
}

/// Touched pages of all `stretches`, which are sorted; perhaps more: what lies between near ones costs less to see
/// than to avoid.
fn read_runs(pagemap: &Pagemap, mut stretches: Vec<Stretch>) -> io::Result<Vec<PageRun>> {
    stretches.dedup_by(|next, last| {
        let is_near = next.range.start.saturating_sub(last.range.end) <= NEAR_BYTES;
        let is_one = is_near && next.backing == last.backing;
        if is_one {
            last.range.end = last.range.end.max(next.range.end);
        }
        is_one
    });
    let mut runs = Vec::new();
    for Stretch { range, backing } in stretches {
        pagemap.read_runs_of(range, backing, &mut runs)?;
    }
    Ok(runs)
}

fn treatment(mapping: &Mapping, has_file: impl Fn(&Mapping) -> bool) -> Treatment {
    if mapping.is_device() || mapping.is_of_kernel() {
        Treatment::Skip
    } else if !mapping.read || mapping.shared || (mapping.execute && !mapping.write) {
        Treatment::Look
    } else if !mapping.is_file() {
        Treatment::Touched
    } else if has_file(mapping) {
        Treatment::Written
    } else {
        Treatment::Present
    }
}

impl Seen {
    fn new(runs: &[PageRun], looked_at: Vec<Range<u64>>) -> Self {
        let resident = runs.iter().filter(|run| matches!(run.state, PageState::Own | PageState::File));
        Self { resident: resident.map(|run| run.start..run.end).collect(), looked_at }
    }

    pub fn with(mut self, other: Self) -> Residency {
        self.resident.extend(other.resident);
        self.looked_at.extend(other.looked_at);
        Residency::new(self.resident, self.looked_at)
    }
}

impl Treatment {
    fn wants(self, state: PageState) -> bool {
        match self {
            Self::Skip | Self::Look => false,
            Self::Touched => state != PageState::Zero,
            Self::Written => matches!(state, PageState::Own | PageState::Swapped),
            Self::Present => true,
        }
    }
}

impl Plan {
    /// `runs` of all mappings.
    fn add(&mut self, candidate: &Candidate, runs: &[PageRun], exclude: &[Range<u64>]) {
        let Candidate { range: within, .. } = candidate;
        let first = runs.partition_point(|run| run.end <= within.start);
        let here = runs[first..].iter().take_while(|run| run.start < within.end);
        let wanted = here.filter(|run| candidate.treatment.wants(run.state));
        let wanted = merged(wanted.map(|run| run.start.max(within.start)..run.end.min(within.end)).collect());
        let rounded = match candidate.treatment {
            Treatment::Touched => merged(wanted.iter().map(|range| rounded(range, within)).collect()),
            _ => wanted.clone(), // what was not touched of a file is no zeros
        };
        for segment in subtract(&rounded, exclude) {
            let offset = self.bytes;
            for range in intersect(&wanted, &segment) {
                let length = (range.end - range.start) as usize;
                let offset = offset + (range.start - segment.start) as usize;
                self.pieces.push(Piece { address: range.start, length, offset });
            }
            self.bytes += (segment.end - segment.start) as usize;
            self.segments.push(Segment::new(segment.start, segment.end, offset));
        }
    }
}

fn rounded(range: &Range<u64>, within: &Range<u64>) -> Range<u64> {
    let start = range.start - range.start % ROUNDING_BYTES;
    let end = range.end.saturating_add(ROUNDING_BYTES - 1);
    start.max(within.start)..(end - end % ROUNDING_BYTES).min(within.end)
}

/// Both sorted.
pub(super) fn subtract(ranges: &[Range<u64>], holes: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        let first = holes.partition_point(|hole| hole.end <= range.start);
        for hole in holes[first..].iter().take_while(|hole| hole.start < range.end) {
            left.push(start..hole.start.max(start));
            start = hole.end;
        }
        left.push(start..range.end);
    }
    left.retain(|range| range.start < range.end);
    left
}

/// `ranges` sorted.
fn intersect<'a>(ranges: &'a [Range<u64>], with: &'a Range<u64>) -> impl Iterator<Item = Range<u64>> + 'a {
    let first = ranges.partition_point(|range| range.end <= with.start);
    let near = ranges[first..].iter().take_while(|range| range.start < with.end);
    near.map(|range| range.start.max(with.start)..range.end.min(with.end))
}

/// What lies wholly within pages of a wish, sorted.
pub(super) fn whole_pages(ranges: &[Range<u64>], page_bytes: u64) -> Vec<Range<u64>> {
    let inner = |range: &Range<u64>| {
        range.start.div_ceil(page_bytes) * page_bytes..range.end - range.end % page_bytes
    };
    merged(ranges.iter().filter(|range| range.start < u64::MAX - page_bytes).map(inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_cut_out() {
        let ranges = [0..10, 20..30, 40..50];
        assert_eq!(subtract(&ranges, &[]), ranges);
        assert_eq!(subtract(&ranges, &[5..6, 8..22, 29..60]), [0..5, 6..8, 22..29]);
        assert_eq!(subtract(&ranges, &[0..40, 40..50]), []);
        assert_eq!(intersect(&ranges, &(5..25)).collect::<Vec<_>>(), [5..10, 20..25]);
    }

    #[test]
    fn runs_grow_to_whole_pools_within_their_mapping() {
        assert_eq!(rounded(&(0x5000..0x6000), &(0x1000..0x10_0000)), 0x4000..0x8000);
        assert_eq!(rounded(&(0x5000..0x6000), &(0x5000..0x7000)), 0x5000..0x7000);
        assert_eq!(whole_pages(&[1..0x1000, 0x1001..0x3fff, 0..0x1000], 0x1000), [0..0x1000, 0x2000..0x3000]);
    }

    #[test]
    fn neighbours_without_a_name_are_one() {
        let anonymous = |start, end| Mapping { start, end, read: true, write: true, ..Mapping::default() };
        let heap = Mapping { path: "[heap]".into(), ..anonymous(0x3000, 0x4000) };
        let mappings =
            [anonymous(0x1000, 0x2000), anonymous(0x2000, 0x3000), heap, anonymous(0x5000, 0x6000)];
        let (candidates, others) = sort_out(&mappings, |_| true);
        let ranges: Vec<_> = candidates.into_iter().map(|candidate| candidate.range).collect();
        assert_eq!((ranges, others.len()), (vec![0x1000..0x3000, 0x3000..0x4000, 0x5000..0x6000], 0));
    }

    #[test]
    fn only_long_private_memory_is_asked_for_less() {
        let long = 0..4 * SHORT_BYTES;
        let backings = |treatment, exclude: &[Range<u64>]| -> Vec<_> {
            let candidate = Candidate { importance: (true, 0), treatment, range: long.clone() };
            candidate.stretches(exclude).map(|stretch| (stretch.range, stretch.backing)).collect()
        };
        assert_eq!(backings(Treatment::Touched, &[]), [(long.clone(), Backing::Private)]);
        for treatment in [Treatment::Written, Treatment::Present] {
            assert_eq!(backings(treatment, &[]), [(long.clone(), Backing::Any)]);
        }
        let hole = 4096..2 * SHORT_BYTES;
        assert_eq!(
            backings(Treatment::Touched, &[hole]),
            [(0..4096, Backing::Any), (2 * SHORT_BYTES..long.end, Backing::Private)]
        );
    }

    #[test]
    fn mappings_are_treated_by_what_they_are() {
        let mapping = |perms: &str, path: &str| Mapping {
            read: perms.contains('r'),
            write: perms.contains('w'),
            execute: perms.contains('x'),
            shared: perms.contains('s'),
            path: path.into(),
            ..Mapping::default()
        };
        for (perms, path, expected) in [
            ("rw", "", Treatment::Touched),
            ("rw", "[heap]", Treatment::Touched),
            ("r", "/lib/libc.so.6", Treatment::Written),
            ("rx", "/lib/libc.so.6", Treatment::Look),
            ("rw", "/gone.so", Treatment::Present),
            ("", "", Treatment::Look),
            ("rws", "/dev/shm/torch_1", Treatment::Look),
            ("rws", "", Treatment::Look),
            ("rws", "/dev/nvidia0", Treatment::Skip),
            ("r", "[vvar]", Treatment::Skip),
        ] {
            let mapping = mapping(perms, path);
            assert_eq!(treatment(&mapping, |m| m.path.starts_with("/lib")), expected, "{perms} {path}");
            // Where files are not asked for, none may be.
            assert!(expected != Treatment::Touched || mapping.is_private_memory(), "{perms} {path}");
            assert!(!mapping.is_private_memory() || !path.starts_with('/'), "{perms} {path}");
        }
    }
}
