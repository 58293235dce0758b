//! Stacks as a tree, outermost frames at the root; each stack's sums at the node where it ends.

use rustc_hash::FxHashMap;

use super::merge::FrameId;

/// Index of a node; 0 is the root.
pub type NodeId = u32;

#[derive(Debug, Clone, Copy)]
struct Node {
    frame: FrameId,
    parent: NodeId,
}

/// All stacks seen.
#[derive(Debug)]
pub struct Trie {
    nodes: Vec<Node>,
    children: FxHashMap<(NodeId, FrameId), NodeId>,
}

impl Default for Trie {
    fn default() -> Self {
        Self { nodes: vec![Node { frame: FrameId::MAX, parent: 0 }], children: FxHashMap::default() }
    }
}

impl Trie {
    /// The node of a stack, innermost frame first.
    pub fn insert(&mut self, stack: &[FrameId]) -> NodeId {
        let mut at = 0;
        for &frame in stack.iter().rev() {
            at = *self.children.entry((at, frame)).or_insert_with(|| {
                self.nodes.push(Node { frame, parent: at });
                self.nodes.len() as NodeId - 1
            });
        }
        at
    }

    /// Gives back what only [`Self::insert`] needs; a stack inserted later would not find the others.
    pub fn close(&mut self) {
        self.children = FxHashMap::default();
        self.nodes.shrink_to_fit();
    }

    /// The frames of a node, innermost first.
    pub fn stack(&self, mut node: NodeId) -> impl Iterator<Item = FrameId> {
        std::iter::from_fn(move || {
            let found = self.nodes.get(node as usize).filter(|_| node != 0)?;
            node = found.parent;
            Some(found.frame)
        })
    }

    /// The tree of some stacks, with the sums of all: what hangs at a node and is not shown is counted there.
    pub fn shown(&self, values: &[(NodeId, Figure)], shown: &[NodeId]) -> Vec<Branch> {
        let mut sums = vec![Figure::default(); self.nodes.len()];
        for (node, value) in values {
            if let Some(sum) = sums.get_mut(*node as usize) {
                sum.add(value);
            }
        }
        let own: Vec<f64> = sums.iter().map(|sum| sum.value).collect();
        // Children come after their parents.
        for index in (1..self.nodes.len()).rev() {
            let inner = sums[index];
            sums[self.nodes[index].parent as usize].add(&inner);
        }
        self.branches(&sums, &own, &self.marked(shown))
    }

    fn marked(&self, shown: &[NodeId]) -> Vec<bool> {
        let mut marked = vec![false; self.nodes.len()];
        marked[0] = true;
        for &leaf in shown {
            let mut at = leaf as usize;
            while at < marked.len() && !marked[at] {
                marked[at] = true;
                at = self.nodes[at].parent as usize;
            }
        }
        marked
    }

    fn branches(&self, sums: &[Figure], own: &[f64], marked: &[bool]) -> Vec<Branch> {
        let mut number = vec![u32::MAX; self.nodes.len()];
        let mut branches: Vec<Branch> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let sum = sums[index];
            if marked[index] {
                number[index] = branches.len() as u32;
                branches.push(Branch { frame: node.frame, sum, own: own[index], ..Branch::default() });
            }
            let parent = branches.get_mut(number[node.parent as usize] as usize).filter(|_| index > 0);
            let Some(parent) = parent else { continue };
            if number[index] != u32::MAX {
                parent.children.push(number[index]);
            } else if sum.stacks > 0 {
                parent.hidden += sum.stacks;
                parent.hidden_value += sum.value;
            }
        }
        let values: Vec<f64> = branches.iter().map(|branch| branch.sum.value).collect();
        for branch in &mut branches {
            branch.children.sort_by(|a, b| values[*b as usize].abs().total_cmp(&values[*a as usize].abs()));
        }
        branches
    }
}

/// A figure of one stack, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figure {
    pub value: f64,
    pub variance: f64,
    pub count: u64,
    pub stacks: u64,
}

impl Figure {
    fn add(&mut self, other: &Self) {
        self.value += other.value;
        self.variance += other.variance;
        self.count += other.count;
        self.stacks += other.stacks;
    }
}

/// A node that is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Branch {
    pub frame: FrameId,
    pub sum: Figure,
    /// Of the stacks that end here.
    pub own: f64,
    /// Largest first.
    pub children: Vec<u32>,
    pub hidden: u64,
    pub hidden_value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_up_and_what_is_hidden_is_counted() {
        let mut trie = Trie::default();
        let stacks = [[3, 2, 1], [4, 2, 1], [5, 6, 1], [3, 2, 9]];
        let nodes = stacks.map(|stack| trie.insert(&stack));
        assert_eq!(trie.insert(&[3, 2, 1]), nodes[0]);
        assert_eq!(trie.stack(nodes[1]).collect::<Vec<_>>(), [4, 2, 1]);
        let value = |value: f64| Figure { value, variance: 1.0, count: 1, stacks: 1 };
        let values: Vec<(NodeId, Figure)> =
            nodes.iter().zip([10.0, 5.0, 3.0, 2.0]).map(|(node, bytes)| (*node, value(bytes))).collect();
        let tree = trie.shown(&values, &nodes[..2]);
        assert_eq!(tree[0].sum, Figure { value: 20.0, variance: 4.0, count: 4, stacks: 4 });
        assert_eq!((tree[0].hidden, tree[0].hidden_value), (1, 2.0));
        let one = &tree[tree[0].children[0] as usize];
        assert_eq!((one.frame, one.sum.value, one.hidden, one.hidden_value), (1, 18.0, 1, 3.0));
        let two = &tree[one.children[0] as usize];
        let leaf = |leaf: &u32| (tree[*leaf as usize].frame, tree[*leaf as usize].sum.value);
        let leaves: Vec<(FrameId, f64)> = two.children.iter().map(leaf).collect();
        assert_eq!(leaves, [(3, 10.0), (4, 5.0)]);
        let total: f64 = tree.iter().map(|branch| branch.hidden_value + branch.own).sum();
        assert!((total - tree[0].sum.value).abs() < 1e-9, "every byte is shown or counted as hidden");
    }

    #[test]
    fn an_empty_tree_has_a_root() {
        let tree = Trie::default().shown(&[], &[]);
        assert_eq!((tree.len(), tree[0].sum), (1, Figure::default()));
    }
}
