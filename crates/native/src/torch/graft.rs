//! New objects and edges in a graph whose columns are sorted: everything that names an object by its place is moved.

use nilometer_trace::heap::{Edges, Extent, Graph, KindId, Label, ObjectId, Objects, Payload};

/// An object to be added.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewObject {
    pub address: u64,
    pub kind: KindId,
    pub bytes: u64,
    pub refcount: u32,
}

/// Where everything is after the new objects took their places.
#[derive(Debug)]
pub(super) struct Places {
    /// Of the objects that were there.
    pub old: Vec<ObjectId>,
    /// Of the new ones.
    pub new: Vec<ObjectId>,
}

/// Adds objects (sorted by address, none of them there already) and moves all that refers to the others.
pub(super) fn insert(graph: &mut Graph, new: &[NewObject]) -> Places {
    let places = places(&graph.objects.address, new);
    graph.objects = merged(&graph.objects, new);
    let moved =
        |object: &mut ObjectId| *object = places.old.get(*object as usize).copied().unwrap_or(*object);
    graph.edges.to.iter_mut().for_each(moved);
    graph.edges.start = starts(&graph.edges.start, &places, new.len());
    graph.payloads.iter_mut().for_each(|payload| moved(&mut payload.owner));
    graph.extents.iter_mut().for_each(|extent| moved(&mut extent.object));
    graph.dict_owners.iter_mut().for_each(|(dict, owner)| {
        moved(dict);
        moved(owner);
    });
    graph.roots.iter_mut().for_each(|root| moved(&mut root.object));
    places
}

fn places(address: &[u64], new: &[NewObject]) -> Places {
    let mut places = Places { old: Vec::with_capacity(address.len()), new: Vec::with_capacity(new.len()) };
    let mut rest = new.iter().peekable();
    let mut next = 0;
    for address in address {
        while rest.next_if(|object| object.address < *address).is_some() {
            places.new.push(next);
            next += 1;
        }
        places.old.push(next);
        next += 1;
    }
    places.new.extend(rest.map(|_| {
        next += 1;
        next - 1
    }));
    places
}

fn merged(objects: &Objects, new: &[NewObject]) -> Objects {
    let address = merge(&objects.address, &objects.address, new, |object| object.address);
    Objects {
        kind: merge(&objects.kind, &objects.address, new, |object| object.kind),
        bytes: merge(&objects.bytes, &objects.address, new, |object| object.bytes),
        refcount: merge(&objects.refcount, &objects.address, new, |object| object.refcount),
        address,
    }
}

/// One column: what was there, with the new values at their places.
fn merge<T: Copy>(
    column: &[T],
    address: &[u64],
    new: &[NewObject],
    value: impl Fn(&NewObject) -> T,
) -> Vec<T> {
    let mut merged = Vec::with_capacity(column.len() + new.len());
    let mut from = 0;
    for object in new {
        let to = address.partition_point(|address| *address < object.address).min(column.len());
        merged.extend_from_slice(&column[from..to]);
        merged.push(value(object));
        from = to;
    }
    merged.extend_from_slice(&column[from..]);
    merged
}

/// A new object has no edges yet: it starts where the next one does.
fn starts(start: &[u32], places: &Places, new: usize) -> Vec<u32> {
    let end = start.last().copied().unwrap_or(0);
    let mut starts = vec![end; places.old.len() + new + 1];
    for (place, start) in places.old.iter().zip(start) {
        if let Some(slot) = starts.get_mut(*place as usize) {
            *slot = *start;
        }
    }
    for place in places.new.iter().rev() {
        let next = starts.get(*place as usize + 1).copied().unwrap_or(end);
        if let Some(slot) = starts.get_mut(*place as usize) {
            *slot = next;
        }
    }
    starts
}

