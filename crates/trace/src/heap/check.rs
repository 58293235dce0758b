//! Is a graph sound? Readers index without asking, so every number that names something is looked at once, here.

use super::{Edges, Graph, Label, ObjectId, Objects, Part};

/// Ids above this are kept free: readers use them as marks.
pub const MAX_OBJECTS: usize = u32::MAX as usize - 16;
/// Sizes of one graph add up to less than this, so that sums and differences of them cannot overflow.
pub const MAX_TOTAL_BYTES: u64 = 1 << 61;

/// The first thing in a graph that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {place}")]
pub struct Unsound {
    pub what: &'static str,
    /// Row of the column it was found in.
    pub place: usize,
}

type Sound = Result<(), Unsound>;

fn unsound(what: &'static str, place: usize) -> Sound {
    Err(Unsound { what, place })
}

/// The first row that fails becomes the error.
fn all<T>(rows: &[T], what: &'static str, good: impl Fn(&T) -> bool) -> Sound {
    rows.iter().position(|row| !good(row)).map_or(Ok(()), |place| unsound(what, place))
}

fn increasing<T>(rows: &[T], what: &'static str, good: impl Fn(&T, &T) -> bool) -> Sound {
    let place = rows.windows(2).position(|pair| !good(&pair[0], &pair[1]));
    place.map_or(Ok(()), |place| unsound(what, place + 1))
}

impl Graph {
    /// Every invariant that this module's types state.
    pub fn check(&self) -> Result<(), Unsound> {
        self.objects.check(self.kinds.len())?;
        self.edges.check(self.len(), self.names.len())?;
        self.check_payloads()?;
        self.check_extents()?;
        self.check_dict_owners()?;
        let count = self.len();
        all(&self.roots, "a root is no object: root", |root| (root.object as usize) < count)?;
        self.check_totals()
    }

    fn check_payloads(&self) -> Sound {
        let (count, names) = (self.len(), self.names.len());
        all(&self.payloads, "a payload has no owner: payload", |it| (it.owner as usize) < count)?;
        all(&self.payloads, "an element type has no name: payload", |it| {
            it.element.is_none_or(|name| (name as usize) < names)
        })?;
        increasing(&self.payloads, "payloads are not sorted by owner: payload", |a, b| a.owner <= b.owner)
    }

    fn check_extents(&self) -> Sound {
        let (count, names) = (self.len(), self.names.len());
        all(&self.extents, "an extent has no object: extent", |it| (it.object as usize) < count)?;
        all(&self.extents, "an element type has no name: extent", |it| {
            it.element.is_none_or(|name| (name as usize) < names)
        })?;
        increasing(&self.extents, "extents are not sorted by object: extent", |a, b| a.object < b.object)
    }

    fn check_dict_owners(&self) -> Sound {
        let is_object = |id: ObjectId| (id as usize) < self.len();
        all(&self.dict_owners, "an owned dict or its owner is no object: pair", |(dict, owner)| {
            is_object(*dict) && is_object(*owner)
        })?;
        increasing(&self.dict_owners, "owned dicts are not sorted: pair", |a, b| a.0 < b.0)
    }

    fn check_totals(&self) -> Sound {
        let payloads = self.payloads.iter().flat_map(|it| [it.bytes, it.resident_bytes.unwrap_or(0)]);
        let extents = self.extents.iter().map(|it| it.bytes);
        let elements = self.extents.iter().map(|it| it.elements);
        let elements = elements.chain(self.payloads.iter().map(|it| it.elements.unwrap_or(0)));
        let within = total(self.objects.bytes.iter().copied().chain(payloads)).is_some()
            && total(extents).is_some()
            && total(elements).is_some();
        if within { Ok(()) } else { unsound("sizes add up to more than any memory: row", 0) }
    }
}

fn total(mut sizes: impl Iterator<Item = u64>) -> Option<u64> {
    sizes.try_fold(0u64, |sum, size| sum.checked_add(size).filter(|sum| *sum < MAX_TOTAL_BYTES))
}

