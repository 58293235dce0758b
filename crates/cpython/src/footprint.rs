//! Where the interpreter keeps its objects: blocks in use, and what its allocator holds besides.
//!
//! The one invariant: `used`, `large` and `slack` are sorted, each without overlap, and no byte is in `used` and `slack`.

use std::ops::Range;

use nilometer_image::{Image, merged};
use rustc_hash::FxHashMap;

use crate::holding::Holding;
use crate::layout::Obmalloc;
use crate::locate::Python;
use crate::pool::{Pool, Pools, half};

/// Offset of `arenaindex` in `struct pool_header` (Objects/obmalloc.c).
const ARENA_INDEX: usize = 32;

/// Places of an interpreter's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Blocks of pools that are handed out.
    pub used: Vec<Range<u64>>,
    /// Objects, tables and arrays of references that are too large for a pool.
    pub large: Vec<Range<u64>>,
    /// Pools' headers, blocks that are free or were never used, and pools without a block in use.
    pub slack: Vec<Range<u64>>,
    /// Of those in use, the blocks of freed objects that are kept for the next one of their type.
    pub idle: Vec<Range<u64>>,
    pub pools: u64,
    pub arenas: u64,
    /// Tensors that torch's optimizers keep in their state, and the parameters that are its keys.
    pub optimizer_tensors: Vec<u64>,
    /// What each module holds; empty where the census has no references.
    pub holdings: Vec<Holding>,
}

impl Footprint {
    /// What the pools tell; the rest is empty.
    pub(crate) fn of_pools(python: &Python, image: &Image) -> Self {
        let layout = &python.layout.obmalloc;
        let pools = Pools::find(image, layout);
        let mut found = Self { pools: pools.list().len() as u64, ..Self::default() };
        for pool in pools.list() {
            found.add(&pools, pool, image, layout);
        }
        let arenas = Arenas::of(&pools, image, layout);
        found.arenas = arenas.0.len() as u64;
        found.slack.extend(arenas.empty_pools(&pools, image, layout));
        found.used = merged(found.used);
        found.slack = merged(found.slack);
        found
    }

    fn add(&mut self, pools: &Pools, pool: &Pool, image: &Image, layout: &Obmalloc) {
        let Some(bytes) = image.slice(pool.base, layout.pool_size as usize) else { return };
        let free = pools.free(pool, bytes);
        let mut from = pool.base;
        for (number, range) in pools.block_ranges(pool).enumerate() {
            if free.consistent && free.contains(number) {
                continue;
            }
            let block = pool.base + range.start as u64..pool.base + range.end as u64;
            push(&mut self.slack, from..block.start);
            from = block.end;
            push(&mut self.used, block);
        }
        push(&mut self.slack, from..pool.base + layout.pool_size);
    }
}

/// What is known of each arena: the number its pools have, and the stretch they cover.
struct Arenas(Vec<(u32, Range<u64>)>);

impl Arenas {
    fn of(pools: &Pools, image: &Image, layout: &Obmalloc) -> Self {
        let mut arenas: Vec<(u32, Range<u64>)> = Vec::new();
        // Where in the list the last one with a number is.
        let mut last: FxHashMap<u32, usize> = FxHashMap::default();
        for pool in pools.list() {
            let Some(index) = arena_index(image, pool.base) else { continue };
            let end = pool.base + layout.pool_size;
            match last.get(&index).and_then(|place| arenas.get_mut(*place)) {
                Some((_, known)) if end - known.start <= layout.arena_size => known.end = end,
                // The first, or too far away: each interpreter numbers its own.
                _ => {
                    last.insert(index, arenas.len());
                    arenas.push((index, pool.base..end));
                }
            }
        }
        Self(arenas)
    }

    /// Pools without a block in use that carry the arena's number, and all between pools of one arena.
    fn empty_pools(&self, pools: &Pools, image: &Image, layout: &Obmalloc) -> Vec<Range<u64>> {
        let mut empty = Vec::new();
        for (index, covered) in &self.0 {
            let room = layout.arena_size.saturating_sub(covered.end - covered.start);
            let first = covered.start.saturating_sub(room);
            let last = covered.end.saturating_add(room);
            for base in (first..last).step_by(layout.pool_size as usize) {
                let inside = covered.contains(&base);
                if pools.at(base).is_none() && (inside || is_empty_pool(image, base, *index, layout)) {
                    empty.push(base..base + layout.pool_size);
                }
            }
        }
        empty
    }
}

fn arena_index(image: &Image, base: u64) -> Option<u32> {
    half(image.slice(base + ARENA_INDEX as u64, 4)?, 0)
}

/// A pool that was used: its header keeps its arena's number and its last size class.
fn is_empty_pool(image: &Image, base: u64, index: u32, layout: &Obmalloc) -> bool {
    let Some(bytes) = image.slice(base, 48) else { return false };
    let half = |offset: usize| half(bytes, offset).unwrap_or(0);
    let block = (u64::from(half(36)) + 1).saturating_mul(layout.alignment);
    half(0) == 0
        && half(ARENA_INDEX) == index
        && block <= 512
        && u64::from(half(44)) == layout.pool_size - block
}

/// Appends a range that begins at or after the end of the last; nothing where it is empty.
fn push(ranges: &mut Vec<Range<u64>>, next: Range<u64>) {
    match ranges.last_mut() {
        _ if next.is_empty() => {}
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;
    use crate::layout;

    /// A page with one block of 64 bytes in use, in an arena that has number 7.
    fn pool() -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        for (at, number) in [(0, 1u32), (ARENA_INDEX, 7), (36, 3), (40, 48 + 64), (44, 4096 - 64)] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn arenas_of_two_interpreters_may_have_the_same_number() {
        let layout = &layout::all()[0].layout.obmalloc;
        let bases = [0x10_0000, 0x90_0000, 0x90_2000];
        let segments =
            bases.iter().zip(0..).map(|(base, page)| Segment::new(*base, base + 4096, page * 4096));
        let image = Image::new(pool().repeat(3).as_slice().into(), segments.collect(), Vec::new());
        let pools = Pools::find(&image, layout);
        let arenas = Arenas::of(&pools, &image, layout);
        assert_eq!(arenas.0, [(7, 0x10_0000..0x10_1000), (7, 0x90_0000..0x90_3000)]);
        assert_eq!(arenas.empty_pools(&pools, &image, layout), vec![0x90_1000..0x90_2000]);
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn blocks_that_touch_are_one() {
        let mut ranges = Vec::new();
        for block in [0..16, 16..32, 48..64] {
            push(&mut ranges, block);
        }
        assert_eq!(ranges, [0..32, 48..64]);
        assert_eq!(merged(vec![40..60, 5..5, 0..10, 10..20, 15..18]), [0..20, 40..60]);
    }
}
