//! Arrays and tensors with their buffers: what each spans by its own account, and what is really there.

use std::cmp::Reverse;

use nilometer_trace::heap::{Backing, Extent, Graph, Nature, ObjectId, Part, Payload, Special};
use rustc_hash::FxHashMap;

use super::model::{Array, ArrayTotals, Arrays, Sum};
use super::{Heap, Set, path, resolve};

/// Views of views that are followed.
const MOST_BASES: usize = 64;

/// An array, and the object whose buffer it lies in (itself, a base, a storage).
#[derive(Debug, Clone, Copy)]
struct Placed {
    array: ObjectId,
    buffer: ObjectId,
}

fn placed(graph: &Graph, ids: impl Iterator<Item = ObjectId>) -> Vec<Placed> {
    let is_array: Vec<bool> =
        graph.kinds.iter().map(|kind| matches!(kind.nature, Nature::Array | Nature::Tensor)).collect();
    ids.filter(|id| is_array[graph.objects.kind[*id as usize] as usize])
        .map(|array| Placed { array, buffer: buffer_of(graph, array) })
        .collect()
}

/// Where the chain of bases ends.
fn buffer_of(graph: &Graph, array: ObjectId) -> ObjectId {
    let mut at = array;
    for _ in 0..MOST_BASES {
        if !payloads(graph, at).is_empty() {
            return at;
        }
        let next = resolve::labelled(graph, at, |part| *part == Part::Special(Special::Storage))
            .or_else(|| resolve::labelled(graph, at, |part| *part == Part::Special(Special::Base)))
            .or_else(|| unlabelled_storage(graph, at));
        match next {
            Some(next) => at = next,
            None => return at,
        }
    }
    at
}

fn unlabelled_storage(graph: &Graph, tensor: ObjectId) -> Option<ObjectId> {
    let is_tensor = graph.kind_of(tensor).nature == Nature::Tensor && graph.edges.label.is_empty();
    let mut referents = graph.referents(tensor).iter().copied().filter(|_| is_tensor);
    referents.find(|to| graph.kind_of(*to).nature == Nature::Storage)
}

fn payloads(graph: &Graph, owner: ObjectId) -> &[Payload] {
    let first = graph.payloads.partition_point(|it| it.owner < owner);
    let rest = &graph.payloads[first..];
    &rest[..rest.iter().take_while(|it| it.owner == owner).count()]
}

pub(super) fn extent(graph: &Graph, object: ObjectId) -> Option<&Extent> {
    let place = graph.extents.binary_search_by_key(&object, |it| it.object).ok()?;
    graph.extents.get(place)
}

/// A buffer in bytes and elements, once.
#[derive(Debug, Clone, Copy, Default)]
struct Buffer {
    bytes: u64,
    elements: u64,
}

/// Over the arrays among some objects.
pub(super) fn totals(heap: &Heap<'_>, ids: &[ObjectId]) -> ArrayTotals {
    totals_of(heap.graph(), &placed(heap.graph(), ids.iter().copied()))
}

fn totals_of(graph: &Graph, arrays: &[Placed]) -> ArrayTotals {
    let mut totals = ArrayTotals { arrays: arrays.len() as u64, ..ArrayTotals::default() };
    let mut buffers: FxHashMap<ObjectId, Buffer> = FxHashMap::default();
    for placed in arrays {
        let spanned = span(graph, *placed);
        totals.nominal_bytes = totals.nominal_bytes.saturating_add(spanned.bytes);
        totals.nominal_elements = totals.nominal_elements.saturating_add(spanned.elements);
        totals.unsized_arrays += u64::from(extent(graph, placed.array).is_none());
        let buffer = buffers.entry(placed.buffer).or_insert_with(|| buffer(graph, *placed));
        // Where nobody sized the buffer it is at least what lies in it.
        buffer.bytes = buffer.bytes.max(spanned.bytes);
        buffer.elements = buffer.elements.max(spanned.elements);
    }
    totals.buffers = buffers.len() as u64;
    for buffer in buffers.values() {
        totals.unique_bytes = totals.unique_bytes.saturating_add(buffer.bytes);
        totals.unique_elements = totals.unique_elements.saturating_add(buffer.elements);
    }
    totals
}

