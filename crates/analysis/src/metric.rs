//! The figures of a run that sweeps fit and comparisons judge, each under one name.
//!
//! A figure that a run does not contain is absent, never zero.

use nilometer_trace::ledger::Line;
use serde::Serialize;

use crate::allocs::model::Allocs;
use crate::leak::Leak;
use crate::leak::model::{Class, Per};
use crate::model::{Run, Series};
use crate::pages::Pages;
use crate::pages::model::Window;
use crate::stats;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Bytes,
    Seconds,
    BytesPerStep,
    BytesPerMinute,
    BytesPerRun,
}

impl Unit {
    /// A trend, which may be negative and has no law of its own.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::BytesPerStep | Self::BytesPerMinute | Self::BytesPerRun)
    }
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

/// Everything that the log of a run tells, the most asked for first.
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
    let mut found: Vec<Metric> = [peak, largest, gpu(run), cgroup, outlives].into_iter().flatten().collect();
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

/// The rate of the leak verdict. What is no leak (a warm-up, a saw, a cache that fills, what an allocator keeps) leaks
/// nothing, and no more than could have been seen; what cannot be told is no figure.
pub fn of_leak(leak: &Leak) -> Option<Metric> {
    let (unit, scale) = match leak.per {
        Per::Step => (Unit::BytesPerStep, 1.0),
        Per::Run => (Unit::BytesPerRun, 1.0),
        Per::Second => (Unit::BytesPerMinute, 60.0),
    };
    let (value, [low, high]) = match leak.class {
        Class::CannotTell => return None,
        class if class.is_leak() => {
            let rate = leak.rate_bytes_per_step?;
            (rate, leak.ci95.unwrap_or([rate; 2]))
        }
        _ => (0.0, [0.0, leak.smallest_detectable.unwrap_or(0.0)]),
    };
    Some(Metric { name: "leak".into(), unit, value: value * scale, low: low * scale, high: high * scale })
}

/// What was allocated at the peak, by what it is for.
pub fn of_allocs(allocs: &Allocs) -> Vec<Metric> {
    let peak = &allocs.peak;
    let bounds = (peak.low_bytes as f64, peak.high_bytes as f64);
    let peak = Metric { low: bounds.0, high: bounds.1, ..Metric::bytes("allocs.peak", peak.bytes) };
    let end = Metric::bytes("allocs.live-end", allocs.live_end_bytes);
    let categories = allocs.by_category.iter();
    let categories = categories
        .map(|row| Metric::bytes(format!("category.{}", row.category.replace(' ', "-")), row.peak_bytes));
    [peak, end].into_iter().chain(categories).collect()
}

/// The working set: the median of the windows that lie within steps, the first of which warms up; of those that touch
/// them; of all. Shared pages of several processes are counted once at least, and once each at most.
pub fn of_pages(pages: &Pages, run: &Run) -> Option<Metric> {
    let after = pages.after_start_s.unwrap_or(0.0);
    let span = run.steps.get(1).or(run.steps.first()).zip(run.steps.last());
    let span = span.map(|(first, last)| (first.start_s, last.start_s + last.duration_s));
    let begin = |window: &Window| window.at_s + after;
    let end = |window: &Window| begin(window) + window.effective_s;
    let within = |window: &Window| span.is_some_and(|(from, to)| begin(window) >= from && end(window) <= to);
    let touches = |window: &Window| span.is_some_and(|(from, to)| end(window) > from && begin(window) < to);
    let chosen = |keep: &dyn Fn(&Window) -> bool| {
        let kept: Vec<&Window> = pages.windows.iter().filter(|window| keep(window)).collect();
        (!kept.is_empty()).then_some(kept)
    };
    let windows = chosen(&within).or_else(|| chosen(&touches)).or_else(|| chosen(&|_| true))?;
    let median = |size: fn(&Window) -> u64| {
        stats::median(&mut windows.iter().map(|window| size(window) as f64).collect::<Vec<f64>>())
    };
    let value = median(|window| window.wss_bytes)?;
    let low = median(|window| window.wss_low_bytes)?;
    Some(Metric { name: "wss".into(), unit: Unit::Bytes, value, low, high: value })
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
