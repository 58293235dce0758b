//! Edges turned round: who refers to an object.

use nilometer_trace::heap::{Graph, ObjectId};

/// Referrers of object `i` are `from[start[i]..start[i + 1]]`, increasing; one entry for each edge.
#[derive(Debug)]
pub(super) struct Referrers {
    start: Vec<u32>,
    from: Vec<ObjectId>,
}

impl Referrers {
    pub(super) fn of(graph: &Graph) -> Self {
        let mut start = vec![0u32; graph.len() + 2];
        for to in &graph.edges.to {
            start[*to as usize + 2] += 1;
        }
        for at in 2..start.len() {
            start[at] += start[at - 1];
        }
        // `start[i + 1]` is the next free place of object `i` while filling, and its end afterwards.
        let mut from = vec![0; graph.edges.to.len()];
        for object in 0..graph.len() as ObjectId {
            for to in graph.referents(object) {
                let place = &mut start[*to as usize + 1];
                from[*place as usize] = object;
                *place += 1;
            }
        }
        start.pop();
        Self { start, from }
    }

    #[inline]
    pub(super) fn to(&self, object: ObjectId) -> &[ObjectId] {
        &self.from[self.start[object as usize] as usize..self.start[object as usize + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn every_edge_is_there_once() {
        let graph = sample::random(40, 120, 7);
        let referrers = Referrers::of(&graph);
        for object in 0..graph.len() as ObjectId {
            let mut naive: Vec<ObjectId> = Vec::new();
            for from in 0..graph.len() as ObjectId {
                naive.extend(graph.referents(from).iter().filter(|to| **to == object).map(|_| from));
            }
            assert_eq!(referrers.to(object), naive);
        }
    }
}
