//! The model of a job: many ranks of one command, what each did, and who is not like the others.
//!
//! Field names are a contract (`nilo report JOB --json`): add, never rename.

use serde::Serialize;

use crate::model::{Growth, GrowthUnit};

/// One rank, from its own recording or from that of its launcher.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    pub rank: u64,
    pub node: String,
    pub restart: u64,
    pub peak_bytes: Option<u64>,
    pub growth: Growth,
    pub steps: u64,
    pub duration_s: f64,
    /// How it ended, in words.
    pub end: String,
    /// Exit code 0, or it goes on.
    pub good: bool,
    /// Where its own recording is.
    pub saved: Option<String>,
    /// Its memory since its own start: seconds and bytes, few points.
    #[serde(skip)]
    pub course: Vec<(f64, u64)>,
}

/// What the ranks do, compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Some grow, or grow faster; the others are alike.
    SomeGrow,
    AllGrow,
    NoneGrows,
    /// Nobody grows, but some need more than the others.
    SomePeak,
    CannotTell,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub pattern: Pattern,
    pub per: GrowthUnit,
    /// Ranks that are not like the others, the worst first.
    pub outliers: Vec<u64>,
    /// Of the outliers, lowest and highest: bytes per step or minute, or a peak.
    pub outlying: Option<[f64; 2]>,
    /// Of all others.
    pub others: Option<[f64; 2]>,
    /// Half of the 95 % interval of the worst.
    pub doubt: Option<f64>,
    /// Ranks whose growth cannot be told.
    pub unknown: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    pub name: String,
    pub launcher: String,
    pub id: String,
    pub started: String,
    pub command: Vec<String>,
    /// As the launcher told it.
    pub world_size: Option<u64>,
    pub nodes: Vec<String>,
    pub duration_s: f64,
    /// By rank and restart.
    pub ranks: Vec<Ranked>,
    /// Told by the launcher, not here.
    pub missing: Vec<u64>,
    pub comparison: Comparison,
    /// Recordings that could not be read, and why.
    pub problems: Vec<String>,
    pub saved: Option<String>,
}

impl Job {
    /// The last recording of each rank.
    pub fn last(&self) -> impl Iterator<Item = &Ranked> {
        let last =
            |place: usize, it: &Ranked| self.ranks.get(place + 1).is_none_or(|next| next.rank != it.rank);
        self.ranks.iter().enumerate().filter(move |(place, it)| last(*place, it)).map(|(_, it)| it)
    }

    /// Whose recording is worth looking at: the worst outlier, else who grows most, else who needs most.
    pub fn worth_a_look(&self) -> Option<u64> {
        let grows = |it: &Ranked| it.growth.bytes.filter(|bytes| *bytes > 0.0).unwrap_or(0.0);
        let most = |a: &&Ranked, b: &&Ranked| {
            grows(a).total_cmp(&grows(b)).then(a.peak_bytes.cmp(&b.peak_bytes)).then(b.rank.cmp(&a.rank))
        };
        self.comparison.outliers.first().copied().or_else(|| self.last().max_by(most).map(|it| it.rank))
    }
}
