//! By the attribute that holds an object: `Node.c`, `Model.history[…]`, `train.cache['history']`.
//!
//! Items of containers take the name of the container; what is only reached through a view or a tensor (a base, a
//! storage) takes the name of that. Names nest at most [`DEEPEST`] deep.

use nilometer_trace::heap::{Graph, Holder, Label, NO_OBJECT, NameId, Nature, ObjectId, Part, Special};
use rustc_hash::FxHashMap;

use super::Heap;
use super::bits::Bits;

pub(super) const RULE: &str = "an object held by several is counted once: under an attribute of an instance before a \
     local of a frame, a module's name, a class's, a key, an item; of equals, under the holder with the lowest address";
/// Containers within containers that are named.
const DEEPEST: u8 = 4;
/// A dict with more keys has items, not names.
const NAMED_KEYS: usize = 64;
/// A tuple with more items is a list in all but type.
const NAMED_ITEMS: usize = 10;

/// A name in the making: what it is added to, and what is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    base: Base,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Base {
    /// An instance of this kind, by the kind's number.
    Kind(u32),
    /// A class, by the number of its instances' kind; [`u32::MAX`] where it has none.
    Class(u32),
    Module(ObjectId),
    Group(u32),
    Root(u32),
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Itself,
    Name(NameId),
    Key(NameId),
    Nth(u32),
    Item,
    Member,
    Unnamed,
    Link(Special),
}

/// How good a name is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Instance,
    Frame,
    Module,
    Class,
    Key,
    Item,
    Member,
    Through,
    Unnamed,
    Link,
    Root,
    Nothing,
}

/// The reference by which an object is named. For roots, `holder` is the number of the root.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    rank: Rank,
    holder: ObjectId,
    label: Label,
}

#[derive(Debug)]
pub(super) struct Attributes {
    group: Vec<u32>,
    keys: Vec<Key>,
    elsewhere: Bits,
}

impl Attributes {
    pub(super) fn of(heap: &Heap<'_>) -> Self {
        let namer = Namer::new(heap);
        let chosen = namer.choose();
        let mut resolver = Resolver {
            namer: &namer,
            chosen: &chosen,
            group: vec![UNRESOLVED; heap.graph().len()],
            keys: Vec::new(),
            depth: Vec::new(),
            numbers: FxHashMap::default(),
        };
        resolver.all();
        let elsewhere = resolver.elsewhere();
        Self { group: resolver.group, keys: resolver.keys, elsewhere }
    }

    pub(super) fn group(&self, object: ObjectId) -> u32 {
        self.group[object as usize]
    }

    pub(super) fn is_elsewhere(&self, object: ObjectId) -> bool {
        self.elsewhere.has(object)
    }

    pub(super) fn name(&self, heap: &Heap<'_>, group: u32) -> String {
        let mut keys = vec![self.keys[group as usize]];
        while let Base::Group(base) = keys[keys.len() - 1].base {
            keys.push(self.keys[base as usize]);
        }
        let mut text = keys.last().map_or_else(String::new, |key| base_name(heap, key.base));
        keys.iter().rev().for_each(|key| text.push_str(&step_name(heap.graph(), key.step)));
        text
    }
}

fn base_name(heap: &Heap<'_>, base: Base) -> String {
    let kind = |number: u32| heap.kinds().names.get(number as usize).map(|name| short(name));
    match base {
        Base::Kind(number) => kind(number).unwrap_or_default().into(),
        Base::Class(number) => kind(number).map_or("type".into(), |name| format!("class {name}")),
        Base::Module(module) => {
            heap.anchors().at(module).first().map_or("module".into(), |it| it.name.clone())
        }
        Base::Root(root) => without_line(&heap.graph().roots[root as usize].name),
        Base::Nothing | Base::Group(_) => "(nothing found)".into(),
    }
}

/// Classes of the script itself are known by their bare names.
fn short(kind: &str) -> &str {
    kind.strip_prefix("__main__.").unwrap_or(kind)
}

/// `train.py:33 step() batch` without its line: the next census meets the same variable at another one.
fn without_line(name: &str) -> String {
    let line = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = name.split_once(':').filter(|(_, rest)| rest[line(rest)..].starts_with(' '));
    numbered.map_or_else(|| name.to_owned(), |(file, rest)| format!("{file}{}", &rest[line(rest)..]))
}

