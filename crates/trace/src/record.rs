//! The records of a run: what was seen, as it was seen. Models are computed from them elsewhere.
//!
//! Rare records are stored as JSON (readable with `strings`, unknown fields are ignored, absent ones
//! take their default); ticks, the only frequent ones, are packed by [`crate::tick`].
//! All times are `CLOCK_MONOTONIC` nanoseconds of the recording machine; [`Header`] anchors them.

use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    Header(Header),
    Columns(Columns),
    Process(Process),
    ProcessUpdate(ProcessUpdate),
    ProcessEnd(ProcessEnd),
    Tick(Tick),
    Shares(Shares),
    Kinds(Kinds),
    Mark(Mark),
    Event(Event),
    End(End),
    HeapTable(HeapTable),
    Ledger(Box<LedgerTaken>),
}

impl Record {
    /// When it was seen; absent where a record has no time of its own.
    pub fn at_ns(&self) -> Option<u64> {
        match self {
            Self::Header(it) => Some(it.mono_ns),
            Self::Columns(_) => None,
            Self::Process(it) => Some(it.seen_ns),
            Self::ProcessUpdate(it) => Some(it.at_ns),
            Self::ProcessEnd(it) => Some(it.at_ns),
            Self::Tick(it) => Some(it.at_ns),
            Self::Shares(it) => Some(it.at_ns),
            Self::Kinds(it) => Some(it.at_ns),
            Self::Mark(it) => Some(it.at_ns),
            Self::Event(it) => Some(it.at_ns),
            Self::End(it) => Some(it.at_ns),
            Self::HeapTable(it) => Some(it.at_ns),
            Self::Ledger(it) => Some(it.at_ns),
        }
    }

    /// May be frequent and is written without closing the open block of ticks: its place is given by its time.
    pub(crate) fn is_placed_by_time(&self) -> bool {
        matches!(
            self,
            Self::Shares(_) | Self::Kinds(_) | Self::Mark(_) | Self::HeapTable(_) | Self::Ledger(_)
        )
    }
}

/// The first record: clocks and units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format_version: u32,
    /// `CLOCK_MONOTONIC` and `CLOCK_REALTIME` read together.
    pub mono_ns: u64,
    pub realtime_ns: u64,
    pub page_bytes: u64,
    /// Unit of the CPU times in process samples (`sysconf(_SC_CLK_TCK)`).
    pub ticks_per_s: u64,
    pub interval_ns: u64,
    pub nilo_pid: i32,
}

/// Names and units of the system columns of all following ticks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Columns {
    pub columns: Vec<Column>,
}

/// One system-wide series, for example `meminfo.MemFree` in kB or `cgroup.0.usage` in bytes.
///
/// Prefixes: `meminfo.`, `vmstat.`, `psi.memory.` (`some_avg10` etc. in 1/100 %, `some_total` in µs),
/// `cgroup.N.` (`usage`, `limit`, `reclaimable`, `shmem`, `swap`, `oom_kills`, `oom_events`, `max_events`),
/// `nilo.` (`rss`: our own resident bytes), `device.N.`, `import.` (`sampler_heap`: of the tool that recorded).
/// The largest value (`u64::MAX`) means "no limit" or "not available at this tick".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Kib,
    Bytes,
    Count,
    Us,
    CentiPercent,
}

/// A process of the tree, when first seen. `index` names it in all later records (pids are reused).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub index: u32,
    pub pid: i32,
    pub parent_pid: i32,
    /// Index of the parent if it belongs to the tree.
    #[serde(default)]
    pub parent: Option<u32>,
    /// Start time in clock ticks since boot: with `pid` the identity of the process.
    pub start_ticks: u64,
    pub seen_ns: u64,
    pub comm: String,
    /// Command line with secrets masked.
    pub command: String,
    pub role: Role,
}

/// What a process is for, with the evidence it was told from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// For example `main`, `DataLoader worker 3`, `resource tracker`, `rank 0`, `shell`, `fork of 4711`.
    pub name: String,
    pub evidence: String,
}

/// A process changed its program (`exec`) or what we know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUpdate {
    pub index: u32,
    pub at_ns: u64,
    pub comm: String,
    pub command: String,
    pub role: Role,
}

/// A process is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    pub index: u32,
    /// When it was noticed; the end lies between the tick before and this.
    pub at_ns: u64,
    /// Only for processes that we waited for: the direct child and re-parented orphans.
    #[serde(default)]
    pub waited: Option<Waited>,
    /// Highest VmHWM that was read, in kB.
    pub hwm_kib: u64,
}

