//! Graphs for tests.

use nilometer_trace::heap::{
    Edges, Graph, GraphBuilder, Holder, Kind, KindId, Label, Nature, ObjectId, Objects, Part, Root, Special,
};

use crate::random::Random;

/// Nodes of one kind, edges between any, labels of every sort, one root in eight objects.
pub(super) fn random(objects: usize, edges: usize, seed: u64) -> Graph {
    let pairs: Vec<(u32, u32)> = {
        let mut random = Random::new(seed);
        let mut any = || random.below(objects) as u32;
        (0..edges).map(|_| (any(), any())).collect()
    };
    let roots: Vec<u32> = (0..objects as u32).step_by(8).collect();
    from_pairs(objects, &pairs, &roots)
}

/// Object `i` has 16 bytes and lies at `0x1000 + 16 i`; labels follow from the place of the edge.
pub(super) fn from_pairs(objects: usize, pairs: &[(u32, u32)], roots: &[u32]) -> Graph {
    let mut sorted: Vec<(u32, u32)> = pairs.to_vec();
    sorted.sort_unstable();
    let mut start = vec![0u32; objects + 1];
    for pair in &sorted {
        start[pair.0 as usize + 1] += 1;
    }
    (1..=objects).for_each(|at| start[at] += start[at - 1]);
    let kind = |name: &str, nature| Kind { name: name.into(), module: "builtins".into(), nature };
    Graph {
        kinds: vec![kind("list", Nature::List), kind("dict", Nature::Dict), kind("Node", Nature::Instance)],
        names: vec!["a".into(), "b".into(), "a b".into()],
        objects: Objects {
            address: (0..objects as u64).map(|at| 0x1000 + 16 * at).collect(),
            kind: (0..objects as KindId).map(|at| at % 3).collect(),
            bytes: vec![16; objects],
            refcount: vec![1; objects],
        },
        edges: Edges {
            start,
            to: sorted.iter().map(|pair| pair.1).collect(),
            label: (0..sorted.len()).map(label).collect(),
        },
        roots: roots.iter().map(|object| root(*object)).collect(),
        ..Graph::default()
    }
}

fn root(object: ObjectId) -> Root {
    let holder = match object % 3 {
        0 => Holder::Frame,
        1 => Holder::Interpreter,
        _ => Holder::Native,
    };
    Root { object, holder, name: format!("root {object}") }
}

fn label(place: usize) -> Label {
    let number = place as u32;
    Label::new(match place % 8 {
        0 => Part::Unnamed,
        1 => Part::Attribute(number % 3),
        2 => Part::Key(number % 3),
        3 => Part::Index(number),
        4 => Part::Position(number),
        5 => Part::Member,
        6 => Part::Local(number % 3),
        _ => Part::Special([Special::Dict, Special::Base, Special::Type][place / 8 % 3]),
    })
}

/// Makes objects at increasing addresses.
#[derive(Debug)]
struct Teller {
    builder: GraphBuilder,
    next: u64,
}

impl Teller {
    fn object(&mut self, name: &str, module: &str, nature: Nature, bytes: u64) -> ObjectId {
        let kind = self.builder.kind(name, module, nature);
        self.next += 0x100;
        self.builder.object(self.next, kind, bytes)
    }

    fn dict(&mut self, bytes: u64) -> ObjectId {
        self.object("dict", "builtins", Nature::Dict, bytes)
    }

    /// A dict that is the own one of `owner`.
    fn dict_of(&mut self, owner: ObjectId, bytes: u64) -> ObjectId {
        let dict = self.dict(bytes);
        self.builder.edge(owner, dict, Part::Special(Special::Dict));
        dict
    }

    fn module(&mut self, table: ObjectId, name: &str) -> ObjectId {
        let module = self.object("module", "builtins", Nature::Module, 72);
        self.builder.key(table, module, name);
        self.dict_of(module, 240)
    }

    fn array(&mut self, elements: u64) -> ObjectId {
        let array = self.object("numpy.ndarray", "numpy", Nature::Array, 112);
        self.builder.extent(array, "float64", &[elements]);
        self.builder.payload(array, 0x7000_0000 + self.next, elements * 8);
        array
    }
}

