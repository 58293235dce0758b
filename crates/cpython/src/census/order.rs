//! From the order of discovery to the order of address.
//!
//! Objects of pools are in order already; the others, few of them, are put between.

use nilometer_image::Image;
use nilometer_trace::heap::{Edges, Extent, Graph, Objects, Origin, Payload, Root};

use super::closure::Closure;
use super::heap::{Found as Number, Heap};
use crate::payload::{Buffer, backing};
use crate::root::{Claim, Roots};

/// How the two orders go together. Columns are put in order where they stand: they are large.
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
        let mut rank: Vec<u32> = (0..heap.address.len() as u32).collect();
        let mut from = in_pools;
        for (before, (place, number)) in outside.iter().enumerate().rev() {
            rank[*place..from].iter_mut().for_each(|rank| *rank += before as u32 + 1);
            rank[*number as usize] = (place + before) as u32;
            from = *place;
        }
        Self { outside, in_pools, rank }
    }

    /// Puts a column with one entry per object in order.
    fn sort<T: Copy>(&self, column: &mut [T]) {
        let rest = column.get(self.in_pools..).unwrap_or_default().to_vec();
        let (mut from, mut to) = (self.in_pools, column.len());
        for (place, number) in self.outside.iter().rev() {
            let run = from - place;
            column.copy_within(*place..from, to - run);
            to -= run + 1;
            column[to] = rest[*number as usize - self.in_pools];
            from = *place;
        }
    }

    /// The same for a column with one entry per reference; `start` is still in the old order.
    fn sort_references<T: Copy>(&self, column: &mut [T], start: &[u32]) {
        let at = |object: usize| start[object] as usize;
        let first = at(self.in_pools);
        let rest = column.get(first..).unwrap_or_default().to_vec();
        let (mut from, mut to) = (self.in_pools, column.len());
        for (place, number) in self.outside.iter().rev() {
            let run = at(from) - at(*place);
            column.copy_within(at(*place)..at(from), to - run);
            let own = at(*number as usize) - first..at(*number as usize + 1) - first;
            to -= run + own.len();
            column[to..to + own.len()].copy_from_slice(&rest[own]);
            from = *place;
        }
    }

    fn edges(&self, closure: &mut Closure) -> Edges {
        let (mut start, mut to) = (std::mem::take(&mut closure.start), std::mem::take(&mut closure.to));
        let mut label = std::mem::take(&mut closure.label);
        self.sort_references(&mut to, &start);
        if !label.is_empty() {
            self.sort_references(&mut label, &start);
        }
        for target in &mut *to {
            *target = self.rank[*target as usize];
        }
        // Numbers of references are sorted like any column, then summed up again.
        for object in 0..start.len() - 1 {
            start[object] = start[object + 1] - start[object];
        }
        let objects = start.len() - 1;
        self.sort(&mut start[..objects]);
        let mut sum = 0;
        for entry in &mut start[..objects] {
            sum += std::mem::replace(entry, sum);
        }
        Edges { start, to, label }
    }
}

/// Puts everything together; the roots beside it, to be judged.
pub(crate) fn graph(mut heap: Heap<'_>, mut closure: Closure, roots: &Roots) -> (Graph, Vec<(Root, Claim)>) {
    heap.close();
    let order = Order::new(&heap);
    let mut limits = Vec::new();
    if closure.not_sized > 0 {
        limits
            .push(format!("{} buffers are not sized: their owners could not be checked", closure.not_sized));
    }
    if closure.cut {
        limits.push("more references than can be numbered: the rest are left out".to_owned());
    }
    let edges = order.edges(&mut closure);
    let mut payloads: Vec<Payload> = closure
        .buffers
        .iter()
        .map(|(number, buffer)| payload(heap.image, order.rank[*number as usize], buffer))
        .collect();
    payloads.sort_by_key(|payload| payload.owner);
    let renumbered = |(number, extent)| Extent { object: order.rank[number as usize], ..extent };
    let mut extents: Vec<Extent> = std::mem::take(&mut closure.extents).into_iter().map(renumbered).collect();
    extents.sort_by_key(|extent| extent.object);
    let mut dict_owners: Vec<_> = std::mem::take(&mut closure.dict_owners)
        .into_iter()
        .map(|(dict, owner)| (order.rank[dict as usize], order.rank[owner as usize]))
        .collect();
    dict_owners.sort_unstable();
    dict_owners.dedup_by_key(|(dict, _)| *dict);
    let roots = roots.iter().map(|(target, holder, name, claim)| {
        (Root { object: order.rank[target as usize], holder, name: name.to_owned() }, claim)
    });
    let roots = roots.collect();
    order.sort(&mut heap.address);
    order.sort(&mut heap.type_of);
    order.sort(&mut closure.bytes);
    order.sort(&mut closure.refcount);
    let graph = Graph {
        origin: Origin { limits, ..Origin::default() },
        kinds: heap.types.kinds(),
        objects: Objects {
            address: heap.address,
            kind: heap.type_of,
            bytes: closure.bytes,
            refcount: closure.refcount,
        },
        edges,
        payloads,
        extents,
        dict_owners,
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