/// What `wait4` told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    #[serde(default)]
    pub code: Option<i32>,
    #[serde(default)]
    pub signal: Option<i32>,
    /// Maximum over the process and all *its* waited-for children, and at least the launcher's own at `fork`.
    /// 0 where it does not exceed the latter and so says nothing.
    pub maxrss_kib: u64,
    /// The launcher's own high water at `fork`.
    #[serde(default)]
    pub launcher_kib: u64,
    pub user_us: u64,
    pub system_us: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// One turn of the tick loop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tick {
    pub at_ns: u64,
    pub phase: Phase,
    /// Memory of the whole tree, counted once, as an interval. Absent before the start and after the end.
    pub tree: Option<Bounds>,
    /// Values in the order of the last [`Columns`]; empty when the system was not read at this tick.
    pub system: Vec<u64>,
    /// In increasing order of `index`.
    pub processes: Vec<ProcessSample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    Before,
    #[default]
    During,
    After,
}

/// The tree's memory lies between the two, in kB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    pub low_kib: u64,
    pub high_kib: u64,
}

/// The fast counters of one process at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessSample {
    pub index: u32,
    pub anon_kib: u64,
    pub file_kib: u64,
    pub shmem_kib: u64,
    pub swap_kib: u64,
    /// VmHWM: the kernel's own high-water mark since `exec` (or since the last reset, see events).
    pub hwm_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// The same of waited-for children: short-lived ones that no tick ever saw are visible here.
    pub child_minor_faults: u64,
    pub child_major_faults: u64,
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub child_user_ticks: u64,
    pub child_system_ticks: u64,
    pub threads: u32,
}

impl ProcessSample {
    /// VmRSS is by definition the sum of its three kinds (`fs/proc/task_mmu.c`, `task_mem`).
    pub fn rss_kib(&self) -> u64 {
        // Saturating: a log comes from anywhere, and a sum of its numbers must not panic.
        self.anon_kib.saturating_add(self.file_kib).saturating_add(self.shmem_kib)
    }
}

/// PSS and USS of one process (`smaps_rollup`), a page-table walk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shares {
    pub index: u32,
    pub at_ns: u64,
    pub rss_kib: u64,
    pub pss_kib: u64,
    /// Private clean + private dirty (+ private hugetlb): what would come back if it ended.
    pub uss_kib: u64,
    pub private_dirty_kib: u64,
    pub pss_anon_kib: u64,
    pub pss_file_kib: u64,
    pub pss_shmem_kib: u64,
    pub swap_pss_kib: u64,
    /// Memory that it holds on graphics devices, as their drivers say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub device_kib: u64,
    pub cost_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde asks for
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// `smaps` of one process, summed by kind of mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds {
    pub index: u32,
    pub at_ns: u64,
    pub mappings: u64,
    pub kinds: Vec<KindSum>,
    /// Largest file and shared mappings by resident bytes, at most eight.
    #[serde(default)]
    pub largest: Vec<NamedMapping>,
    pub cost_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindSum {
    pub kind: MappingKind,
    pub mappings: u64,
    pub size_kib: u64,
    pub rss_kib: u64,
    pub pss_kib: u64,
    pub private_kib: u64,
    pub swap_kib: u64,
    #[serde(default)]
    pub anon_huge_kib: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedMapping {
    pub name: String,
    pub kind: MappingKind,
    pub rss_kib: u64,
    pub pss_kib: u64,
}

/// Kinds of mapping, told from permissions and the name the kernel gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingKind {
    /// `[heap]`: the brk area.
    Heap,
    /// Private anonymous maps: malloc's large blocks and arenas, Python's arenas, tensors.
    Anonymous,
    /// ELF files: code, constants and data of the program and its libraries.
    Code,
    /// Other mapped files: data sets, checkpoints.
    File,
    /// tmpfs, `/dev/shm`, memfd, `SysV`, shared anonymous maps.
    Shared,
    Stack,
    Device,
    /// vdso, vvar and the like.
    Kernel,
}

/// A mark of the target: a step, a phase, a note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub at_ns: u64,
    /// How far `at_ns` may be from the truth: 0 for marks that carry their own time stamp.
    #[serde(default)]
    pub error_ns: u64,
    #[serde(default)]
    pub pid: Option<i32>,
    pub what: MarkKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A step begins (and the one before ends).
    Step(u64),
    Phase(String),
    Note(String),
}