/// Adds edges behind those that their objects have.
pub(super) fn add_edges(edges: &mut Edges, mut new: Vec<(ObjectId, ObjectId, Label)>) {
    if new.is_empty() {
        return;
    }
    new.sort_by_key(|edge| edge.0);
    let labelled = !edges.label.is_empty() || edges.to.is_empty();
    let mut to = Vec::with_capacity(edges.to.len() + new.len());
    let mut label = Vec::with_capacity(if labelled { to.capacity() } else { 0 });
    let mut copied = 0;
    for (from, target, name) in &new {
        let end = edges.start.get(*from as usize + 1).map_or(edges.to.len(), |end| *end as usize);
        to.extend_from_slice(&edges.to[copied..end]);
        to.push(*target);
        if labelled {
            label.extend_from_slice(&edges.label[copied..end]);
            label.push(*name);
        }
        copied = end;
    }
    to.extend_from_slice(&edges.to[copied..]);
    if labelled {
        label.extend_from_slice(&edges.label[copied..]);
    }
    shift_starts(&mut edges.start, &new);
    edges.to = to;
    edges.label = label;
}

fn shift_starts(start: &mut [u32], new: &[(ObjectId, ObjectId, Label)]) {
    let mut added = new.iter().map(|edge| edge.0).peekable();
    let mut shift = 0;
    for (object, start) in (0..).zip(start) {
        while added.next_if(|from| *from < object).is_some() {
            shift += 1;
        }
        *start += shift;
    }
}

/// Adds payloads and keeps the order.
pub(super) fn add_payloads(payloads: &mut Vec<Payload>, new: Vec<Payload>) {
    payloads.extend(new);
    payloads.sort_by_key(|payload| payload.owner);
}

/// Adds extents, one per object, and keeps the order.
pub(super) fn add_extents(extents: &mut Vec<Extent>, new: Vec<Extent>) {
    extents.extend(new);
    extents.sort_by_key(|extent| extent.object);
    extents.dedup_by_key(|extent| extent.object);
}

#[cfg(test)]
mod tests {
    use nilometer_trace::heap::{GraphBuilder, Holder, Nature, Part, Special};

    use super::*;

    fn graph() -> Graph {
        let mut builder = GraphBuilder::default();
        let kind = builder.kind("list", "builtins", Nature::List);
        let objects = [0x100, 0x200, 0x300].map(|address| builder.object(address, kind, 64));
        builder.edge(objects[0], objects[2], Part::Index(0));
        builder.edge(objects[2], objects[1], Part::Index(1));
        builder.edge(objects[2], objects[0], Part::Index(2));
        builder.payload(objects[1], 0x9000, 10);
        builder.extent(objects[1], "int8", &[10]);
        builder.root(objects[0], Holder::Modules, "m");
        builder.finish()
    }

    fn new(address: u64) -> NewObject {
        NewObject { address, kind: 0, bytes: 1, refcount: 1 }
    }

    #[test]
    fn every_name_of_an_object_moves_with_it() {
        let mut graph = graph();
        let places = insert(&mut graph, &[new(0x50), new(0x60), new(0x250), new(0x900)]);
        assert_eq!((&places.old[..], &places.new[..]), (&[2, 3, 5][..], &[0, 1, 4, 6][..]));
        assert_eq!(graph.check(), Ok(()));
        assert_eq!(graph.objects.address, [0x50, 0x60, 0x100, 0x200, 0x250, 0x300, 0x900]);
        assert_eq!(
            (graph.referents(2), graph.referents(5), graph.referents(4)),
            (&[5][..], &[3, 2][..], &[][..])
        );
        assert_eq!((graph.payloads[0].owner, graph.extents[0].object, graph.roots[0].object), (3, 3, 2));
    }

    #[test]
    fn edges_come_behind_those_that_were_there() {
        let mut graph = graph();
        let name = Label::new(Part::Special(Special::Storage));
        add_edges(&mut graph.edges, vec![(2, 2, name), (0, 1, name), (1, 0, name), (0, 0, name)]);
        assert_eq!(graph.check(), Ok(()));
        assert_eq!(
            (graph.referents(0), graph.referents(1), graph.referents(2)),
            (&[2, 1, 0][..], &[0][..], &[1, 0, 2][..])
        );
    }

    #[test]
    fn a_graph_without_labels_stays_so() {
        let mut graph = graph();
        graph.edges.label.clear();
        add_edges(&mut graph.edges, vec![(1, 0, Label::UNNAMED)]);
        assert_eq!(graph.check(), Ok(()));
        assert!(graph.edges.label.is_empty());
    }
}