fn step_name(graph: &Graph, step: Step) -> String {
    let name = |id: NameId| graph.names.get(id as usize).map_or("", String::as_str);
    match step {
        Step::Itself => String::new(),
        Step::Name(id) => format!(".{}", name(id)),
        Step::Key(id) => format!("['{}']", name(id)),
        Step::Nth(place) => format!("[{place}]"),
        Step::Item => "[…]".into(),
        Step::Member => "{…}".into(),
        Step::Unnamed => " (unnamed)".into(),
        Step::Link(special) => format!(".{}", link_name(special)),
    }
}

pub(super) fn link_name(special: Special) -> &'static str {
    match special {
        Special::Type => "__class__",
        Special::Dict => "__dict__",
        Special::Base => "base",
        Special::Storage => "storage",
        Special::Hierarchy => "<bases>",
        Special::Callback => "<callback>",
        Special::Shared => "<shared keys>",
    }
}

/// What an object is as a holder of names.
#[derive(Debug, Clone, Copy)]
enum Space {
    Instance(u32),
    Class(u32),
    Module(ObjectId),
    /// A container that has a name itself.
    Container(Nature),
}

struct Namer<'h, 'g> {
    heap: &'h Heap<'g>,
    graph: &'g Graph,
    natures: Vec<Nature>,
    /// Number of the kind whose instances refer to a type object.
    classes: FxHashMap<ObjectId, u32>,
    /// Dicts of a torch module that stand for its attributes.
    torch: Vec<NameId>,
    /// For each root the first that has the same name.
    roots: Vec<u32>,
}

impl<'h, 'g> Namer<'h, 'g> {
    fn new(heap: &'h Heap<'g>) -> Self {
        let graph = heap.graph();
        let torch = ["_parameters", "_modules", "_buffers"];
        let torch = torch.iter().filter_map(|name| graph.names.iter().position(|it| it == name));
        Self {
            heap,
            graph,
            natures: graph.kinds.iter().map(|kind| kind.nature).collect(),
            classes: classes(heap),
            torch: torch.map(|place| place as NameId).collect(),
            roots: roots(graph),
        }
    }

    fn nature(&self, object: ObjectId) -> Nature {
        self.natures[self.graph.objects.kind[object as usize] as usize]
    }

    fn kind(&self, object: ObjectId) -> u32 {
        self.heap.kinds().plain(self.graph, object)
    }

    fn space(&self, holder: ObjectId) -> Space {
        let fold = self.heap.fold();
        match self.nature(holder) {
            nature @ (Nature::List | Nature::Tuple | Nature::Set) => Space::Container(nature),
            Nature::Dict => match fold.dict_owner(holder) {
                Some(owner) => self.named_space(owner),
                None if self.heap.anchors().is_namespace(holder) => Space::Module(holder),
                None => Space::Container(Nature::Dict),
            },
            _ => self.named_space(holder),
        }
    }

    fn named_space(&self, holder: ObjectId) -> Space {
        match self.nature(holder) {
            Nature::Module => Space::Module(holder),
            Nature::Type => Space::Class(self.classes.get(&holder).copied().unwrap_or(u32::MAX)),
            _ => Space::Instance(self.kind(holder)),
        }
    }

    /// The best reference to each object.
    fn choose(&self) -> Vec<Chosen> {
        let nothing = Chosen { rank: Rank::Nothing, holder: NO_OBJECT, label: Label::UNNAMED };
        let mut chosen = vec![nothing; self.graph.len()];
        for holder in 0..self.graph.len() as ObjectId {
            let range = self.graph.edges.range(holder);
            if range.is_empty() {
                continue;
            }
            let space = self.space(holder);
            for edge in range {
                let label = self.graph.edges.label[edge];
                let best = &mut chosen[self.graph.edges.to[edge] as usize];
                let rank = rank(space, label);
                if rank < best.rank {
                    *best = Chosen { rank, holder, label };
                }
            }
        }
        self.choose_roots(&mut chosen);
        chosen
    }

    fn choose_roots(&self, chosen: &mut [Chosen]) {
        for (number, root) in self.graph.roots.iter().enumerate() {
            let rank = if root.holder == Holder::Frame { Rank::Frame } else { Rank::Root };
            let best = &mut chosen[root.object as usize];
            if rank < best.rank {
                *best = Chosen { rank, holder: number as u32, label: Label::UNNAMED };
            }
        }
    }
}

fn roots(graph: &Graph) -> Vec<u32> {
    let mut first: FxHashMap<String, u32> = FxHashMap::default();
    let numbered = (0..).zip(&graph.roots);
    numbered.map(|(number, root)| *first.entry(without_line(&root.name)).or_insert(number)).collect()
}

