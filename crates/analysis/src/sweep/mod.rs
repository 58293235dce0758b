//! A sweep: runs of one command that differ in stated parameters, and the laws of their figures. Pure; the runs are
//! made by the command line.

pub mod find;
pub mod model;
pub mod outcome;
pub mod space;

use std::collections::BTreeMap;

use crate::fit::{self, Sample, Shape};
use crate::metric::{self, Metric, Unit};
use crate::model::Run;
use crate::unit::signed;
use find::{Next, Search, Tried};
use model::{Asked, At, Found, Group, MetricLaw, PointRun, Size, Sweep};
use outcome::{Outcome, not_covered};
use space::{Point, number};

/// Figures whose law may fall with a parameter.
const MAY_FALL: [&str; 2] = ["step-time", "duration"];

/// What a sweep was asked, beside its points.
#[derive(Debug, Clone, Default)]
pub struct Question {
    pub command: Vec<String>,
    pub metric: String,
    pub planned: usize,
    pub at: Vec<At>,
    pub find: Option<Limited>,
    pub predict: Vec<Point>,
    pub saved: String,
}

/// `--find batch=1..4096 --limit 16G`.
#[derive(Debug, Clone, PartialEq)]
pub struct Limited {
    pub name: String,
    pub candidates: Vec<f64>,
    pub limit_bytes: u64,
}

impl Limited {
    pub fn search(&self) -> Search {
        Search {
            name: self.name.clone(),
            candidates: self.candidates.clone(),
            limit: self.limit_bytes as f64,
        }
    }
}

/// One run as a point; `said` is the end of what the command printed.
pub fn point(params: Point, repeat: u32, run: &Run, said: &str, at: &[At]) -> PointRun {
    let outcome = Outcome::of(run, said);
    PointRun {
        params,
        repeat,
        outcome,
        code: run.exit.code,
        signal: run.exit.signal,
        peak_bytes: run.peak.as_ref().map(|peak| peak.bytes),
        duration_s: run.duration_s,
        steps: run.steps_seen,
        metrics: metric::of(run),
        at: at.iter().map(|at| size(run, at)).collect(),
        not_covered: if outcome == Outcome::Enough { not_covered(run) } else { Vec::new() },
        evidence: if outcome.ran() { Vec::new() } else { run.exit.evidence.clone() },
        saved: run.saved.clone().unwrap_or_default(),
    }
}

/// A point that its scheduler ended before anything was recorded of it; `how` are the scheduler's words.
pub fn unrecorded(params: Point, repeat: u32, how: &str, saved: String, at: &[At]) -> PointRun {
    PointRun {
        params,
        repeat,
        outcome: Outcome::unrecorded(how),
        code: None,
        signal: None,
        peak_bytes: None,
        duration_s: 0.0,
        steps: 0,
        metrics: Vec::new(),
        at: at.iter().map(|at| Size { at: at.clone(), end_bytes: None, peak_bytes: None }).collect(),
        not_covered: Vec::new(),
        evidence: vec![how.to_owned()],
        saved,
    }
}

fn size(run: &Run, at: &At) -> Size {
    let found = match at {
        At::Step(wanted) => {
            let step = run.steps.iter().find(|step| step.step == *wanted);
            step.map(|step| (Some(step.end_bytes), step.peak_bytes))
        }
        At::Phase(wanted) => {
            let of = run.phases.iter().filter(|phase| phase.name == *wanted);
            of.map(|phase| (None, phase.peak_bytes)).max_by_key(|(_, peak)| *peak)
        }
    };
    Size {
        at: at.clone(),
        end_bytes: found.and_then(|(end, _)| end),
        peak_bytes: found.map(|(_, peak)| peak),
    }
}

