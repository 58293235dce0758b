//! Graphs made by hand: objects in any order, ids and columns by [`GraphBuilder::finish`].
//!
//! For tests and small graphs; a census fills the columns itself.

use std::collections::HashMap;

use super::{
    Backing, Edges, Extent, Graph, Holder, Kind, KindId, Label, NameId, Nature, ObjectId, Objects, Part,
    Payload, Root,
};

/// Objects are named by the number that [`Self::object`] gives, until [`Self::finish`] sorts them.
#[derive(Debug, Clone, Default)]
pub struct GraphBuilder {
    graph: Graph,
    names: HashMap<String, NameId>,
    edges: Vec<(ObjectId, ObjectId, Label)>,
    refcounts: HashMap<ObjectId, u32>,
}

impl GraphBuilder {
    pub fn kind(&mut self, name: &str, module: &str, nature: Nature) -> KindId {
        let kind = Kind { name: name.into(), module: module.into(), nature };
        let known = self.graph.kinds.iter().position(|it| *it == kind);
        known.unwrap_or_else(|| {
            self.graph.kinds.push(kind);
            self.graph.kinds.len() - 1
        }) as KindId
    }

    pub fn name(&mut self, name: &str) -> NameId {
        let next = self.graph.names.len() as NameId;
        let id = *self.names.entry(name.to_owned()).or_insert(next);
        if id == next {
            self.graph.names.push(name.to_owned());
        }
        id
    }

    /// Addresses must differ.
    pub fn object(&mut self, address: u64, kind: KindId, bytes: u64) -> ObjectId {
        let objects = &mut self.graph.objects;
        objects.address.push(address);
        objects.kind.push(kind);
        objects.bytes.push(bytes);
        (objects.address.len() - 1) as ObjectId
    }

    /// Otherwise the number of edges that lead to it, and of roots.
    pub fn refcount(&mut self, object: ObjectId, count: u32) {
        self.refcounts.insert(object, count);
    }

    pub fn edge(&mut self, from: ObjectId, to: ObjectId, part: Part) {
        self.edges.push((from, to, Label::new(part)));
    }

    /// `.name`
    pub fn attribute(&mut self, from: ObjectId, to: ObjectId, name: &str) {
        let name = self.name(name);
        self.edge(from, to, Part::Attribute(name));
    }

    /// `['name']`
    pub fn key(&mut self, from: ObjectId, to: ObjectId, name: &str) {
        let name = self.name(name);
        self.edge(from, to, Part::Key(name));
    }

    pub fn payload(&mut self, owner: ObjectId, address: u64, bytes: u64) {
        self.graph.payloads.push(Payload {
            owner,
            address,
            bytes,
            resident_bytes: Some(bytes),
            backing: Backing::Memory,
            elements: None,
            element: None,
        });
    }

    /// The element's size is told by the digits that end its name: `float32` has four bytes.
    pub fn extent(&mut self, object: ObjectId, element: &str, shape: &[u64]) {
        let digits = element.trim_start_matches(|c: char| !c.is_ascii_digit());
        let element_bytes = digits.parse::<u64>().map_or(1, |bits| bits / 8);
        let elements = shape.iter().product();
        let element = Some(self.name(element));
        let bytes = elements * element_bytes;
        self.graph.extents.push(Extent { object, elements, bytes, element, shape: shape.to_vec() });
    }

    pub fn root(&mut self, object: ObjectId, holder: Holder, name: &str) {
        self.graph.roots.push(Root { object, holder, name: name.into() });
    }

    /// Everything else of the graph: origin, quality, threads.
    pub fn rest(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Sorts by address; edges keep the order in which they were given.
    pub fn finish(mut self) -> Graph {
        let order = self.order();
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old as usize] = new as ObjectId;
        }
        let counts = self.counts();
        let mut graph = std::mem::take(&mut self.graph);
        graph.objects = sorted(&graph.objects, &counts, &order);
        graph.edges = self.sorted_edges(&place);
        for payload in &mut graph.payloads {
            payload.owner = place[payload.owner as usize];
        }
        graph.payloads.sort_by_key(|payload| payload.owner);
        for extent in &mut graph.extents {
            extent.object = place[extent.object as usize];
        }
        graph.extents.sort_by_key(|extent| extent.object);
        for root in &mut graph.roots {
            root.object = place[root.object as usize];
        }
        graph
    }

    fn order(&self) -> Vec<ObjectId> {
        let address = &self.graph.objects.address;
        let mut order: Vec<ObjectId> = (0..address.len() as ObjectId).collect();
        order.sort_by_key(|old| address[*old as usize]);
        order
    }

    fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.graph.objects.address.len()];
        let held = self.edges.iter().map(|edge| edge.1).chain(self.graph.roots.iter().map(|it| it.object));
        held.for_each(|object| counts[object as usize] += 1);
        self.refcounts.iter().for_each(|(object, count)| counts[*object as usize] = *count);
        counts
    }

    fn sorted_edges(&mut self, place: &[ObjectId]) -> Edges {
        let mut rows = std::mem::take(&mut self.edges);
        rows.sort_by_key(|edge| place[edge.0 as usize]);
        let mut start = vec![0; place.len() + 1];
        for edge in &rows {
            start[place[edge.0 as usize] as usize + 1] += 1;
        }
        for at in 1..start.len() {
            start[at] += start[at - 1];
        }
        let to = rows.iter().map(|edge| place[edge.1 as usize]).collect();
        Edges { start, to, label: rows.iter().map(|edge| edge.2).collect() }
    }
}

fn sorted(objects: &Objects, counts: &[u32], order: &[ObjectId]) -> Objects {
    let old = order.iter().map(|old| *old as usize);
    Objects {
        address: old.clone().map(|at| objects.address[at]).collect(),
        kind: old.clone().map(|at| objects.kind[at]).collect(),
        bytes: old.clone().map(|at| objects.bytes[at]).collect(),
        refcount: old.map(|at| counts[at]).collect(),
    }
}
