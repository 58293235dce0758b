//! The model of one run: what every view shows. Sizes are bytes, times are seconds since the target's start.
//!
//! Field names are the contract of `nilo report --json` (schema in `crates/report/schema`): add, never rename.

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    pub command: Vec<String>,
    pub name: String,
    pub about: About,
    pub exit: Exit,
    pub duration_s: f64,
    /// Length of the look before the start and after the end.
    pub before_s: f64,
    pub after_s: f64,
    pub interval_ms: Interval,
    pub ticks: u64,
    /// Absent where there was no target, or nothing of it was seen.
    pub peak: Option<Peak>,
    pub largest_process: Option<LargestProcess>,
    pub limit: Option<Limit>,
    pub growth: Growth,
    pub made_of: Option<MadeOf>,
    /// Which kinds of object grew, where tables of the heap were kept (`--heap`).
    pub heap: Option<crate::heap::model::Growths>,
    /// What large processes were made of over the run, by their ledgers.
    pub ledgers: Option<crate::ledger::run::Ledgers>,
    pub processes: Vec<Process>,
    /// How many processes belonged to the tree, listed or not.
    pub processes_seen: u64,
    pub unseen: Option<Unseen>,
    pub workers: Vec<Workers>,
    /// Ranks among the processes: a launcher was recorded together with what it started.
    pub ranks: Vec<crate::rank::Ranked>,
    pub system: System,
    /// Where the recording covers several runs of one command.
    pub repeats: Option<Repeats>,
    pub steps: Vec<Step>,
    pub steps_seen: u64,
    /// Without marks: the period of the curve, if it has one. Estimated.
    pub estimated_steps: Option<EstimatedSteps>,
    pub phases: Vec<Phase>,
    pub notes: Vec<Note>,
    pub events: Vec<Event>,
    pub events_omitted: u64,
    /// What is doubtful, one sentence each.
    pub quality: Vec<String>,
    pub cost: Option<Cost>,
    pub data_end: DataEnd,
    /// Where the run is stored; set by whoever opened it.
    pub saved: Option<String>,
    pub curve: Curve,
    /// The zero of all times here, on the log's clock: what else was recorded is told by that.
    #[serde(skip)]
    pub origin_ns: u64,
}

/// Facts of the run that no record carries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct About {
    pub nilo_version: String,
    pub verb: String,
    pub started: String,
    pub directory: String,
    pub host: String,
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub container: Option<String>,
    /// How far a kernel counter may lag, per process.
    pub counter_slack_bytes: u64,
    /// How the figures were obtained, as the recorder noted it.
    pub method: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub core_dumped: bool,
    pub cause: Cause,
    /// The cause was concluded from the last samples, not told by a counter.
    pub inferred: bool,
    pub evidence: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Exited,
    Signal,
    CgroupOom,
    SystemOom,
    Watchdog,
    /// We ended it because enough was seen (`--stop-after`).
    Enough,
    UnknownKiller,
    /// The recording ended before the target did, or there was none.
    NotSeen,
    /// It is still being recorded.
    Running,
}

/// Distances of ticks in milliseconds; `achieved` is the median.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    pub asked: f64,
    pub achieved: Option<f64>,
    pub achieved_mean: Option<f64>,
    pub missed: Option<u64>,
}

/// The highest memory of the tree, counted once: it lies between `low_bytes` and `high_bytes`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peak {
    pub bytes: u64,
    pub low_bytes: u64,
    pub high_bytes: u64,
    /// When the tick that showed it was taken.
    pub at_s: f64,
    pub step: Option<u64>,
    pub method: String,
    /// The kernel's own high-water mark (up to its counter slack), not samples.
    pub exact: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LargestProcess {
    pub pid: i32,
    pub role: String,
    pub hwm_bytes: u64,
    pub at_s: f64,
}

/// The limit that was nearest at the worst tick.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    pub bytes: u64,
    pub source: String,
    /// Limit minus the tree's peak; negative where swap or the machine made it possible.
    pub headroom_bytes: i64,
    pub headroom_share: f64,
    /// Least room there was, everything under this limit counted and reclaimable cache not.
    pub least_free_bytes: Option<u64>,
    pub least_free_at_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GrowthClass {
    #[serde(rename = "grows")]
    Grows,
    #[serde(rename = "flat")]
    Flat,
    #[serde(rename = "cannot tell")]
    CannotTell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GrowthUnit {
    #[serde(rename = "step")]
    Step,
    #[serde(rename = "min")]
    Minute,
}

/// The trend of the tree's memory after warm-up, with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    pub class: GrowthClass,
    pub reason: String,
    pub per: GrowthUnit,
    pub bytes: Option<f64>,
    pub low_bytes: Option<f64>,
    pub high_bytes: Option<f64>,
    pub since_step: Option<u64>,
    pub since_s: Option<f64>,
    pub points: usize,
    pub limit_at_step: Option<u64>,
    pub limit_at_s: Option<f64>,
}

