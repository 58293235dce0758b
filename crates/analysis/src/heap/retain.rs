//! What objects keep alive.

use std::cmp::Reverse;

use nilometer_trace::heap::ObjectId;

use super::amount::Amount;
use super::bits::Bits;
use super::dominator::Dominators;
use super::model::{Retainer, Retainers, Sum};
use super::{Heap, Set, path, reach};

/// Sums over all that each object dominates, itself included.
#[derive(Debug)]
pub(super) struct Retained {
    /// What dominates each object directly.
    pub(super) immediate: Vec<ObjectId>,
    pub(super) bytes: Vec<u64>,
    pub(super) payload: Vec<u64>,
    /// Native things are not counted.
    pub(super) counts: Vec<u32>,
}

impl Retained {
    pub(super) fn of(heap: &Heap<'_>) -> Self {
        let graph = heap.graph();
        let dominators = Dominators::of(graph, heap.referrers_index());
        let mut payload = vec![0; graph.len()];
        graph.payloads.iter().for_each(|it| payload[it.owner as usize] += it.bytes);
        let mut counts = vec![1; graph.len()];
        heap.fold().tellers().iter().for_each(|row| counts[row.0 as usize] = 0);
        let mut retained =
            Self { immediate: Vec::new(), bytes: graph.objects.bytes.clone(), payload, counts };
        retained.add_up(&dominators);
        Self { immediate: dominators.immediate, ..retained }
    }

    fn add_up(&mut self, dominators: &Dominators) {
        for object in dominators.order.iter().rev().map(|object| *object as usize) {
            let above = dominators.immediate[object] as usize;
            if above < self.bytes.len() {
                self.bytes[above] += self.bytes[object];
                self.payload[above] += self.payload[object];
                self.counts[above] += self.counts[object];
            }
        }
    }

    pub(super) fn total(&self, object: ObjectId) -> u64 {
        self.bytes[object as usize] + self.payload[object as usize]
    }
}

/// What would go with the objects, themselves included. Exact for sets as well: all that the roots no longer
/// reach without passing through one of them, and that can be reached from them.
pub(super) fn retained(heap: &Heap<'_>, ids: &[ObjectId]) -> Sum {
    let graph = heap.graph();
    let blocked = Bits::of(graph.len(), ids);
    let roots: Vec<ObjectId> = graph.roots.iter().map(|root| root.object).collect();
    let kept = reach::reachable(graph, &roots, |id| blocked.has(id));
    let gone = reach::reachable(graph, ids, |id| kept.has(id));
    let mut sum = heap.plain_amounts().sum(&gone.ids());
    sum.count -= storages(heap, &gone);
    sum.into()
}

/// Native things are no objects.
fn storages(heap: &Heap<'_>, among: &Bits) -> u64 {
    heap.fold().tellers().iter().filter(|row| among.has(row.0)).count() as u64
}

/// The members of a set that keep most alive.
pub(super) fn retainers(heap: &Heap<'_>, set: &Set, limit: usize) -> Retainers {
    let retained = heap.retained_index();
    let mut ids = set.ids.clone();
    let more = ids.len().saturating_sub(limit) as u64;
    if limit < ids.len() {
        ids.select_nth_unstable_by_key(limit, |id| (Reverse(retained.total(*id)), *id));
        ids.truncate(limit);
    }
    ids.sort_by_key(|id| (Reverse(retained.total(*id)), *id));
    let retainers = ids.into_iter().map(|id| Retainer {
        item: heap.item(id),
        retained: dominated(heap, id).into(),
        path: path::shortest_text(heap, id),
    });
    Retainers { retainers: retainers.collect(), more }
}

/// By the dominator tree; how much of the payload is resident is not summed there.
pub(super) fn dominated(heap: &Heap<'_>, object: ObjectId) -> Amount {
    let retained = heap.retained_index();
    let payload = retained.payload[object as usize];
    Amount {
        count: retained.counts[object as usize].into(),
        bytes: retained.bytes[object as usize],
        payload,
        resident: 0,
        unknown: payload > 0,
    }
}
