//! What a process says of its own objects, by address, against what was seen from outside.
#![allow(dead_code, reason = "each test crate uses a part of it")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::Path;

use nilometer_trace::heap::{Graph, IMMORTAL, Nature, Part, Special};
use serde_json::Value;

/// One object as the process itself sees it.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    pub type_: u64,
    pub bytes: u64,
    pub tracked: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Truth {
    pub objects: HashMap<u64, Told>,
    pub referents: HashMap<u64, HashSet<u64>>,
    /// Made for the answer, after the copy.
    pub own: HashSet<u64>,
    /// What the answer was made with: there before the copy, and not among the objects told.
    pub work: HashSet<u64>,
    /// Names of types by address: module and qualified name.
    pub types: HashMap<u64, (String, String)>,
}

impl Truth {
    pub fn read(file: &Path, answer: &Value) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let objects = text.lines().map(|line| {
            let [address, type_, bytes, tracked] = numbers(line)[..] else { panic!("{line}") };
            (address, Told { type_, bytes, tracked: tracked == 1 })
        });
        let objects = objects.collect();
        let text = std::fs::read_to_string(format!("{}.referents", file.display())).unwrap();
        let referents = text.lines().map(|line| {
            let all = numbers(line);
            (all[0], all[1..].iter().copied().collect())
        });
        let list =
            |name: &str| answer[name].as_array().unwrap().iter().map(|own| own.as_u64().unwrap()).collect();
        let types = answer["types"].as_object().unwrap().iter().map(|(address, names)| {
            let name = |index: usize| names[index].as_str().unwrap().to_owned();
            (address.parse().unwrap(), (name(0), name(1)))
        });
        Self {
            objects,
            referents: referents.collect(),
            own: list("own"),
            work: list("work"),
            types: types.collect(),
        }
    }

    /// What the process knows and the census does not.
    pub fn absent(&self, graph: &Graph) -> Vec<String> {
        let absent = self.objects.iter().filter(|(address, _)| graph.at(**address).is_none());
        let absent = absent.filter(|(address, _)| !self.own.contains(address));
        let named = absent.map(|(address, told)| (address, self.types.get(&told.type_), told));
        named
            .map(|(address, type_, told)| {
                format!("{address:x} {type_:?} {told:?} {:?}", self.types.get(address))
            })
            .collect()
    }

    /// Objects whose kind is not what their type is called, by both names.
    pub fn misnamed(&self, graph: &Graph) -> BTreeMap<(String, String), u64> {
        let mut wrong = BTreeMap::new();
        for (address, told) in &self.objects {
            let (Some(object), Some((module, name))) = (graph.at(*address), self.types.get(&told.type_))
            else {
                continue;
            };
            let name = if module == "builtins" { name.clone() } else { format!("{module}.{name}") };
            let seen = &graph.kind_of(object).name;
            if *seen != name {
                *wrong.entry((seen.clone(), name)).or_insert(0) += 1;
            }
        }
        wrong
    }

    /// Objects of kinds that are always tracked, which the census has and the process has not.
    pub fn bogus(&self, graph: &Graph) -> Vec<String> {
        let kind = |address: &u64| graph.at(*address).map(|object| graph.objects.kind[object as usize]);
        let (tracked, untracked): (Vec<_>, Vec<_>) = self.objects.iter().partition(|(_, told)| told.tracked);
        let tracked: HashSet<u32> = tracked.into_iter().filter_map(|(address, _)| kind(address)).collect();
        let untracked: HashSet<u32> =
            untracked.into_iter().filter_map(|(address, _)| kind(address)).collect();
        let is_extra = |object: &usize| {
            let (kind, address) = (graph.objects.kind[*object], graph.objects.address[*object]);
            let always = tracked.contains(&kind) && !untracked.contains(&kind);
            always && !self.objects.contains_key(&address) && !self.work.contains(&address)
        };
        // Static ones are not tracked.
        let extra =
            (0..graph.len()).filter(is_extra).filter(|object| graph.objects.refcount[*object] != IMMORTAL);
        extra
            .map(|object| {
                format!("{} at {:x}", graph.kind_of(object as u32).name, graph.objects.address[object])
            })
            .collect()
    }

    /// What no object of the process leads to: the rest that cannot be checked from inside.
    pub fn unconfirmed(&self, graph: &Graph) -> Vec<u32> {
        let mut reached = vec![false; graph.len()];
        let mut queue: Vec<u32> = self.objects.keys().filter_map(|address| graph.at(*address)).collect();
        while let Some(object) = queue.pop() {
            if !std::mem::replace(&mut reached[object as usize], true) {
                queue.extend(graph.referents(object));
            }
        }
        (0..graph.len() as u32).filter(|object| !reached[*object as usize]).collect()
    }

    /// Objects whose references are not those that the process tells: what is missing, what is too many.
    ///
    /// An instance and its dict are taken together: which of them tells values that stand in the instance changed
    /// within 3.13.
    pub fn wrong_referents(&self, graph: &Graph) -> Vec<String> {
        let dicts = own_dicts(graph);
        let is_own: HashSet<u32> = dicts.values().copied().collect();
        let told_objects = self.referents.keys().filter_map(|address| graph.at(*address));
        let told_objects = told_objects.filter(|object| !is_own.contains(object));
        told_objects.filter_map(|object| self.wrong(graph, object, dicts.get(&object).copied())).collect()
    }

    fn wrong(&self, graph: &Graph, object: u32, dict: Option<u32>) -> Option<String> {
        let address = |object: u32| graph.objects.address[object as usize];
        let (mut seen, mut told) = (HashSet::new(), HashSet::new());
        for part in std::iter::once(object).chain(dict) {
            seen.extend(referents(graph, part));
            told.extend(self.referents.get(&address(part)).into_iter().flatten().copied());
        }
        // Types are told since 3.9 only; keys of shared tables belong to the table, and instances have them as labels.
        let type_ = self.objects.get(&address(object)).map_or(0, |told| told.type_);
        let with_keys = dict.is_some() || graph.kind_of(object).nature == Nature::Dict;
        let excused = |referent: &u64| {
            let dict = dict.is_some_and(|dict| address(dict) == *referent);
            dict || *referent == type_
                || self.own.contains(referent)
                || (with_keys && is_str(graph, *referent))
        };
        let missing: Vec<_> = told.difference(&seen).filter(|referent| !excused(referent)).collect();
        let extra: Vec<_> = seen.difference(&told).filter(|referent| !excused(referent)).collect();
        let fits = missing.is_empty() && extra.is_empty();
        let kind = &graph.kind_of(object).name;
        (!fits).then(|| format!("{kind} at {:x}: missing {missing:x?}, extra {extra:x?}", address(object)))
    }

    /// Objects whose size differs from `sys.getsizeof` by more than is explained, by kind: the worst difference.
    pub fn unexplained_sizes(&self, graph: &Graph) -> BTreeMap<String, i64> {
        let mut worst: BTreeMap<String, i64> = BTreeMap::new();
        for (address, told) in &self.objects {
            let Some(object) = graph.at(*address) else { continue };
            let kind = graph.kind_of(object);
            let beyond = graph.objects.bytes[object as usize] as i64 - told.bytes as i64;
            if !explained(&kind.name, kind.nature, told.bytes as i64).contains(&beyond) {
                let entry = worst.entry(kind.name.clone()).or_default();
                *entry = if beyond.abs() > entry.abs() { beyond } else { *entry };
            }
        }
        worst
    }
}

