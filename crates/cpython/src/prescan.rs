//! Large buffers of numbers, looked for while the target runs, so that the copy can leave them out.
//!
//! Only pools of the sizes that arrays have are read, and of their arrays only the shape. What is missed is merely
//! copied; what was freed meanwhile is found out afterwards by [`uncovered`]. The invariant: no range holds references.

mod chunk;
mod owner;

use std::ops::{Range, RangeInclusive};

use nilometer_image::Mapping;
use nilometer_image::live::Peek;
use nilometer_trace::heap::Graph;

use crate::layout::Obmalloc;
use crate::locate::Python;
use crate::pool::Pool;
use crate::reference::span;
use owner::{Owner, Owners, Shaped};

/// Smaller buffers are copied: leaving them out would save nothing.
const LARGE: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Blocks of arrays, and of arrays of a class, which has a dict; before numpy 1.20 they were smaller.
const ARRAYS: RangeInclusive<u32> = 96..=144;
const OLD_ARRAYS: RangeInclusive<u32> = 80..=80;
/// Blocks of `bytearray` and `array.array`, with or without headers. Many others are as large, and few of these: not all are read.
const OTHERS: RangeInclusive<u32> = 64..=80;
const MOST_OTHERS: usize = 16 << 20;
/// The library with numpy's arrays.
const NUMPY: &str = "_multiarray_umath";
/// Looks per arena: if none of them hits a pool, the others are not tried.
const LOOKS: u64 = 4;
const MOST_LOOKS: usize = 1 << 20;
/// Pools are read in portions, and no more of them than this.
const PORTION: usize = 256 << 10;
const MOST_BYTES: usize = 512 << 20;

/// Page-aligned insides of large buffers that hold no references. A read of the shapes takes a while in which the
/// target runs: the result is a guess.
pub fn prescan(python: &Python, peek: &Peek) -> Vec<Range<u64>> {
    let Survey { buffers, texts, .. } = survey(python, peek);
    joined(peek, buffers.into_iter().chain(texts))
}

/// What is known of a running interpreter's memory without a copy of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Large buffers of arrays.
    pub buffers: Vec<Range<u64>>,
    /// Large `bytes` and `str`.
    pub texts: Vec<Range<u64>>,
    /// Pools with a block in use, by address: where they begin, and how many bytes of blocks are handed out.
    pub pools: Vec<(u64, u32)>,
    pub pool_bytes: u64,
    pub arena_bytes: u64,
}

/// The pools by their headers, and the large buffers. Only pools of the sizes that arrays have are read.
pub fn survey(python: &Python, peek: &Peek) -> Survey {
    let layout = &python.layout.obmalloc;
    let pools = find_pools(peek, layout);
    let mut owners = Owners::new(python, peek, pools.iter().map(|place| place.base));
    let mut reading = Reading { peek, layout, pools: &pools, owners: &mut owners, found: Vec::new() };
    if peek.modules().find(|name| name.contains(NUMPY)).is_some() {
        reading.read(&ARRAYS, MOST_BYTES);
        if !reading.owners.has_arrays() {
            reading.read(&OLD_ARRAYS, MOST_BYTES);
        }
    }
    reading.read(&OTHERS, MOST_OTHERS);
    let candidates = reading.found;
    let buffers = buffers(peek, &candidates);
    // A buffer that malloc mapped begins 16 bytes into a chunk; the next one may be a text.
    let chunks = buffers.iter().filter(|range| range.start % PAGE == 16).map(|range| range.start - 16);
    let starts = peek.mappings().iter().filter(|mapping| is_heap(mapping)).map(|mapping| mapping.start);
    let texts = chunk::find_texts(python, peek, chunks.chain(starts).collect());
    Survey {
        buffers,
        texts,
        pools: pools.iter().map(|place| (place.base, place.used)).collect(),
        pool_bytes: layout.pool_size,
        arena_bytes: layout.arena_size,
    }
}