impl Objects {
    fn check(&self, kinds: usize) -> Sound {
        let count = self.address.len();
        if count > MAX_OBJECTS {
            return unsound("there are too many objects:", count);
        }
        let shortest = self.kind.len().min(self.bytes.len()).min(self.refcount.len());
        let longest = self.kind.len().max(self.bytes.len()).max(self.refcount.len());
        if shortest != count || longest != count {
            return unsound("the columns of objects differ in length after row", shortest);
        }
        increasing(&self.address, "addresses do not increase: object", |a, b| a < b)?;
        all(&self.kind, "an object has no kind: object", |kind| (*kind as usize) < kinds)
    }
}

impl Edges {
    fn check(&self, objects: usize, names: usize) -> Sound {
        if self.start.len() != objects + 1 || self.start.first() != Some(&0) {
            return unsound(
                "edges do not start with the first object and end with the last:",
                self.start.len(),
            );
        }
        increasing(&self.start, "edges go back: object", |a, b| a <= b)?;
        if self.start.last().is_none_or(|last| *last as usize != self.to.len()) {
            return unsound("edges are missing or left over:", self.to.len());
        }
        all(&self.to, "an edge leads nowhere: edge", |to| (*to as usize) < objects)?;
        if !self.label.is_empty() && self.label.len() != self.to.len() {
            return unsound("edges without a label after edge", self.label.len());
        }
        all(&self.label, "a label has no meaning: edge", |label| is_named(*label, names))
    }
}

fn is_named(label: Label, names: usize) -> bool {
    match label.part() {
        Some(Part::Attribute(name) | Part::Key(name) | Part::Local(name)) => (name as usize) < names,
        part => part.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Extent, GraphBuilder, Holder, Nature, Special};
    use super::*;

    fn sound() -> Graph {
        let mut builder = GraphBuilder::default();
        let kind = builder.kind("list", "builtins", Nature::List);
        let a = builder.object(0x20, kind, 64);
        let b = builder.object(0x10, kind, 56);
        builder.edge(a, b, Part::Index(0));
        builder.edge(b, a, Part::Special(Special::Base));
        builder.payload(b, 0x9000, 4096);
        builder.extent(b, "float32", &[2, 512]);
        builder.root(a, Holder::Modules, "sys.modules");
        builder.finish()
    }

    fn fails(break_it: impl FnOnce(&mut Graph)) -> &'static str {
        let mut graph = sound();
        break_it(&mut graph);
        graph.check().unwrap_err().what
    }

    #[test]
    fn a_made_graph_and_an_empty_one_are_sound() {
        assert_eq!(sound().check(), Ok(()));
        let mut empty = Graph::default();
        assert!(empty.check().is_err(), "even no objects have one start");
        empty.edges.start.push(0);
        assert_eq!(empty.check(), Ok(()));
    }

    #[test]
    fn every_broken_invariant_is_told() {
        assert!(fails(|it| it.objects.kind[0] = 1).contains("no kind"));
        assert!(fails(|it| it.objects.address[1] = 0x10).contains("addresses"));
        assert!(fails(|it| it.objects.bytes.truncate(1)).contains("differ in length"));
        assert!(fails(|it| it.edges.start[1] = 3).contains("go back"));
        assert!(fails(|it| it.edges.start[2] = 1).contains("left over"));
        assert!(fails(|it| it.edges.start.truncate(2)).contains("do not start"));
        assert!(fails(|it| it.edges.to[0] = 2).contains("leads nowhere"));
        assert!(fails(|it| it.edges.label.truncate(1)).contains("without a label"));
        assert!(fails(|it| it.edges.label[0] = Label::new(Part::Key(9))).contains("no meaning"));
        assert!(fails(|it| it.edges.label[0] = Label::from_bits(u32::MAX)).contains("no meaning"));
        assert!(fails(|it| it.payloads[0].owner = 2).contains("no owner"));
        assert!(fails(|it| it.payloads[0].element = Some(7)).contains("no name: payload"));
        assert!(fails(|it| it.extents[0].element = Some(7)).contains("no name: extent"));
        assert!(fails(|it| it.extents.push(Extent::default())).contains("not sorted by object"));
        assert!(fails(|it| it.roots[0].object = 2).contains("a root"));
        assert!(fails(|it| it.objects.bytes[0] = u64::MAX).contains("more than any memory"));
    }

    #[test]
    fn payloads_are_sorted_by_owner() {
        let what = fails(|it| {
            let mut second = it.payloads[0].clone();
            it.payloads[0].owner = 1;
            second.owner = 0;
            it.payloads.push(second);
        });
        assert!(what.contains("not sorted by owner"));
    }
}
