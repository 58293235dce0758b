//! Several ways in which one object is held, shortest first.
//!
//! A best-first search from the object back to the anchors; what is left of a way is known exactly from the
//! distances, so ways come out in the order of their length. No object is passed more often than ways are asked
//! for, which keeps hubs from drowning the rest, and the whole search is bounded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use nilometer_trace::heap::ObjectId;

use super::Heap;
use super::model::{self, Path};
use super::path::{self, Route};
use super::reach::UNREACHED;

/// Beginnings of ways that may be kept, and referrers of one object that are looked at.
const MOST_OPEN: usize = 200_000;
const MOST_REFERRERS: usize = 4_096;
/// Steps that may be walked to see that a way does not come back.
const MOST_CHECKED: usize = 20_000_000;

/// The end of a way: an object, and the rest up to the target.
#[derive(Debug, Clone, Copy)]
struct Link {
    object: ObjectId,
    /// Towards the target.
    next: Option<u32>,
    cost: u32,
    /// It does not come nearer with every step, so it might come back.
    detour: bool,
}

/// Ways found, and whether there are more.
pub(super) struct Ways {
    pub(super) paths: Vec<Path>,
    pub(super) more: bool,
}

pub(super) fn find(heap: &Heap<'_>, target: ObjectId, limit: usize) -> Ways {
    let mut search = Search {
        heap,
        links: Vec::new(),
        open: BinaryHeap::new(),
        passed: HashMap::new(),
        told: HashSet::new(),
        checked: 0,
        limit,
    };
    search.push(target, None, 0, false);
    let mut paths = Vec::new();
    while let Some(Reverse((_, link))) = search.open.pop() {
        if paths.len() >= limit {
            return Ways { paths, more: true };
        }
        search.visit(link, &mut paths);
    }
    // Farther away than the search may look.
    if let Some(route) = path::shortest(heap, target).filter(|_| paths.is_empty() && limit > 0) {
        return Ways { paths: vec![path::render(heap, &route)], more: search.is_exhausted() };
    }
    Ways { paths, more: search.is_exhausted() }
}

struct Search<'h, 'g> {
    heap: &'h Heap<'g>,
    links: Vec<Link>,
    /// Length of the whole way, and its beginning.
    open: BinaryHeap<Reverse<(u64, u32)>>,
    passed: HashMap<ObjectId, usize>,
    told: HashSet<(String, ObjectId)>,
    checked: usize,
    limit: usize,
}

impl Search<'_, '_> {
    fn push(&mut self, object: ObjectId, next: Option<u32>, cost: u32, detour: bool) {
        let left = self.heap.reach().distance[object as usize];
        if left == UNREACHED || self.links.len() >= MOST_OPEN {
            return;
        }
        let number = self.links.len() as u32;
        self.links.push(Link { object, next, cost, detour });
        self.open.push(Reverse((u64::from(left) + u64::from(cost), number)));
    }

    fn visit(&mut self, number: u32, paths: &mut Vec<Path>) {
        let link = self.links[number as usize];
        let passed = self.passed.entry(link.object).or_default();
        *passed += 1;
        if *passed > self.limit.max(1) {
            return;
        }
        self.tell(number, paths);
        // Modules hold each other: what holds a module is not told.
        if !self.heap.anchors().is_module(link.object) {
            self.extend(number, link);
        }
    }

    /// One path for each anchor that names the object reached.
    fn tell(&mut self, number: u32, paths: &mut Vec<Path>) {
        let anchors = self.heap.anchors().at(self.links[number as usize].object);
        if anchors.is_empty() {
            return;
        }
        let objects = self.objects(number);
        for anchor in anchors {
            let route = Route { anchor, objects: objects.clone() };
            let path = path::render(self.heap, &route);
            let holder = objects.len().checked_sub(2).map_or(objects[0], |place| objects[place]);
            let begin = path.segments.iter().take(2).map(|segment| segment.text.as_str()).collect();
            if paths.len() < self.limit && self.told.insert((begin, holder)) {
                paths.push(path);
            }
        }
    }

    /// From the object reached down to the target.
    fn objects(&self, number: u32) -> Vec<ObjectId> {
        let mut objects = Vec::new();
        let mut at = Some(number);
        while let Some(link) = at.map(|at| self.links[at as usize]) {
            objects.push(link.object);
            at = link.next;
        }
        objects
    }

    fn extend(&mut self, number: u32, link: Link) {
        for from in self.holders(link.object) {
            let step = self.heap.reach().steps.between(self.heap.graph(), from, link.object);
            let detour = link.detour || !self.is_nearer(from, step, link.object);
            if !(detour && self.is_on_way(number, from)) {
                self.push(from, Some(number), link.cost + step, detour);
            }
        }
    }

    /// One step nearer to a root: as long as all are, no object comes twice.
    fn is_nearer(&self, from: ObjectId, step: u32, object: ObjectId) -> bool {
        let reach = self.heap.reach();
        let expected = reach.distance[from as usize].saturating_add(step);
        expected == reach.distance[object as usize] && (step > 0 || reach.via[object as usize] == from)
    }

    /// True as well when too much was checked already.
    fn is_on_way(&mut self, number: u32, object: ObjectId) -> bool {
        let mut at = Some(number);
        while let Some(link) = at.map(|at| self.links[at as usize]) {
            self.checked += 1;
            if link.object == object || self.checked > MOST_CHECKED {
                return true;
            }
            at = link.next;
        }
        false
    }

    fn is_exhausted(&self) -> bool {
        self.links.len() >= MOST_OPEN || self.checked > MOST_CHECKED
    }

    /// The namespace of a module is held by the module; functions and frames that know it as well are not told.
    fn holders(&self, object: ObjectId) -> Vec<ObjectId> {
        let owner = self.heap.fold().dict_owner(object);
        match owner.filter(|owner| self.heap.anchors().is_module(*owner)) {
            Some(module) => vec![module],
            None => self.nearest(object),
        }
    }

    /// Referrers, each once; of very many those that are nearest to a root.
    fn nearest(&self, object: ObjectId) -> Vec<ObjectId> {
        let distance = &self.heap.reach().distance;
        let mut from = self.heap.referrers_of(object).to_vec();
        from.dedup();
        from.retain(|it| distance[*it as usize] != UNREACHED);
        if from.len() > MOST_REFERRERS {
            from.select_nth_unstable_by_key(MOST_REFERRERS, |it| distance[*it as usize]);
            from.truncate(MOST_REFERRERS);
        }
        from
    }
}

/// A way that begins nowhere: no root reaches the object.
pub(super) fn nowhere(heap: &Heap<'_>, target: ObjectId) -> Path {
    let segment = model::Segment {
        text: format!("<{} at {}>", heap.kinds().name(target), heap.address(target)),
        kind: heap.kinds().name(target).to_owned(),
        address: heap.address(target),
        ..model::Segment::default()
    };
    Path { text: segment.text.clone(), anchor: model::Anchor::Nothing, segments: vec![segment] }
}
