//! What each module holds: what importing it cost in objects and buffers.
//!
//! A function belongs to the module whose globals it uses and a type to the one that it names; everything else to the
//! module from which the fewest references lead to it. The one invariant: an object belongs to one module at most.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::census::closure::Closure;
use crate::census::heap::Heap;
use crate::kind::known::Shape;
use crate::kind::value_in;
use crate::reference::text;

/// Characters of a module's name or file.
const LONGEST: u64 = 4096;
const NOBODY: u32 = u32::MAX;

/// A module and the bytes of what belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// `numpy.linalg`.
    pub module: String,
    /// Where it was read from; none for what is built in.
    pub file: Option<String>,
    pub bytes: u64,
}

/// Of each module of an image; `closure` has references.
pub(crate) fn holdings(heap: &mut Heap<'_>, closure: &Closure) -> Vec<Holding> {
    let mut modules = Modules::find(heap);
    let mut owner = vec![NOBODY; heap.len()];
    let mut waiting = modules.seed(heap, &mut owner);
    while let Some(number) = waiting.pop_front() {
        for target in closure.referents(number) {
            if owner.get(*target as usize) == Some(&NOBODY) {
                owner[*target as usize] = owner[number as usize];
                waiting.push_back(*target);
            }
        }
    }
    let objects = owner.iter().zip(&closure.bytes).map(|(owner, bytes)| (*owner, *bytes));
    let buffer = |number: u32| owner.get(number as usize).copied().unwrap_or(NOBODY);
    let buffers = closure.buffers.iter().map(|(number, held)| (buffer(*number), held.bytes));
    for (owner, bytes) in objects.chain(buffers) {
        if let Some(holding) = modules.list.get_mut(owner as usize) {
            holding.bytes += bytes;
        }
    }
    modules.list
}

#[derive(Default)]
struct Modules {
    list: Vec<Holding>,
    /// Numbers of the module objects.
    objects: Vec<u32>,
    by_dict: FxHashMap<u64, u32>,
    by_name: FxHashMap<String, u32>,
}

impl Modules {
    fn find(heap: &Heap<'_>) -> Self {
        let mut found = Self::default();
        for number in 0..heap.len() {
            if heap.types.get(heap.type_of[number]).shape == Shape::Module {
                found.add(heap, number as u32);
            }
        }
        found
    }

    fn add(&mut self, heap: &Heap<'_>, number: u32) {
        let address = heap.address[number as usize];
        let dict = address.checked_add(heap.layout.module.dict).and_then(|at| heap.image.word(at));
        let Some(dict) = dict.filter(|dict| *dict != 0) else { return };
        let str_at = |name| {
            let at = value_in(heap.image, heap.layout, dict, name)?;
            text::read(heap.image, &heap.layout.str_, at, LONGEST).filter(|text| !text.is_empty())
        };
        let (module, file) = (str_at("__name__").unwrap_or_default(), str_at("__file__"));
        let index = self.list.len() as u32;
        self.objects.push(number);
        self.by_dict.insert(dict, index);
        self.by_name.entry(module.clone()).or_insert(index);
        self.list.push(Holding { module, file, bytes: 0 });
    }

    /// Gives modules, functions and types to whom they name; these in this order are where the search begins.
    fn seed(&mut self, heap: &mut Heap<'_>, owner: &mut [u32]) -> VecDeque<u32> {
        let mut first: VecDeque<u32> = VecDeque::new();
        for (index, number) in self.objects.iter().enumerate() {
            owner[*number as usize] = index as u32;
            first.push_back(*number);
        }
        let globals = heap.layout.owned.function.iter().find(|(name, _)| *name == "__globals__");
        let globals = globals.map_or(0, |(_, offset)| *offset);
        let kinds = heap.types.kinds();
        for (number, owner) in owner.iter_mut().enumerate() {
            let address = heap.address[number];
            let named = match heap.types.get(heap.type_of[number]).shape {
                Shape::Function => {
                    let dict = address.checked_add(globals).and_then(|at| heap.image.word(at));
                    dict.and_then(|dict| self.by_dict.get(&dict))
                }
                Shape::Type => {
                    let kind = heap.type_at(address).and_then(|id| kinds.get(id as usize));
                    kind.and_then(|kind| self.by_name.get(&kind.module))
                }
                _ => None,
            };
            if let Some(index) = named {
                *owner = *index;
                first.push_back(number as u32);
            }
        }
        first
    }
}
