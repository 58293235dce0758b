//! Which blocks of the pools are objects.
//!
//! A block in use is one if, at the distance that its type's headers ask for, a plausible count and a type stand,
//! and what it says of its own size fits the block. The rest are items of lists, tables of dicts and the like.

use std::sync::Arc;

use crate::census::heap::{Heap, Placed, is_alive};
use crate::kind::TypeId;
use crate::kind::known::Shape;
use crate::layout::Str;
use crate::pool::{Pool, Pools, word};
use crate::reference::span::is_address;
use crate::reference::text;
use crate::size;

/// Headers before an object: none, the collector's, and those for dict and weak references.
const HEADERS: [u32; 3] = [0, 16, 32];
/// The debug allocator's: size, domain and guard bytes.
const DEBUG_SHIFT: u32 = 16;
/// Blocks after which it is judged whether the debug allocator is at work.
const ENOUGH: usize = 200;
/// Types remembered by the low bits of their address.
const CACHE: usize = 512;

/// What was found in the pools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub pools: u64,
    /// Their free lists and counts disagree; their blocks were looked at all the same.
    pub doubtful: u64,
}

/// Finds the objects in all pools.
pub(crate) fn classify(heap: &mut Heap<'_>) -> Tally {
    let shift = if has_debug_headers(heap) { DEBUG_SHIFT } else { 0 };
    heap.shift = shift;
    let mut classifier = Classifier { cache: vec![(0, None); CACHE] };
    let mut tally = Tally::default();
    let pools = Arc::clone(&heap.pools);
    for pool in pools.list() {
        tally.pools += 1;
        tally.doubtful += u64::from(!classifier.pool(heap, &pools, pool));
    }
    tally
}

/// Each block of the debug allocator begins with its size and a byte for its domain, followed by seven guard bytes
/// (`_PyMem_DebugRawAlloc`, Objects/obmalloc.c).
fn has_debug_headers(heap: &Heap<'_>) -> bool {
    let (mut seen, mut guarded) = (0, 0);
    for pool in heap.pools.list() {
        let Some(bytes) = heap.image.slice(pool.base, pool_bytes(heap)) else { continue };
        let free = heap.pools.free(pool, bytes);
        let used = heap.pools.block_ranges(pool).enumerate().filter(|(number, _)| !free.contains(*number));
        for (_, range) in used {
            let header = bytes.get(range).and_then(|block| block.get(9..16));
            seen += 1;
            guarded += usize::from(
                header.is_some_and(|guard| guard.iter().all(|byte| *byte == guard[0]) && guard[0] > 0xf0),
            );
        }
        if seen > ENOUGH {
            break;
        }
    }
    seen > 0 && guarded * 10 > seen * 9
}

fn pool_bytes(heap: &Heap<'_>) -> usize {
    heap.layout.obmalloc.pool_size as usize
}

struct Classifier {
    cache: Vec<(u64, Option<Sketch>)>,
}

/// What is asked of a type for each block: a type itself is long, and lies in several lines of the cache.
#[derive(Clone, Copy)]
struct Sketch {
    id: TypeId,
    before: u32,
    /// Where it is the same for all objects.
    extent: Option<u64>,
    is_leaf: bool,
    is_str: bool,
}

impl Classifier {
    /// True when the pool's own numbers agree.
    fn pool(&mut self, heap: &mut Heap<'_>, pools: &Pools, pool: &Pool) -> bool {
        heap.begin_pool(pool);
        let Some(bytes) = heap.image.slice(pool.base, pool_bytes(heap)) else { return false };
        let free = pools.free(pool, bytes);
        // With a broken list no block is taken for free; freed ones do not look alive anyway.
        let mut start = pools.first_block(pool);
        for (number, block) in pools.blocks_of(pool, bytes).enumerate() {
            let is_free = free.consistent && free.contains(number);
            let placed = if is_free { None } else { self.object(heap, block, start) };
            heap.add_block(placed);
            start += u64::from(pool.block_bytes);
        }
        free.consistent
    }

    /// The object in a block that begins at `start`.
    #[inline]
    fn object(&mut self, heap: &mut Heap<'_>, block: &[u8], start: u64) -> Option<Placed> {
        for before in HEADERS {
            let within = heap.shift + before;
            let head = block.get(within as usize..)?;
            let [count, type_] = [word(head, 0), word(head, 8)];
            if !is_address(type_) || !is_alive(heap.layout, count) || heap.is_object_address(count) {
                continue;
            }
            let Some(sketch) = self.type_at(heap, type_) else { continue };
            if sketch.before != before {
                continue;
            }
            let extent = match sketch.extent {
                None => size::extent(heap.layout, heap.types.get(sketch.id), head),
                known => known,
            };
            if extent.is_some_and(|extent| extent <= head.len() as u64) {
                return Some(Placed {
                    address: start + u64::from(within),
                    type_: sketch.id,
                    before,
                    count,
                    block_bytes: block.len() as u32,
                    is_leaf: sketch.is_leaf && (!sketch.is_str || is_plain_text(&heap.layout.str_, head)),
                });
            }
        }
        None
    }

    #[inline]
    fn type_at(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<Sketch> {
        let place = (address >> 4) as usize % CACHE;
        let (known, sketch) = self.cache[place];
        if known == address {
            return sketch;
        }
        let sketch = heap.type_at(address).map(|id| Sketch::of(heap, id));
        self.cache[place] = (address, sketch);
        sketch
    }
}

impl Sketch {
    fn of(heap: &Heap<'_>, id: TypeId) -> Self {
        let type_ = heap.types.get(id);
        Self {
            id,
            before: type_.before,
            extent: size::common_extent(heap.layout, type_),
            is_leaf: type_.is_leaf,
            is_str: type_.shape == Shape::Str,
        }
    }
}

/// In one block with its characters, which are its UTF-8 as well.
#[inline]
fn is_plain_text(layout: &Str, head: &[u8]) -> bool {
    let state = text::State::parse(word(head, layout.state as usize) as u32, layout);
    state.compact && state.ascii
}