/// Table, laws and answers of what has been run so far.
pub fn sweep(question: &Question, mut runs: Vec<PointRun>) -> Sweep {
    fill_categories(&mut runs);
    let names = names(&runs);
    let varying: Vec<String> = names.iter().filter(|name| varies(&runs, name)).cloned().collect();
    let groups = grouped(&runs, &varying, question.find.as_ref());
    let groups =
        groups.into_iter().map(|(fixed, members)| group(question, &varying, fixed, &members)).collect();
    let mut sweep = Sweep {
        command: question.command.clone(),
        names,
        varying,
        metric: question.metric.clone(),
        planned: question.planned,
        at: question.at.clone(),
        groups,
        saved: question.saved.clone(),
        notes: Vec::new(),
        runs,
    };
    sweep.notes = notes(&sweep);
    sweep
}

/// Where allocations were recorded and a category of other runs does not occur, it has no bytes.
fn fill_categories(runs: &mut [PointRun]) {
    let all = runs.iter().flat_map(|run| &run.metrics).filter(|metric| metric.name.starts_with("category."));
    let mut all: Vec<Metric> =
        all.map(|metric| Metric { value: 0.0, low: 0.0, high: 0.0, ..metric.clone() }).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup();
    for run in runs.iter_mut().filter(|run| metric::named(&run.metrics, "allocs.peak").is_some()) {
        let missing = all.iter().filter(|one| metric::named(&run.metrics, &one.name).is_none());
        let missing: Vec<Metric> = missing.cloned().collect();
        run.metrics.extend(missing);
    }
}

fn names(runs: &[PointRun]) -> Vec<String> {
    runs.first().map(|run| run.params.iter().map(|(name, _)| name.clone()).collect()).unwrap_or_default()
}

/// A parameter with more than one number, and nothing but numbers.
fn varies(runs: &[PointRun], name: &str) -> bool {
    let numbers: Option<Vec<f64>> = runs.iter().map(|run| number(&run.params, name)).collect();
    numbers.is_some_and(|numbers| numbers.iter().any(|n| Some(n) != numbers.first()))
}

/// Runs by the parameters that no law is fitted over; a search stands for itself in each combination of the others.
fn grouped<'a>(
    runs: &'a [PointRun],
    varying: &[String],
    find: Option<&Limited>,
) -> Vec<(Point, Vec<&'a PointRun>)> {
    let searched = |name: &str| find.is_some_and(|find| find.name == name);
    let is_fixed =
        |name: &str| !searched(name) && (find.is_some() || !varying.iter().any(|known| known == name));
    let mut groups: BTreeMap<Vec<String>, (Point, Vec<&PointRun>)> = BTreeMap::new();
    for run in runs {
        let fixed: Point = run.params.iter().filter(|(name, _)| is_fixed(name)).cloned().collect();
        let key = fixed.iter().map(|(_, value)| value.text.clone()).collect();
        groups.entry(key).or_insert_with(|| (fixed, Vec::new())).1.push(run);
    }
    groups.into_values().collect()
}

fn group(question: &Question, varying: &[String], fixed: Point, members: &[&PointRun]) -> Group {
    let axes: Vec<String> = match &question.find {
        Some(find) => vec![find.name.clone()],
        None => varying.to_vec(),
    };
    let laws = laws(&axes, members);
    let asked = question.predict.iter().filter(|params| agrees(params, &fixed));
    let predictions = asked.map(|params| predict(params, &axes, &question.metric, &laws)).collect();
    let found = question.find.as_ref().map(|find| found(find, &question.metric, members));
    Group { fixed, laws, found, predictions }
}

fn agrees(params: &Point, fixed: &Point) -> bool {
    params
        .iter()
        .all(|(name, value)| fixed.iter().all(|(known, its)| known != name || its.text == value.text))
}

/// A law for each figure that all runs that went well have.
fn laws(axes: &[String], members: &[&PointRun]) -> Vec<MetricLaw> {
    let good: Vec<&PointRun> = members.iter().copied().filter(|run| run.outcome.ran()).collect();
    let Some(first) = good.first().filter(|_| !axes.is_empty()) else { return Vec::new() };
    first.metrics.iter().filter_map(|metric| law_of(metric, axes, &good)).collect()
}

