//! The model of a run's allocations: what every view shows. Sizes are bytes, times are seconds since the target's start.
//!
//! Field names are the contract of `nilo report --view allocs --json` (schema in `crates/report/schema`): add, never
//! rename. Live, peak, cumulative and temporary bytes are different numbers and stay apart.

use std::sync::Arc;

use nilometer_trace::allocs::Source;
use serde::Serialize;

/// The allocations of a run, in the order and grouping that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Allocs {
    /// `sampled`, `all`, `deep`, or several where it was switched.
    pub mode: String,
    pub sampling: Option<Sampling>,
    /// What the rows are ordered by and what share is of.
    pub what: What,
    pub by: By,
    pub peak: Peak,
    pub live_end_bytes: u64,
    pub cumulative_bytes: u64,
    /// Blocks that were handed out.
    pub count: u64,
    pub temporary_bytes: u64,
    pub temporary_count: u64,
    /// Of all sites together; absent without two steps.
    pub growth_bytes_per_step: Option<f64>,
    pub steps: u64,
    /// The largest by `what`, `sites_seen` of them in all.
    pub sites: Vec<Site>,
    pub sites_seen: u64,
    /// Sites that are not listed, summed up.
    pub rest: Amounts,
    /// Grouped by line, function or library; empty where `by` is `stack`.
    pub rows: Vec<Row>,
    pub rows_seen: u64,
    /// What the memory is for, by rules over stacks and by what outlives its phase.
    pub by_category: Vec<Category>,
    /// How high memory rose in the phases of a training, turn by turn.
    pub phase_peaks: Vec<PhasePeak>,
    /// Turns of a training that the stacks tell.
    pub turns: u64,
    /// The steps at which `step_bytes` of categories are told.
    pub step_numbers: Vec<u64>,
    pub sizes: Vec<Bin>,
    pub lifetimes: Vec<Bin>,
    pub processes: Vec<Process>,
    /// Records that were read: allocations, frees, mappings, times.
    pub events: u64,
    /// The bytes in which the targets told them.
    pub raw_bytes: u64,
    /// Size of the event stream, where it was kept.
    pub event_bytes: Option<u64>,
    /// Events that happened and are not in these figures.
    pub lost_events: u64,
    /// Processes that could not report: nothing they did is in these figures.
    pub unheard_processes: u64,
    /// Memory that the tracker itself took in the target, at most.
    pub tracker_bytes: u64,
    /// What is doubtful, one sentence each.
    pub quality: Vec<String>,
    /// The stacks as one tree, outermost callers first; only of the terminal's view.
    #[serde(skip)]
    pub tree: Tree,
    /// What was live at the steps; only where it was asked for.
    #[serde(skip)]
    pub moments: Moments,
    /// Where the run is stored; set by whoever opened it.
    pub saved: Option<String>,
    pub command: String,
}

/// What was live at the steps of a run, stack by stack: what a view of a chosen stretch of time can tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moments {
    /// When most was live, by the run's own zero of time.
    pub peak_at_s: f64,
    /// The steps that were kept, evenly spaced, every `stride`-th.
    pub steps: Vec<StepLive>,
    pub stride: u64,
    /// The highest sum of live bytes of each stretch of time, and when.
    pub curve: Vec<(f64, u64)>,
    /// Live bytes at each of `steps`, by the index of a site; those that had nothing at any step are not here.
    pub series: Vec<(u32, Vec<u64>)>,
    /// The same of the sites that are not listed; empty where there was nothing.
    pub rest: Vec<u64>,
}

/// All that was live when a step began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepLive {
    pub step: u64,
    pub at_s: f64,
    /// Of all sites, also of those whose bytes at steps were not kept.
    pub live_bytes: u64,
}

/// How blocks were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sampling {
    /// One sample in so many bytes, on average.
    pub mean_bytes: u64,
    /// Blocks from this size on are all recorded.
    pub exact_bytes: u64,
}

/// Which figure is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Live at the moment when most was.
    #[default]
    Peak,
    /// Live when the recording ended.
    Live,
    /// Ever handed out.
    Cumulative,
    /// Freed soon after they were handed out.
    Temporary,
    /// More live with each step.
    Growth,
}

/// How stacks are put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    #[default]
    Stack,
    /// The innermost file and line.
    Line,
    Library,
    Function,
    /// What it was for.
    Category,
    /// The innermost line of the program's own Python code.
    Owner,
    /// Who handed it out.
    Type,
}

/// The moment when most was live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Peak {
    pub bytes: u64,
    pub at_s: f64,
    pub step: Option<u64>,
    /// With sampling the truth lies between these 95 times of 100; else both are `bytes`.
    pub low_bytes: u64,
    pub high_bytes: u64,
}

