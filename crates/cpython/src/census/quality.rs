//! How far a census can be trusted: do the references found explain the reference counts?

use std::collections::BTreeMap;

use nilometer_trace::heap::{Graph, Holder, IMMORTAL, Quality, Root};

use crate::classify::Tally;
use crate::root::Claim;

/// Objects kept of each kind that does not add up.
const SAMPLES: usize = 8;

/// Objects of one kind whose reference count is not explained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatch {
    pub kind: String,
    /// Objects with more references than their count says: something was taken for owned that is not.
    pub over: u64,
    /// Objects with fewer: who holds them was not found.
    pub under: u64,
    /// Some of them: address, count, references found.
    pub samples: Vec<(u64, u32, u32)>,
}

/// References of each object, from others and from roots; roots that nothing asks for are dropped.
pub(crate) fn count_references(graph: &mut Graph, roots: Vec<(Root, Claim)>) -> Vec<u32> {
    let mut references = vec![0u32; graph.len()];
    for target in &graph.edges.to {
        references[*target as usize] += 1;
    }
    for (root, _) in roots.iter().filter(|(_, claim)| *claim == Claim::Counts) {
        references[root.object as usize] += 1;
    }
    for (root, claim) in roots {
        let (found, count) =
            (&mut references[root.object as usize], graph.objects.refcount[root.object as usize]);
        let kept = match claim {
            Claim::Counts | Claim::Never => true,
            Claim::Perhaps if count == IMMORTAL => *found == 0 || root.holder == Holder::StaticType,
            Claim::Perhaps => *found < count,
        };
        *found += u32::from(kept && claim == Claim::Perhaps);
        graph.roots.extend(kept.then_some(root));
    }
    references
}

/// What does not add up, by kind, the most frequent first.
pub(crate) fn mismatches(graph: &Graph, references: &[u32]) -> Vec<Mismatch> {
    let mut by_kind: BTreeMap<u32, Mismatch> = BTreeMap::new();
    for (object, found) in references.iter().enumerate() {
        let count = graph.objects.refcount[object];
        if count == IMMORTAL || count == *found {
            continue;
        }
        let kind = by_kind.entry(graph.objects.kind[object]).or_default();
        *(if *found > count { &mut kind.over } else { &mut kind.under }) += 1;
        if kind.samples.len() < SAMPLES {
            kind.samples.push((graph.objects.address[object], count, *found));
        }
    }
    let named =
        |(kind, found): (u32, Mismatch)| Mismatch { kind: graph.kinds[kind as usize].name.clone(), ..found };
    let mut list: Vec<Mismatch> = by_kind.into_iter().map(named).collect();
    list.sort_by_key(|found| std::cmp::Reverse(found.over + found.under));
    list
}

/// Checks counts and reachability; objects that only C code can hold become roots.
pub(crate) fn check(graph: &mut Graph, references: &[u32], tally: Tally, dangling: u64) -> Quality {
    let mut quality =
        Quality { dangling, pools: tally.pools, pools_rejected: tally.doubtful, ..Quality::default() };
    for (count, references) in graph.objects.refcount.iter().zip(references) {
        if *count != IMMORTAL {
            quality.refcount_checked += 1;
            quality.refcount_exact += u64::from(count == references);
        }
    }
    let mut reached = reach(graph);
    quality.unreached = reached.iter().filter(|reached| !**reached).count() as u64;
    add_native(graph, references, &mut reached);
    quality
}

/// Which objects the roots lead to.
fn reach(graph: &Graph) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    let mut queue = Vec::new();
    for root in &graph.roots {
        enqueue(root.object, &mut reached, &mut queue);
    }
    follow(graph, &mut reached, &mut queue);
    reached
}

fn enqueue(object: u32, reached: &mut [bool], queue: &mut Vec<u32>) {
    if let Some(reached @ false) = reached.get_mut(object as usize) {
        *reached = true;
        queue.push(object);
    }
}

fn follow(graph: &Graph, reached: &mut [bool], queue: &mut Vec<u32>) {
    while let Some(object) = queue.pop() {
        for target in graph.referents(object) {
            enqueue(*target, reached, queue);
        }
    }
}

/// Not reached, and with more references than were found: C code holds it.
fn add_native(graph: &mut Graph, references: &[u32], reached: &mut [bool]) {
    let mut queue = Vec::new();
    for object in 0..graph.len() {
        let count = graph.objects.refcount[object];
        if !reached[object] && count != IMMORTAL && count > references[object] {
            let name = "C code".to_owned();
            graph.roots.push(Root { object: object as u32, holder: Holder::Native, name });
            enqueue(object as u32, reached, &mut queue);
            follow(graph, reached, &mut queue);
        }
    }
}
