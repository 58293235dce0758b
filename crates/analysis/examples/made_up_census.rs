//! What the readings of a large census cost: a made-up heap of 3.4 million objects, or a snapshot, timed.
//!
//! ```console
//! $ cargo run --release -p nilometer-analysis --example made_up_census [MILLIONS | FILE.heap PATH]
//! ```

#![allow(clippy::print_stdout, clippy::expect_used)] // it prints, and nobody depends on it

use std::time::Instant;

use nilometer_analysis::heap::model::By;
use nilometer_analysis::heap::{Filter, Grouping, Heap, diff, since};
use nilometer_trace::heap::{
    Graph, GraphBuilder, Holder, KindId, NameId, Nature, ObjectId, Part, Special, decode, encode,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [file, path] = words.as_slice() {
        let bytes = std::fs::read(file).expect("readable");
        let graph = timed("decode", || decode(&bytes).expect("sound"));
        return costs(&graph, &graph, path);
    }
    let millions: f64 = words.first().and_then(|it| it.parse().ok()).unwrap_or(3.4);
    let nodes = (millions * 1e6 / OBJECTS_PER_NODE) as u32;
    let graph = timed("make", || made(nodes));
    costs(&graph, &made(nodes + nodes / 100), "__main__.nodes");
}

fn costs(graph: &Graph, later: &Graph, path: &str) {
    println!("{} objects, {} edges", graph.len(), graph.edges.to.len());
    timed("check", || graph.check().expect("sound"));
    let bytes = timed("encode", || encode(graph));
    println!("{:>9.1} MB", bytes.len() as f64 / 1e6);
    let back = timed("decode", || decode(&bytes).expect("sound"));
    assert!(back == *graph);
    drop(back);
    readings(graph, later, path);
    peak();
}

fn readings(graph: &Graph, later: &Graph, path: &str) {
    let heap = Heap::new(graph);
    timed("summary", || heap.summary());
    let all = timed("all", || heap.all());
    for by in [By::Kind, By::Type, By::Module, By::Size, By::Owner, By::Attribute] {
        let grouping = Grouping { by, top: Some(10), ..Grouping::default() };
        let table = timed(&format!("by {by:?}"), || heap.table(&all, grouping).expect("labelled"));
        println!("{:>9} rows, first {}", table.rows_total, table.rows[0].kind);
    }
    timed("retained (dominators)", || heap.retainers(&heap.find("__main__").expect("there"), 1));
    timed("retainers", || heap.retainers(&all, 10));
    let array = heap.find(path).expect("there");
    timed("paths", || heap.paths(&array, 5).expect("labelled"));
    timed("paths again", || heap.paths(&array, 5).expect("labelled"));
    timed("of", || heap.of(path).expect("there"));
    timed("arrays", || heap.arrays(&all, 50));
    timed("cycles", || heap.cycles(10));
    timed("filter", || {
        heap.select(heap.all(), &Filter { kind: Some("ndarray".into()), min_bytes: 100, ..Filter::default() })
    })
    .expect("labelled");
    let after = Heap::new(later);
    timed("since", || since(&heap, &after));
    for by in [By::Kind, By::Attribute] {
        let grouping = Grouping { by, top: Some(10), ..Grouping::default() };
        let fresh = (Heap::new(graph), Heap::new(later));
        timed(&format!("diff by {by:?}"), || diff(&fresh.0, &fresh.1, grouping).expect("labelled"));
    }
}

/// Wall and processor time: the machine may be busy.
fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), cpu_ms());
    let result = run();
    let (wall, cpu) = (start.elapsed().as_secs_f64() * 1e3, cpu_ms() - before);
    println!("{wall:>9.1} ms wall {cpu:>9.1} ms cpu  {what}");
    result
}

fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

fn peak() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{line}");
}

/// About.
const OBJECTS_PER_NODE: f64 = 30.0;

struct Maker {
    builder: GraphBuilder,
    kinds: [KindId; 11],
    /// Next free address and end of the pool of each size class.
    pools: Vec<(u64, u64)>,
    next_pool: u64,
    state: u64,
    none: ObjectId,
    keys: Vec<ObjectId>,
}

const POOL_BYTES: u64 = 16 << 10;
const NAMES: [&str; 8] = ["c", "h", "label", "floats", "pairs", "far", "parent", "child"];

/// For each of `nodes`: an instance with its dict, arrays, a string, a list of numpy floats, pairs of ints. Objects lie
/// in pools by size as the interpreter puts them, so neighbours in memory are not neighbours in the graph.
fn made(nodes: u32) -> Graph {
    let mut builder = GraphBuilder::default();
    let kinds = kinds(&mut builder);
    let mut it = Maker {
        builder,
        kinds,
        pools: vec![(0, 0); 64],
        next_pool: 0x7f00_0000_0000,
        state: 1,
        none: 0,
        keys: Vec::new(),
    };
    it.none = it.object(4, 16);
    it.keys = NAMES.iter().map(|_| it.object(4, 56)).collect();
    let modules = it.object(1, 900);
    it.builder.root(modules, Holder::Modules, "sys.modules");
    let globals = it.module(modules, "__main__");
    for module in 0..800 {
        it.library(modules, module);
    }
    let list = it.object(2, 8 * u64::from(nodes));
    it.builder.key(globals, list, "nodes");
    let class = it.object(8, 1_000);
    it.builder.key(globals, class, "Node");
    let mut before = None;
    for place in 0..nodes {
        let node = it.node(list, place, class);
        it.link(node, before.filter(|_| place % 4 == 0));
        before = Some(node);
    }
    it.builder.finish()
}