/// Whole pages, sorted, none twice.
fn joined(peek: &Peek, found: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = found.filter_map(|range| inside(peek, range)).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let overlap = next.start < last.end;
        last.end = if overlap { last.end.max(next.end) } else { last.end };
        overlap
    });
    ranges
}

/// Ranges that were left out although nothing large is there in the census: what was there is gone, and what came
/// instead was not looked at.
pub fn uncovered(graph: &Graph, excluded: &[Range<u64>]) -> Vec<Range<u64>> {
    let payloads =
        graph.payloads.iter().map(|payload| payload.address..payload.address.saturating_add(payload.bytes));
    let large = graph.objects.address.iter().zip(&graph.objects.bytes).filter(|(_, bytes)| **bytes >= LARGE);
    let objects = large.map(|(address, bytes)| *address..address.saturating_add(*bytes));
    let mut covers: Vec<Range<u64>> =
        payloads.filter(|range| range.end - range.start >= LARGE).chain(objects).collect();
    covers.sort_unstable_by_key(|range| (range.start, range.end));
    let is_covered = |range: &Range<u64>| {
        let before = covers.partition_point(|cover| cover.start <= range.start);
        covers[..before].iter().rev().take(8).any(|cover| range.end <= cover.end)
    };
    excluded.iter().filter(|range| !range.is_empty() && !is_covered(range)).cloned().collect()
}

/// A pool of any size of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    base: u64,
    block_bytes: u32,
    /// Up to the end of the last block ever handed out; what is behind it was perhaps never touched.
    bytes: usize,
    /// Bytes of the blocks that are handed out.
    used: u32,
}

/// Memory that the allocators may have asked for.
fn is_heap(mapping: &Mapping) -> bool {
    mapping.read && mapping.write && !mapping.shared && !mapping.is_file() && !mapping.is_of_kernel()
}

fn find_pools(peek: &Peek, layout: &Obmalloc) -> Vec<Place> {
    let step = (layout.arena_size / LOOKS).max(layout.pool_size);
    let mut looks = Vec::new();
    for mapping in peek.mappings().iter().filter(|mapping| is_heap(mapping)) {
        let first = mapping.start.next_multiple_of(step);
        looks
            .extend((first..mapping.end).step_by(step as usize).take(MOST_LOOKS.saturating_sub(looks.len())));
        // What is shorter than a step, and the beginning of what is longer.
        looks.push(mapping.start.next_multiple_of(layout.pool_size));
    }
    looks.retain(|base| peek.is_resident(&(*base..base + HEADER as u64)));
    let hits = headers(peek, layout, &looks);
    let mut bases: Vec<u64> =
        hits.iter().flat_map(|place| around(place.base, step, layout.pool_size)).collect();
    bases.sort_unstable();
    bases.dedup();
    bases.retain(|base| peek.is_resident(&(*base..base + HEADER as u64)));
    headers(peek, layout, &bases)
}

/// The pools of the arena that a look has hit.
fn around(base: u64, step: u64, pool: u64) -> impl Iterator<Item = u64> {
    (base.saturating_sub(step)..base.saturating_add(step)).step_by(pool as usize)
}

/// The part of a pool that tells what it is.
const HEADER: usize = 48;

fn headers(peek: &Peek, layout: &Obmalloc, bases: &[u64]) -> Vec<Place> {
    let spans: Vec<(u64, usize)> = bases.iter().map(|base| (*base, HEADER)).collect();
    let mut bytes = Vec::new();
    let failed = peek.read_many(&spans, &mut bytes);
    let parsed = bases.iter().zip(bytes.chunks_exact(HEADER)).enumerate();
    let parsed = parsed.filter(|(index, _)| failed.binary_search(index).is_err());
    parsed
        .filter_map(|(_, (base, header))| Pool::parse(*base, header, layout))
        .map(|pool| Place {
            base: pool.base,
            block_bytes: pool.block_bytes,
            bytes: layout.pool_header as usize + (pool.carved * pool.block_bytes) as usize,
            used: pool.used_bytes(),
        })
        .collect()
}

