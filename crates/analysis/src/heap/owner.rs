//! By the kinds that hold an object.

use nilometer_trace::heap::{ObjectId, ShownKinds};
use rustc_hash::FxHashMap;

use super::Heap;

pub(super) const RULE: &str =
    "a row is the set of kinds that refer to an object; each object is in one row, however many hold it";
/// Kinds named in a row before "and N more kinds".
const NAMED: usize = 4;
/// Stands for roots in a set of kinds.
const ROOT: u32 = u32::MAX;

/// Sets of kinds, each once.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) group: Vec<u32>,
    sets: Vec<Vec<u32>>,
}

/// Of each object of an increasing list.
pub(super) fn of(heap: &Heap<'_>, ids: &[ObjectId]) -> Owners {
    let mut rooted: Vec<ObjectId> = heap.graph().roots.iter().map(|root| root.object).collect();
    rooted.sort_unstable();
    let mut maker = Maker { sets: Vec::new(), numbers: FxHashMap::default(), last: None };
    let mut kinds = Vec::new();
    let group = ids
        .iter()
        .map(|id| {
            kinds.clear();
            kinds.extend(heap.referrers_of(*id).iter().map(|from| heap.kinds().shown(*from)));
            if rooted.binary_search(id).is_ok() {
                kinds.push(ROOT);
            }
            kinds.sort_unstable();
            kinds.dedup();
            maker.number(&kinds)
        })
        .collect();
    Owners { group, sets: maker.sets }
}

struct Maker {
    sets: Vec<Vec<u32>>,
    numbers: FxHashMap<Vec<u32>, u32>,
    /// Neighbours are often held alike.
    last: Option<u32>,
}

impl Maker {
    fn number(&mut self, kinds: &[u32]) -> u32 {
        if let Some(last) = self.last.filter(|last| self.sets[*last as usize] == kinds) {
            return last;
        }
        let number = self.numbers.get(kinds).copied().unwrap_or_else(|| {
            let next = self.sets.len() as u32;
            self.sets.push(kinds.to_vec());
            self.numbers.insert(kinds.to_vec(), next);
            next
        });
        self.last = Some(number);
        number
    }
}

impl Owners {
    pub(super) fn name(&self, group: u32, kinds: &ShownKinds) -> String {
        let set = &self.sets[group as usize];
        if set.is_empty() {
            return "(nothing found)".into();
        }
        let mut names: Vec<&str> = set.iter().map(|kind| name(*kind, kinds)).collect();
        names.sort_unstable();
        let listed = names[..names.len().min(NAMED)].join(", ");
        match names.len().saturating_sub(NAMED) {
            0 => listed,
            1 => format!("{listed} and 1 more kind"),
            more => format!("{listed} and {more} more kinds"),
        }
    }
}

fn name(kind: u32, kinds: &ShownKinds) -> &str {
    kinds.names.get(kind as usize).map_or("(root)", String::as_str)
}
