//! The stretches of memory that an arena is made of.
//!
//! A thread arena has heaps: mappings aligned to their greatest size, each with a header that names the arena and the
//! heap before. The main arena has the program break, and mappings where the break could not be moved.

use std::collections::HashSet;
use std::ops::Range;

use super::index::{HEADER, Mark, State};
use super::locate::{self, HIGHEST};
use super::walk::{self, Walk};
use crate::runs::Runs;

/// Sizes of heaps: 64 MiB, and four huge pages where those are asked for (2.35 on).
const HEAP_SIZES: [u64; 3] = [64 << 20, 8 << 20, 4 << 30];
/// Sizes of a heap's header: up to 2.34, 2.35 on.
const HEAP_HEADERS: [u64; 2] = [32, 48];
const MOST_HEAPS: usize = 1 << 20;
const PAGE: u64 = 4096;

/// One walked stretch.
#[derive(Debug)]
pub(super) struct Region {
    pub range: Range<u64>,
    pub marks: Vec<Mark>,
    pub breaks: usize,
}

/// One heap of a thread arena.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heap {
    pub start: u64,
    pub end: u64,
    /// Of the first chunk.
    pub first: u64,
}

/// The heaps of a thread arena, newest first; empty if its headers make no sense.
pub(super) fn heaps(runs: &Runs<'_>, arena: &locate::State) -> Vec<Heap> {
    let headers =
        HEAP_HEADERS.into_iter().filter_map(|header| Some((header, arena.address.checked_sub(header)?)));
    let mut own = headers.filter(|(_, start)| runs.word(*start) == Some(arena.address));
    let Some((header, oldest)) = own.next() else { return Vec::new() };
    let mut heaps = Vec::new();
    let mut seen = HashSet::new();
    let mut at = newest(runs, arena, oldest);
    // Each once: a damaged header may name one that came before.
    while let Some(start) = at.take().filter(|start| heaps.len() < MOST_HEAPS && seen.insert(*start)) {
        let Some((size, previous)) = heap_info(runs, start, arena.address) else { break };
        let after = if start == oldest { arena.end } else { start + header };
        heaps.push(Heap { start, end: start + size, first: after.next_multiple_of(HEADER) });
        at = Some(previous).filter(|previous| *previous != 0 && start != oldest);
    }
    heaps
}

/// The heap that holds the top.
fn newest(runs: &Runs<'_>, arena: &locate::State, oldest: u64) -> Option<u64> {
    let aligned = HEAP_SIZES.into_iter().map(|size| arena.top & !(size - 1));
    aligned.chain([oldest]).find(|start| heap_info(runs, *start, arena.address).is_some())
}

/// Size and predecessor, if this is a heap of that arena.
fn heap_info(runs: &Runs<'_>, start: u64, arena: u64) -> Option<(u64, u64)> {
    (start.is_multiple_of(PAGE) && start < HIGHEST).then_some(())?;
    let size = runs.word(start + 16)?;
    let sound = runs.word(start)? == arena && size.is_multiple_of(PAGE) && size > 0 && size <= HEAP_SIZES[2];
    sound.then_some((size, runs.word(start + 8)?))
}

pub(super) fn walk_heap(runs: &Runs<'_>, heap: Heap, top: u64) -> Region {
    let walk = walk::walk(runs, walk::Stretch { first: heap.first, end: heap.end, top, strict: false });
    let head = Mark::new(heap.start, State::Metadata);
    Region::new(heap.start..heap.end, head, walk)
}

/// The main arena's part in the program break.
pub(super) fn walk_break(runs: &Runs<'_>, range: Range<u64>, top: u64) -> Region {
    let end = end_of(runs, range.clone(), top);
    let first = range.start.next_multiple_of(HEADER);
    let walk = walk::walk(runs, walk::Stretch { first, end, top, strict: false });
    if first == range.start {
        return Region { range: first..end, marks: walk.marks, breaks: walk.breaks };
    }
    Region::new(range.start..end, Mark::new(range.start, State::Metadata), walk)
}

/// A mapping that the main arena took when the break could not be moved: the chain must lead to the top, or to the
/// pair of fences that closed it, without a break.
pub(super) fn walk_mapping(runs: &Runs<'_>, start: u64, end: u64, top: u64) -> Option<Region> {
    let end = end_of(runs, start..end, top);
    // Most mappings are not malloc's: their first word tells.
    let head = runs.word(start + 8)?;
    let sound = head & 7 == walk::PREVIOUS_IN_USE
        && head >= walk::SMALLEST
        && head < end - start
        && runs.word(start)? == 0;
    if !sound {
        return None;
    }
    let walk = walk::walk(runs, walk::Stretch { first: start, end, top, strict: true });
    let stop = walk.marks.last()?.start();
    let fenced = walk.marks.iter().rev().skip(1).take(2).all(|mark| mark.state() == State::Metadata);
    let sound = walk.breaks == 0 && (walk.met_top || fenced) && stop.is_multiple_of(PAGE);
    sound.then_some(Region { range: start..stop, marks: walk.marks, breaks: 0 })
}

/// The top's end, where it lies in this range.
pub(super) fn end_of(runs: &Runs<'_>, range: Range<u64>, top: u64) -> u64 {
    if !range.contains(&top) {
        return range.end;
    }
    let size = runs.word(top + 8).unwrap_or(0) & !7;
    top.saturating_add(size).clamp(top, range.end)
}

impl Region {
    /// With the header before the first chunk.
    fn new(range: Range<u64>, head: Mark, walk: Walk) -> Self {
        let mut marks = Vec::with_capacity(walk.marks.len() + 1);
        marks.push(head);
        marks.extend(walk.marks);
        Self { range, marks, breaks: walk.breaks }
    }
}

#[cfg(test)]
mod tests {
    use nilometer_image::{Image, Segment};

    use super::*;

    const OLDEST: u64 = 64 << 20;
    const NEWEST: u64 = 128 << 20;
    const ARENA: u64 = OLDEST + 32;

    /// Where the heaps of an arena begin, of which the second says what came before it.
    fn starts(previous: u64) -> Vec<u64> {
        let words = [ARENA, 0, PAGE, 0, ARENA, previous, PAGE, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let segments = vec![Segment::new(OLDEST, OLDEST + 32, 0), Segment::new(NEWEST, NEWEST + 32, 32)];
        let image = Image::new(bytes.as_slice().into(), segments, Vec::new());
        let (top, end) = (NEWEST + 64, ARENA + 2200);
        let arena = locate::State { address: ARENA, top, attached: 1, system: 2 * PAGE, end };
        heaps(&Runs::of(&image), &arena).iter().map(|heap| heap.start).collect()
    }

    #[test]
    fn each_heap_is_told_once_whatever_its_header_says() {
        assert_eq!(starts(OLDEST), [NEWEST, OLDEST]);
        assert_eq!(starts(NEWEST).len(), 1, "it comes before itself");
        assert_eq!(starts(u64::MAX - 7), [NEWEST], "no address");
    }
}
