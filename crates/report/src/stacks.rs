//! The stacks of a run's allocations as one tree with every figure, in the order in which it is drawn.
//!
//! Nodes are in preorder, the largest child first, so that a parent comes before its children and a subtree is a stretch.
//! The one invariant: the figures of all nodes add up to the sums over all sites, also of those not drawn one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use nilometer_analysis::allocs::model::{Allocator, Amounts, Frame, FrameKind, Moments, Site};
use rustc_hash::FxHashMap;

/// Peak, live at the end, cumulative, temporary, growth per step.
pub const FIGURES: usize = 5;
pub type Figures = [f64; FIGURES];

#[derive(Debug, Clone, Default)]
pub struct Stacks {
    pub frames: Vec<Arc<Frame>>,
    /// Node 0 is the root and has no frame.
    pub nodes: Vec<Node>,
    /// Where stacks end, by node: most nodes are on the way only.
    pub ends: Vec<End>,
    /// Live bytes at each kept step of the stacks that end at a node, by node.
    pub series: Vec<(u32, Allocator, Vec<u64>)>,
    /// Sites that were put together because there were too many.
    pub folded: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    pub parent: u32,
    /// Of `frames`; `u32::MAX` at the root.
    pub frame: u32,
    /// With all below it, at the peak: what the order and the static picture need.
    pub peak: f64,
}

/// All figures of the stacks that end at a node with the same allocator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct End {
    pub node: u32,
    pub allocator: Allocator,
    pub own: Figures,
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
    known: FxHashMap<Arc<Frame>, u32>,
    /// Most stacks share their frames' memory: comparing where they are saves comparing names.
    places: FxHashMap<*const Frame, u32>,
    nodes: Vec<Node>,
    children: FxHashMap<(u32, u32), u32>,
    ends: FxHashMap<(u32, Allocator), Figures>,
    series: FxHashMap<(u32, Allocator), Vec<u64>>,
}

impl Stacks {
    /// All sites and what is not among them; `most` nodes at the most: the smallest sites are put together.
    pub fn new(sites: &[Site], rest: &Amounts, most: usize) -> Self {
        Self::with_moments(sites, rest, &Moments::default(), most)
    }

    /// The same, with what was live at the steps.
    pub fn with_moments(sites: &[Site], rest: &Amounts, moments: &Moments, most: usize) -> Self {
        let mut builder = Builder::default();
        builder.nodes.push(Node { parent: 0, frame: NO_FRAME, peak: 0.0 });
        let mut folded = 0;
        let mut others = BTreeMap::from([(Allocator::default(), (figures(rest), moments.rest.clone()))]);
        let mut series = moments.series.iter().peekable();
        for (number, site) in (0_u32..).zip(sites) {
            let own = series.next_if(|(of, _)| *of == number).map_or(&[][..], |(_, bytes)| bytes);
            if builder.nodes.len() + site.stack.len() > most {
                folded += 1;
                let (sum, at_steps) = others.entry(site.allocator).or_default();
                add(sum, &figures(&site.amounts));
                add_series(at_steps, own);
            } else {
                builder.insert(site, own);
            }
        }
        for (allocator, (sum, at_steps)) in others {
            if sum.iter().any(|value| *value != 0.0) || at_steps.iter().any(|bytes| *bytes != 0) {
                builder.note(allocator, &sum, &at_steps);
            }
        }
        Self { folded, ..builder.finish() }
    }
}

/// Empty stands for zeros.
fn add_series(sum: &mut Vec<u64>, other: &[u64]) {
    if sum.len() < other.len() {
        sum.resize(other.len(), 0);
    }
    sum.iter_mut().zip(other).for_each(|(sum, bytes)| *sum = sum.saturating_add(*bytes));
}

impl Builder {
    fn insert(&mut self, site: &Site, series: &[u64]) {
        let mut at = 0;
        for frame in site.stack.iter().rev() {
            let frame = self.frame(frame);
            at = self.child(at, frame);
        }
        self.end((at, site.allocator), &figures(&site.amounts), series);
    }

    fn end(&mut self, (at, allocator): (u32, Allocator), own: &Figures, series: &[u64]) {
        add(self.ends.entry((at, allocator)).or_default(), own);
        if !series.is_empty() {
            add_series(self.series.entry((at, allocator)).or_default(), series);
        }
        self.nodes[at as usize].peak += own[PEAK];
    }

