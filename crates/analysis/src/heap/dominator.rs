//! Dominators: an object is dominated by those through which every way from the roots to it leads; it would be freed
//! with them. Semi-NCA (Georgiadis, "Linear-time algorithms for dominators and related problems", 2005): semidominators
//! by path compression, then the nearest common ancestor in the tree under construction. Iterative throughout.
//!
//! A super root holds all roots. What no root reaches hangs below it as well, through those that nothing else refers
//! to, or for circles through their member with the lowest address; its references to what roots reach do not count.

use nilometer_trace::heap::{Graph, NO_OBJECT, ObjectId};

use super::referrer::Referrers;

/// Number of the super root in the order of the search; objects follow.
const SUPER: u32 = 0;
const UNSEEN: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Dominators {
    /// The object that dominates each directly; [`NO_OBJECT`] is the super root.
    pub(super) immediate: Vec<ObjectId>,
    /// All objects, dominators before those they dominate.
    pub(super) order: Vec<ObjectId>,
}

impl Dominators {
    pub(super) fn of(graph: &Graph, referrers: &Referrers) -> Self {
        let search = Search::of(graph, referrers);
        let immediate = semi_nca(&search, referrers);
        let mut by_object = vec![NO_OBJECT; graph.len()];
        for number in 1..search.object.len() {
            let dominator = immediate[number];
            if dominator != SUPER {
                by_object[search.object[number] as usize] = search.object[dominator as usize];
            }
        }
        let mut order = search.object;
        order.remove(0);
        Self { immediate: by_object, order }
    }
}

/// A depth-first search over everything; vertices are numbered in preorder.
struct Search {
    /// Object of each number; that of the super root means nothing.
    object: Vec<ObjectId>,
    number: Vec<u32>,
    parent: Vec<u32>,
    /// Objects that hang on the super root.
    is_root: Vec<bool>,
    /// The last number that a real root reaches.
    last_reached: u32,
}

impl Search {
    fn of(graph: &Graph, referrers: &Referrers) -> Self {
        let count = graph.len();
        let mut search = Self {
            object: Vec::with_capacity(count + 1),
            number: vec![UNSEEN; count],
            parent: Vec::with_capacity(count + 1),
            is_root: vec![false; count],
            last_reached: SUPER,
        };
        search.object.push(NO_OBJECT);
        search.parent.push(SUPER);
        let mut stack = Vec::new();
        for root in &graph.roots {
            search.is_root[root.object as usize] = true;
        }
        for root in &graph.roots {
            search.visit(graph, root.object, &mut stack);
        }
        search.last_reached = search.object.len() as u32 - 1;
        search.visit_unreached(graph, referrers, &mut stack);
        search
    }

    fn visit_unreached(&mut self, graph: &Graph, referrers: &Referrers, stack: &mut Vec<(ObjectId, u32)>) {
        let all = 0..graph.len() as ObjectId;
        let unheld = |object: &ObjectId| referrers.to(*object).is_empty();
        for object in all.clone().filter(unheld).chain(all) {
            if self.number[object as usize] == UNSEEN {
                self.is_root[object as usize] = true;
                self.visit(graph, object, stack);
            }
        }
    }

    /// `stack` holds objects whose edges are not all followed, and the next of them.
    fn visit(&mut self, graph: &Graph, root: ObjectId, stack: &mut Vec<(ObjectId, u32)>) {
        if self.number[root as usize] != UNSEEN {
            return;
        }
        self.enter(root, SUPER);
        stack.push((root, graph.edges.start[root as usize]));
        while let Some((object, next)) = stack.last_mut() {
            let (object, end) = (*object, graph.edges.start[*object as usize + 1]);
            let found = graph.edges.to[*next as usize..end as usize]
                .iter()
                .position(|to| self.number[*to as usize] == UNSEEN);
            match found {
                Some(place) => {
                    let to = graph.edges.to[*next as usize + place];
                    *next += place as u32 + 1;
                    self.enter(to, self.number[object as usize]);
                    stack.push((to, graph.edges.start[to as usize]));
                }
                None => {
                    stack.pop();
                }
            }
        }
    }

    fn enter(&mut self, object: ObjectId, parent: u32) {
        self.number[object as usize] = self.object.len() as u32;
        self.object.push(object);
        self.parent.push(parent);
    }
}

/// Immediate dominators by number.
fn semi_nca(search: &Search, referrers: &Referrers) -> Vec<u32> {
    let count = search.object.len();
    let mut forest = Forest::new(&search.parent);
    let mut semi: Vec<u32> = vec![SUPER; count];
    for vertex in (1..count).rev() {
        let object = search.object[vertex];
        let start = if search.is_root[object as usize] { SUPER } else { search.parent[vertex] };
        let vertex_number = vertex as u32;
        let last = if vertex_number <= search.last_reached { search.last_reached } else { u32::MAX };
        let numbers = referrers.to(object).iter().map(|from| search.number[*from as usize]);
        semi[vertex] = numbers
            .filter(|from| *from <= last)
            .fold(start, |best, from| best.min(forest.best(from, vertex_number)));
        forest.label[vertex] = semi[vertex];
    }
    let mut immediate = search.parent.clone();
    for vertex in 1..count {
        let mut above = immediate[vertex];
        while above > semi[vertex] {
            above = immediate[above as usize];
        }
        immediate[vertex] = above;
    }
    immediate
}

/// Paths towards the root among the vertices that were handled, compressed as they are walked.
struct Forest {
    ancestor: Vec<u32>,
    /// Lowest semidominator on the compressed part of the path.
    label: Vec<u32>,
    walk: Vec<u32>,
}

impl Forest {
    fn new(parent: &[u32]) -> Self {
        Self { ancestor: parent.to_vec(), label: (0..parent.len() as u32).collect(), walk: Vec::new() }
    }

    /// Lowest semidominator from `vertex` up to the last handled one; vertices above `handled` are.
    #[inline]
    fn best(&mut self, vertex: u32, handled: u32) -> u32 {
        if vertex <= handled {
            return vertex;
        }
        if self.ancestor[vertex as usize] > handled {
            self.compress(vertex, handled);
        }
        self.label[vertex as usize]
    }

    fn compress(&mut self, vertex: u32, handled: u32) {
        let mut at = vertex;
        while self.ancestor[at as usize] > handled {
            self.walk.push(at);
            at = self.ancestor[at as usize];
        }
        let top = self.ancestor[at as usize];
        let mut best = self.label[at as usize];
        while let Some(below) = self.walk.pop() {
            best = best.min(self.label[below as usize]);
            self.label[below as usize] = best;
            self.ancestor[below as usize] = top;
        }
    }
}