fn law_of(metric: &Metric, axes: &[String], good: &[&PointRun]) -> Option<MetricLaw> {
    if metric.unit.is_rate() {
        return None; // may be negative: a trend of trends has no law
    }
    let samples: Option<Vec<Sample>> = good.iter().map(|run| sample(run, axes, &metric.name)).collect();
    let shape = Shape { may_fall: MAY_FALL.contains(&metric.name.as_str()) };
    let law = fit::fit(axes, &samples?, shape)?;
    Some(MetricLaw { metric: metric.name.clone(), unit: metric.unit, law })
}

fn sample(run: &PointRun, axes: &[String], name: &str) -> Option<Sample> {
    let x: Option<Vec<f64>> = axes.iter().map(|axis| number(&run.params, axis)).collect();
    Some(Sample { x: x?, y: metric::named(&run.metrics, name)?.value })
}

fn predict(params: &Point, axes: &[String], metric: &str, laws: &[MetricLaw]) -> Asked {
    let x: Option<Vec<f64>> = axes.iter().map(|axis| number(params, axis)).collect();
    let law = laws.iter().find(|law| law.metric == metric);
    let prediction = law.zip(x).map(|(law, x)| law.law.predict(&x));
    Asked {
        params: params.clone(),
        metric: metric.to_owned(),
        unit: law.map_or(Unit::Bytes, |law| law.unit),
        prediction,
    }
}

/// A scheduler ended it for another reason than memory: nothing is known of what it needs.
fn was_stopped_by_scheduler(run: &PointRun) -> bool {
    run.outcome == Outcome::Stopped && run.evidence.iter().any(|how| outcome::is_stopped(how))
}

/// What the search tried, the largest of repeats; a run that did not go well is too large, unless it was not for memory.
pub fn tried(find: &Limited, metric: &str, members: &[&PointRun]) -> Vec<Tried> {
    let mut by_value: BTreeMap<i64, Tried> = BTreeMap::new();
    for run in members.iter().filter(|run| !was_stopped_by_scheduler(run)) {
        let Some(x) = number(&run.params, &find.name) else { continue };
        let y = metric::named(&run.metrics, metric).map(|metric| metric.value).filter(|_| run.outcome.ran());
        let entry = by_value.entry((x * 1e6) as i64).or_insert(Tried { x, y });
        entry.y = entry.y.zip(y).map(|(a, b)| a.max(b));
    }
    by_value.into_values().collect()
}

fn found(find: &Limited, metric: &str, members: &[&PointRun]) -> Found {
    let tried = tried(find, metric, members);
    let search = find.search();
    let (answer, unfinished) = match find::next(&search, &tried) {
        Next::Done(answer) => (Some(answer), false),
        Next::Try(_) => (None, true),
    };
    let largest = answer.as_ref().and_then(|answer| answer.largest);
    let needed = tried.iter().find(|t| Some(t.x) == largest).and_then(|t| t.y);
    let next = answer.as_ref().and_then(|answer| answer.next);
    Found {
        parameter: find.name.clone(),
        limit_bytes: find.limit_bytes,
        largest,
        verified: needed.is_some_and(|y| y <= search.limit),
        low: answer.as_ref().and_then(|answer| answer.low),
        high: answer.as_ref().and_then(|answer| answer.high),
        metric: metric.to_owned(),
        runs: members.len(),
        largest_bytes: needed.map(|y| y as u64),
        next: next.map(|next| next.x),
        next_tried: next.is_some_and(|next| next.tried),
        next_bytes: next.and_then(|next| next.expected),
        is_last: answer.as_ref().is_some_and(|answer| answer.is_last),
        gave_up: answer.as_ref().is_some_and(|answer| answer.gave_up),
        unfinished,
    }
}

