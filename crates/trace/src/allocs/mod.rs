//! What a tracked run keeps of its allocations: sites with their sums, the stacks they name, and how sure it is.
//!
//! Aggregated while recording, so its size does not grow with time. Numbers are as the recorder counted them:
//! bytes asked for, not pages. Not for: symbols of native frames (they stand beside, by module and address) and
//! judging what is a leak. The one invariant: every index in a [`Recording`] that was read names a row.

mod check;
mod file;
mod histogram;
pub mod stream;

use serde::{Deserialize, Serialize};

pub use check::Unsound;
pub use file::{ALLOCS_FILE, ALLOCS_VERSION, Error, read, read_about, write};
pub use histogram::{Bucket, Histogram};

/// Numbers of nodes that are no frames; see [`Recording::nodes`].
pub mod special {
    /// There is no stack.
    pub const NONE: u32 = 0;
    /// The tracker had no room for the stack.
    pub const DROPPED: u32 = 1;
    /// As a parent: the outer frames were cut off at the depth limit.
    pub const CUT: u32 = 2;
    /// The recorder kept the sum of several sites, without their stacks.
    pub const FOLDED: u32 = 3;
    /// The first frame.
    pub const FIRST: u32 = 4;
}

/// The allocations of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    pub about: About,
    pub processes: Vec<Process>,
    pub modules: Vec<Module>,
    pub codes: Vec<Code>,
    /// Frames with their callers. Node `special::FIRST + i` is `nodes[i]`; use [`Recording::node`].
    pub nodes: Vec<Node>,
    pub sites: Vec<Site>,
    /// Live bytes at the steps of `about.steps`, for the largest sites and those that changed most.
    pub series: Vec<Series>,
}

impl Recording {
    /// The frame of a number, and its caller's number; `None` for the special ones.
    pub fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number.checked_sub(special::FIRST)? as usize)
    }

    /// The frames of a stack, innermost first. Parents have smaller numbers, so this ends.
    pub fn stack(&self, number: u32) -> Stack<'_> {
        Stack { recording: self, next: number }
    }
}

/// Walks from the innermost frame outwards; afterwards `next` tells how the stack ended.
#[derive(Debug, Clone)]
pub struct Stack<'a> {
    recording: &'a Recording,
    /// The number still to come; at the end [`special::NONE`] or why there is no more.
    pub next: u32,
}

impl<'a> Iterator for Stack<'a> {
    type Item = (u32, &'a Node);

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.next;
        let node = self.recording.node(number)?;
        self.next = if node.parent < number { node.parent } else { special::NONE };
        Some((number, node))
    }
}

/// A frame and its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    pub frame: Frame,
    /// A smaller number.
    pub parent: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frame {
    /// An instruction of a file: the one *before* the return address, so that it belongs to the call.
    Native {
        /// Index in `modules`; `None` for code in no file (then `address` is that in memory).
        module: Option<u32>,
        /// As the file's own symbols and line tables count.
        address: u64,
    },
    Python {
        /// Index in `codes`.
        code: u32,
        /// 0 where the code object does not say.
        line: u32,
        /// The first Python frame of its native evaluation frame: its caller was called by native code.
        entry: bool,
    },
}

/// A file with code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Module {
    pub path: String,
    /// The GNU build id; empty if there is none.
    pub build_id: Vec<u8>,
    /// Where `_PyEval_EvalFrameDefault` lies in it: start and end of each part, `.cold` included; empty for none.
    pub eval: Vec<(u64, u64)>,
}

/// A Python code object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Code {
    pub file: String,
    /// Qualified where the interpreter knows it (3.11 and later).
    pub name: String,
    pub first_line: u32,
}

/// Who handed the memory out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[repr(u8)]
pub enum Source {
    /// `malloc` and its kin.
    #[default]
    Heap = 0,
    /// Python's own allocator (`deep`).
    Python = 1,
    /// Anonymous memory mapped by the program itself.
    Mapping = 2,
}

/// Bytes and blocks. Estimated when sampled: then `variance` is that of `bytes`, 0 where all was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Amount {
    pub bytes: u64,
    pub count: u64,
    pub variance: u64,
}

/// One place that allocates in one process: its Python stack, its native stack, the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Site {
    /// Index in `processes`.
    pub process: u32,
    /// Node numbers; one, both or none may be there.
    pub python: u32,
    pub native: u32,
    pub source: Source,
    /// Not given back when its process ended, or when the recording did.
    pub live: Amount,
    /// Live when the whole tree had its peak. The sum over all sites is the peak.
    pub peak: Amount,
    /// Live when its own process had its peak.
    pub own_peak_bytes: u64,
    /// The most that this site alone ever had.
    pub highest_bytes: u64,
    /// All that was ever handed out here.
    pub total: Amount,
    /// Of that, given back by the same thread before it allocated again.
    pub temporary_bytes: u64,
    pub temporary_count: u64,
    /// Of that, given back within the step in which it was handed out.
    pub freed_in_step_bytes: u64,
    /// Sum over the blocks given back of how long they lived.
    pub lifetime_ns: u64,
}

/// Live bytes of a site at each of `about.steps`, in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Series {
    /// Index in `sites`.
    pub site: u32,
    pub bytes: Vec<u64>,
}

