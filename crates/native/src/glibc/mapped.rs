//! Chunks with a mapping of their own, and mappings that the main arena took instead of the program break.
//!
//! The kernel joins neighbouring mappings, so that several chunks may stand in one line of the list, among memory
//! that is not malloc's. Each begins at a page with a header that says how long it is: the next one is looked for
//! behind it. How many there are and how many bytes, malloc counts itself; that is the check.
//!
//! ```text
//!   up to 2.41   size of the mapping | 2                       page … 002
//!   2.42 on      size of the mapping - offset - 16 | 2         page … ff2
//! ```
//! An aligned chunk has a second header further inside, whose first word is the distance from the mapping's start.

use std::ops::Range;

use super::heap::{Region, walk_mapping};
use super::index::{HEADER, Mark, State};
use super::locate::HIGHEST;
use super::walk::IS_MAPPED;
use crate::runs::Runs;

const PAGE: u64 = 4096;
/// A huge page is behind it (2.42 on): set in the first word.
const HUGE: u64 = 1;
/// Alignments that `memalign` may have been asked for.
const ALIGNMENTS: std::ops::RangeInclusive<u32> = 5..=40;

/// How long a mapped chunk says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Counting {
    /// Up to 2.41.
    #[default]
    Whole,
    /// 2.42 on.
    WithoutHeader,
}

/// One mapping of malloc's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedChunk {
    pub start: u64,
    pub end: u64,
    /// Where the header is that belongs to what was handed out.
    pub header: u64,
}

/// What stands in the anonymous mappings.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub chunks: Vec<MappedChunk>,
    /// Of the main arena.
    pub regions: Vec<Region>,
    pub counting: Counting,
}

/// `ranges`: anonymous private memory that no arena has. `top` is the main arena's; `regions` are looked for only if
/// it is known that there are some.
pub(super) fn find(runs: &Runs<'_>, ranges: &[Range<u64>], counting: Counting, top: Option<u64>) -> Found {
    let mut found = Found { counting, ..Found::default() };
    for range in ranges {
        let mut behind = range.start;
        for run in runs.within(range.start, range.end.min(HIGHEST)) {
            behind = behind.max(run.start.next_multiple_of(PAGE));
            while behind + 2 * 8 <= run.end() {
                behind = found.page(runs, behind, range.end, top);
            }
        }
    }
    found
}

impl Found {
    /// Looks at the start of one page; says where to look next.
    fn page(&mut self, runs: &Runs<'_>, at: u64, end: u64, top: Option<u64>) -> u64 {
        if let Some(chunk) = mapped_chunk(runs, at, end, self.counting) {
            self.chunks.push(chunk);
            return chunk.end;
        }
        let Some(region) = top.and_then(|top| walk_mapping(runs, at, end, top)) else { return at + PAGE };
        let next = region.range.end;
        self.regions.push(region);
        next.max(at + PAGE)
    }

    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.end - chunk.start).sum()
    }
}

fn mapped_chunk(runs: &Runs<'_>, start: u64, end: u64, counting: Counting) -> Option<MappedChunk> {
    let length = counting.length(runs, start, 0)?;
    let first = MappedChunk { start, end: start + length, header: start };
    (start + length <= end).then_some(first)?;
    // The first header stays as it was when the chunk was aligned; after that it may have been resized.
    let headers = ALIGNMENTS.map(|power| (start + HEADER).next_multiple_of(1 << power) - HEADER);
    let aligned = headers.filter(|header| *header > start && *header < first.end).find_map(|header| {
        let length = counting.length(runs, header, header - start)?;
        (start + length <= end).then_some(MappedChunk { start, end: start + length, header })
    });
    Some(aligned.unwrap_or(first))
}

impl Counting {
    /// What of a mapped chunk cannot be used by the program.
    pub fn overhead(self) -> u64 {
        if self == Self::Whole { HEADER } else { HEADER + 8 }
    }

    /// The length of the mapping, from a header `offset` bytes behind its start.
    pub fn length(self, runs: &Runs<'_>, header: u64, offset: u64) -> Option<u64> {
        let before = runs.word(header)?;
        let head = runs.word(header + 8)?;
        let extra = if self == Self::Whole { 0 } else { HEADER };
        let before = if self == Self::Whole { before } else { before & !HUGE };
        let size = head.checked_sub(IS_MAPPED)?;
        let length = size.checked_add(offset + extra)?;
        let sound = before == offset && size.is_multiple_of(HEADER) && length.is_multiple_of(PAGE);
        (sound && length > 0 && length < HIGHEST).then_some(length)
    }
}

impl MappedChunk {
    pub fn marks(&self) -> Vec<Mark> {
        let own = (self.header > self.start).then(|| Mark::new(self.start, State::Metadata));
        own.into_iter()
            .chain([Mark::new(self.header, State::Mapped), Mark::new(self.end, State::Outside)])
            .collect()
    }
}