fn notes(sweep: &Sweep) -> Vec<String> {
    let count = |outcome: Outcome| sweep.runs.iter().filter(|run| run.outcome == outcome).count();
    let mut notes = Vec::new();
    let mut missing: Vec<&str> = sweep.runs.iter().flat_map(|run| run.not_covered.iter().copied()).collect();
    missing.sort_unstable();
    missing.dedup();
    if !missing.is_empty() {
        let runs = count(Outcome::Enough);
        notes.push(format!(
            "{runs} of {} runs were ended early: no {} seen",
            sweep.runs.len(),
            missing.join(" or ")
        ));
    }
    let lost = sweep.runs.iter().filter(|run| !run.outcome.ran()).count();
    if lost > 0 {
        notes.push(format!(
            "{lost} of {} runs did not end well: they are in the table, not in the laws",
            sweep.runs.len()
        ));
    }
    let timed_out = sweep.runs.iter().filter(|run| was_stopped_by_scheduler(run)).count();
    if timed_out > 0 {
        notes.push(format!(
            "{timed_out} of {} runs were ended by their scheduler, not for want of memory: more time with --submit=--time=…",
            sweep.runs.len()
        ));
    }
    let few = sweep.groups.iter().flat_map(|group| &group.laws).any(|law| law.law.loo_error.is_none());
    if few {
        notes.push("a law through two points has no interval: add values".to_owned());
    }
    let grows = sweep.runs.iter().filter(|run| run.outcome.ran() && grows(run)).count();
    if grows > 0 {
        notes.push(format!(
            "{grows} of {} runs grow with their steps: a longer run needs more than its peak here",
            sweep.runs.len()
        ));
    }
    notes
}

fn grows(run: &PointRun) -> bool {
    let leak = metric::named(&run.metrics, "leak").filter(|leak| leak.unit == Unit::BytesPerStep);
    leak.is_some_and(|leak| {
        leak.low > 0.0 && leak.value * signed(run.steps) as f64 > 0.02 * run.peak_bytes.unwrap_or(0) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use space::Value;

    fn ended(batch: f64, how: &str) -> PointRun {
        unrecorded(vec![("batch".into(), Value::of(batch))], 1, how, String::new(), &[])
    }

    fn measured(batch: f64, figures: &[(&str, f64)]) -> PointRun {
        let figure = |(name, value): &(&str, f64)| Metric {
            name: (*name).to_owned(),
            unit: Unit::Bytes,
            value: *value,
            low: *value,
            high: *value,
        };
        PointRun { outcome: Outcome::Ok, metrics: figures.iter().map(figure).collect(), ..ended(batch, "") }
    }

    #[test]
    fn a_point_whose_time_was_over_is_not_called_too_large() {
        let find = Limited { name: "batch".into(), candidates: vec![1.0, 2.0, 3.0], limit_bytes: 100 };
        let runs = [ended(1.0, "TIMEOUT"), ended(2.0, "out of memory"), measured(3.0, &[("peak", 7.0)])];
        let found = tried(&find, "peak", &runs.iter().collect::<Vec<_>>());
        assert_eq!(found, [Tried { x: 2.0, y: None }, Tried { x: 3.0, y: Some(7.0) }]);
    }

    #[test]
    fn a_category_that_does_not_occur_has_no_bytes_where_any_were_recorded() {
        let mut runs = vec![
            measured(1.0, &[("allocs.peak", 9.0), ("category.data", 9.0)]),
            measured(2.0, &[("allocs.peak", 9.0), ("category.workspace", 9.0)]),
            measured(3.0, &[("peak", 9.0)]),
        ];
        fill_categories(&mut runs);
        let value = |run: &PointRun, name: &str| metric::named(&run.metrics, name).map(|metric| metric.value);
        assert_eq!(value(&runs[0], "category.workspace"), Some(0.0));
        assert_eq!(value(&runs[1], "category.data"), Some(0.0));
        assert_eq!(value(&runs[2], "category.data"), None, "nothing was recorded there");
        assert_eq!(value(&runs[0], "category.data"), Some(9.0));
    }
}
