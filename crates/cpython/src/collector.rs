//! The collector's lists: every container that may be part of a cycle is on one of them.
//!
//! Those in pools are known already; the lists add the large ones. Links are followed forward only: during a
//! collection the backward ones hold counts. Every walk is bounded.

use nilometer_image::Image;
use rustc_hash::FxHashSet;

use crate::census::heap::Heap;
use crate::layout::flag;
use crate::locate::Python;

/// Low bits of a link are marks.
const MARKS: u64 = 3;
/// Generations and the permanent one.
const GENERATIONS: u64 = 3;

/// Adds the objects of all lists.
pub(crate) fn add_listed(heap: &mut Heap<'_>, python: &Python) {
    let layout = &python.layout.gc;
    let mut doubtful = false;
    for interpreter in &python.interpreters {
        let Some(state) = interpreter.gc else {
            doubtful = true;
            continue;
        };
        let generations = (0..GENERATIONS).map(|number| layout.generations + number * layout.stride);
        for offset in generations.chain([layout.permanent]) {
            doubtful |= state.checked_add(offset).is_none_or(|head| !walk(heap, head));
        }
        doubtful |= is_collecting(heap.image, state, layout.collecting);
    }
    if doubtful {
        add_rings(heap);
    }
}

fn is_collecting(image: &Image, state: u64, offset: u64) -> bool {
    let flag = state.checked_add(offset).and_then(|at| image.slice(at, 4));
    flag.is_none_or(|flag| flag.iter().any(|byte| *byte != 0))
}

/// Follows one list; false when it does not come back to its head.
fn walk(heap: &mut Heap<'_>, head: u64) -> bool {
    let most = heap.image.copied_bytes() / 32;
    let mut at = link(heap.image, head);
    for _ in 0..=most {
        match at {
            Some(end) if end == head => return true,
            Some(node) => add(heap, node),
            None => return false,
        }
        at = at.and_then(|node| link(heap.image, node));
    }
    false
}

fn link(image: &Image, node: u64) -> Option<u64> {
    image.word(node).map(|link| link & !MARKS).filter(|link| *link != 0)
}

#[inline]
fn add(heap: &mut Heap<'_>, node: u64) {
    let object = node.wrapping_add(heap.layout.object.gc_head);
    if heap.pools.at(object).is_none() {
        heap.find_or_probe(object, false);
    }
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
            add(heap, node);
            at = link(heap.image, node);
        }
    }
}
