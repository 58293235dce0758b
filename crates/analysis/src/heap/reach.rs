//! What roots reach, and how far away it is.
//!
//! The distance counts names in a path: steps that paths do not show, as from an object to its own dict, are free. Objects that only weak
//! anchors reach (the interpreter, static types, C++) are farther than any other.

use std::collections::VecDeque;

use nilometer_trace::heap::{Graph, Label, NO_OBJECT, NameId, ObjectId, Part, Special};

use super::anchor::Anchors;
use super::bits::Bits;
use super::path::TORCH_DICTS;

/// Of what no root reaches.
pub(super) const UNREACHED: u32 = u32::MAX;
/// Names that a step without a name counts for.
const STEEP: u32 = 5;
/// Added for weak anchors.
const WEAK: u32 = 1 << 30;

#[derive(Debug)]
pub(super) struct Reach {
    pub(super) distance: Vec<u32>,
    /// The object before it on a shortest way; [`NO_OBJECT`] for anchors and what is not reached.
    pub(super) via: Vec<ObjectId>,
    pub(super) steps: Steps,
}

impl Reach {
    pub(super) fn of(graph: &Graph, anchors: &Anchors) -> Self {
        let mut reach = Self {
            distance: vec![UNREACHED; graph.len()],
            via: vec![NO_OBJECT; graph.len()],
            steps: Steps::of(graph),
        };
        for strong in [true, false] {
            let seeds = anchors.rows().iter().filter(|row| row.strong == strong).map(|row| row.object);
            reach.flood(graph, seeds.collect(), if strong { 0 } else { WEAK });
        }
        reach
    }

    pub(super) fn has(&self, object: ObjectId) -> bool {
        self.distance[object as usize] != UNREACHED
    }

    /// Level by level; free steps stay in their level, steep ones go several levels down.
    fn flood(&mut self, graph: &Graph, seeds: Vec<ObjectId>, mut level: u32) {
        let mut levels = VecDeque::from([seeds]);
        levels.resize(STEEP as usize + 1, Vec::new());
        levels[0].retain(|seed| self.closer(*seed, level, NO_OBJECT));
        while levels.iter().any(|queued| !queued.is_empty()) {
            let mut at = 0;
            while let Some(object) = levels[0].get(at).copied() {
                at += 1;
                // It was found at a lower level after it had been queued for this one.
                if self.distance[object as usize] == level {
                    self.step(graph, object, level, &mut levels);
                }
            }
            levels[0].clear();
            levels.rotate_left(1);
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

    fn step(&mut self, graph: &Graph, object: ObjectId, level: u32, levels: &mut VecDeque<Vec<ObjectId>>) {
        let range = graph.edges.range(object);
        let labels = graph.edges.label.get(range.clone()).unwrap_or_default();
        for (place, to) in graph.edges.to[range].iter().enumerate() {
            // Nothing can come closer than this level: most edges end here, before their label is looked at.
            if self.distance[*to as usize] <= level {
                continue;
            }
            let height = labels.get(place).map_or(1, |label| self.steps.height(*label));
            if self.closer(*to, level + height, object) {
                levels[height as usize].push(*to);
            }
        }
    }
}

/// How many names a step counts for.
#[derive(Debug)]
pub(super) struct Steps {
    /// Dicts of torch modules, which paths do not show.
    hidden: Vec<Label>,
}

impl Steps {
    fn of(graph: &Graph) -> Self {
        let names = graph.names.iter().enumerate();
        let dicts =
            names.filter(|(_, name)| TORCH_DICTS.contains(&name.as_str())).map(|(id, _)| id as NameId);
        let hidden = dicts.flat_map(|name| [Part::Attribute(name), Part::Key(name)]).map(Label::new);
        Self { hidden: hidden.chain([Label::new(Part::Special(Special::Dict))]).collect() }
    }

    /// Of the cheapest reference from one object to another.
    pub(super) fn between(&self, graph: &Graph, from: ObjectId, to: ObjectId) -> u32 {
        let range = graph.edges.range(from);
        let labels = graph.edges.label.get(range.clone()).unwrap_or_default();
        let edges = graph.edges.to[range].iter().zip(labels).filter(|(target, _)| **target == to);
        edges.map(|(_, label)| self.height(*label)).min().unwrap_or(1)
    }

    /// A key or a member of a set is told by its kind only: such a path is the last that anybody wants to read.
    fn height(&self, label: Label) -> u32 {
        match label.part() {
            Some(Part::Member) => STEEP,
            _ if self.hidden.contains(&label) => 0,
            _ => 1,
        }
    }
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
