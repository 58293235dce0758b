//! Which blocks of the pools are objects.
//!
//! A block in use is one if, at the distance that its type's headers ask for, a plausible count and a type stand,
//! and what it says of its own size fits the block. The rest are items of lists, tables of dicts and the like.

use crate::census::heap::{Heap, is_alive};
use crate::kind::TypeId;
use crate::pool::{Pool, word};
use crate::reference::span::is_address;
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
    heap.restart(shift);
    let mut classifier = Classifier { cache: vec![(0, None); CACHE] };
    let mut tally = Tally::default();
    for index in 0..heap.pools.list().len() {
        let Some(pool) = heap.pools.list().get(index).copied() else { break };
        tally.pools += 1;
        tally.doubtful += u64::from(!classifier.pool(heap, &pool));
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
    cache: Vec<(u64, Option<TypeId>)>,
}

impl Classifier {
    /// True when the pool's own numbers agree.
    fn pool(&mut self, heap: &mut Heap<'_>, pool: &Pool) -> bool {
        let Some(bytes) = heap.image.slice(pool.base, pool_bytes(heap)) else { return false };
        let free = heap.pools.free(pool, bytes);
        // With a broken list no block is taken for free; freed ones do not look alive anyway.
        for (number, range) in heap.pools.block_ranges(pool).enumerate() {
            if free.consistent && free.contains(number) {
                continue;
            }
            let Some(block) = bytes.get(range.clone()) else { break };
            if let Some((within, type_, before)) = self.object(heap, block) {
                let address = pool.base + (range.start + within) as u64;
                heap.add_block(pool.first as usize + number, address, type_, before);
            }
        }
        free.consistent
    }

    /// Where in a block an object begins, and its type.
    #[inline]
    fn object(&mut self, heap: &mut Heap<'_>, block: &[u8]) -> Option<(usize, TypeId, u32)> {
        for before in HEADERS {
            let within = (heap.shift + before) as usize;
            let head = block.get(within..)?;
            let [count, type_] = [word(head, 0), word(head, 8)];
            if !is_address(type_) || !is_alive(heap.layout, count) || heap.is_object_address(count) {
                continue;
            }
            let Some(id) = self.type_at(heap, type_) else { continue };
            let type_ = heap.types.get(id);
            if type_.before != before {
                continue;
            }
            let extent = size::extent(heap.layout, type_, head);
            if extent.is_some_and(|extent| extent <= head.len() as u64) {
                return Some((within, id, before));
            }
        }
        None
    }

    #[inline]
    fn type_at(&mut self, heap: &mut Heap<'_>, address: u64) -> Option<TypeId> {
        let place = (address >> 4) as usize % CACHE;
        let (known, id) = self.cache[place];
        if known == address {
            return id;
        }
        let id = heap.type_at(address);
        self.cache[place] = (address, id);
        id
    }
}
