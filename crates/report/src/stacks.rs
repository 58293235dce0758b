//! The stacks of a run's allocations as one tree with every figure, in the order in which it is drawn.
//!
//! Nodes are in preorder, the largest child first, so that a parent comes before its children and a subtree is a stretch.
//! The one invariant: the figures of all nodes add up to the sums over all sites, also of those not drawn one by one.

use std::collections::HashMap;
use std::sync::Arc;

use nilometer_analysis::allocs::model::{Amounts, Frame, FrameKind, Site};

/// Peak, live at the end, cumulative, temporary, growth per step.
pub const FIGURES: usize = 5;
pub type Figures = [f64; FIGURES];

#[derive(Debug, Clone, Default)]
pub struct Stacks {
    pub frames: Vec<Arc<Frame>>,
    /// Node 0 is the root and has no frame.
    pub nodes: Vec<Node>,
    /// Sites that were put together because there were too many.
    pub folded: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    pub parent: u32,
    /// Of `frames`; `u32::MAX` at the root.
    pub frame: u32,
    /// Of the stacks that end here.
    pub own: Figures,
    /// With all below it, at the peak: what the order and the static picture need.
    pub peak: f64,
}

const PEAK: usize = 0;
const NO_FRAME: u32 = u32::MAX;

fn figures(amounts: &Amounts) -> Figures {
    [
        amounts.peak_bytes as f64,
        amounts.live_end_bytes as f64,
        amounts.cumulative_bytes as f64,
        amounts.temporary_bytes as f64,
        amounts.growth_bytes_per_step.unwrap_or(0.0),
    ]
}

fn add(sum: &mut Figures, other: &Figures) {
    sum.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
}

/// While sites come in any order.
#[derive(Default)]
struct Builder {
    frames: Vec<Arc<Frame>>,
    known: HashMap<Arc<Frame>, u32>,
    /// Most stacks share their frames' memory: comparing where they are saves comparing names.
    places: HashMap<*const Frame, u32>,
    nodes: Vec<Node>,
    children: HashMap<(u32, u32), u32>,
}

impl Stacks {
    /// All sites and what is not among them; `most` nodes at the most: the smallest sites are put together.
    pub fn new(sites: &[Site], rest: &Amounts, most: usize) -> Self {
        let mut builder = Builder::default();
        builder.nodes.push(Node { parent: 0, frame: NO_FRAME, own: [0.0; FIGURES], peak: 0.0 });
        let mut folded = 0;
        let mut others = figures(rest);
        for site in sites {
            if builder.nodes.len() + site.stack.len() > most {
                folded += 1;
                add(&mut others, &figures(&site.amounts));
            } else {
                builder.insert(site);
            }
        }
        if others.iter().any(|value| *value != 0.0) {
            builder.note(others);
        }
        Self { folded, ..builder.finish() }
    }
}

impl Builder {
    fn insert(&mut self, site: &Site) {
        let mut at = 0;
        for frame in site.stack.iter().rev() {
            let frame = self.frame(frame);
            at = self.child(at, frame);
        }
        add(&mut self.nodes[at as usize].own, &figures(&site.amounts));
    }

    /// What is not drawn one by one.
    fn note(&mut self, own: Figures) {
        let function = "smaller stacks, put together".to_owned();
        let frame = self.frame(&Arc::new(Frame { function, kind: FrameKind::Note, ..Frame::default() }));
        let at = self.child(0, frame);
        add(&mut self.nodes[at as usize].own, &own);
    }

    fn frame(&mut self, frame: &Arc<Frame>) -> u32 {
        if let Some(known) = self.places.get(&Arc::as_ptr(frame)) {
            return *known;
        }
        let next = self.frames.len() as u32;
        let number = *self.known.entry(Arc::clone(frame)).or_insert(next);
        if number == next {
            self.frames.push(Arc::clone(frame));
        }
        self.places.insert(Arc::as_ptr(frame), number);
        number
    }

    fn child(&mut self, parent: u32, frame: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.children.entry((parent, frame)).or_insert(next);
        if number == next {
            self.nodes.push(Node { parent, frame, own: [0.0; FIGURES], peak: 0.0 });
        }
        number
    }

    fn finish(mut self) -> Stacks {
        // Children come after their parents.
        for index in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[index];
            node.peak += node.own[PEAK];
            let (peak, parent) = (node.peak, node.parent as usize);
            if index > 0 {
                self.nodes[parent].peak += peak;
            }
        }
        let order = self.preorder();
        let mut place = vec![0; self.nodes.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old as usize] = new as u32);
        let moved = |old: &u32| {
            let node = self.nodes[*old as usize];
            Node { parent: place[node.parent as usize], ..node }
        };
        Stacks { nodes: order.iter().map(moved).collect(), frames: self.frames, folded: 0 }
    }

    fn preorder(&self) -> Vec<u32> {
        let peak = |node: u32| self.nodes[node as usize].peak;
        // Children of one parent side by side, the largest last: a stack gives the last first.
        let mut children: Vec<u32> = (1..self.nodes.len() as u32).collect();
        let parent = |node: u32| self.nodes[node as usize].parent;
        children.sort_unstable_by(|a, b| {
            parent(*a).cmp(&parent(*b)).then_with(|| peak(*a).total_cmp(&peak(*b))).then_with(|| b.cmp(a))
        });
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack = vec![0];
        while let Some(node) = stack.pop() {
            order.push(node);
            let first = children.partition_point(|child| parent(*child) < node);
            let own = children[first..].iter().take_while(|child| parent(**child) == node);
            stack.extend(own);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(stack: &[&str], peak_bytes: u64) -> Site {
        let frame = |name: &&str| Arc::new(Frame { function: (*name).into(), ..Frame::default() });
        let amounts = Amounts { peak_bytes, live_end_bytes: 1, ..Amounts::default() };
        Site { stack: stack.iter().map(frame).collect(), cut: false, amounts }
    }

    fn names(stacks: &Stacks) -> Vec<(&str, u32, f64)> {
        let name = |node: &Node| stacks.frames.get(node.frame as usize).map_or("", |f| f.function.as_str());
        stacks.nodes.iter().map(|node| (name(node), node.parent, node.peak)).collect()
    }

    #[test]
    fn stacks_share_their_callers_and_the_largest_comes_first() {
        let sites = [site(&["a", "main"], 1), site(&["b", "main"], 5), site(&["c", "b", "main"], 2)];
        let stacks = Stacks::new(&sites, &Amounts::default(), 100);
        let found = names(&stacks);
        assert_eq!(found, [("", 0, 8.0), ("main", 0, 8.0), ("b", 1, 7.0), ("c", 2, 2.0), ("a", 1, 1.0)]);
        assert_eq!(stacks.nodes[2].own[PEAK] as u64, 5);
    }

    #[test]
    fn too_many_are_put_together_and_nothing_is_lost() {
        let sites = [site(&["a", "main"], 5), site(&["x", "y", "z"], 4)];
        let rest = Amounts { peak_bytes: 3, ..Amounts::default() };
        let stacks = Stacks::new(&sites, &rest, 4);
        assert_eq!((stacks.folded, stacks.nodes[0].peak), (1, 12.0));
        assert!(names(&stacks).contains(&("smaller stacks, put together", 0, 7.0)));
    }
}