/// Types by the kind of an instance that says it is of that type.
fn classes(heap: &Heap<'_>) -> FxHashMap<ObjectId, u32> {
    let graph = heap.graph();
    let link = Label::new(Part::Special(Special::Type));
    let mut classes = FxHashMap::default();
    let mut done = vec![false; graph.kinds.len()];
    for object in 0..graph.len() as ObjectId {
        let kind = graph.objects.kind[object as usize] as usize;
        if done[kind] {
            continue;
        }
        for edge in graph.edges.range(object) {
            if graph.edges.label.get(edge) == Some(&link) {
                classes.insert(graph.edges.to[edge], heap.kinds().plain(graph, object));
                done[kind] = true;
            }
        }
    }
    classes
}

fn rank(space: Space, label: Label) -> Rank {
    match (label.part(), space) {
        (None | Some(Part::Unnamed), _) => Rank::Unnamed,
        (Some(Part::Special(Special::Base | Special::Storage | Special::Shared)), _) => Rank::Through,
        (Some(Part::Special(_)), _) => Rank::Link,
        (Some(Part::Attribute(_) | Part::Key(_) | Part::Local(_)), Space::Instance(_)) => Rank::Instance,
        (Some(Part::Attribute(_) | Part::Key(_) | Part::Local(_)), Space::Module(_)) => Rank::Module,
        (Some(Part::Attribute(_) | Part::Key(_) | Part::Local(_)), Space::Class(_)) => Rank::Class,
        (Some(Part::Attribute(_) | Part::Key(_) | Part::Local(_)), Space::Container(_)) => Rank::Key,
        (Some(Part::Index(_) | Part::Position(_)), _) => Rank::Item,
        (Some(Part::Member), _) => Rank::Member,
    }
}

const UNRESOLVED: u32 = u32::MAX;
const OPEN: u32 = u32::MAX - 1;

/// A name that is new, or the holder's own.
enum Placed {
    Key(Key),
    Same(u32),
}

struct Resolver<'a, 'h, 'g> {
    namer: &'a Namer<'h, 'g>,
    chosen: &'a [Chosen],
    group: Vec<u32>,
    keys: Vec<Key>,
    depth: Vec<u8>,
    numbers: FxHashMap<Key, u32>,
}

