//! What optimizers keep: the tensors below the attribute `state` of torch's optimizers, whatever their class.

use std::collections::VecDeque;

use nilometer_trace::heap::{Nature, Part, Special};
use rustc_hash::FxHashSet;

use crate::census::heap::{Found as Number, Heap};
use crate::census::inspect;
use crate::reference::Context;

/// The class that all of them come from, and its module.
const CLASS: (&str, &str) = ("torch.optim.optimizer", "torch.optim.optimizer.Optimizer");
const ATTRIBUTE: &str = "state";
/// Objects that are looked at below one `state`: a dict per parameter, and some tensors in each.
const MOST: usize = 1 << 20;

/// Addresses of the tensors. The keys of a state are among them: parameters.
pub(crate) fn state_tensors(heap: &mut Heap<'_>, context: &mut Context) -> Vec<u64> {
    let is_optimizer = classes(heap);
    if !is_optimizer.contains(&true) {
        return Vec::new();
    }
    let is_one = |number: &usize| is_optimizer.get(heap.type_of[*number] as usize) == Some(&true);
    let optimizers: Vec<usize> = (0..heap.len()).filter(is_one).collect();
    let states: Vec<u64> =
        optimizers.iter().filter_map(|number| attribute(heap, context, *number as Number)).collect();
    tensors_below(heap, context, &states)
}

/// By type: whether it is the class or comes from it.
fn classes(heap: &Heap<'_>) -> Vec<bool> {
    let kinds = heap.types.kinds();
    let mut known: Vec<bool> = kinds.iter().map(|kind| (&*kind.module, &*kind.name) == CLASS).collect();
    if !known.contains(&true) {
        return known;
    }
    for id in 0..known.len() {
        let mut base = heap.types.get(id as u32).base;
        while let Some(at) = base.filter(|_| !known[id]) {
            known[id] = known.get(at as usize) == Some(&true);
            base = heap.types.get(at).base;
        }
    }
    known
}

/// The address of `optimizer.state`.
fn attribute(heap: &mut Heap<'_>, context: &mut Context, optimizer: Number) -> Option<u64> {
    let wanted = heap.types.names.intern(ATTRIBUTE);
    let own = inspect::references(heap, context, optimizer);
    let dict = own.iter().find(|held| held.label.part() == Some(Part::Special(Special::Dict)));
    let dict = dict.and_then(|dict| heap.find(dict.address));
    let in_dict = dict.map(|dict| inspect::references(heap, context, dict)).unwrap_or_default();
    let is_wanted = |part| matches!(part, Some(Part::Attribute(name) | Part::Key(name)) if name == wanted);
    own.iter().chain(&in_dict).find(|held| is_wanted(held.label.part())).map(|held| held.address)
}

/// Through dicts, lists and tuples; what else there is keeps no tensors of its own.
fn tensors_below(heap: &mut Heap<'_>, context: &mut Context, states: &[u64]) -> Vec<u64> {
    let mut waiting: VecDeque<u64> = states.iter().copied().collect();
    let mut seen: FxHashSet<u64> = FxHashSet::default();
    let mut tensors = Vec::new();
    while let Some(address) = waiting.pop_front() {
        let Some(number) = heap.find(address) else { continue };
        if seen.len() >= MOST || !seen.insert(address) {
            continue;
        }
        match heap.types.get(heap.type_of[number as usize]).nature {
            Nature::Tensor => tensors.push(address),
            Nature::Dict | Nature::List | Nature::Tuple => {
                waiting.extend(inspect::references(heap, context, number).iter().map(|held| held.address));
            }
            _ => {}
        }
    }
    tensors
}
