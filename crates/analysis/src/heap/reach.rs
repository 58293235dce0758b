//! What roots reach, and how far away it is.
//!
//! The distance counts names in a path: the step from an object to its own dict is free. Objects that only weak
//! anchors reach (the interpreter, static types, C++) are farther than any other.

use nilometer_trace::heap::{Graph, Label, NO_OBJECT, ObjectId, Part, Special};

use super::anchor::Anchors;
use super::bits::Bits;

/// Of what no root reaches.
pub(super) const UNREACHED: u32 = u32::MAX;
/// Added for weak anchors.
const WEAK: u32 = 1 << 30;

#[derive(Debug)]
pub(super) struct Reach {
    pub(super) distance: Vec<u32>,
    /// The object before it on a shortest way; [`NO_OBJECT`] for anchors and what is not reached.
    pub(super) via: Vec<ObjectId>,
}

impl Reach {
    pub(super) fn of(graph: &Graph, anchors: &Anchors) -> Self {
        let mut reach = Self { distance: vec![UNREACHED; graph.len()], via: vec![NO_OBJECT; graph.len()] };
        for strong in [true, false] {
            let seeds = anchors.rows().iter().filter(|row| row.strong == strong).map(|row| row.object);
            reach.flood(graph, seeds.collect(), if strong { 0 } else { WEAK });
        }
        reach
    }

    pub(super) fn has(&self, object: ObjectId) -> bool {
        self.distance[object as usize] != UNREACHED
    }

    /// Level by level; free steps stay in their level.
    fn flood(&mut self, graph: &Graph, seeds: Vec<ObjectId>, mut level: u32) {
        let mut this = seeds;
        this.retain(|seed| self.closer(*seed, level, NO_OBJECT));
        let mut next = Vec::new();
        while !this.is_empty() {
            let mut at = 0;
            while let Some(object) = this.get(at).copied() {
                at += 1;
                // It was found at a lower level after it had been queued for this one.
                if self.distance[object as usize] == level {
                    self.step(graph, object, level, &mut this, &mut next);
                }
            }
            this.clear();
            std::mem::swap(&mut this, &mut next);
            level += 1;
        }
    }

    fn closer(&mut self, object: ObjectId, level: u32, via: ObjectId) -> bool {
        let distance = &mut self.distance[object as usize];
        let closer = level < *distance;
        if closer {
            *distance = level;
            self.via[object as usize] = via;
        }
        closer
    }

    fn step(
        &mut self,
        graph: &Graph,
        object: ObjectId,
        level: u32,
        this: &mut Vec<ObjectId>,
        next: &mut Vec<ObjectId>,
    ) {
        let range = graph.edges.range(object);
        let labels = graph.edges.label.get(range.clone()).unwrap_or_default();
        for (place, to) in graph.edges.to[range].iter().enumerate() {
            // Nothing can come closer than this level: most edges end here, before their label is looked at.
            if self.distance[*to as usize] <= level {
                continue;
            }
            if labels.get(place).is_some_and(|label| is_free(*label)) {
                self.closer(*to, level, object);
                this.push(*to);
            } else if self.closer(*to, level + 1, object) {
                next.push(*to);
            }
        }
    }
}

/// From an object to its own dict.
fn is_free(label: Label) -> bool {
    label == Label::new(Part::Special(Special::Dict))
}

/// All that can be reached from `seeds` without entering what `blocked` names, the seeds included.
pub(super) fn reachable(graph: &Graph, seeds: &[ObjectId], blocked: impl Fn(ObjectId) -> bool) -> Bits {
    let mut seen = Bits::new(graph.len());
    let mut open: Vec<ObjectId> = seeds.iter().copied().filter(|seed| !blocked(*seed)).collect();
    open.retain(|seed| seen.set(*seed));
    while let Some(object) = open.pop() {
        for to in graph.referents(object) {
            if !seen.has(*to) && !blocked(*to) {
                seen.set(*to);
                open.push(*to);
            }
        }
    }
    seen
}