/// What the array spans; without an extent, its whole buffer.
fn span(graph: &Graph, placed: Placed) -> Buffer {
    match extent(graph, placed.array) {
        Some(extent) => Buffer { bytes: extent.bytes, elements: extent.elements },
        None => buffer(graph, placed),
    }
}

/// What is there: the payload, its elements told or by the size of the array's own.
fn buffer(graph: &Graph, placed: Placed) -> Buffer {
    let payloads = payloads(graph, placed.buffer);
    let bytes = payloads.iter().map(|it| it.bytes).sum();
    let told: u64 = payloads.iter().filter_map(|it| it.elements).sum();
    let by_extent = extent(graph, placed.array).filter(|it| it.elements > 0 && it.bytes >= it.elements);
    let elements = by_extent.map_or(0, |it| bytes / (it.bytes / it.elements));
    Buffer { bytes, elements: if told > 0 { told } else { elements } }
}

pub(super) fn arrays(heap: &Heap<'_>, set: &Set, limit: usize) -> Arrays {
    let graph = heap.graph();
    let mut found = placed(graph, set.ids.iter().copied());
    let total = totals_of(graph, &found);
    let mut sharers: FxHashMap<ObjectId, u64> = FxHashMap::default();
    let all = placed(graph, 0..graph.len() as ObjectId);
    for it in &all {
        *sharers.entry(it.buffer).or_default() += 1;
    }
    found.sort_by_cached_key(|it| {
        Reverse((buffer(graph, *it).bytes, it.array == it.buffer, span(graph, *it).bytes))
    });
    let more = found.len().saturating_sub(limit) as u64;
    found.truncate(limit);
    Arrays {
        arrays: found.iter().map(|it| model(heap, *it, &sharers)).collect(),
        more,
        total,
        native_only: native_only(heap, set),
    }
}

fn native_only(heap: &Heap<'_>, set: &Set) -> Sum {
    let alone = heap.fold().tellers().iter().filter(|row| row.1 as usize >= heap.len()).map(|row| row.0);
    let ids = alone.filter(|id| set.ids.binary_search(id).is_ok()).collect();
    heap.sum(&Set { ids, selection: Vec::new() })
}

fn model(heap: &Heap<'_>, placed: Placed, sharers: &FxHashMap<ObjectId, u64>) -> Array {
    let graph = heap.graph();
    let payloads = payloads(graph, placed.buffer);
    let nominal = span(graph, placed).bytes;
    let bytes: u64 = payloads.iter().map(|it| it.bytes).sum();
    let resident = payloads.iter().map(|it| it.resident_bytes).try_fold(0u64, |sum, it| Some(sum + it?));
    let is_tensor = graph.kind_of(placed.array).nature == Nature::Tensor;
    Array {
        item: heap.item(placed.array),
        path: path::shortest_text(heap, placed.array),
        nominal_bytes: nominal,
        buffer_bytes: bytes,
        buffer_resident_bytes: resident.filter(|_| !payloads.is_empty()),
        buffer_address: payloads.first().map(|it| format!("{:#x}", it.address)),
        backing: payloads.first().map(|it| backing(it.backing)),
        sharers: sharers.get(&placed.buffer).copied().unwrap_or(1),
        view: if is_tensor { nominal < bytes } else { placed.buffer != placed.array },
    }
}

pub(super) fn backing(backing: Backing) -> &'static str {
    match backing {
        Backing::Memory => "memory",
        Backing::File => "file",
        Backing::Shared => "shared",
        Backing::Device => "device",
    }
}
