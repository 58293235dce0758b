//! What looks into a process say: which kinds of object grow, and whether memory is live or only kept by allocators.
//!
//! The one invariant: a look counts what is there, so few looks are enough for a trend; two are never enough.

use std::collections::BTreeMap;

use nilometer_trace::ledger::Line;

use super::axis::Axis;
use super::collect::{HeapLook, LeakBuilder, LedgerLook};
use super::series::{self, Course, Judged, Rate, Terms};
use super::trend::{self, Trend};
use crate::stats::{self, XY};

/// Kinds that are judged: the largest by what they rose.
const KINDS: usize = 48;
/// Looks that a trend of a ledger needs.
const LEAST_LOOKS: usize = 4;
/// Looks after warm-up that are enough by themselves.
const ENOUGH_LOOKS: usize = 6;
/// Lines that grow and are this share of the growth of the process explain it.
const EXPLAINS: f64 = 0.8;
/// A line of a ledger is read while memory moves: this much is noise.
const LEDGER_NOISE: f64 = 64.0 * 1024.0;

/// A kind of object over the looks.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) judged: Judged,
    /// Objects per unit of the axis.
    pub(crate) count_rate: f64,
}

/// The census over time.
#[derive(Debug, Clone)]
pub(crate) struct Census {
    pub(crate) pid: i32,
    pub(crate) looks: usize,
    pub(crate) total: Judged,
    /// Those that grow, fastest first.
    pub(crate) kinds: Vec<Kind>,
}

/// The looks of the process that was looked at most, from `since_x` on.
pub(crate) fn census(evidence: &LeakBuilder, axis: &Axis, since_x: f64) -> Option<Census> {
    let pid = most_frequent(evidence.heap.items().iter().map(|look| look.pid))?;
    let looks: Vec<(f64, &HeapLook)> = evidence
        .heap
        .items()
        .iter()
        .filter(|look| look.pid == pid)
        .filter_map(|look| Some((axis.x(evidence.clock.seconds(look.at_ns))?, look)))
        .collect();
    let all: Vec<XY> = looks.iter().map(|(x, look)| (*x, look.total as f64)).collect();
    // A census after warm-up where there are enough of them, else all and its own cut.
    let settled: Vec<(f64, &HeapLook)> = looks.iter().copied().filter(|(x, _)| *x >= since_x).collect();
    let used = if settled.len() >= ENOUGH_LOOKS { &settled } else { &looks };
    let terms = Terms::counted();
    let judge = |points: &[XY]| series::with_lateness(points, series::judge(points, &terms), axis.rhythm());
    let mut kinds: Vec<Kind> = rising(used).into_iter().filter_map(|name| kind(used, name, judge)).collect();
    kinds.sort_by(|a, b| rate(&b.judged).total_cmp(&rate(&a.judged)));
    Some(Census { pid, looks: looks.len(), total: judge(&all), kinds })
}

fn most_frequent(pids: impl Iterator<Item = i32>) -> Option<i32> {
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    pids.for_each(|pid| *counts.entry(pid).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(pid, _)| pid)
}

pub(crate) fn rate(judged: &Judged) -> f64 {
    judged.rate.map_or(0.0, |rate| rate.value)
}

/// Names of the kinds that are larger at the end than at the beginning, most first.
fn rising<'a>(looks: &[(f64, &'a HeapLook)]) -> Vec<&'a str> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    let before: BTreeMap<&str, u64> = first.1.kinds.iter().map(|kind| (kind.0.as_str(), kind.2)).collect();
    let mut rises: Vec<(u64, &str)> = last
        .1
        .kinds
        .iter()
        .map(|(name, _, bytes)| {
            (bytes.saturating_sub(before.get(name.as_str()).copied().unwrap_or(0)), name.as_str())
        })
        .filter(|(rise, _)| *rise > 0)
        .collect();
    rises.sort_unstable_by(|a, b| b.cmp(a));
    rises.truncate(KINDS);
    rises.into_iter().map(|(_, name)| name).collect()
}

/// The kind if it certainly grows. A look where it has no row tells nothing of it.
fn kind(looks: &[(f64, &HeapLook)], name: &str, judge: impl Fn(&[XY]) -> Judged) -> Option<Kind> {
    let rows = looks.iter().filter_map(|(x, look)| {
        let row = look.kinds.iter().find(|kind| kind.0 == name)?;
        Some((*x, row.1 as f64, row.2 as f64))
    });
    let rows: Vec<(f64, f64, f64)> = rows.collect();
    let bytes: Vec<XY> = rows.iter().map(|row| (row.0, row.2)).collect();
    let judged = judge(&bytes);
    if judged.course != Course::Grows {
        return None;
    }
    let since = judged.since_x;
    let counts: Vec<XY> = rows.iter().filter(|row| row.0 >= since).map(|row| (row.0, row.1)).collect();
    let count_rate = trend::trend(&counts, 1.0).map_or(0.0, |trend| trend.slope);
    Some(Kind { name: name.to_owned(), judged, count_rate })
}

/// What a line of the ledger is, for a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Nature {
    /// Somebody holds it.
    Live,
    /// Given back by the program, kept by an allocator.
    Retained,
    /// Pages of files.
    File,
}

pub(crate) fn nature(line: Line) -> Nature {
    match line {
        Line::PythonSlack
        | Line::PythonFree
        | Line::MallocHeld
        | Line::MallocMetadata
        | Line::HugeRounding => Nature::Retained,
        Line::Code | Line::Files => Nature::File,
        _ => Nature::Live,
    }
}

