//! The figures of a run that sweeps fit and comparisons judge, each under one name.
//!
//! A figure that a run does not contain is absent, never zero.

use nilometer_trace::ledger::Line;
use serde::Serialize;

use crate::model::{Growth, GrowthClass, GrowthUnit, Run, Series};
use crate::stats;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Bytes,
    Seconds,
    BytesPerStep,
    BytesPerMinute,
}

/// One figure; the truth lies between `low` and `high` as far as the run itself can tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub name: String,
    pub unit: Unit,
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Metric {
    fn exact(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { name: name.into(), unit, value, low: value, high: value }
    }

    fn bytes(name: impl Into<String>, bytes: u64) -> Self {
        Self::exact(name, Unit::Bytes, bytes as f64)
    }
}

/// Everything that a run tells, the most asked for first.
pub fn of(run: &Run) -> Vec<Metric> {
    let peak = run.peak.as_ref().map(|peak| Metric {
        name: "peak".into(),
        unit: Unit::Bytes,
        value: peak.bytes as f64,
        low: peak.low_bytes as f64,
        high: peak.high_bytes as f64,
    });
    let largest = run.largest_process.as_ref().map(|largest| Metric::bytes("largest", largest.hwm_bytes));
    let cgroup = highest(&run.curve.cgroup_usage).map(|bytes| Metric::bytes("cgroup", bytes));
    let outlives = run.system.outlives_process_bytes.map(|bytes| Metric::bytes("outlives", bytes));
    let mut found: Vec<Metric> =
        [peak, largest, leak(&run.growth), gpu(run), cgroup, outlives].into_iter().flatten().collect();
    found.extend(made_of(run));
    found.extend(ledger(run));
    found.extend(time_per_step(run));
    found.push(Metric::exact("duration", Unit::Seconds, run.duration_s));
    found
}

/// Whether a figure is the one that was asked for: by its name, or a line of the ledger by the end of its name
/// (`ledger.held` is `ledger.malloc_held`).
pub fn is_named(metric: &str, asked: &str) -> bool {
    let short = || asked.strip_prefix("ledger.").zip(metric.strip_prefix("ledger."));
    metric == asked || short().is_some_and(|(asked, name)| name.ends_with(&format!("_{asked}")))
}

/// The figure of this name.
pub fn named<'a>(metrics: &'a [Metric], name: &str) -> Option<&'a Metric> {
    metrics.iter().find(|metric| metric.name == name)
}

fn highest(series: &Series) -> Option<u64> {
    series.points.iter().map(|point| point.max).max()
}

/// The growth where it was judged: a flat curve has one too, around zero.
fn leak(growth: &Growth) -> Option<Metric> {
    let unit = match growth.per {
        GrowthUnit::Step => Unit::BytesPerStep,
        GrowthUnit::Minute => Unit::BytesPerMinute,
    };
    let told = growth.class != GrowthClass::CannotTell;
    let (value, low, high) = (growth.bytes?, growth.low_bytes?, growth.high_bytes?);
    told.then(|| Metric { name: "leak".into(), unit, value, low, high })
}

/// What the run's own processes held on graphics devices.
fn gpu(run: &Run) -> Option<Metric> {
    let held = run.system.devices.iter().map(|device| device.tree_max_bytes).sum();
    (!run.system.devices.is_empty()).then(|| Metric::bytes("gpu", held))
}

/// Kinds of mapping near the peak.
fn made_of(run: &Run) -> impl Iterator<Item = Metric> {
    let parts = run.made_of.iter().flat_map(|made| &made.parts);
    parts.map(|part| Metric::bytes(format!("made.{}", part.name.replace(' ', "-")), part.bytes))
}

/// Lines of the largest process's ledger nearest to the peak, each by its name.
fn ledger(run: &Run) -> impl Iterator<Item = Metric> {
    let nearest = run.ledgers.as_ref().and_then(|ledgers| ledgers.curve.get(ledgers.nearest));
    let name = |line: &Line| serde_json::to_value(line).ok().and_then(|name| Some(name.as_str()?.to_owned()));
    let parts = nearest.into_iter().flat_map(|moment| &moment.parts);
    parts.filter_map(move |part| Some(Metric::bytes(format!("ledger.{}", name(&part.name)?), part.bytes)))
}

/// Median of all steps but the first, which warms up, and the last, which the end cuts.
fn time_per_step(run: &Run) -> Option<Metric> {
    let inner = run.steps.get(1..run.steps.len().saturating_sub(1))?;
    let mut times: Vec<f64> = inner.iter().map(|step| step.duration_s).collect();
    Some(Metric::exact("step-time", Unit::Seconds, stats::median(&mut times)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_ledger_have_short_names() {
        assert!(is_named("ledger.malloc_held", "ledger.held") && is_named("peak", "peak"));
        assert!(is_named("ledger.malloc_held", "ledger.malloc_held"));
        assert!(!is_named("ledger.malloc_held", "ledger.eld") && !is_named("made.heap", "heap"));
    }
}