/// Composition by kind of mapping near the peak: parts + residual = total.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MadeOf {
    pub parts: Vec<Part>,
    /// The peak.
    pub total_bytes: u64,
    /// What of the peak the maps did not show: they were read at another instant.
    pub residual_bytes: i64,
    /// When the maps were read, and how far that is from the peak (negative: before it).
    pub at_s: f64,
    pub from_peak_s: f64,
    /// Processes alive at the peak whose maps were never read.
    pub processes_missing: usize,
    /// Largest file and shared mappings.
    pub largest: Vec<Mapping>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub name: String,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mapping {
    pub pid: i32,
    pub name: String,
    pub rss_bytes: u64,
    pub pss_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub role: String,
    pub evidence: String,
    pub command: String,
    pub start_s: f64,
    pub end_s: Option<f64>,
    /// Absent where nothing told it: a process that ended before the first sample and never rose above the launcher's mark.
    pub hwm_bytes: Option<u64>,
    pub hwm_exact_method: String,
    pub rss_end_bytes: u64,
    /// Of the last page-table walk; absent where there was none.
    pub pss_bytes: Option<u64>,
    pub uss_bytes: Option<u64>,
    /// When that walk was: what the process did after it is in neither.
    pub shares_at_s: Option<f64>,
    /// On graphics devices, when last asked.
    pub device_bytes: u64,
    pub swap_max_bytes: u64,
    pub cpu_s: f64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub threads_max: u32,
    pub growth_per_step_bytes: Option<f64>,
}

/// Work that no sample accounts for: children that lived between two ticks. At least this much.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unseen {
    /// How many there were, as far as they were waited for by us (orphans).
    pub processes: Option<u64>,
    pub children_cpu_s: f64,
    pub children_faults: u64,
}

/// Processes of the same role.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workers {
    pub role: String,
    /// Most that were alive at once, and all that ever were.
    pub count: usize,
    pub seen: usize,
    pub private_bytes: Option<u64>,
    pub growth_per_step_bytes: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct System {
    pub memory_bytes: Option<u64>,
    pub swap_used_max_bytes: Option<u64>,
    pub swap_used_before_bytes: Option<u64>,
    pub available_min_bytes: Option<u64>,
    /// What stayed on the machine after the target, beyond the noise; page cache is not in it.
    pub outlives_process_bytes: Option<u64>,
    pub outlives: Vec<Outlives>,
    /// Shared memory found by name after the end; it is part of `outlives`.
    pub remains: Vec<Part>,
    /// Page cache that grew: the kernel gives it back on demand.
    pub reclaimable: Option<Outlives>,
    pub psi_some_max_percent: Option<f64>,
    /// OOM kills on the machine and in the run's cgroups while it ran.
    pub oom_kills: Option<u64>,
    /// Graphics devices, as their drivers tell.
    pub devices: Vec<Device>,
}

/// A graphics device while the run lasted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Device {
    pub name: String,
    pub total_bytes: Option<u64>,
    pub used_max_bytes: u64,
    /// Held by the run's own processes.
    pub tree_max_bytes: u64,
}

/// Runs of one command, one after the other, and what they left behind on the machine: memory in use without
/// buffers and cache (and without the sampler's own heap) after the last minus before the first, per run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeats {
    pub runs: u64,
    /// Absent where there is no sample before or after.
    pub left_per_run_kib: Option<f64>,
    pub before_kib: Option<f64>,
    pub after_kib: Option<f64>,
    /// Absent where starts and ends are not in the recording.
    pub seconds_per_run: Option<f64>,
}

/// One quantity before the start and after the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outlives {
    pub name: String,
    /// 0 where the change is below the noise.
    pub bytes: u64,
    /// The change as measured.
    pub change_bytes: i64,
    /// How much it moved by itself before the start.
    pub noise_bytes: u64,
    /// False when the look after the end was too short to tell (`--settle 5s`); then it is not counted.
    pub settled: bool,
}

/// A pattern of the curve that comes back, probably the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EstimatedSteps {
    pub period_s: f64,
    pub count: u64,
    /// How alike neighbouring periods are: 1 is identical.
    pub correlation: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub step: u64,
    pub start_s: f64,
    pub duration_s: f64,
    pub peak_bytes: u64,
    pub peak_method: &'static str,
    /// End of this step minus end of the one before.
    pub increment_bytes: i64,
    pub end_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    pub name: String,
    pub start_s: f64,
    pub duration_s: f64,
    pub peak_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    pub at_s: f64,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub at_s: f64,
    pub kind: &'static str,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub cpu_s: f64,
    pub rss_bytes: u64,
    pub written_bytes: u64,
    pub pause_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataEnd {
    pub clean: bool,
    pub at_s: f64,
    pub why: String,
}

/// Series for charts, each of at most 2,048 buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Curve {
    pub tree_low: Series,
    pub tree_high: Series,
    /// Sums over the processes: a page that several of them map is counted more than once.
    pub anon_sum: Series,
    pub file_sum: Series,
    pub shmem_sum: Series,
    pub available: Series,
    pub swap: Series,
    pub cgroup_usage: Series,
    /// RSS of the largest processes, at most twelve.
    pub processes: Vec<ProcessSeries>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Series {
    pub width_s: f64,
    pub points: Vec<Point>,
}

/// One bucket: it begins at `at_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    pub at_s: f64,
    pub min: u64,
    pub max: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessSeries {
    pub pid: i32,
    pub role: String,
    pub rss: Series,
}

/// A series of the machine by its name: the kernel's, or ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedSeries {
    pub name: String,
    pub series: Series,
}