/// The ledgers of one process over time.
#[derive(Debug, Clone)]
pub(crate) struct Books {
    pub(crate) pid: i32,
    pub(crate) looks: usize,
    pub(crate) live: Trend,
    pub(crate) retained: Trend,
    pub(crate) span: f64,
    /// By this part of itself any rate may be off because looks see rises late.
    late: f64,
    /// Lines that certainly rise, fastest first, with their rate.
    pub(crate) lines: Vec<(Line, f64)>,
    /// Live lines that rise beyond any doubt, together; nothing where another one probably rises as well.
    pub(crate) growing: Option<Rate>,
}

/// From `since_x` on, of the process that was looked at most.
pub(crate) fn books(evidence: &LeakBuilder, axis: &Axis, since_x: f64) -> Option<Books> {
    let pid = most_frequent(evidence.ledgers.items().iter().map(|look| look.pid))?;
    let looks: Vec<(f64, &LedgerLook)> = evidence
        .ledgers
        .items()
        .iter()
        .filter(|look| look.pid == pid)
        .filter_map(|look| Some((axis.x(evidence.clock.seconds(look.at_ns))?, look)))
        .collect();
    let looks = later(looks, since_x);
    if looks.len() < LEAST_LOOKS {
        return None;
    }
    let of = |wanted: &dyn Fn(Line) -> bool| -> Vec<XY> {
        let sum = |look: &LedgerLook| {
            look.lines.iter().filter(|line| wanted(line.0)).map(|line| line.1 as f64).sum()
        };
        looks.iter().map(|(x, look)| (*x, sum(look))).collect()
    };
    let trend_of = |wanted: Nature| trend::trend(&of(&|line| nature(line) == wanted), LEDGER_NOISE);
    let span = looks.last()?.0 - looks.first()?.0;
    let trends: Vec<(Line, Trend)> = Line::ALL
        .into_iter()
        .filter_map(|line| Some((line, trend::trend(&of(&|other| other == line), LEDGER_NOISE)?)))
        .collect();
    let rising = trends.iter().filter(|(_, trend)| trend.low > 0.0);
    let mut lines: Vec<(Line, f64)> = rising.map(|(line, trend)| (*line, trend.slope)).collect();
    lines.sort_by(|a, b| b.1.total_cmp(&a.1));
    let certain = |line: Line| trends.iter().any(|(other, trend)| *other == line && trend.z > trend::CERTAIN);
    let others = of(&|line| nature(line) == Nature::Live && !certain(line));
    let calm = trend::trend(&others, LEDGER_NOISE).is_none_or(|others| others.low <= 0.0);
    let of_live = trends.iter().filter(|(line, _)| nature(*line) == Nature::Live && certain(*line));
    let of_live: Vec<Trend> = of_live.map(|(_, trend)| *trend).collect();
    let times: Vec<XY> = looks.iter().map(|(x, _)| (*x, 0.0)).collect();
    let late = stats::slope_of_lateness(&times, 1.0, axis.rhythm());
    Some(Books {
        pid,
        looks: looks.len(),
        live: trend_of(Nature::Live)?,
        retained: trend_of(Nature::Retained)?,
        span,
        late,
        lines,
        growing: together(&of_live).filter(|_| calm).map(|rate| rate.no_surer_than(late * rate.value.abs())),
    })
}

/// Those after warm-up; where they are few, the later ones.
fn later(looks: Vec<(f64, &LedgerLook)>, since_x: f64) -> Vec<(f64, &LedgerLook)> {
    let after = looks.partition_point(|(x, _)| *x < since_x);
    let enough = looks.len().saturating_sub(ENOUGH_LOOKS).max(looks.len() / 4);
    looks.into_iter().skip(after.min(enough)).collect()
}

/// The sum of independent trends.
fn together(trends: &[Trend]) -> Option<Rate> {
    let value: f64 = trends.iter().map(|trend| trend.slope).sum();
    let half = trends.iter().map(|trend| ((trend.high - trend.low) / 2.0).powi(2)).sum::<f64>().sqrt();
    (!trends.is_empty()).then_some(Rate { value, low: value - half, high: value + half })
}

impl Books {
    /// How fast it grows by both, each with the weight of its certainty: resident memory has garbage and what allocators
    /// keep in it as well, lines have not, but are told by few looks. Only where the lines explain the growth. What both
    /// may have in common, such as seeing rises late, does not average out: neither do their intervals.
    pub(crate) fn finer(&self, resident: Rate) -> Option<Rate> {
        let live = self.growing?;
        let explains = live.value > EXPLAINS * resident.value && live.value < resident.value / EXPLAINS;
        let weight = |rate: &Rate| (rate.high - rate.low).max(1.0).powi(-2);
        let (of_live, of_resident) = (weight(&live), weight(&resident));
        let value = (live.value * of_live + resident.value * of_resident) / (of_live + of_resident);
        let half = |rate: &Rate| (rate.high - rate.low) / 2.0;
        let half = (half(&live) * of_live + half(&resident) * of_resident) / (of_live + of_resident);
        explains.then_some(Rate { value, low: value - half, high: value + half })
    }

    /// A trend with its doubt.
    pub(crate) fn rate(&self, trend: &Trend) -> Rate {
        let rate = Rate { value: trend.slope, low: trend.low, high: trend.high };
        rate.no_surer_than(self.late * rate.value.abs())
    }

    /// What grows is what allocators keep, and what is live does not: by far the larger part, and not by chance.
    pub(crate) fn says_retention(&self, rate: f64) -> bool {
        self.retained.low > 0.0
            && self.retained.slope > 0.5 * rate
            && self.live.slope < 0.4 * self.retained.slope
            && self.live.low < 0.25 * rate
    }
}
