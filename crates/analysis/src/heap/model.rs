//! The models of a heap census: what `report` shows and `nilo heap --json` prints.
//!
//! Sizes are bytes. `bytes` is what objects occupy in the allocator, `payload_bytes` the buffers they own, each
//! counted once; the two are never added silently: where a sum is meant the field says `total`.
//! Field names are a contract: add, never rename.

use serde::Serialize;

/// The head of every reading: what was looked at, how, and how far it can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Version of the interpreter: `3.11.7`.
    pub python: String,
    pub pid: Option<i32>,
    pub command: String,
    pub source: Source,
    /// Nanoseconds since 1970.
    pub taken_realtime_ns: u64,
    /// Python objects; native storages are not counted.
    pub objects: u64,
    pub bytes: u64,
    pub payload_bytes: u64,
    /// Absent where it is not known for all of the payload.
    pub resident_payload_bytes: Option<u64>,
    /// The payload by where it lives, largest first.
    pub payload_by_backing: Vec<BackingSum>,
    /// Storages that only C++ holds.
    pub native_only: Sum,
    pub edges: u64,
    pub kinds: u64,
    pub interpreters: u32,
    pub pause_ms: f64,
    pub pause_mode: PauseMode,
    pub threads: u32,
    pub copied_bytes: u64,
    pub excluded_bytes: u64,
    pub rss_bytes: Option<u64>,
    /// Something is missing; `partial_reasons` say what.
    pub partial: bool,
    pub partial_reasons: Vec<String>,
    pub limits: Vec<String>,
    pub quality: Quality,
    /// Edges are labelled: attributes and paths can be told.
    pub labelled: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    #[default]
    Live,
    Core,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseMode {
    #[default]
    Copy,
    Fork,
    Off,
    Dead,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Quality {
    /// Share of mortal objects whose reference count equals the references found; absent when none was checked.
    pub refcount_exact_share: Option<f64>,
    pub refcount_checked: u64,
    /// Objects that no root reaches.
    pub unreached: u64,
    pub dangling: u64,
    pub pools: u64,
    pub pools_rejected: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackingSum {
    /// `memory`, `file`, `shared`, `device`.
    pub backing: &'static str,
    pub bytes: u64,
    pub resident_bytes: Option<u64>,
}

/// How many objects, and what they occupy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub count: u64,
    pub bytes: u64,
    pub payload_bytes: u64,
    /// Absent where it is not known for all of the payload; 0 without payload.
    pub resident_payload_bytes: Option<u64>,
}

/// By what objects are grouped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Type, and for dicts whose they are: `dict of Node`.
    #[default]
    Kind,
    /// Plain type, as muppy groups.
    Type,
    /// Module that defines the type.
    Module,
    /// Powers of two of header and payload together.
    Size,
    /// The kinds that hold it: `held by list, dict of Node`.
    Owner,
    /// The attribute that holds it: `Node.c`, `Model.history[…]`.
    Attribute,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Header and payload together, largest first.
    #[default]
    Total,
    Bytes,
    Payload,
    Count,
    Name,
}

/// A census or a set of its objects, grouped.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    pub by: By,
    pub order: Order,
    /// What the rows are a partition of; shares are of this.
    pub total: Sum,
    pub rows: Vec<Row>,
    /// Rows in all, listed or not.
    pub rows_total: u64,
    /// The rows that are not listed, together.
    pub rest: Sum,
    /// What the set is, in words: filters and drilled rows. Empty for the whole heap.
    pub selection: Vec<String>,
    /// How something held by several is counted; for `Attribute` and `Owner`.
    pub rule: Option<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Place in the table from 0, as `--row` takes it.
    pub row: usize,
    /// The name of the group, whatever the grouping.
    pub kind: String,
    pub count: u64,
    pub bytes: u64,
    pub payload_bytes: u64,
    pub resident_payload_bytes: Option<u64>,
    pub count_share: f64,
    /// Of header and payload together.
    pub share: f64,
    /// Header and payload of this row and all above it.
    pub cumulative_bytes: u64,
    pub cumulative_share: f64,
    /// Objects of this row that others hold as well under another name; for `Attribute`.
    pub also_elsewhere: Option<u64>,
}

/// One object.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Item {
    /// `0x7f12…`, as `id()` gives it.
    pub address: String,
    /// `dict of Node`, as in tables by kind.
    pub kind: String,
    pub bytes: u64,
    pub payload_bytes: u64,
    /// Absent for immortal objects.
    pub refcount: Option<u32>,
    /// Elements and their type where it is an array: 1,048,576 of `float32`.
    pub elements: Option<u64>,
    pub element: Option<String>,
    pub shape: Vec<u64>,
}

/// How an object is held, from a root down to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Path {
    /// Ready to print, and understood by `--of`: `train.cache['history'][3].c`.
    pub text: String,
    pub anchor: Anchor,
    pub segments: Vec<Segment>,
}

/// Where a path begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    #[default]
    Module,
    /// A local or temporary of a running frame.
    Frame,
    /// What a notebook keeps: `Out[17]`, `_`, `In`.
    Notebook,
    /// `sys.last_traceback` and the like.
    LastError,
    Interpreter,
    StaticType,
    /// Only C or C++ holds it.
    Native,
    /// No root reaches it.
    Nothing,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Segment {
    /// As it is added to the text: `train`, `.cache`, `['history']`, `[3]`.
    pub text: String,
    /// What is reached by it.
    pub kind: String,
    pub address: String,
    pub bytes: u64,
    pub payload_bytes: u64,
}

/// Who holds an object, shortest first, different in root or holder.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Paths {
    pub object: Item,
    pub retained: Sum,
    pub paths: Vec<Path>,
    /// There are more than those listed.
    pub more: bool,
    /// References to it in all.
    pub referrers_total: u64,
    /// Of what set the object is an example: that many were in it.
    pub of_objects: u64,
}

