//! Kinds as tables show them: the type, and for a dict that is an object's own whose it is.

use rustc_hash::FxHashMap;

use super::{Fold, Graph, Kind, KindId, NO_OBJECT, Nature, ObjectId};

/// The row of storages that no Python object holds.
pub const NATIVE_ONLY: &str = "torch storage (held by C++ only)";
const NO_OWNER: &str = "dict (no owner)";

/// A number for each kind, equal for kinds of the same name, and for each sort of owned dict.
#[derive(Debug)]
pub struct ShownKinds {
    /// What each number is called.
    pub names: Vec<String>,
    /// Kind of each object, as tables show it.
    shown: Vec<u32>,
    /// Number of each plain kind.
    plain: Vec<u32>,
}

impl ShownKinds {
    pub fn of(graph: &Graph, fold: &Fold) -> Self {
        let mut namer = Namer { names: Vec::new(), numbers: FxHashMap::default() };
        let plain: Vec<u32> = graph.kinds.iter().map(|kind| namer.number(kind.name.clone())).collect();
        let shown =
            Shown { graph, fold, namer: &mut namer, plain: &plain, owned: FxHashMap::default() }.all();
        Self { names: namer.names, shown, plain }
    }

    /// The number of an object's kind.
    #[inline]
    pub fn shown(&self, object: ObjectId) -> u32 {
        self.shown[object as usize]
    }

    /// The numbers of all objects.
    pub fn all(&self) -> &[u32] {
        &self.shown
    }

    /// The type alone.
    pub fn plain(&self, graph: &Graph, object: ObjectId) -> u32 {
        self.plain[graph.objects.kind[object as usize] as usize]
    }

    pub fn name(&self, object: ObjectId) -> &str {
        &self.names[self.shown(object) as usize]
    }
}

struct Namer {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl Namer {
    fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }
}

struct Shown<'a> {
    graph: &'a Graph,
    fold: &'a Fold,
    namer: &'a mut Namer,
    plain: &'a [u32],
    /// Kind of a dict and of its owner.
    owned: FxHashMap<(KindId, KindId), u32>,
}

impl Shown<'_> {
    fn all(mut self) -> Vec<u32> {
        // Where no owners are known, dicts are just dicts.
        let owners_known = !(self.graph.edges.label.is_empty() && self.graph.dict_owners.is_empty());
        let is_owned = |kind: &Kind| owners_known && kind.nature == Nature::Dict;
        let plain = self.graph.kinds.iter().zip(self.plain);
        let known: Vec<Option<u32>> =
            plain.map(|(kind, plain)| (!is_owned(kind)).then_some(*plain)).collect();
        let kinds = (0..).zip(&self.graph.objects.kind);
        let shown =
            kinds.map(|(object, kind)| known[*kind as usize].unwrap_or_else(|| self.dict(object, *kind)));
        let mut shown: Vec<u32> = shown.collect();
        let native = self.fold.tellers().iter().filter(|row| row.1 == NO_OBJECT);
        for (storage, _) in native {
            shown[*storage as usize] = self.namer.number(NATIVE_ONLY.into());
        }
        shown
    }

    fn dict(&mut self, object: ObjectId, kind: KindId) -> u32 {
        let Some(owner) = self.fold.dict_owner(object) else { return self.ownerless(kind) };
        let owner_kind = self.graph.objects.kind[owner as usize];
        *self.owned.entry((kind, owner_kind)).or_insert_with(|| {
            let (own, owner) = (&self.graph.kinds[kind as usize], &self.graph.kinds[owner_kind as usize]);
            self.namer.number(format!("{} of {}", own.name, owner.name))
        })
    }

    fn ownerless(&mut self, kind: KindId) -> u32 {
        if self.graph.kinds[kind as usize].name != "dict" {
            return self.plain[kind as usize];
        }
        *self.owned.entry((kind, KindId::MAX)).or_insert_with(|| self.namer.number(NO_OWNER.into()))
    }
}
