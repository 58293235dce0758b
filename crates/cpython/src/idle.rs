//! Free lists: objects that were freed and are kept for the next one of their type.
//!
//! To the pools their blocks are in use, and no object lives in them. A freed object keeps its type and has a count of
//! zero, or in its place the next one of the list (3.13 on); a freed float has the next one in place of its type.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::census::heap::Heap;
use crate::pool::{Pool, word};
use crate::version::Version;

/// From here on every list is linked through the count.
const LINKED_BY_COUNT: (u8, u8) = (3, 13);
/// A float's block.
const FLOAT_BYTES: u32 = 32;

/// The blocks of freed objects, in order of address.
pub(crate) fn blocks(heap: &mut Heap<'_>, version: Version) -> Vec<Range<u64>> {
    let mut search = Search { idle: Vec::new(), floats: FxHashMap::default() };
    let pools = Arc::clone(&heap.pools);
    for pool in pools.list() {
        search.pool(heap, pool);
    }
    if (version.major, version.minor) < LINKED_BY_COUNT {
        search.add_floats();
    }
    search.idle.sort_unstable_by_key(|range| range.start);
    search.idle
}

struct Search {
    idle: Vec<Range<u64>>,
    /// Blocks that may be freed floats, and what each names as the next; 0 for none.
    floats: FxHashMap<u64, u64>,
}

impl Search {
    fn pool(&mut self, heap: &mut Heap<'_>, pool: &Pool) {
        let Some(bytes) = heap.image.slice(pool.base, heap.layout.obmalloc.pool_size as usize) else {
            return;
        };
        let free = heap.pools.free(pool, bytes);
        if !free.consistent {
            return;
        }
        for (number, range) in heap.pools.block_ranges(pool).enumerate() {
            if free.contains(number) || heap.has_object(pool.first as usize + number) {
                continue;
            }
            let (start, end) = (pool.base + range.start as u64, pool.base + range.end as u64);
            let Some(block) = bytes.get(range) else { break };
            if is_freed(heap, pool, block) {
                self.idle.push(start..end);
            } else if let Some(next) = next_float(heap, pool, block) {
                self.floats.insert(start, next);
            }
        }
    }

    /// One alone has no link that would prove it.
    fn add_floats(&mut self) {
        let linked = self.floats.iter().filter(|(_, next)| self.floats.contains_key(next));
        let proven: FxHashSet<u64> = linked.flat_map(|(start, next)| [*start, *next]).collect();
        self.idle.extend(proven.into_iter().map(|start| start..start + u64::from(FLOAT_BYTES)));
    }
}

/// Whether a block has the type of an object and no count, or the next of its list in the count's place.
fn is_freed(heap: &mut Heap<'_>, pool: &Pool, block: &[u8]) -> bool {
    [0, heap.layout.object.gc_head as u32].into_iter().any(|before| {
        let head = (heap.shift + before) as usize;
        let (count, type_) = (word(block, head), word(block, head + 8));
        let next_is_alike = || heap.pools.at(count).is_some_and(|next| next.block_bytes == pool.block_bytes);
        (count == 0 || next_is_alike())
            && heap.type_at(type_).is_some_and(|id| heap.types.get(id).before == before)
    })
}

fn next_float(heap: &Heap<'_>, pool: &Pool, block: &[u8]) -> Option<u64> {
    let (count, next) = (word(block, 0), word(block, 8));
    let is_link = next == 0 || heap.pools.at(next).is_some_and(|pool| pool.block_bytes == FLOAT_BYTES);
    (pool.block_bytes == FLOAT_BYTES && heap.shift == 0 && count == 0 && is_link).then_some(next)
}