    /// What is not drawn one by one.
    fn note(&mut self, allocator: Allocator, own: &Figures, series: &[u64]) {
        let function = "smaller stacks, put together".to_owned();
        let frame = self.frame(&Arc::new(Frame { function, kind: FrameKind::Note, ..Frame::default() }));
        let at = self.child(0, frame);
        self.end((at, allocator), own, series);
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
            self.nodes.push(Node { parent, frame, peak: 0.0 });
        }
        number
    }

    fn finish(mut self) -> Stacks {
        self.children = FxHashMap::default();
        // Children come after their parents.
        for index in (1..self.nodes.len()).rev() {
            let Node { parent, peak, .. } = self.nodes[index];
            self.nodes[parent as usize].peak += peak;
        }
        let order = self.preorder();
        let mut place = vec![0; self.nodes.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old as usize] = new as u32);
        let moved = |old: &u32| {
            let node = self.nodes[*old as usize];
            Node { parent: place[node.parent as usize], ..node }
        };
        let own = |((old, allocator), own): ((u32, Allocator), Figures)| End {
            node: place[old as usize],
            allocator,
            own,
        };
        let mut ends: Vec<End> = self.ends.into_iter().map(own).collect();
        ends.sort_unstable_by_key(|end| (end.node, end.allocator));
        let series = self.series.into_iter();
        let mut series: Vec<(u32, Allocator, Vec<u64>)> =
            series.map(|((old, allocator), bytes)| (place[old as usize], allocator, bytes)).collect();
        series.sort_unstable_by_key(|(node, allocator, _)| (*node, *allocator));
        Stacks { nodes: order.iter().map(moved).collect(), frames: self.frames, ends, series, folded: 0 }
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
        Site { stack: stack.iter().map(frame).collect(), amounts, ..Site::default() }
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
        let own: Vec<(u32, u64)> = stacks.ends.iter().map(|end| (end.node, end.own[PEAK] as u64)).collect();
        assert_eq!(own, [(2, 5), (3, 2), (4, 1)]);
    }

    #[test]
    fn too_many_are_put_together_and_nothing_is_lost() {
        let sites = [site(&["a", "main"], 5), site(&["x", "y", "z"], 4)];
        let rest = Amounts { peak_bytes: 3, ..Amounts::default() };
        let stacks = Stacks::new(&sites, &rest, 4);
        assert_eq!((stacks.folded, stacks.nodes[0].peak), (1, 12.0));
        assert!(names(&stacks).contains(&("smaller stacks, put together", 0, 7.0)));
    }

    #[test]
    fn bytes_at_steps_follow_their_stack_and_none_is_lost() {
        let sites = [site(&["a", "main"], 1), site(&["b", "main"], 5), site(&["x", "y", "z"], 4)];
        let series = vec![(0, vec![1, 2]), (2, vec![3, 4])];
        let moments = Moments { series, rest: vec![0, 10], ..Moments::default() };
        let stacks = Stacks::with_moments(&sites, &Amounts::default(), &moments, 5);
        let name = |node: u32| &stacks.frames[stacks.nodes[node as usize].frame as usize].function;
        let told: Vec<(&str, &[u64])> =
            stacks.series.iter().map(|(node, _, bytes)| (name(*node).as_str(), bytes.as_slice())).collect();
        assert_eq!(told, [("a", &[1, 2][..]), ("smaller stacks, put together", &[3, 14][..])]);
    }

    #[test]
    fn one_stack_with_two_allocators_has_two_ends() {
        let mapped = |peak| Site { allocator: Allocator::Mapping, ..site(&["a", "main"], peak) };
        let stacks = Stacks::new(&[mapped(7), site(&["a", "main"], 1), mapped(2)], &Amounts::default(), 100);
        let ends: Vec<_> = stacks.ends.iter().map(|end| (end.node, end.allocator, end.own[PEAK])).collect();
        assert_eq!(ends, [(2, Allocator::Malloc, 1.0), (2, Allocator::Mapping, 9.0)]);
        assert!((stacks.nodes[2].peak - 10.0).abs() < 1e-9);
    }
}
