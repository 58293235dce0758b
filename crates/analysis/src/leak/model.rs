//! The model of a leak verdict: what `report` shows and `nilo leak --json` prints.
//!
//! Sizes are bytes. Rates are per step, run or second, as `per` says, whatever the field is called.
//! Field names are a contract: add, never rename.

use serde::Serialize;

/// What memory does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Class {
    #[serde(rename = "steady")]
    Steady,
    #[serde(rename = "warm-up then flat")]
    Settled,
    #[serde(rename = "grows")]
    Grows,
    #[serde(rename = "sawtooth")]
    Sawtooth,
    #[serde(rename = "cache growing to a bound")]
    ToBound,
    /// The allocator keeps what the program gave back.
    #[serde(rename = "allocator retention")]
    Retention,
    /// Pages of files: the kernel takes them back when it needs memory.
    #[serde(rename = "page cache")]
    PageCache,
    /// Children write to pages that they shared with their parent.
    #[serde(rename = "copy-on-write")]
    CopyOnWrite,
    #[serde(rename = "outlives the process")]
    Outlives,
    #[serde(rename = "cannot tell")]
    CannotTell,
}

impl Class {
    pub const ALL: [Self; 10] = [
        Self::Steady,
        Self::Settled,
        Self::Grows,
        Self::Sawtooth,
        Self::ToBound,
        Self::Retention,
        Self::PageCache,
        Self::CopyOnWrite,
        Self::Outlives,
        Self::CannotTell,
    ];

    /// As in JSON and on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Settled => "warm-up then flat",
            Self::Grows => "grows",
            Self::Sawtooth => "sawtooth",
            Self::ToBound => "cache growing to a bound",
            Self::Retention => "allocator retention",
            Self::PageCache => "page cache",
            Self::CopyOnWrite => "copy-on-write",
            Self::Outlives => "outlives the process",
            Self::CannotTell => "cannot tell",
        }
    }

    /// Memory that is lost as long as this goes on.
    pub fn is_leak(self) -> bool {
        matches!(self, Self::Grows | Self::Outlives)
    }
}

/// Along what a rate is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    Step,
    Run,
    Second,
}

impl Per {
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Run => "run",
            Self::Second => "s",
        }
    }
}

/// Where steps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsFrom {
    /// Marks of the program, or its output.
    Marks,
    /// The curve repeats itself: a guess.
    Estimated,
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leak {
    pub class: Class,
    /// One sentence.
    pub reason: String,
    pub per: Per,
    pub steps_from: StepsFrom,
    pub rate_bytes_per_step: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub rate_bytes_per_s: Option<f64>,
    /// The smallest rate that this run could have shown.
    pub smallest_detectable: Option<f64>,
    /// By what that would have been seen.
    pub smallest_by: &'static str,
    pub forecast: Option<Forecast>,
    /// The part after warm-up that the verdict is about.
    pub window: Window,
    /// Teeth of a saw: how high, how long.
    pub teeth: Option<Teeth>,
    /// Where a rise to a bound would end.
    pub bound_bytes: Option<f64>,
    /// Where it cannot be told: so much more would probably tell.
    pub longer_s: Option<f64>,
    /// Where it grows, from the outside in.
    pub places: Vec<Place>,
    /// What each way of looking says.
    pub evidence: Vec<Evidence>,
    /// Data that is missing, and the command that adds it.
    pub missing: Vec<Missing>,
    pub looks: Looks,
    /// Where the command was run several times.
    pub runs: Vec<RepeatedRun>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    pub limit_bytes: u64,
    pub limit_source: String,
    /// Step, run or second at which the limit is reached.
    pub at: f64,
    /// From the end of the recording.
    pub in_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Window {
    /// In steps, runs or seconds.
    pub from: f64,
    pub to: f64,
    pub from_s: f64,
    pub to_s: f64,
    pub points: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Teeth {
    pub height_bytes: f64,
    /// In steps, runs or seconds.
    pub period: f64,
}

/// How deep a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// What is left on the machine.
    Machine,
    Process,
    /// A line of the ledger, or a kind of mapping.
    Memory,
    /// A kind of Python object.
    Kind,
    /// The attribute that holds it, with an example of a path.
    Holder,
    /// The code that allocates it.
    Site,
}

/// Something that grows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    pub depth: Depth,
    pub name: String,
    /// Where it is a line of the ledger.
    pub line: Option<nilometer_trace::ledger::Line>,
    pub rate_bytes_per_step: Option<f64>,
    /// Objects, files or processes per step, where they can be counted.
    pub rate_count_per_step: Option<f64>,
    /// Of the growth that the verdict is about.
    pub share: Option<f64>,
    /// How it is held, where it is, or who called the code.
    pub path: Option<String>,
    /// What the memory is for, where its allocation was seen.
    pub category: Option<String>,
    /// How it was found.
    pub evidence: String,
}

/// What one way of looking says, the verdict's reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    pub what: String,
    pub course: &'static str,
    pub rate_bytes_per_step: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub smallest_detectable: Option<f64>,
    pub points: usize,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub what: String,
    pub command: String,
}

/// Looks into the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Looks {
    pub heap: u64,
    pub ledger: u64,
    pub pause_ms_total: f64,
    pub pause_ms_longest: f64,
}

/// One of several runs of the command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatedRun {
    pub n: u64,
    /// RFC 3339, by the clock of the machine.
    pub start: String,
    pub start_s: f64,
    pub seconds: f64,
    /// Exit code, or 128 + signal.
    pub exit: i32,
    pub peak_bytes: Option<u64>,
    /// Memory in use on the machine (without page cache, with shared memory, and with swap that no process has) after
    /// it minus before it.
    pub left_behind_bytes: Option<i64>,
    /// Of that, swap: shared memory that the kernel has moved out.
    pub left_in_swap_bytes: Option<i64>,
    /// Shared memory and files in memory that it left, found by name.
    pub remains_bytes: u64,
    pub remains: Option<String>,
}