fn kinds(builder: &mut GraphBuilder) -> [KindId; 11] {
    [
        builder.kind("module", "builtins", Nature::Module),
        builder.kind("dict", "builtins", Nature::Dict),
        builder.kind("list", "builtins", Nature::List),
        builder.kind("tuple", "builtins", Nature::Tuple),
        builder.kind("str", "builtins", Nature::Str),
        builder.kind("int", "builtins", Nature::Int),
        builder.kind("numpy.float64", "numpy", Nature::Float),
        builder.kind("numpy.ndarray", "numpy", Nature::Array),
        builder.kind("type", "builtins", Nature::Type),
        builder.kind("__main__.Node", "__main__", Nature::Instance),
        builder.kind("function", "builtins", Nature::Function),
    ]
}

impl Maker {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.state >> 33) % below
    }

    fn object(&mut self, kind: usize, bytes: u64) -> ObjectId {
        let size = bytes.next_multiple_of(16).min(512);
        let pool = &mut self.pools[(size / 16) as usize];
        if pool.0 + size > pool.1 {
            *pool = (self.next_pool, self.next_pool + POOL_BYTES);
            self.next_pool += POOL_BYTES;
        }
        pool.0 += size;
        let address = pool.0 - size;
        self.builder.object(address, self.kinds[kind], bytes)
    }

    fn module(&mut self, table: ObjectId, name: &str) -> ObjectId {
        let module = self.object(0, 72);
        self.builder.key(table, module, name);
        let dict = self.object(1, 4_000);
        self.builder.edge(module, dict, Part::Special(Special::Dict));
        dict
    }

    fn library(&mut self, table: ObjectId, number: u32) {
        let dict = self.module(table, &format!("library_{number}"));
        for place in 0..40 {
            let function = self.object(10, 160);
            self.builder.key(dict, function, &format!("function_{place}"));
            self.builder.attribute(function, dict, "__globals__");
            let code = self.object(4, 300);
            self.builder.attribute(function, code, "__code__");
            self.builder.edge(dict, self.keys[place % 8], Part::Member);
        }
    }

    /// A value under one of the few names, which is held by every dict that has it.
    fn entry(&mut self, dict: ObjectId, value: ObjectId, name: usize) {
        let id: NameId = self.builder.name(NAMES[name]);
        self.builder.edge(dict, value, Part::Key(id));
        self.builder.edge(dict, self.keys[name], Part::Member);
    }

    fn node(&mut self, list: ObjectId, place: u32, class: ObjectId) -> ObjectId {
        let node = self.object(9, 48);
        self.builder.edge(list, node, Part::Index(place));
        self.builder.edge(node, class, Part::Special(Special::Type));
        let dict = self.object(1, 104);
        self.builder.edge(node, dict, Part::Special(Special::Dict));
        for name in 0..=self.random(2) as usize {
            let array = self.array();
            self.entry(dict, array, name);
        }
        let text = self.object(4, 56 + self.state % 40);
        self.entry(dict, text, 2);
        let floats = self.object(2, 150);
        self.entry(dict, floats, 3);
        for place in 0..12 {
            let float = self.object(6, 32);
            self.builder.edge(floats, float, Part::Index(place));
        }
        self.pairs(dict, node);
        node
    }

    fn pairs(&mut self, dict: ObjectId, node: ObjectId) {
        let pairs = self.object(2, 200);
        self.entry(dict, pairs, 4);
        for place in 0..5 {
            let pair = self.object(3, 56);
            self.builder.edge(pairs, pair, Part::Index(place));
            let number = self.object(5, 32);
            self.builder.edge(pair, number, Part::Index(0));
            self.builder.edge(pair, self.none, Part::Index(1));
        }
        let far = self.random(u64::from(node)) as ObjectId;
        self.entry(dict, far, 5);
    }

    fn array(&mut self) -> ObjectId {
        let array = self.object(7, 112);
        let elements = 10 + self.random(200);
        self.builder.payload(array, 0x7e00_0000_0000 + u64::from(array) * 4096, elements * 8);
        self.builder.extent(array, "float64", &[elements]);
        array
    }

    /// Some nodes know each other.
    fn link(&mut self, node: ObjectId, before: Option<ObjectId>) {
        if let Some(before) = before {
            self.builder.attribute(node, before, "parent");
            self.builder.attribute(before, node, "child");
        }
    }
}