/// Reads pools and picks what may own a large buffer.
struct Reading<'a, 'p> {
    peek: &'a Peek,
    layout: &'a Obmalloc,
    pools: &'a [Place],
    owners: &'a mut Owners<'p>,
    found: Vec<Owner>,
}

impl Reading<'_, '_> {
    /// Pools with blocks of some sizes, spread evenly where there are too many.
    fn read(&mut self, blocks: &RangeInclusive<u32>, most_bytes: usize) {
        let size = self.layout.pool_size as usize;
        let pools: Vec<&Place> =
            self.pools.iter().filter(|place| blocks.contains(&place.block_bytes)).collect();
        let step = (pools.len() * size).div_ceil(most_bytes).max(1);
        let pools: Vec<&Place> = pools.into_iter().step_by(step).collect();
        let mut bytes = Vec::new();
        for portion in pools.chunks((PORTION / size).max(1)) {
            let spans: Vec<(u64, usize)> = portion.iter().map(|place| (place.base, place.bytes)).collect();
            self.peek.read_many(&spans, &mut bytes);
            self.pick(portion, &bytes);
        }
    }

    fn pick(&mut self, pools: &[&Place], mut bytes: &[u8]) {
        let mut parts = Vec::with_capacity(pools.len());
        for place in pools {
            let (pool, rest) = bytes.split_at_checked(place.bytes).unwrap_or_default();
            let blocks = pool.get(self.layout.pool_header as usize..).unwrap_or_default();
            parts.push(blocks.chunks_exact(place.block_bytes as usize));
            bytes = rest;
        }
        self.owners.learn(parts.iter().cloned().flatten());
        self.found.extend(parts.into_iter().flatten().filter_map(|block| self.owners.of_block(block)));
    }
}

/// The buffers of those that own a large one.
fn buffers(peek: &Peek, candidates: &[Owner]) -> Vec<Range<u64>> {
    let known = candidates.iter().filter_map(Owner::known);
    let shaped = with_room(candidates.iter().filter_map(Owner::shaped).collect());
    let spans: Vec<(u64, usize)> =
        shaped.iter().map(|array| (array.dimensions, array.count as usize * 8)).collect();
    let mut bytes = Vec::new();
    let failed = peek.read_many(&spans, &mut bytes);
    let mut rest = &bytes[..];
    let mut sized = Vec::new();
    for (index, (array, (_, length))) in shaped.iter().zip(&spans).enumerate() {
        let (shape, behind) = rest.split_at_checked(*length).unwrap_or_default();
        rest = behind;
        let range = array.buffer(span::words(shape)).filter(|_| failed.binary_search(&index).is_err());
        sized.extend(range);
    }
    known.chain(sized).filter(|range| range.end - range.start >= LARGE).collect()
}

/// Arrays that may be large: no other one, and no shape, begins within what would be a large buffer of theirs. So the
/// shapes of many small ones need not be read.
fn with_room(arrays: Vec<Shaped>) -> Vec<Shaped> {
    let mut taken: Vec<u64> = arrays.iter().flat_map(|array| [array.data, array.dimensions]).collect();
    taken.sort_unstable();
    let has_room = |array: &Shaped| {
        let next = taken.get(taken.partition_point(|taken| *taken <= array.data));
        next.is_none_or(|next| next - array.data >= LARGE)
    };
    arrays.into_iter().filter(has_room).collect()
}

/// Whole pages of a buffer, if all of it is mapped; advice about huge pages splits mappings.
fn inside(peek: &Peek, range: Range<u64>) -> Option<Range<u64>> {
    let mappings = peek.mappings();
    let first = mappings.partition_point(|mapping| mapping.end <= range.start);
    let mut at = range.start;
    for mapping in mappings.get(first..)? {
        if at >= range.end {
            break;
        }
        if mapping.start > at || !mapping.write {
            return None;
        }
        at = mapping.end;
    }
    let pages = range.start.next_multiple_of(PAGE)..range.end - range.end % PAGE;
    (at >= range.end && pages.start < pages.end).then_some(pages)
}