impl Resolver<'_, '_, '_> {
    fn all(&mut self) {
        let mut stack = Vec::new();
        for object in 0..self.group.len() as ObjectId {
            stack.push(object);
            while let Some(top) = stack.last().copied() {
                if let Some(holder) = self.needed(top) {
                    self.group[top as usize] = OPEN;
                    stack.push(holder);
                } else {
                    self.resolve(top);
                    stack.pop();
                }
            }
        }
    }

    /// The container that must be named first. One that is being named is part of a circle: then its kind does.
    fn needed(&self, object: ObjectId) -> Option<ObjectId> {
        let chosen = self.chosen[object as usize];
        let resolved = self.group[object as usize] < OPEN;
        let waits = !resolved && self.builds_on(chosen);
        (waits && self.group[chosen.holder as usize] == UNRESOLVED && chosen.holder != object)
            .then_some(chosen.holder)
    }

    fn builds_on(&self, chosen: Chosen) -> bool {
        match chosen.rank {
            Rank::Through => true,
            Rank::Key | Rank::Item | Rank::Member => {
                matches!(self.namer.space(chosen.holder), Space::Container(_))
            }
            _ => false,
        }
    }

    fn resolve(&mut self, object: ObjectId) {
        if self.group[object as usize] < OPEN {
            return;
        }
        self.group[object as usize] = match self.place(self.chosen[object as usize]) {
            Placed::Same(group) => group,
            Placed::Key(key) => self.number(key),
        };
    }

    fn number(&mut self, key: Key) -> u32 {
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
            let depth = if let Base::Group(base) = key.base { self.depth[base as usize] + 1 } else { 0 };
            self.depth.push(depth);
        }
        number
    }

    fn place(&self, chosen: Chosen) -> Placed {
        match chosen.rank {
            Rank::Nothing => Placed::Key(Key { base: Base::Nothing, step: Step::Itself }),
            Rank::Frame | Rank::Root => {
                let base = Base::Root(self.namer.roots[chosen.holder as usize]);
                Placed::Key(Key { base, step: Step::Itself })
            }
            _ => self.place_edge(chosen.holder, chosen.label),
        }
    }

    fn place_edge(&self, holder: ObjectId, label: Label) -> Placed {
        let namer = self.namer;
        let kind = |step| Placed::Key(Key { base: Base::Kind(namer.kind(holder)), step });
        match label.part() {
            None | Some(Part::Unnamed) => kind(Step::Unnamed),
            Some(Part::Special(Special::Base | Special::Storage | Special::Shared)) => {
                let group = self.group[holder as usize];
                if group < OPEN { Placed::Same(group) } else { kind(Step::Unnamed) }
            }
            Some(Part::Special(special)) => kind(Step::Link(special)),
            Some(part) => self.place_named(holder, part),
        }
    }

    fn place_named(&self, holder: ObjectId, part: Part) -> Placed {
        let base = match self.namer.space(holder) {
            Space::Instance(kind) => Base::Kind(kind),
            Space::Class(kind) => Base::Class(kind),
            Space::Module(module) => Base::Module(module),
            Space::Container(nature) => return self.place_item(holder, nature, part),
        };
        let step = match part {
            Part::Attribute(name) | Part::Key(name) | Part::Local(name) => Step::Name(name),
            Part::Member => Step::Member,
            _ => Step::Item,
        };
        Placed::Key(Key { base, step })
    }

    fn place_item(&self, holder: ObjectId, nature: Nature, part: Part) -> Placed {
        let items = self.namer.graph.edges.range(holder).len();
        let step = match part {
            // Keys are edges as well: two for each entry.
            Part::Attribute(name) | Part::Key(name) if items <= 2 * NAMED_KEYS => Step::Key(name),
            Part::Index(place) if nature == Nature::Tuple && items < NAMED_ITEMS => Step::Nth(place),
            Part::Member => Step::Member,
            _ => Step::Item,
        };
        let group = self.group[holder as usize];
        if group >= OPEN {
            return Placed::Key(Key { base: Base::Kind(self.namer.kind(holder)), step });
        }
        if let Some(key) = self.torch_child(group, part) {
            return Placed::Key(key);
        }
        if self.depth[group as usize] >= DEEPEST {
            return Placed::Same(group);
        }
        Placed::Key(Key { base: Base::Group(group), step })
    }

    /// `module._parameters['weight']` is known as `module.weight`.
    fn torch_child(&self, group: u32, part: Part) -> Option<Key> {
        let Key { base: Base::Kind(kind), step: Step::Name(name) } = self.keys[group as usize] else {
            return None;
        };
        let step = match part {
            Part::Key(child) => Step::Name(child),
            Part::Index(_) | Part::Position(_) => Step::Item,
            _ => return None,
        };
        self.namer.torch.contains(&name).then_some(Key { base: Base::Kind(kind), step })
    }

    /// Objects that have another name besides the one they are counted under.
    fn elsewhere(&self) -> Bits {
        let graph = self.namer.graph;
        let mut elsewhere = Bits::new(graph.len());
        for holder in 0..graph.len() as ObjectId {
            for edge in graph.edges.range(holder) {
                let (to, label) = (graph.edges.to[edge], graph.edges.label[edge]);
                if self.is_other(holder, label, to) {
                    elsewhere.set(to);
                }
            }
        }
        for (number, root) in graph.roots.iter().enumerate() {
            let chosen = self.chosen[root.object as usize];
            let same = matches!(chosen.rank, Rank::Frame | Rank::Root) && chosen.holder == number as u32;
            if root.holder == Holder::Frame && !same {
                elsewhere.set(root.object);
            }
        }
        elsewhere
    }

    fn is_other(&self, holder: ObjectId, label: Label, to: ObjectId) -> bool {
        let chosen = self.chosen[to as usize];
        let is_name = !matches!(label.part(), None | Some(Part::Unnamed | Part::Special(_)));
        if !is_name || (chosen.holder == holder && chosen.label == label) {
            return false;
        }
        let group = self.group[to as usize];
        match self.place_edge(holder, label) {
            Placed::Same(other) => other != group,
            Placed::Key(key) => self.keys[group as usize] != key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_part_of_a_name() {
        assert_eq!(without_line("train.py:33 step() batch"), "train.py step() batch");
        assert_eq!(without_line("a:b.py:33 step() x"), "a:b.py:33 step() x");
        assert_eq!(without_line("sys.modules"), "sys.modules");
        assert_eq!(without_line("train.py: step() x"), "train.py step() x");
        assert_eq!(without_line(":"), ":");
    }
}