/// Something that happened to the recording or to the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at_ns: u64,
    pub what: EventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// The target was released: `exec` happened after this.
    Started,
    /// The target's direct child ended.
    Exited,
    /// We did not sample for this long (stopped by job control, or starved).
    Gap { until_ns: u64, stopped: bool },
    /// Sampling interval changed (size ceiling, limit near).
    Interval { interval_ns: u64, why: String },
    /// A signal reached us and this is what we did with it.
    Signal { number: i32, forwarded: bool },
    /// Blocks that could not be stored.
    Dropped { ticks: u64, why: String },
    /// High-water marks were reset at a step (`--exact-step-peaks`).
    PeaksReset { step: u64 },
    /// The realtime clock was set: it moved by this much against the monotonic one.
    ClockStep { by_ns: i64 },
    /// Processes still alive when the direct child ended.
    LeftBehind { indexes: Vec<u32> },
    /// A limit of the watchdog was crossed, or 90 % of the binding limit was reached.
    Limit { limit: String, value_bytes: u64, limit_bytes: u64, index: Option<u32>, action: String },
    /// Shared memory that is there after the end and was not (or was smaller) before the start.
    Remains {
        what: String,
        bytes: u64,
        /// Of files with like names: when each was last written, in nanoseconds of the log's clock, and its bytes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        births: Vec<(u64, u64)>,
    },
    /// Orphans that we waited for but no tick ever saw, all together.
    Unsampled { processes: u64, user_us: u64, system_us: u64, minor_faults: u64, maxrss_kib: u64 },
    /// The recording covers so many runs of one command, one after the other: what they left behind is the
    /// difference between the samples before and after. `span_ns`: from the first start to the last end, if known.
    Repeats {
        runs: u64,
        #[serde(default)]
        span_ns: Option<u64>,
    },
    /// One of several runs of the command ended (`--repeat`), and the machine was looked at after it.
    RunEnded {
        run: u64,
        began_ns: u64,
        exit: Exit,
        /// What it left in memory by name, largest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remains: Vec<Remains>,
    },
    /// What a thread of a Python process was doing at this moment, innermost frame first.
    Stack { pid: i32, thread: String, frames: Vec<String> },
    /// Anything else worth a line in the report.
    Note { text: String },
}

/// What one process was made of at an instant of the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LedgerTaken {
    pub at_ns: u64,
    /// Index of the process, as in ticks.
    pub index: u32,
    /// What it cost us, in CPU time.
    #[serde(default)]
    pub cost_ns: u64,
    pub ledger: Ledger,
}

/// Shared memory or a file in memory that is there after a run and was not before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    pub what: String,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub births: Vec<(u64, u64)>,
}

/// What kinds of object the heap of one process was made of: a census of it, in a few rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeapTable {
    pub at_ns: u64,
    pub pid: i32,
    /// Largest first.
    pub rows: Vec<HeapRow>,
    /// All kinds that have no row, together.
    #[serde(default)]
    pub other: HeapRow,
    #[serde(default)]
    pub other_kinds: u64,
    /// How long the process was stopped for it.
    #[serde(default)]
    pub pause_ns: u64,
    /// What it cost us, in CPU time.
    #[serde(default)]
    pub cost_ns: u64,
    /// The census was not whole.
    #[serde(default)]
    pub partial: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeapRow {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    pub count: u64,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub payload_bytes: u64,
}

impl HeapRow {
    pub fn total_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.payload_bytes)
    }

    /// Adds the numbers of another row.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.payload_bytes = self.payload_bytes.saturating_add(other.payload_bytes);
    }
}

/// The last record of a run that ended in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub at_ns: u64,
    #[serde(default)]
    pub exit: Option<Exit>,
    pub cost: Cost,
    pub ticks: u64,
    pub missed_ticks: u64,
    /// Kernel's exact tree peak where the run had a cgroup of its own (`--cgroup`).
    #[serde(default)]
    pub cgroup_peak_bytes: Option<u64>,
}

/// How the target ended, as `wait4` says it; the cause is a finding of `analysis`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exit {
    #[serde(default)]
    pub code: Option<i32>,
    #[serde(default)]
    pub signal: Option<i32>,
    #[serde(default)]
    pub core_dumped: bool,
    /// Named by us when we ended it (`watchdog: --max-rss`).
    #[serde(default)]
    pub ended_by: Option<String>,
    /// Why we ended it when that was asked for (`--stop-after`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<String>,
}

/// What the observation cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    pub cpu_s: f64,
    pub rss_bytes: u64,
    pub written_bytes: u64,
    pub pause_s: f64,
}
