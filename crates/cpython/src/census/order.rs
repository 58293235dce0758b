//! From the order of discovery to the order of address.
//!
//! Objects of pools are in order already; the others, few of them, are put between.

use nilometer_image::Image;
use nilometer_trace::heap::{Edges, Graph, Label, Objects, Origin, Payload, Root};

use super::closure::Closure;
use super::heap::{Found as Number, Heap};
use crate::payload::{Buffer, backing};
use crate::root::{Claim, Roots};

/// How the two orders go together.
struct Order {
    /// Objects outside of the pools by address, each with the number of objects in pools before it.
    outside: Vec<(usize, Number)>,
    in_pools: usize,
    /// By number of discovery.
    rank: Vec<u32>,
}

impl Order {
    fn new(heap: &Heap<'_>) -> Self {
        let in_pools = heap.in_pools.min(heap.address.len());
        let (pooled, rest) = heap.address.split_at(in_pools);
        let mut outside: Vec<(u64, Number)> = rest
            .iter()
            .enumerate()
            .map(|(index, address)| (*address, (in_pools + index) as Number))
            .collect();
        outside.sort_unstable();
        let place =
            |(address, number): (u64, Number)| (pooled.partition_point(|pooled| *pooled < address), number);
        let outside: Vec<(usize, Number)> = outside.into_iter().map(place).collect();
        let mut order = Self { outside, in_pools, rank: vec![0; heap.address.len()] };
        order.rank_all();
        order
    }

    fn rank_all(&mut self) {
        let mut rank = std::mem::take(&mut self.rank);
        let mut next = 0;
        self.runs(|run| {
            for number in run {
                rank[number] = next;
                next += 1;
            }
        });
        self.rank = rank;
    }

    /// Numbers of discovery in the order of address, as runs.
    fn runs(&self, mut each: impl FnMut(std::ops::Range<usize>)) {
        let mut from = 0;
        for (place, number) in &self.outside {
            each(from..*place);
            each(*number as usize..*number as usize + 1);
            from = *place;
        }
        each(from..self.in_pools);
    }

    fn column<T: Copy>(&self, column: &[T]) -> Vec<T> {
        let mut sorted = Vec::with_capacity(column.len());
        self.runs(|run| sorted.extend_from_slice(column.get(run).unwrap_or_default()));
        sorted
    }

    fn edges(&self, closure: &Closure) -> Edges {
        let mut start = Vec::with_capacity(closure.start.len());
        let mut to = Vec::with_capacity(closure.to.len());
        let mut label: Vec<Label> = Vec::with_capacity(closure.label.len());
        self.runs(|run| {
            let (Some(from), Some(end)) = (closure.start.get(run.start), closure.start.get(run.end)) else {
                return;
            };
            // All of a run move by the same distance.
            let shift = (to.len() as u32).wrapping_sub(*from);
            start.extend(closure.start[run].iter().map(|start| start.wrapping_add(shift)));
            let range = *from as usize..*end as usize;
            to.extend(closure.to[range.clone()].iter().map(|target| self.rank[*target as usize]));
            label.extend_from_slice(closure.label.get(range).unwrap_or_default());
        });
        start.push(to.len() as u32);
        Edges { start, to, label }
    }
}

/// Puts everything together; the roots beside it, to be judged.
pub(crate) fn graph(heap: Heap<'_>, mut closure: Closure, roots: &Roots) -> (Graph, Vec<(Root, Claim)>) {
    let order = Order::new(&heap);
    let mut limits = Vec::new();
    if closure.not_sized > 0 {
        limits
            .push(format!("{} buffers are not sized: their owners could not be checked", closure.not_sized));
    }
    if closure.cut {
        limits.push("more references than can be numbered: the rest are left out".to_owned());
    }
    let edges = order.edges(&closure);
    closure.to = Vec::new();
    closure.label = Vec::new();
    let mut payloads: Vec<Payload> = closure
        .buffers
        .iter()
        .map(|(number, buffer)| payload(heap.image, order.rank[*number as usize], buffer))
        .collect();
    payloads.sort_by_key(|payload| payload.owner);
    let roots = roots.iter().map(|(target, holder, name, claim)| {
        (Root { object: order.rank[target as usize], holder, name: name.to_owned() }, claim)
    });
    let roots = roots.collect();
    let graph = Graph {
        origin: Origin { limits, ..Origin::default() },
        kinds: heap.types.kinds(),
        objects: Objects {
            address: order.column(&heap.address),
            kind: order.column(&heap.type_of),
            bytes: order.column(&closure.bytes),
            refcount: order.column(&closure.refcount),
        },
        edges,
        payloads,
        names: heap.types.names.into_list(),
        ..Graph::default()
    };
    (graph, roots)
}

fn payload(image: &Image, owner: u32, buffer: &Buffer) -> Payload {
    let Buffer { address, bytes, elements, element } = *buffer;
    let resident_bytes = address.checked_add(bytes).and_then(|end| image.resident(address..end));
    Payload { owner, address, bytes, resident_bytes, backing: backing(image, address), elements, element }
}
