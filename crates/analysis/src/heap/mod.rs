//! Readings of a heap census: a [`Graph`] in, models out. Pure, iterative, and safe on any graph that
//! passes `Graph::check`.
//!
//! [`Heap`] wraps a graph and makes its indexes (who refers to what, distances, dominators) when first needed.
//! A [`Set`] is any selection of objects: filters and drilled rows make smaller ones, and every reading takes one.
//! The one invariant: the rows of a table are a partition of its set. A torch storage is told with the first tensor
//! that holds it, so its payload is counted once; one that only C++ holds is a row of its own.

pub mod model;

mod amount;
mod anchor;
mod array;
mod attribute;
mod bits;
mod cycle;
mod diff;
mod dominator;
mod error;
mod group;
pub(crate) mod growth;
mod link;
mod of;
mod owner;
mod path;
mod reach;
mod referrer;
mod resolve;
mod retain;
mod route;
#[cfg(test)]
mod sample;
mod select;
mod set;
mod summary;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use nilometer_trace::heap::{Fold, Graph, IMMORTAL, NO_OBJECT, Nature, ObjectId, ShownKinds};

pub use error::Error;
pub use set::{Filter, Set};

use self::amount::Amounts;
use self::anchor::Anchors;
use self::attribute::Attributes;
use self::model::{
    Arrays, By, Cycles, Diff, Direction, Item, Links, Of, Order, Paths, Retainers, Stack, Sum, Summary, Table,
};
use self::reach::Reach;
use self::referrer::Referrers;
use self::retain::Retained;

/// A census ready to be read.
#[derive(Debug)]
pub struct Heap<'g> {
    graph: &'g Graph,
    fold: OnceCell<Fold>,
    kinds: OnceCell<ShownKinds>,
    /// Storages told with their tensors, and every node for itself.
    told: OnceCell<Amounts<'g>>,
    plain: OnceCell<Amounts<'g>>,
    anchors: OnceCell<Anchors>,
    reach: OnceCell<Reach>,
    referrers: OnceCell<Referrers>,
    retained: OnceCell<Retained>,
    attributes: OnceCell<Attributes>,
}

/// How a set is shown as a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grouping {
    pub by: By,
    pub order: Order,
    /// How many rows are listed; all of them without.
    pub top: Option<usize>,
}

impl<'g> Heap<'g> {
    /// Costs nothing; the graph must have passed its check.
    pub fn new(graph: &'g Graph) -> Self {
        Self {
            graph,
            fold: OnceCell::new(),
            kinds: OnceCell::new(),
            told: OnceCell::new(),
            plain: OnceCell::new(),
            anchors: OnceCell::new(),
            reach: OnceCell::new(),
            referrers: OnceCell::new(),
            retained: OnceCell::new(),
            attributes: OnceCell::new(),
        }
    }

    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Edges have labels: paths and attributes can be told.
    pub fn is_labelled(&self) -> bool {
        !self.graph.edges.label.is_empty() || self.graph.edges.to.is_empty()
    }

    pub fn summary(&self) -> Summary {
        summary::summary(self)
    }

    pub fn stacks(&self) -> Vec<Stack> {
        summary::stacks(self.graph)
    }

    /// Every object.
    pub fn all(&self) -> Set {
        Set { ids: (0..self.len() as ObjectId).collect(), selection: Vec::new() }
    }

    /// One object by `0x…` or by a path as this program prints it.
    pub fn find(&self, text: &str) -> Result<Set, Error> {
        let object = resolve::find(self, text)?;
        Ok(Set { ids: vec![object], selection: vec![text.to_owned()] })
    }

    /// The objects of `within` that pass.
    pub fn select(&self, within: Set, filter: &Filter) -> Result<Set, Error> {
        select::select(self, within, filter)
    }

    pub fn table(&self, set: &Set, grouping: Grouping) -> Result<Table, Error> {
        group::table(self, set, grouping)
    }

    /// The objects of one row of [`Self::table`].
    pub fn row(&self, set: &Set, grouping: Grouping, row: usize) -> Result<Set, Error> {
        group::row(self, set, grouping, row)
    }

    /// A set as one sum.
    pub fn sum(&self, set: &Set) -> Sum {
        self.amounts_among(&set.ids).sum(&set.ids).into()
    }

    /// Paths from roots to the largest object of a set.
    pub fn paths(&self, set: &Set, limit: usize) -> Result<Paths, Error> {
        self.need_labels("a path")?;
        let largest = set.ids.iter().copied().max_by_key(|id| self.amounts().of(*id).total());
        let object = largest.ok_or(Error::NothingSelected)?;
        let mut found = route::find(self, object, limit);
        if !self.reach().has(object) {
            found.paths.push(route::nowhere(self, object));
        }
        Ok(Paths {
            object: self.item(object),
            retained: retain::retained(self, &[object]),
            paths: found.paths,
            more: found.more,
            referrers_total: self.referrers_of(object).len() as u64,
            of_objects: set.len() as u64,
        })
    }

    pub fn referrers(&self, set: &Set, limit: usize) -> Result<Links, Error> {
        link::links(self, set, Direction::Referrers, limit)
    }

    pub fn referents(&self, set: &Set, limit: usize) -> Result<Links, Error> {
        link::links(self, set, Direction::Referents, limit)
    }