/// The `TreeLSTM` of the leak hunt, small: a module `train` with a list of nodes whose attributes are arrays, a model with torch
/// tensors, a frame, a notebook, and a circle that nobody holds. Numbers are chosen to be told apart.
pub(super) fn story() -> Graph {
    let mut it = Teller { builder: GraphBuilder::default(), next: 0x7f00_0000_0000 };
    let table = it.dict(1000);
    it.builder.root(table, Holder::Modules, "sys.modules");
    let main = it.module(table, "__main__");
    let train = it.module(table, "train");
    nodes(&mut it, train);
    globals(&mut it, train);
    torch(&mut it, main);
    notebook(&mut it, main);
    garbage(&mut it);
    it.builder.finish()
}

/// A function and a running frame know the module's dict; neither is a way to name what is in it.
fn globals(it: &mut Teller, train: ObjectId) {
    let function = it.object("function", "builtins", Nature::Function, 136);
    it.builder.key(train, function, "step");
    it.builder.attribute(function, train, "__globals__");
    it.builder.root(train, Holder::Frame, "train.py:33 step().__globals__");
}

/// `train.cache['history']` is a list of three nodes with arrays `c` (100 elements) and `h` (10); `h` of all is one.
fn nodes(it: &mut Teller, train: ObjectId) {
    let cache = it.dict(232);
    it.builder.key(train, cache, "cache");
    let list = it.object("list", "builtins", Nature::List, 88);
    it.builder.key(cache, list, "history");
    let shared = it.array(10);
    for place in 0..3 {
        let node = it.object("train.Node", "train", Nature::Instance, 48);
        it.builder.edge(list, node, Part::Index(place));
        let dict = it.dict_of(node, 104);
        let array = it.array(100);
        it.builder.key(dict, array, "c");
        it.builder.key(dict, shared, "h");
        if place == 0 {
            it.builder.root(node, Holder::Frame, "train.py:33 step() node");
        }
    }
}

/// `model.layers[0].weight`, a view of the same storage as local `w`, and a storage that only C++ holds.
fn torch(it: &mut Teller, main: ObjectId) {
    let model = it.object("__main__.Net", "__main__", Nature::Instance, 48);
    it.builder.key(main, model, "model");
    let layers = nn_module(it, model, "layers");
    let linear = nn_module(it, layers, "0");
    let no_children = it.dict(64);
    it.builder.attribute(linear, no_children, "_modules");
    let dict = it.dict(232);
    it.builder.attribute(linear, dict, "_parameters");
    let weight = it.object("torch.nn.Parameter", "torch.nn", Nature::Tensor, 80);
    it.builder.key(dict, weight, "weight");
    let storage = it.object("c10::StorageImpl", "", Nature::Storage, 104);
    it.builder.payload(storage, 0x9000_0000, 4096);
    let view = it.object("torch.Tensor", "torch", Nature::Tensor, 80);
    it.builder.root(view, Holder::Frame, "train.py:40 loop() w");
    for tensor in [weight, view] {
        it.builder.edge(tensor, storage, Part::Special(Special::Storage));
        it.builder.extent(tensor, "float32", &[32, 32]);
    }
    let saved = it.object("c10::StorageImpl", "", Nature::Storage, 104);
    it.builder.payload(saved, 0xa000_0000, 8192);
    it.builder.root(saved, Holder::Native, "torch storage");
}

/// A torch module below another; the names of children are strings, digits among them.
fn nn_module(it: &mut Teller, parent: ObjectId, name: &str) -> ObjectId {
    let modules = it.dict(232);
    it.builder.attribute(parent, modules, "_modules");
    let parameters = it.dict(64);
    it.builder.attribute(parent, parameters, "_parameters");
    let module = it.object("torch.nn.Module", "torch.nn", Nature::Instance, 48);
    match name.parse() {
        Ok(position) => it.builder.edge(modules, module, Part::Position(position)),
        Err(_) => it.builder.key(modules, module, name),
    }
    module
}

/// `Out[17]` holds an array that nothing else holds.
fn notebook(it: &mut Teller, main: ObjectId) {
    let history = it.object("list", "builtins", Nature::List, 56);
    it.builder.key(main, history, "In");
    let out = it.dict(232);
    it.builder.key(main, out, "Out");
    let array = it.array(1000);
    it.builder.edge(out, array, Part::Index(17));
}

/// Two objects that hold each other and a string.
fn garbage(it: &mut Teller) {
    let one = it.object("train.Loop", "train", Nature::Instance, 48);
    let other = it.object("train.Loop", "train", Nature::Instance, 48);
    let text = it.object("str", "builtins", Nature::Str, 64);
    it.builder.attribute(one, other, "next");
    it.builder.attribute(other, one, "prev");
    it.builder.attribute(other, text, "label");
}
