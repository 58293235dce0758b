//! The model of a sweep. Field names of what is serialised are the contract of `nilo sweep --json`: add, never rename.

use serde::{Serialize, Serializer};

use super::outcome::Outcome;
use super::space::{Point, Value};
use crate::fit::{Law, Prediction};
use crate::metric::{Metric, Unit};

/// One run of the sweep.
#[derive(Debug, Clone)]
pub struct PointRun {
    pub params: Point,
    /// 1 for the first run of its parameter set.
    pub repeat: u32,
    pub outcome: Outcome,
    /// The command's own exit code, or the signal that ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub peak_bytes: Option<u64>,
    pub duration_s: f64,
    pub steps: u64,
    pub metrics: Vec<Metric>,
    /// Sizes where `--at` asked, in its order.
    pub at: Vec<Size>,
    pub not_covered: Vec<&'static str>,
    /// Why it ended so, where that needs words.
    pub evidence: Vec<String>,
    /// Its run directory.
    pub saved: String,
}

/// Where in a run a size is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    Step(u64),
    Phase(String),
}

/// A size at a step or phase: at its end, and the highest within it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Size {
    pub at: At,
    pub end_bytes: Option<u64>,
    pub peak_bytes: Option<u64>,
}

/// Runs that share every parameter that is no number.
#[derive(Debug, Clone)]
pub struct Group {
    pub fixed: Point,
    pub laws: Vec<MetricLaw>,
    pub found: Option<Found>,
    pub predictions: Vec<Asked>,
}

/// The law of one figure.
#[derive(Debug, Clone)]
pub struct MetricLaw {
    pub metric: String,
    pub unit: Unit,
    pub law: Law,
}

/// The answer of `--find`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    pub parameter: String,
    pub limit_bytes: u64,
    pub largest: Option<f64>,
    /// The largest ran, and stayed below the limit.
    pub verified: bool,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub metric: String,
    pub runs: usize,
    /// What the verified run needed.
    pub largest_bytes: Option<u64>,
    pub next: Option<f64>,
    pub next_tried: bool,
    pub next_bytes: Option<Prediction>,
    /// Nothing larger was offered.
    pub is_last: bool,
    pub gave_up: bool,
    /// The search has not ended.
    pub unfinished: bool,
}

/// A prediction that was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    pub params: Point,
    pub metric: String,
    pub unit: Unit,
    pub prediction: Option<Prediction>,
}

#[derive(Debug, Clone)]
pub struct Sweep {
    pub command: Vec<String>,
    /// Names of the parameters, and of those that are numbers with more than one value.
    pub names: Vec<String>,
    pub varying: Vec<String>,
    /// The figure that was asked for first.
    pub metric: String,
    pub planned: usize,
    pub runs: Vec<PointRun>,
    pub at: Vec<At>,
    pub groups: Vec<Group>,
    pub saved: String,
    /// What is doubtful or missing, one sentence each.
    pub notes: Vec<String>,
}

impl Serialize for Value {
    /// A number where it is one.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.number {
            Some(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                serializer.serialize_i64(number as i64)
            }
            Some(number) => serializer.serialize_f64(number),
            None => serializer.serialize_str(&self.text),
        }
    }
}