/// What one site, or several, stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Amounts {
    pub peak_bytes: u64,
    pub peak_count: u64,
    pub live_end_bytes: u64,
    pub live_end_count: u64,
    pub cumulative_bytes: u64,
    /// Blocks ever handed out.
    pub count: u64,
    pub temporary_bytes: u64,
    pub temporary_count: u64,
    /// More live per step; absent without two steps.
    pub growth_bytes_per_step: Option<f64>,
    /// The interval of the figure that was asked for; absent where it is exact.
    pub interval: Option<Interval>,
}

impl Amounts {
    /// One figure; growth may be negative.
    pub fn value(&self, what: What) -> f64 {
        match what {
            What::Peak => self.peak_bytes as f64,
            What::Live => self.live_end_bytes as f64,
            What::Cumulative => self.cumulative_bytes as f64,
            What::Temporary => self.temporary_bytes as f64,
            What::Growth => self.growth_bytes_per_step.unwrap_or(0.0),
        }
    }
}

/// Holds the truth 95 times of 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Interval {
    pub low_bytes: u64,
    pub high_bytes: u64,
}

/// One stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Site {
    /// Innermost frame first.
    pub stack: Vec<Arc<Frame>>,
    /// Outer frames are missing: the stack was deeper than is kept.
    pub cut: bool,
    pub allocator: Allocator,
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// Who handed the memory out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    #[default]
    Malloc,
    /// Python's own allocator of small objects.
    Python,
    /// The kernel, asked by the program itself.
    Mapping,
}

impl Allocator {
    pub fn words(self) -> &'static str {
        match self {
            Self::Malloc => "malloc and its kin",
            Self::Python => "Python's allocator of small objects",
            Self::Mapping => "mappings of its own",
        }
    }
}

impl From<Source> for Allocator {
    fn from(source: Source) -> Self {
        match source {
            Source::Heap => Self::Malloc,
            Source::Python => Self::Python,
            Source::Mapping => Self::Mapping,
        }
    }
}

/// A function on a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    pub function: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Library of native code, package of Python code.
    pub library: Option<String>,
    pub kind: FrameKind,
    pub inlined: bool,
}

impl Frame {
    /// Its name and place in a folded stack: semicolons separate frames there, and names lose theirs.
    pub fn folded(&self) -> String {
        let place = match (&self.file, self.line, &self.library) {
            _ if self.kind == FrameKind::Note => String::new(),
            (Some(file), Some(line), _) => format!(" ({file}:{line})"),
            (_, _, Some(library)) => format!(" [{library}]"),
            _ => String::new(),
        };
        format!("{}{place}", self.function).replace(';', ",")
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameKind {
    Python,
    #[default]
    Native,
    /// Not a function: what is not known or was left out.
    Note,
}

/// A line, function or library.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    /// For a line its function, for a function where it is.
    pub detail: Option<String>,
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// What memory is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Category {
    pub category: String,
    /// At the peak of the whole; the categories add up to it.
    pub peak_bytes: u64,
    pub live_end_bytes: u64,
    /// At most when the phase of their birth had ended: all gradients, though they may never live beside all activations.
    pub kept_bytes: u64,
    pub cumulative_bytes: u64,
    pub confidence: Confidence,
    /// What speaks for it besides stacks and phases.
    pub evidence: Option<String>,
    /// By layer or operator, where the stack tells it.
    pub layers: Vec<Layer>,
    /// Live at each of `step_numbers`; empty where nothing was.
    pub step_bytes: Vec<u64>,
}

/// A part of a category.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Layer {
    pub layer: String,
    pub peak_bytes: u64,
    pub kept_bytes: u64,
}

/// How sure a category is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// A guess from what it is not.
    #[default]
    Low,
    /// By its stack, or the sizes do not agree.
    Medium,
    /// By its stack and its phase; where sizes can be compared they agree.
    High,
}

/// The highest sum of live bytes during one phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PhasePeak {
    pub turn: u64,
    pub phase: String,
    pub peak_bytes: u64,
}

/// Blocks whose size or lifetime lies from `from` up to `to`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Bin {
    /// Bytes, or nanoseconds of life.
    pub from: u64,
    pub to: Option<u64>,
    pub count: u64,
    pub bytes: u64,
}

/// One process image of the tree.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Process {
    pub pid: i32,
    pub parent: Option<i32>,
    pub peak_bytes: u64,
    pub live_end_bytes: u64,
    pub count: u64,
    pub lost_events: u64,
    /// `3.12`; absent without an interpreter.
    pub python: Option<String>,
}

/// Stacks that share their outer frames share a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

/// A frame and all that was allocated in it and below. Node 0 is the root and has no frame.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    pub frame: Arc<Frame>,
    /// The figure that was asked for; growth may be negative.
    pub value: f64,
    /// Absent where the figure is exact.
    pub interval: Option<Interval>,
    pub count: u64,
    /// Of the stacks that end here.
    pub own: f64,
    /// Those that are shown, largest first.
    pub children: Vec<u32>,
    /// Those that are not.
    pub hidden: u64,
    pub hidden_value: f64,
}