/// How many bytes an object may have beyond what `sys.getsizeof` says, and why.
fn explained(kind: &str, nature: Nature, told: i64) -> RangeInclusive<i64> {
    // Blocks are multiples of 16, an object may have several, and two words before it are not told.
    const ROUNDING: i64 = 48;
    match (kind, nature) {
        // Buffers are apart.
        ("bytearray" | "array.array", _) => -told..=ROUNDING,
        // Tables of the C code, which is not read; `BytesIO` counts a bytes object that counts itself.
        ("Struct" | "_struct.Struct", _) => -300..=0,
        ("_io.BufferedReader" | "_io.BytesIO", _) => -200_000..=ROUNDING,
        // Up to 3.10 with caches of the interpreter.
        (_, Nature::Code) => -400..=ROUNDING,
        // Fields that are not items.
        ("os.stat_result", _) => 0..=100,
        // The state of C code.
        (_, Nature::Module) => 0..=300,
        // A description of each slot, the table of names its instances share.
        (_, Nature::Type) => 0..=1000,
        // Since 3.11 the values of an instance are beside it or behind it, and since 3.13 its dict counts them as well.
        (_, Nature::Dict) => -300..=330,
        (_, Nature::Instance) => -8..=330,
        // One block that is never grown or shrunk: nothing but rounding.
        ("float" | "complex", _) => 0..=15,
        // Built larger than needed: the allocator leaves up to a quarter where it is.
        (_, Nature::Str | Nature::Bytes | Nature::Int) => -4..=told / 3 + 330,
        _ => 0..=330,
    }
}

/// The dicts of instances, by instance.
fn own_dicts(graph: &Graph) -> HashMap<u32, u32> {
    let mut dicts = HashMap::new();
    for object in (0..graph.len() as u32).filter(|object| graph.kind_of(*object).nature != Nature::Type) {
        for edge in graph.edges.range(object) {
            if graph.edges.label[edge].part() == Some(Part::Special(Special::Dict)) {
                dicts.insert(object, graph.edges.to[edge]);
            }
        }
    }
    dicts
}

/// Addresses of what an object refers to, without its type and what belongs to a shared table.
fn referents(graph: &Graph, object: u32) -> impl Iterator<Item = u64> {
    let edges = graph.edges.range(object).filter(|edge| {
        !matches!(graph.edges.label[*edge].part(), Some(Part::Special(Special::Type | Special::Shared)))
    });
    edges.map(|edge| graph.objects.address[graph.edges.to[edge] as usize])
}

fn is_str(graph: &Graph, address: u64) -> bool {
    graph.at(address).is_some_and(|object| graph.kind_of(object).nature == Nature::Str)
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}
