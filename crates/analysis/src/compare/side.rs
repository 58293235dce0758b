//! One side of a comparison: a run, repeats of one, a heap snapshot, or a sweep.

use std::collections::BTreeMap;

use crate::allocs::model::Allocs;
use crate::heap::model::By;
use crate::heap::{Grouping, Heap};
use crate::leak::Leak;
use crate::metric::{self, Metric, Unit};
use crate::model::Run;
use crate::pages::Pages;
use crate::sweep::model::Sweep;
use crate::sweep::space::Point;

use super::object::Amount;
use super::site::Sites;

/// A leak stands beside the peaks.
const LEAK_PLACE: usize = 2;

/// What is compared, all of it optional: a figure that is absent here is not compared.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub name: String,
    /// `run`, `repeats`, `heap snapshot`, `sweep`.
    pub what: &'static str,
    pub facts: Vec<(String, String)>,
    /// The figures of each run.
    pub samples: Vec<Vec<Metric>>,
    pub runs: Vec<Run>,
    /// The first sample of each run: a recording of repeats has several.
    pub(super) first_samples: Vec<usize>,
    /// What the leak verdicts of the runs say, each once.
    pub(super) leaks: Vec<&'static str>,
    /// Kinds of object by name, of a snapshot.
    pub(super) kinds: BTreeMap<String, Amount>,
    pub(super) sites: Sites,
    /// Parameter sets of a sweep, each a side of its own.
    pub points: Vec<(Point, Side)>,
    /// How far a counter may lag, in bytes.
    pub(super) slack: f64,
    /// Why figures are absent that one may ask for.
    pub(super) absent: Vec<(String, String)>,
    /// What is doubtful, one sentence each.
    pub notes: Vec<String>,
}

impl Side {
    /// A run, or several of the same command.
    pub fn of_runs(name: &str, facts: Vec<(String, String)>, runs: Vec<Run>) -> Self {
        let (mut first_samples, mut samples) = (Vec::new(), Vec::new());
        for run in &runs {
            first_samples.push(samples.len());
            samples.extend(samples_of(run));
        }
        let slack = runs.iter().map(|run| run.about.counter_slack_bytes).max().unwrap_or(0) as f64;
        let failed = runs
            .iter()
            .filter(|run| run.exit.code.is_some_and(|code| code != 0) || run.exit.signal.is_some());
        let failed = failed.filter(|run| run.exit.cause != crate::model::Cause::Enough).count();
        let notes = (failed > 0).then(|| format!("{name}: {failed} of {} runs failed", runs.len()));
        let what = if samples.len() > 1 { "repeats" } else { "run" };
        Self {
            name: name.to_owned(),
            what,
            facts,
            samples,
            runs,
            first_samples,
            slack,
            notes: notes.into_iter().collect(),
            ..Self::default()
        }
    }

    pub fn of_heap(name: &str, heap: &Heap<'_>) -> Self {
        let summary = heap.summary();
        let grouping = Grouping { by: By::Kind, top: None, ..Grouping::default() };
        let rows = heap.table(&heap.all(), grouping).map(|table| table.rows).unwrap_or_default();
        let kinds = rows
            .into_iter()
            .map(|row| (row.kind, ((row.bytes + row.payload_bytes) as f64, row.count as f64)));
        let bytes = |name: &str, value: u64| {
            let value = value as f64;
            Metric { name: name.into(), unit: Unit::Bytes, value, low: value, high: value }
        };
        let metrics = vec![
            bytes("heap", summary.bytes + summary.payload_bytes),
            bytes("heap.objects", summary.bytes),
            bytes("heap.payload", summary.payload_bytes),
        ];
        let facts = vec![
            ("python".to_owned(), summary.python.clone()),
            ("command".to_owned(), summary.command.clone()),
        ];
        Self {
            name: name.to_owned(),
            what: "heap snapshot",
            facts,
            samples: vec![metrics],
            kinds: kinds.collect(),
            ..Self::default()
        }
    }

    /// A sweep: its parameter sets, each with its runs that went well.
    pub fn of_sweep(name: &str, sweep: &Sweep) -> Self {
        let mut points: Vec<(Point, Self)> = Vec::new();
        for run in sweep.runs.iter().filter(|run| run.outcome.ran()) {
            let known = points.iter_mut().find(|(params, _)| *params == run.params);
            if let Some((_, side)) = known {
                side.samples.push(run.metrics.clone());
            } else {
                let side = Self { what: "repeats", samples: vec![run.metrics.clone()], ..Self::default() };
                points.push((run.params.clone(), side));
            }
        }
        let facts = vec![("command".to_owned(), sweep.command.join(" "))];
        Self {
            name: name.to_owned(),
            what: "sweep",
            facts,
            points,
            notes: sweep.notes.clone(),
            ..Self::default()
        }
    }

    fn sample_of(&mut self, place: usize) -> Option<&mut Vec<Metric>> {
        self.samples.get_mut(*self.first_samples.get(place)?)
    }

    /// The leak verdict on run number `place`; where it cannot tell, why.
    pub fn add_leak(&mut self, place: usize, leak: &Leak) {
        if !self.leaks.contains(&leak.class.name()) {
            self.leaks.push(leak.class.name());
        }
        match metric::of_leak(leak) {
            Some(found) => self
                .sample_of(place)
                .into_iter()
                .for_each(|sample| sample.insert(sample.len().min(LEAK_PLACE), found.clone())),
            None => self.absent.push(("leak".to_owned(), format!("{}: {}", leak.class.name(), leak.reason))),
        }
    }

    /// The allocations of run number `place`: its sites, and figures of their own.
    pub fn add_allocs(&mut self, place: usize, allocs: &Allocs) {
        self.sites.add(allocs);
        self.sample_of(place).into_iter().for_each(|sample| sample.extend(metric::of_allocs(allocs)));
    }

    /// The touched pages of run number `place`.
    pub fn add_pages(&mut self, place: usize, pages: &Pages) {
        let found = self.runs.get(place).and_then(|run| metric::of_pages(pages, run));
        self.sample_of(place).into_iter().for_each(|sample| sample.extend(found.clone()));
    }

    pub(super) fn figures(&self, name: &str) -> Vec<&Metric> {
        self.samples.iter().filter_map(|sample| metric::named(sample, name)).collect()
    }

    /// Names of all figures, in the order of the first sample.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for metric in self.samples.iter().flatten() {
            if !names.contains(&metric.name.as_str()) {
                names.push(&metric.name);
            }
        }
        names
    }
}

/// A recording of several runs of one command has one peak for each.
fn samples_of(run: &Run) -> Vec<Vec<Metric>> {
    let whole = metric::of(run);
    let is_run = |name: &str| name.strip_prefix("run ").is_some_and(|number| number.parse::<u64>().is_ok());
    let repeats: Vec<_> = run.phases.iter().filter(|phase| is_run(&phase.name)).collect();
    if run.repeats.is_none() || repeats.len() < 2 {
        return vec![whole];
    }
    let peak = |bytes: u64| {
        let value = bytes as f64;
        Metric { name: "peak".into(), unit: Unit::Bytes, value, low: value, high: value }
    };
    let mut samples: Vec<Vec<Metric>> = repeats.iter().map(|phase| vec![peak(phase.peak_bytes)]).collect();
    samples[0].extend(whole.into_iter().filter(|metric| metric.name != "peak"));
    samples
}
