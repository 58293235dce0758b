//! Storages as nodes of a census: under the tensors that Python has, or alone where only C++ holds them.
//!
//! The one invariant: a byte of a buffer is told once. A storage that lies in another's buffer (an array's, or another
//! storage's) gets no payload of its own but an edge to whose buffer it is.

use std::collections::HashMap;

use nilometer_image::Image;
use nilometer_trace::heap::{
    Backing, Extent, Graph, Holder, Kind, KindId, Label, NameId, Nature, ObjectId, Part, Payload, Root,
    Special,
};

use super::graft::{self, NewObject};
use super::{Element, Storage, TensorImpl, Torch};

/// The kind of the nodes.
const KIND: &str = "torch storage";
/// Where a tensor's or storage's Python object keeps the native one: before it there may be a flag.
const NATIVE_AT: [u64; 2] = [16, 24];

/// What was added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attached {
    pub storages: u64,
    /// Storages that no Python object holds, and the bytes of their buffers.
    pub native_only: u64,
    pub native_only_bytes: u64,
    /// Python tensors whose native part was found, and those where it was not (sparse, undefined, another layout).
    pub tensors: u64,
    pub tensors_missed: u64,
}

/// Adds the storages to a census of the same image.
pub fn attach(graph: &mut Graph, torch: &Torch, image: &Image) -> Attached {
    let kept: Vec<&Storage> =
        torch.storages.iter().filter(|storage| graph.at(storage.address).is_none()).collect();
    let kind = kind(graph);
    let new: Vec<NewObject> = kept.iter().map(|storage| new_object(storage, kind)).collect();
    let places = graft::insert(graph, &new);
    let mut grafting = Grafting::new(graph, torch, image, &kept, &places.new);
    grafting.hold();
    grafting.share();
    let Grafting { edges, payloads, extents, roots, attached, .. } = grafting;
    graft::add_edges(&mut graph.edges, edges);
    graft::add_payloads(&mut graph.payloads, payloads);
    graft::add_extents(&mut graph.extents, extents);
    graph.roots.extend(roots);
    attached
}

fn new_object(storage: &Storage, kind: KindId) -> NewObject {
    NewObject { address: storage.address, kind, bytes: storage.own_bytes, refcount: storage.refcount }
}

fn kind(graph: &mut Graph) -> KindId {
    let kind = Kind { name: KIND.to_owned(), module: String::new(), nature: Nature::Storage };
    let known = graph.kinds.iter().position(|known| *known == kind);
    known.unwrap_or_else(|| {
        graph.kinds.push(kind);
        graph.kinds.len() - 1
    }) as KindId
}

/// Everything that is added after the nodes are in.
struct Grafting<'a> {
    graph: &'a mut Graph,
    torch: &'a Torch,
    image: &'a Image,
    /// Storages with their nodes, by address.
    nodes: Vec<(&'a Storage, ObjectId)>,
    held: Vec<bool>,
    edges: Vec<(ObjectId, ObjectId, Label)>,
    payloads: Vec<Payload>,
    extents: Vec<Extent>,
    roots: Vec<Root>,
    /// Names that were asked for: the list of all is long.
    names: HashMap<&'static str, NameId>,
    attached: Attached,
}