/// The recording as a whole; the header of its file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    pub allocs_version: u32,
    pub nilo_version: String,
    /// As asked: `sampled`, `all`, `deep`, `later`.
    pub mode: String,
    /// Sampling, as asked: a block is seen once in so many bytes on average, from `exact_bytes` on always.
    pub mean_bytes: u64,
    pub exact_bytes: u64,
    /// Frames kept of a native stack.
    pub depth: u32,
    /// `CLOCK_MONOTONIC`.
    pub started_ns: u64,
    pub ended_ns: u64,
    /// False in what was written while the run went on.
    pub finished: bool,
    /// The highest sum of live bytes over all processes, and when.
    pub peak: Amount,
    pub peak_at_ns: u64,
    /// Not given back at the end, over all processes.
    pub live: Amount,
    pub total: Amount,
    pub frees: u64,
    /// Records read.
    pub events: u64,
    /// Bytes in which the targets told them.
    #[serde(skip_serializing_if = "is_zero")]
    pub raw_bytes: u64,
    /// Events known to have happened and not recorded.
    pub lost_events: u64,
    /// Processes that could not report: nothing they did is in any sum.
    #[serde(skip_serializing_if = "is_zero")]
    pub unheard_processes: u64,
    /// Frees of blocks that were never told: from before the recording, or of a lost event.
    pub unknown_frees: u64,
    /// Marked steps seen, and those at which `series` has values (evenly spaced: a multiple of `step_stride`).
    pub steps_seen: u64,
    pub step_stride: u64,
    pub steps: Vec<Step>,
    /// Turns of a training that the stacks tell: forward, backward, optimizer, forward again. How high memory rose in
    /// the phases of (evenly spaced) turns.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase_peaks: Vec<PhasePeak>,
    /// What the sites of a phase had at most when it ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// Sizes of the blocks of such sites when an optimizer began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_sizes: Vec<KeptSize>,
    /// By log2 of the size; by log2 of the life in nanoseconds (of blocks given back).
    pub sizes: Histogram,
    pub lifetimes: Histogram,
    /// Highest sum of live bytes in each stretch of time.
    pub curve: Vec<Point>,
    /// What the bounds of the recording cost.
    pub folded: Folded,
    /// Processes of the tree that were not tracked, and why.
    pub untracked: Vec<Untracked>,
    /// The tracker's own memory inside the targets: rings, stacks, private. The highest sum.
    pub tracker_bytes: u64,
    /// Bytes of the event stream, when it was kept.
    pub event_bytes: Option<u64>,
    /// Sentences about what is doubtful.
    pub notes: Vec<String>,
}

/// How a note begins that tells of a switch; the level follows.
pub const SWITCHED: &str = "switched to ";

impl About {
    /// It waited to be switched on and nobody did: that nothing was seen says nothing.
    pub fn was_never_on(&self) -> bool {
        let on = |note: &String| note.strip_prefix(SWITCHED).is_some_and(|level| !level.starts_with("off"));
        self.mode == "later" && !self.notes.iter().any(on)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub number: u64,
    pub at_ns: u64,
    /// Live bytes of the tree.
    pub live_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    pub at_ns: u64,
    pub live_bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde asks for
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The highest sum of live bytes of the tree during one phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePeak {
    pub turn: u64,
    /// `init`, `forward`, `backward`, `optimizer`.
    pub phase: String,
    pub peak_bytes: u64,
}

/// What outlived the phase of its birth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Index in `sites`.
    pub site: u32,
    pub bytes: u64,
    pub count: u64,
}

/// Blocks of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSize {
    /// Index in `sites`.
    pub site: u32,
    pub bytes: u64,
    pub count: u64,
}

/// Sites whose stacks were not kept, because there were too many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Folded {
    pub sites: u64,
    /// Their share of the peak and of all that was handed out.
    pub peak_bytes: u64,
    pub total_bytes: u64,
    pub series: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Untracked {
    pub pid: i32,
    pub name: String,
    pub why: String,
}

/// One process image: a program between its `exec` (or `fork`) and its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub pid: i32,
    /// Index of the process it was forked from.
    pub forked_from: Option<u32>,
    pub name: String,
    pub started_ns: u64,
    /// Its end, or its next `exec`; `None` if it outlived the recording.
    pub ended_ns: Option<u64>,
    /// `PY_VERSION_HEX >> 16` of its interpreter, 0 for none.
    pub python: u32,
    /// At the end: `off`, `sampled`, `all`, `deep`.
    pub mode: String,
    /// Why that is less than was asked.
    pub degraded: Vec<String>,
    pub peak_bytes: u64,
    pub peak_at_ns: u64,
    pub live: Amount,
    pub total: Amount,
    /// Blocks that it got from the process it was forked from: at the fork, and those it never gave back. They are
    /// in none of the sums.
    pub inherited: Amount,
    pub inherited_live: Amount,
    pub frees: u64,
    pub events: u64,
    /// Bytes in which it told them.
    #[serde(skip_serializing_if = "is_zero")]
    pub raw_bytes: u64,
    pub lost_events: u64,
    pub unknown_frees: u64,
    pub stacks_dropped: u64,
    pub stacks_cut: u64,
    /// Bytes given back inside mappings that stay (`madvise`), and mapped from files.
    pub discarded_bytes: u64,
    pub file_mapped_bytes: u64,
    /// The tracker's own memory in it.
    pub tracker_bytes: u64,
    /// The longest time a thread waited for the recorder.
    pub longest_wait_ns: u64,
}
