//! Circles: strongly connected components of more than one object, or of one that refers to itself.
//! Tarjan's algorithm with an explicit stack.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use nilometer_trace::heap::{Graph, NO_OBJECT, ObjectId};

use super::Heap;
use super::amount::Amount;
use super::model::{Cycle, Cycles, KindCount};
use super::{path, retain};

/// Kinds named for a circle, and objects looked at in search of its shortest way round.
const KINDS: usize = 5;
const LOOKED_AT: usize = 100_000;

/// The circles, each with its members in increasing order.
pub(super) fn components(graph: &Graph) -> Vec<Vec<ObjectId>> {
    let mut tarjan = Tarjan {
        graph,
        index: vec![UNSEEN; graph.len()],
        low: vec![0; graph.len()],
        next: 0,
        open: Vec::new(),
        found: Vec::new(),
    };
    for object in 0..graph.len() as ObjectId {
        tarjan.visit(object);
    }
    tarjan.found
}

const UNSEEN: u32 = u32::MAX;
/// Index of what is in a component already.
const CLOSED: u32 = u32::MAX - 1;

struct Tarjan<'g> {
    graph: &'g Graph,
    index: Vec<u32>,
    low: Vec<u32>,
    next: u32,
    /// Seen, but not yet in a component.
    open: Vec<ObjectId>,
    found: Vec<Vec<ObjectId>>,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: ObjectId) {
        if self.index[root as usize] != UNSEEN {
            return;
        }
        let mut calls = vec![(root, self.enter(root))];
        while let Some((object, edge)) = calls.last_mut() {
            let from = *object;
            if *edge == self.graph.edges.start[from as usize + 1] {
                calls.pop();
                self.leave(from);
                if let Some((above, _)) = calls.last() {
                    self.low[*above as usize] = self.low[*above as usize].min(self.low[from as usize]);
                }
                continue;
            }
            let to = self.graph.edges.to[*edge as usize];
            *edge += 1;
            match self.index[to as usize] {
                UNSEEN => calls.push((to, self.enter(to))),
                CLOSED => {}
                index => self.low[from as usize] = self.low[from as usize].min(index),
            }
        }
    }

    /// Its first edge.
    fn enter(&mut self, object: ObjectId) -> u32 {
        self.index[object as usize] = self.next;
        self.low[object as usize] = self.next;
        self.next += 1;
        self.open.push(object);
        self.graph.edges.start[object as usize]
    }

    fn leave(&mut self, object: ObjectId) {
        if self.low[object as usize] != self.index[object as usize] {
            return;
        }
        let first = self.open.iter().rposition(|it| *it == object).unwrap_or(0);
        let alone = self.open.len() - first == 1;
        self.open[first..].iter().for_each(|it| self.index[*it as usize] = CLOSED);
        if alone && !self.graph.referents(object).contains(&object) {
            self.open.truncate(first);
        } else {
            let mut members = self.open.split_off(first);
            members.sort_unstable();
            self.found.push(members);
        }
    }
}

/// Circles by what they keep alive, largest first.
pub(super) fn cycles(heap: &Heap<'_>, limit: usize) -> Cycles {
    let mut found = components(heap.graph());
    let (mut total, mut unreachable, mut unreachable_cycles) = (Amount::default(), Amount::default(), 0);
    for members in &found {
        let own = heap.plain_amounts().sum(members);
        total.add(&own);
        if !is_reached(heap, members) {
            unreachable.add(&own);
            unreachable_cycles += 1;
        }
    }
    let cycles_total = found.len() as u64;
    found.sort_by_cached_key(|members| Reverse(at_least_retained(heap, members).total()));
    found.truncate(limit);
    Cycles {
        cycles: found.iter().map(|members| cycle(heap, members)).collect(),
        cycles_total,
        total: total.into(),
        unreachable: unreachable.into(),
        unreachable_cycles,
    }
}

/// One member is reached if all are.
fn is_reached(heap: &Heap<'_>, members: &[ObjectId]) -> bool {
    members.first().is_some_and(|first| heap.reach().has(*first))
}

/// What the members dominate that are not dominated by another: exact where the circle has one way in.
fn at_least_retained(heap: &Heap<'_>, members: &[ObjectId]) -> Amount {
    let immediate = &heap.retained_index().immediate;
    let is_top = |id: &&ObjectId| {
        let above = immediate[**id as usize];
        above == NO_OBJECT || members.binary_search(&above).is_err()
    };
    members.iter().filter(is_top).fold(Amount::default(), |mut sum, id| {
        sum.add(&retain::dominated(heap, *id));
        sum
    })
}

fn cycle(heap: &Heap<'_>, members: &[ObjectId]) -> Cycle {
    let nearest = members.iter().min_by_key(|id| heap.reach().distance[**id as usize]).copied();
    let nearest = nearest.unwrap_or_default();
    Cycle {
        own: heap.plain_amounts().sum(members).into(),
        retained: at_least_retained(heap, members).into(),
        unreachable: !is_reached(heap, members),
        kinds: kinds(heap, members),
        example: way_round(heap, members, nearest),
        path: path::shortest_text(heap, nearest),
        address: heap.address(nearest),
    }
}

fn kinds(heap: &Heap<'_>, members: &[ObjectId]) -> Vec<KindCount> {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for id in members {
        *counts.entry(heap.kinds().shown(*id)).or_default() += 1;
    }
    let mut counts: Vec<KindCount> = counts
        .into_iter()
        .map(|(kind, count)| KindCount { kind: heap.kinds().names[kind as usize].clone(), count })
        .collect();
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
    counts.truncate(KINDS);
    counts
}

/// `Node.children[0].parent`: from one member along the others back to it.
fn way_round(heap: &Heap<'_>, members: &[ObjectId], start: ObjectId) -> String {
    let kind = heap.kinds().name(start).to_owned();
    match shortest_round(heap.graph(), members, start) {
        Some(objects) => {
            let steps = path::steps(heap, &objects);
            kind + &steps.iter().map(|step| step.text.as_str()).collect::<String>()
        }
        None => kind,
    }
}

fn shortest_round(graph: &Graph, members: &[ObjectId], start: ObjectId) -> Option<Vec<ObjectId>> {
    let mut via: HashMap<ObjectId, ObjectId> = HashMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(object) = open.pop_front().filter(|_| via.len() < LOOKED_AT) {
        for to in graph.referents(object) {
            if *to == start {
                return Some(unwind(&via, start, object));
            }
            if members.binary_search(to).is_ok() && !via.contains_key(to) {
                via.insert(*to, object);
                open.push_back(*to);
            }
        }
    }
    None
}

/// From `start` to `last` and back to `start`.
fn unwind(via: &HashMap<ObjectId, ObjectId>, start: ObjectId, last: ObjectId) -> Vec<ObjectId> {
    let mut objects = vec![start, last];
    let mut at = last;
    while at != start {
        at = via.get(&at).copied().unwrap_or(start);
        objects.push(at);
    }
    objects.reverse();
    objects
}
