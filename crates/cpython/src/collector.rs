//! The collector's lists: every container that may be part of a cycle is on one of them.
//!
//! Those in pools are known already; the lists add the large ones. Links are followed forward only: during a
//! collection the backward ones hold counts. Every walk is bounded.

use nilometer_image::Image;
use rustc_hash::FxHashSet;

use crate::census::heap::Heap;
use crate::layout::flag;
use crate::locate::Python;
use crate::pool::Pools;

/// Low bits of a link are marks.
const MARKS: u64 = 3;
/// Generations and the permanent one.
const GENERATIONS: u64 = 3;

/// What the lists lead to outside of the pools.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    objects: Vec<u64>,
    /// A list without a known head, one that does not come back to it, or a collection under way.
    doubtful: bool,
}

/// Follows all lists.
pub(crate) fn follow(python: &Python, image: &Image, pools: &Pools) -> Listed {
    let layout = &python.layout.gc;
    let mut listed = Listed::default();
    let mut walk = Walk { image, pools, gc_head: python.layout.object.gc_head, objects: Vec::new() };
    for interpreter in &python.interpreters {
        let Some(state) = interpreter.gc else {
            listed.doubtful = true;
            continue;
        };
        let generations = (0..GENERATIONS).map(|number| layout.generations + number * layout.stride);
        for offset in generations.chain([layout.permanent]) {
            listed.doubtful |= state.checked_add(offset).is_none_or(|head| !walk.list(head));
        }
        listed.doubtful |= is_collecting(image, state, layout.collecting);
    }
    Listed { objects: walk.objects, ..listed }
}

/// Adds what was listed to the objects of the pools.
pub(crate) fn add(heap: &mut Heap<'_>, listed: &Listed) {
    for object in &listed.objects {
        heap.find_or_probe(*object, false);
    }
    if listed.doubtful {
        add_rings(heap);
    }
    heap.tracked_are_known = !listed.doubtful;
}

fn is_collecting(image: &Image, state: u64, offset: u64) -> bool {
    let flag = state.checked_add(offset).and_then(|at| image.slice(at, 4));
    flag.is_none_or(|flag| flag.iter().any(|byte| *byte != 0))
}

struct Walk<'a> {
    image: &'a Image,
    pools: &'a Pools,
    gc_head: u64,
    objects: Vec<u64>,
}

impl Walk<'_> {
    /// Follows one list; false when it does not come back to its head.
    fn list(&mut self, head: u64) -> bool {
        let most = self.image.copied_bytes() / 32;
        let mut at = link(self.image, head);
        for _ in 0..=most {
            match at {
                Some(end) if end == head => return true,
                Some(node) => self.add(node),
                None => return false,
            }
            at = at.and_then(|node| link(self.image, node));
        }
        false
    }

    #[inline]
    fn add(&mut self, node: u64) {
        let object = node.wrapping_add(self.gc_head);
        if self.pools.at(object).is_none() {
            self.objects.push(object);
        }
    }
}

fn link(image: &Image, node: u64) -> Option<u64> {
    image.word(node).map(|link| link & !MARKS).filter(|link| *link != 0)
}

/// Without heads: each tracked object leads around a ring with all others of its list. For lists that a running
/// collection keeps on its stack, and for heads that are not where they should be.
fn add_rings(heap: &mut Heap<'_>) {
    let mut seen = FxHashSet::default();
    let most = heap.image.copied_bytes() / 32;
    let before = heap.layout.object.gc_head;
    for number in 0..heap.len() {
        if heap.types.get(heap.type_of[number]).flags & flag::GC == 0 {
            continue;
        }
        let mut at = Some(heap.address[number].wrapping_sub(before));
        while let Some(node) = at.filter(|node| (seen.len() as u64) < most && seen.insert(*node)) {
            let object = node.wrapping_add(before);
            if heap.pools.at(object).is_none() {
                heap.find_or_probe(object, false);
            }
            at = link(heap.image, node);
        }
    }
}