/// What a set of objects refers to, or what refers to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Links {
    pub direction: Direction,
    /// The objects asked about.
    pub of: Sum,
    /// The linked objects, each once, grouped.
    pub table: Table,
    pub links: Vec<Link>,
    /// Links that are not listed.
    pub more: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    #[default]
    Referrers,
    Referents,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Link {
    /// Through what: `.c`, `['a']`, `[3]`, `type of`; empty where nobody names it.
    pub label: String,
    /// The other end.
    pub item: Item,
    /// Shortest path to the other end, where a root reaches it.
    pub path: Option<String>,
}

/// Objects that hold each other in a circle.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cycles {
    pub cycles: Vec<Cycle>,
    pub cycles_total: u64,
    /// All circles together.
    pub total: Sum,
    /// Those that no root reaches: garbage that waits for the collector.
    pub unreachable: Sum,
    pub unreachable_cycles: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cycle {
    /// The circle itself.
    pub own: Sum,
    /// What would go with it, itself included: at least this much.
    pub retained: Sum,
    pub unreachable: bool,
    /// Its most frequent kinds.
    pub kinds: Vec<KindCount>,
    /// One shortest way round: `Node.children[0].parent`.
    pub example: String,
    /// Shortest path to one of its members.
    pub path: Option<String>,
    pub address: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KindCount {
    pub kind: String,
    pub count: u64,
}

/// What a path written by the user reaches.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Of {
    pub path: String,
    pub object: Item,
    /// All that is reachable from it, each object once (modules, types and code that others share included).
    pub deep: Sum,
    /// The same without modules, classes, functions, code and running frames: what `asizeof` means.
    pub own: Sum,
    /// What would go with it.
    pub retained: Sum,
    /// Arrays and tensors within `own`.
    pub arrays: ArrayTotals,
    /// `own` by kind.
    pub table: Table,
}

/// Elements and buffers of a set of arrays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ArrayTotals {
    pub arrays: u64,
    /// Counted for each array and view that spans them.
    pub nominal_elements: u64,
    pub nominal_bytes: u64,
    /// Each buffer once.
    pub unique_elements: u64,
    pub unique_bytes: u64,
    pub buffers: u64,
    /// Arrays whose extent is not known; their buffer's size was taken.
    pub unsized_arrays: u64,
}

/// Arrays and tensors, largest buffer first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Arrays {
    pub arrays: Vec<Array>,
    /// Not listed.
    pub more: u64,
    pub total: ArrayTotals,
    /// Buffers that only C++ holds.
    pub native_only: Sum,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Array {
    pub item: Item,
    /// `model.layers[3].weight`; absent where no root reaches it.
    pub path: Option<String>,
    /// What it spans by its own account.
    pub nominal_bytes: u64,
    /// The buffer it lies in, and who else lies in it.
    pub buffer_bytes: u64,
    pub buffer_resident_bytes: Option<u64>,
    pub buffer_address: Option<String>,
    pub backing: Option<&'static str>,
    /// Arrays and tensors in the same buffer, itself included.
    pub sharers: u64,
    /// It does not own its buffer.
    pub view: bool,
}

/// Objects by what they keep alive.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Retainers {
    pub retainers: Vec<Retainer>,
    pub more: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Retainer {
    pub item: Item,
    pub retained: Sum,
    pub path: Option<String>,
}

/// Two censuses of one program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Diff {
    pub before: Summary,
    pub after: Summary,
    pub by: By,
    pub total: Change,
    /// Growth first.
    pub rows: Vec<ChangeRow>,
    pub rows_total: u64,
    pub rest: Change,
    /// Rows where nothing changed are not rows.
    pub unchanged_rows: u64,
    /// The two are of different processes: nothing can be told by address.
    pub different_processes: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChangeRow {
    pub row: usize,
    pub kind: String,
    #[serde(flatten)]
    pub change: Change,
}

/// `count`, `bytes`, `payload_bytes` are after minus before, and
/// `new - gone + resized + regrouped` gives the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    pub count: i64,
    pub bytes: i64,
    pub payload_bytes: i64,
    pub count_before: u64,
    pub count_after: u64,
    pub total_before: u64,
    pub total_after: u64,
    /// By address and kind, so "likely": an address may be used again.
    pub new: Sum,
    pub gone: Sum,
    /// The same address and kind with another size; `count` objects changed.
    pub resized: Delta,
    /// Same objects that are now in another row (held by another attribute).
    pub regrouped: Delta,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Delta {
    pub count: i64,
    pub bytes: i64,
    pub payload_bytes: i64,
}

/// A thread's Python stack, innermost frame first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stack {
    pub native_id: Option<u64>,
    pub name: Option<String>,
    pub holds_gil: Option<bool>,
    pub frames: Vec<Frame>,
    /// Why the list ends early, if it does.
    pub cut: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Frame {
    pub file: String,
    pub function: String,
    pub line: Option<u32>,
}

/// Tables of a run over time: which kinds grow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Growths {
    pub tables: u64,
    pub first_s: f64,
    pub last_s: f64,
    /// The process they are of; tables of others are counted in `other_tables`.
    pub pid: i32,
    pub other_tables: u64,
    pub pause_ms_longest: f64,
    pub pause_ms_total: f64,
    /// Why tables are missing or thinned, one sentence each.
    pub notes: Vec<String>,
    /// Fastest growth first.
    pub kinds: Vec<KindGrowth>,
    pub kinds_omitted: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindGrowth {
    pub kind: String,
    pub first: Sum,
    pub last: Sum,
    /// The table with most bytes and payload together.
    pub max: Sum,
    /// Header and payload together.
    pub growth: crate::model::Growth,
}
