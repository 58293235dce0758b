//! What looks at touched pages tell: the model that every view shows.

pub use nilometer_trace::pages::Accesses;
use nilometer_trace::pages::{Sees, Unit};
use serde::Serialize;

use super::curve::{Bin, Miss, Point};

/// The whole answer.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pages {
    pub command: String,
    pub pid: i32,
    pub kernel: String,
    pub backend: String,
    pub why: String,
    pub sees: Sees,
    pub unit: Unit,
    /// Null for whole mappings.
    pub unit_bytes: Option<u64>,
    pub exact: bool,
    /// The share of the resident memory that was looked at.
    pub coverage: f64,
    /// Of what was touched, the share that lies in huge pages, where one touch counts for all of it.
    pub huge_share: f64,
    pub written: Option<String>,
    pub written_why_not: Option<String>,
    /// None where they were not asked for.
    pub births: Option<Births>,
    pub disturbs: Vec<String>,
    pub injects: Option<String>,
    pub filters: Vec<String>,
    pub windows: Vec<Window>,
    pub wss_by_window_s: Vec<ByWindow>,
    /// How many windows after one mark were asked for, whether they were seen or not.
    #[serde(skip)]
    pub asked_windows: usize,
    /// What an address trace consists of, if it was one: it has no windows.
    pub trace: Option<Accesses>,
    pub reuse: Option<Reuse>,
    pub reuse_why_not: Option<String>,
    pub owners: Vec<Owner>,
    /// The share of resident bytes whose owner has a name.
    pub named_share: f64,
    pub cold: Vec<Cold>,
    pub pause_share: f64,
    pub duration_s: f64,
    pub cpu_s: f64,
    /// Our own processor time for one window of one GiB of resident memory.
    pub cpu_s_per_gib: Option<f64>,
    pub ended: String,
    pub exit_code: Option<i32>,
    /// Where it is part of a run: how long the command had run when it began.
    #[serde(skip)]
    pub after_start_s: Option<f64>,
    pub notes: Vec<String>,
    #[serde(skip)]
    pub picture: Picture,
}

impl Pages {
    /// Leaves the owners and rows whose name contains this, in any case.
    pub fn keep_only(&mut self, name: &str) {
        let name = name.to_lowercase();
        let is_kept = |other: &str| other.to_lowercase().contains(&name);
        self.owners.retain(|owner| is_kept(&owner.name));
        self.picture.rows.retain(|row| is_kept(&row.name));
        self.notes
            .push(format!("owners and map: only what is named like `{name}`; windows are of all memory"));
    }
}

/// One look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Window {
    pub round: u32,
    pub at_s: f64,
    pub asked_s: f64,
    pub effective_s: f64,
    /// Of several processes: pages that they share are in it once where page frames are known, else once for each.
    pub wss_bytes: u64,
    /// The least that it can be: each shared page counted once, without `around_bytes`.
    pub wss_low_bytes: u64,
    /// Of `wss_bytes`, pages of files that may only look touched: mapped in this window beside one that was.
    pub around_bytes: u64,
    pub rss_bytes: u64,
    pub written_bytes: Option<u64>,
    /// Page faults, and the memory that is new by them at least; none where they are not seen.
    pub faults: Option<u64>,
    pub born_bytes: Option<u64>,
    pub steps: Option<u64>,
    pub stopped_s: f64,
    pub cpu_s: f64,
    pub processes: u64,
}

/// All looks that were asked for at the same time after a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ByWindow {
    pub window_s: f64,
    pub effective_s: f64,
    pub looks: u64,
    pub mean_bytes: u64,
    pub median_bytes: u64,
    pub min_bytes: u64,
    pub max_bytes: u64,
    pub written_mean_bytes: Option<u64>,
    pub born_mean_bytes: Option<u64>,
}

/// How far apart touches of the same memory are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Reuse {
    pub how: How,
    pub unit_bytes: u64,
    /// None of a trace.
    pub windows: u64,
    pub touches: u64,
    pub cold_share: f64,
    /// Different units, each touched once for the first time.
    pub units: u64,
    /// The share of units that was followed.
    pub sampled_share: f64,
    /// Of a sampled trace: how far its two halves are from the whole, in shares of touches that would miss, at most.
    pub sampling_error: Option<f64>,
    /// Of a trace.
    pub histogram: Vec<Bin>,
    /// With so much resident, least recently used out first, this share of touches would miss.
    pub bounds: Vec<Bound>,
    pub median_bytes: Option<(u64, u64)>,
    pub lower: Vec<Point>,
    pub upper: Vec<Point>,
}

/// How distances are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// From windows, in which the order is not known: between a lower and an upper one.
    #[default]
    Bounds,
    /// From a trace, of every touch.
    Exact,
    /// From a trace, of the touches of some units.
    Sampled,
}

/// A point of the miss-ratio curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    pub resident_bytes: u64,
    pub miss_low: f64,
    pub miss_high: f64,
}

impl Bound {
    pub(super) fn exactly(miss: &Miss) -> Self {
        Self::new(miss.miss_ratio, miss)
    }

    pub(super) fn new(low: f64, high: &Miss) -> Self {
        Self { resident_bytes: high.resident_bytes, miss_low: low, miss_high: high.miss_ratio }
    }
}

/// Memory by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Owner {
    pub name: String,
    pub resident_bytes: u64,
    /// The mean over the last look of each round.
    pub touched_bytes: u64,
    pub cold_bytes: u64,
    /// New in a window, the mean over the last look of each round; none where births are not seen.
    pub born_bytes: Option<u64>,
}

/// Page faults of the last look of each round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Births {
    pub how: String,
    pub faults: u64,
    /// Nobody could keep them: their pages are not known.
    pub lost: u64,
    /// Of processes that came and went between two looks for them.
    pub elsewhere: u64,
    /// New, and not there any more at the look: the mean of a window.
    pub gone_bytes: u64,
    /// The files whose code met most of them.
    pub code: Vec<Met>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Met {
    pub name: String,
    pub faults: u64,
}

/// Not touched for so many windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cold {
    pub windows: u32,
    pub bytes: u64,
    pub share: f64,
    pub owners: Vec<Named>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    pub name: String,
    pub bytes: u64,
}

/// Addresses by time, at most 2048 × 1024 cells.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// Where each column begins.
    pub times_s: Vec<f64>,
    pub end_s: f64,
    pub rows: Vec<PictureRow>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PictureRow {
    pub name: String,
    pub start: u64,
    pub bytes: u64,
    /// Shares in 1/255; none where nothing is resident.
    pub levels: Vec<Option<u8>>,
}