impl<'a> Grafting<'a> {
    fn new(
        graph: &'a mut Graph,
        torch: &'a Torch,
        image: &'a Image,
        kept: &[&'a Storage],
        places: &[ObjectId],
    ) -> Self {
        let nodes: Vec<(&Storage, ObjectId)> = kept.iter().copied().zip(places.iter().copied()).collect();
        let attached = Attached { storages: nodes.len() as u64, ..Attached::default() };
        let held = vec![false; nodes.len()];
        let (edges, payloads, extents, roots, names) = Default::default();
        Self { graph, torch, image, nodes, held, edges, payloads, extents, roots, names, attached }
    }

    /// Edges from Python's tensors and storages; what nobody holds is a root.
    fn hold(&mut self) {
        let natures: Vec<Holds> = self.graph.kinds.iter().map(Holds::of).collect();
        for object in 0..self.graph.len() {
            match natures.get(self.graph.objects.kind[object] as usize) {
                Some(Holds::Tensor) => self.tensor(object as ObjectId),
                Some(Holds::Storage) => self.storage(object as ObjectId),
                _ => {}
            }
        }
        let alone = self.nodes.iter().zip(&self.held).filter(|(_, held)| !**held).map(|(node, _)| node);
        for (storage, object) in alone {
            self.attached.native_only += 1;
            self.attached.native_only_bytes += storage.bytes;
            self.roots.push(Root { object: *object, holder: Holder::Native, name: KIND.to_owned() });
        }
    }

    fn tensor(&mut self, object: ObjectId) {
        let torch = self.torch;
        let Some(tensor) = self.natives(object).into_iter().flatten().find_map(|at| torch.tensor_at(at))
        else {
            self.attached.tensors_missed += 1;
            return;
        };
        self.attached.tensors += 1;
        if let Some(storage) = tensor.storage.and_then(|index| torch.storages.get(index as usize)) {
            self.edge_to(object, storage, Part::Special(Special::Storage));
        }
        let inner = tensor.inner.iter().filter_map(|at| torch.tensor_at(*at)?.storage);
        for storage in inner.filter_map(|index| torch.storages.get(index as usize)) {
            self.edge_to(object, storage, Part::Special(Special::Storage));
        }
        self.gradient(object, tensor);
        let element = self.element(tensor.element);
        let bytes = tensor.elements.saturating_mul(tensor.element.bytes());
        let shape = tensor.shape.clone();
        self.extents.push(Extent { object, elements: tensor.elements, bytes, element, shape });
    }

    /// The gradient's Python object where it has one, else its storage.
    fn gradient(&mut self, object: ObjectId, tensor: &TensorImpl) {
        let Some(gradient) = tensor.gradient.and_then(|at| self.torch.tensor_at(at)) else { return };
        let part = Part::Attribute(self.name("grad"));
        let python = gradient.python.and_then(|at| self.graph.at(at));
        let is_its_own = |python: &ObjectId| self.natives(*python).contains(&Some(gradient.address));
        if let Some(python) = python.filter(is_its_own) {
            self.edges.push((object, python, Label::new(part)));
        } else if let Some(storage) =
            gradient.storage.and_then(|index| self.torch.storages.get(index as usize))
        {
            self.edge_to(object, storage, part);
        }
    }

    fn storage(&mut self, object: ObjectId) {
        let natives = self.natives(object);
        let torch = self.torch;
        let found = natives.into_iter().flatten().find_map(|at| torch.storage_at(at));
        if let Some(storage) = found.and_then(|index| torch.storages.get(index as usize)) {
            self.edge_to(object, storage, Part::Special(Special::Storage));
        }
    }

    fn edge_to(&mut self, object: ObjectId, storage: &Storage, part: Part) {
        let Ok(index) = self.nodes.binary_search_by_key(&storage.address, |(node, _)| node.address) else {
            return;
        };
        self.held[index] = true;
        self.edges.push((object, self.nodes[index].1, Label::new(part)));
    }

    fn natives(&self, object: ObjectId) -> [Option<u64>; 2] {
        let address = self.graph.objects.address[object as usize];
        NATIVE_AT.map(|offset| self.image.word(address.checked_add(offset)?))
    }

    /// Payloads, each byte once.
    fn share(&mut self) {
        let buffers = Buffers::of(self.graph);
        let mut order: Vec<(&Storage, ObjectId)> =
            self.nodes.iter().copied().filter(|(storage, _)| storage.bytes > 0).collect();
        order.sort_by_key(|(storage, _)| {
            (storage.device.is_host(), storage.data, std::cmp::Reverse(storage.bytes))
        });
        let mut last: Option<(&Storage, ObjectId)> = None;
        for (storage, node) in order {
            let within_last =
                last.filter(|(last, _)| last.device == storage.device && contains(last, storage));
            let owner = within_last.map(|(_, owner)| owner).or_else(|| buffers.owner(self.graph, storage));
            if let Some(owner) = owner {
                self.edges.push((node, owner, Label::new(Part::Special(Special::Base))));
            } else {
                self.payload(storage, node);
                last = Some((storage, node));
            }
        }
    }

    fn payload(&mut self, storage: &Storage, owner: ObjectId) {
        let element = storage.element.and_then(|element| self.element(element));
        self.payloads.push(Payload {
            owner,
            address: storage.data,
            bytes: storage.bytes,
            resident_bytes: storage.resident,
            backing: storage.backing,
            elements: storage.element.map(|element| storage.bytes / element.bytes().max(1)),
            element,
        });
    }

    fn element(&mut self, element: Element) -> Option<NameId> {
        element.name().map(|name| self.name(name))
    }

    fn name(&mut self, name: &'static str) -> NameId {
        let all = &mut self.graph.names;
        *self.names.entry(name).or_insert_with(|| {
            let known = all.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                all.push(name.to_owned());
                all.len() - 1
            }) as NameId
        })
    }
}

/// What of torch an object of a kind may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Tensor,
    Storage,
}

impl Holds {
    fn of(kind: &Kind) -> Self {
        let is_storage = kind.module.starts_with("torch") && kind.name.ends_with("Storage");
        match kind.nature {
            Nature::Tensor => Self::Tensor,
            Nature::Instance if is_storage || kind.name.ends_with("StorageBase") => Self::Storage,
            _ => Self::Nothing,
        }
    }
}

fn contains(outer: &Storage, inner: &Storage) -> bool {
    outer.data <= inner.data
        && inner.data.saturating_add(inner.bytes) <= outer.data.saturating_add(outer.bytes)
}

/// The buffers that the census already has, by address.
struct Buffers {
    ranges: Vec<(u64, u64, ObjectId)>,
}

impl Buffers {
    fn of(graph: &Graph) -> Self {
        let on_host =
            graph.payloads.iter().filter(|payload| payload.backing != Backing::Device && payload.bytes > 0);
        let range = |payload: &Payload| {
            (payload.address, payload.address.saturating_add(payload.bytes), payload.owner)
        };
        let mut ranges: Vec<(u64, u64, ObjectId)> = on_host.map(range).collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    /// Whose buffer, or body, a storage's elements lie in.
    fn owner(&self, graph: &Graph, storage: &Storage) -> Option<ObjectId> {
        let end = storage.data.checked_add(storage.bytes).filter(|_| storage.device.is_host())?;
        let before = self.ranges.partition_point(|(start, ..)| *start <= storage.data).checked_sub(1);
        let buffer = before.and_then(|index| self.ranges.get(index)).filter(|(_, until, _)| end <= *until);
        buffer.map(|(.., owner)| *owner).or_else(|| body(graph, storage.data, end))
    }
}

/// The object that has a range inside: `torch.frombuffer` of `bytes`.
fn body(graph: &Graph, start: u64, end: u64) -> Option<ObjectId> {
    let index = graph.objects.address.partition_point(|address| *address <= start).checked_sub(1)?;
    let until = graph.objects.address.get(index)?.checked_add(*graph.objects.bytes.get(index)?)?;
    let is_bytes = matches!(graph.kind_of(index as ObjectId).nature, Nature::Bytes | Nature::Str);
    (is_bytes && end <= until).then_some(index as ObjectId)
}