    /// What would be freed if the set were, itself included: exact, for sets too.
    pub fn retained(&self, set: &Set) -> Sum {
        retain::retained(self, &set.ids)
    }

    /// The objects of a set that keep most alive.
    pub fn retainers(&self, set: &Set, limit: usize) -> Retainers {
        retain::retainers(self, set, limit)
    }

    pub fn cycles(&self, limit: usize) -> Cycles {
        cycle::cycles(self, limit)
    }

    /// Deep and retained size of what a path reaches.
    pub fn of(&self, path: &str) -> Result<Of, Error> {
        self.need_labels("a path")?;
        of::of(self, path)
    }

    /// Arrays and tensors of a set, largest buffer first.
    pub fn arrays(&self, set: &Set, limit: usize) -> Arrays {
        array::arrays(self, set, limit)
    }
}

/// What changed from one census to the next.
pub fn diff(before: &Heap<'_>, after: &Heap<'_>, grouping: Grouping) -> Result<Diff, Error> {
    diff::diff(before, after, grouping)
}

/// The objects of `after` that `before` does not have: the relative heap. By address and kind, so "likely".
pub fn since(before: &Heap<'_>, after: &Heap<'_>) -> Set {
    diff::since(before, after)
}

/// Indexes, made when first asked for, and looks at single objects.
impl<'g> Heap<'g> {
    fn len(&self) -> usize {
        self.graph.len()
    }

    fn need_labels(&self, what: &'static str) -> Result<(), Error> {
        if self.is_labelled() { Ok(()) } else { Err(Error::NoLabels { what }) }
    }

    fn fold(&self) -> &Fold {
        self.fold.get_or_init(|| Fold::of(self.graph))
    }

    fn kinds(&self) -> &ShownKinds {
        self.kinds.get_or_init(|| ShownKinds::of(self.graph, self.fold()))
    }

    /// Storages told with their tensors.
    fn amounts(&self) -> &Amounts<'g> {
        self.told.get_or_init(|| {
            let told: Vec<_> =
                self.fold().tellers().iter().filter(|row| row.1 != NO_OBJECT).copied().collect();
            Amounts::told(self.graph, &told)
        })
    }

    fn plain_amounts(&self) -> &Amounts<'g> {
        self.plain.get_or_init(|| Amounts::plain(self.graph))
    }

    /// Storages among some objects told with tensors among them.
    fn amounts_among(&self, ids: &[ObjectId]) -> Amounts<'g> {
        Amounts::told(self.graph, &self.told_among(ids))
    }

    /// The storages among some objects (increasing) that one of these tells: their teller if it is there, else
    /// the first that holds them.
    fn told_among(&self, ids: &[ObjectId]) -> Vec<(ObjectId, ObjectId)> {
        let there = |id: &ObjectId| ids.binary_search(id).is_ok();
        let teller = |storage: ObjectId, usual: ObjectId| {
            if there(&usual) {
                return Some(usual);
            }
            let mut holders = self.referrers_of(storage).iter().copied().filter(there);
            holders.find(|holder| !self.is_storage(*holder))
        };
        let told = self.fold().tellers().iter().filter(|row| row.1 != NO_OBJECT && there(&row.0));
        told.filter_map(|(storage, usual)| Some((*storage, teller(*storage, *usual)?))).collect()
    }

    fn anchors(&self) -> &Anchors {
        self.anchors.get_or_init(|| Anchors::of(self.graph, self.fold()))
    }

    fn reach(&self) -> &Reach {
        self.reach.get_or_init(|| Reach::of(self.graph, self.anchors()))
    }

    fn referrers_index(&self) -> &Referrers {
        self.referrers.get_or_init(|| Referrers::of(self.graph))
    }

    fn referrers_of(&self, object: ObjectId) -> &[ObjectId] {
        self.referrers_index().to(object)
    }

    fn retained_index(&self) -> &Retained {
        self.retained.get_or_init(|| Retained::of(self))
    }

    fn attributes(&self) -> Result<&Attributes, Error> {
        self.need_labels("the table by attribute")?;
        Ok(self.attributes.get_or_init(|| Attributes::of(self)))
    }

    fn is_storage(&self, object: ObjectId) -> bool {
        self.graph.kind_of(object).nature == Nature::Storage
    }

    fn attribute(&self, object: ObjectId, name: &str) -> Option<ObjectId> {
        resolve::attribute(self, object, name)
    }

    fn address(&self, object: ObjectId) -> String {
        format!("{:#x}", self.graph.objects.address[object as usize])
    }

    fn item(&self, object: ObjectId) -> Item {
        let amount = self.amounts().of(object);
        let refcount = self.graph.objects.refcount[object as usize];
        let extent = array::extent(self.graph, object);
        let element = extent.and_then(|it| self.graph.names.get(it.element? as usize));
        Item {
            address: self.address(object),
            kind: self.kinds().name(object).to_owned(),
            bytes: amount.bytes,
            payload_bytes: amount.payload,
            refcount: (refcount != IMMORTAL).then_some(refcount),
            elements: extent.map(|it| it.elements),
            element: element.cloned(),
            shape: extent.map(|it| it.shape.clone()).unwrap_or_default(),
        }
    }
}
