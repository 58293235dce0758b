//! The census: every object of an image, what it refers to, how large it is.
//!
//! Pools first, because they need no list and no symbol; the collector's lists second, for large containers; then
//! whatever any of these refers to. The invariant: the result passes `Graph::check`.

pub(crate) mod closure;
pub(crate) mod heap;
pub(crate) mod inspect;
mod order;
mod quality;

use std::cell::RefCell;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use nilometer_image::{Image, merged};
use nilometer_trace::heap::{Graph, Origin};

use crate::footprint::Footprint;
use crate::holding::{self, Holding};
use crate::locate::Python;
use crate::reference::Context;
use crate::root::Roots;
use crate::{classify, collector, idle, optimizer, stack};
use closure::Closure;
use heap::Heap;
pub use quality::Mismatch;

/// How much is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CensusOptions {
    pub detail: Detail,
    /// Tell keys of dicts that are no names.
    pub with_values: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// Objects, sizes and buffers; no references, and no check of them.
    Places,
    /// Objects, sizes and references without names.
    Counts,
    /// And through what each reference goes.
    #[default]
    Graph,
}

/// Where the time of a census went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    pub pools: Duration,
    pub classify: Duration,
    pub lists: Duration,
    pub roots: Duration,
    pub closure: Duration,
    pub order: Duration,
    pub check: Duration,
}

/// Takes the census of an image. `origin` knows the interpreter and its limits; who copied, when and how is for the
/// caller to add.
pub fn census(python: &Python, image: &Image, options: &CensusOptions) -> Graph {
    census_timed(python, image, options).0
}

/// The same, and where the time went.
pub fn census_timed(python: &Python, image: &Image, options: &CensusOptions) -> (Graph, Timings) {
    let (graph, _, timings) = take(python, image, *options, &mut None);
    (graph, timings)
}

/// The same, and where in memory the interpreter keeps it all.
pub fn census_with_footprint(python: &Python, image: &Image, options: &CensusOptions) -> (Graph, Footprint) {
    let mut beside = Some(Beside::default());
    let mut of_pools = Footprint::default();
    let (graph, ..) = thread::scope(|scope| {
        scope.spawn(|| of_pools = Footprint::of_pools(python, image));
        take(python, image, *options, &mut beside)
    });
    let Beside { outside, idle, optimizer_tensors, holdings } = beside.unwrap_or_default();
    (graph, Footprint { large: merged(outside), idle, optimizer_tensors, holdings, ..of_pools })
}

/// The kinds whose reference counts the census does not explain: where a layout is wrong, it shows here.
pub fn mismatches(python: &Python, image: &Image) -> Vec<Mismatch> {
    let (graph, references, _) = take(python, image, CensusOptions::default(), &mut None);
    quality::mismatches(&graph, &references)
}

/// What a footprint needs besides the graph.
#[derive(Debug, Default)]
struct Beside {
    /// Blocks outside of the pools.
    outside: Vec<Range<u64>>,
    idle: Vec<Range<u64>>,
    optimizer_tensors: Vec<u64>,
    holdings: Vec<Holding>,
}

impl Beside {
    /// Asked for when all objects are known.
    fn find(heap: &mut Heap<'_>, closure: &Closure, context: &mut Context, python: &Python) -> Self {
        let blocks = context.outside.take().map(RefCell::into_inner).unwrap_or_default();
        Self {
            outside: with_objects(heap, blocks),
            idle: idle::blocks(heap, python.version),
            optimizer_tensors: optimizer::state_tensors(heap, context),
            holdings: if context.linked { holding::holdings(heap, closure) } else { Vec::new() },
        }
    }
}

/// `beside` is filled where it is wanted.
fn take(
    python: &Python,
    image: &Image,
    options: CensusOptions,
    beside: &mut Option<Beside>,
) -> (Graph, Vec<u32>, Timings) {
    let mut clock = Clock { last: Instant::now() };
    let mut timings = Timings::default();
    let mut heap = Heap::new(image, &python.layout, python.type_type);
    timings.pools = clock.lap();
    let (pools, mut listed) = (heap.pools.clone(), collector::Listed::default());
    let tally = thread::scope(|scope| {
        scope.spawn(|| listed = collector::follow(python, image, &pools));
        classify::classify(&mut heap)
    });
    timings.classify = clock.lap();
    collector::add(&mut heap, &listed);
    timings.lists = clock.lap();
    let mut context = Context::new(python, image, options.detail == Detail::Graph, heap.shift);
    context.linked = options.detail != Detail::Places;
    context.outside = beside.as_ref().map(|_| RefCell::default());
    heap.types.names.with_values = options.with_values;
    let mut roots = Roots::find(&mut heap, python, &mut context);
    timings.roots = clock.lap();
    let closure = Closure::run(&mut heap, python, &mut context);
    roots.drop_inner(&heap);
    timings.closure = clock.lap();
    if let Some(beside) = beside {
        *beside = Beside::find(&mut heap, &closure, &mut context, python);
    }
    let dangling = closure.dangling;
    let (mut graph, roots) = order::graph(heap, closure, &roots);
    graph.origin = origin(python, image, std::mem::take(&mut graph.origin));
    timings.order = clock.lap();
    if options.detail == Detail::Places {
        return (graph, Vec::new(), timings);
    }
    let references = quality::count_references(&mut graph, roots);
    graph.quality = quality::check(&mut graph, &references, tally, dangling);
    graph.threads = stack::threads(python, image);
    timings.check = clock.lap();
    (graph, references, timings)
}

/// The blocks outside of the pools, and the objects there.
fn with_objects(heap: &Heap<'_>, mut blocks: Vec<Range<u64>>) -> Vec<Range<u64>> {
    for number in heap.in_pools..heap.len() {
        let before = u64::from(heap.types.get(heap.type_of[number]).before) + u64::from(heap.shift);
        let start = heap.address[number].saturating_sub(before);
        let end = heap.address[number].saturating_add(heap.bytes_outside(number));
        blocks.push(start..end);
    }
    blocks
}

fn origin(python: &Python, image: &Image, found: Origin) -> Origin {
    Origin {
        python: python.version.to_string(),
        interpreters: python.interpreters.len() as u32,
        copied_bytes: image.copied_bytes(),
        limits: python.limits.iter().cloned().chain(found.limits).collect(),
        ..Origin::default()
    }
}

struct Clock {
    last: Instant,
}

impl Clock {
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.last;
        self.last = now;
        lap
    }
}
