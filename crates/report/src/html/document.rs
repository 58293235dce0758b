//! The numbers behind the pictures, for the script: columns instead of rows, sizes in KiB, differences instead of values.
//!
//! `web/src/model.ts` reads it; both ends change together. Names are escaped as on the terminal: a script shows text as it is.
//! What is large is written as it is, without a tree of values in between.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nilometer_analysis::Run;
use nilometer_analysis::allocs::model::{Allocator, Allocs, Frame, FrameKind, Moments};
use nilometer_analysis::compare::Versus;
use nilometer_analysis::compare::course::{Axis, Pair};
use nilometer_analysis::ledger::Line;
use nilometer_analysis::ledger::run::Ledgers;
use nilometer_analysis::model::Series;
use nilometer_analysis::pages::model::{Picture, PictureRow};
use nilometer_analysis::rank::strip::Strip;
use serde::Serialize;
use serde_json::{Value, json};

use super::Page;
use crate::ledger::line_name;
use crate::plot;
use crate::rank::of_one_recording;
use crate::stacks::{FIGURES, Stacks};
use crate::text;

const VERSION: u32 = 1;
const STEPS: usize = 4_096;
const EVENTS: usize = 500;
/// As many rows as a screen has pixels.
const RANK_ROWS: usize = 1_024;

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    #[serde(flatten)]
    small: Value,
    allocs: Option<Allocations>,
    pages: Option<Map>,
    ranks: Option<Map>,
}

pub(super) fn document(page: &Page<'_>, stacks: Option<&Stacks>) -> Document {
    let allocs = page.allocs.zip(stacks);
    Document {
        small: small(page),
        allocs: allocs.map(|(allocs, stacks)| allocations(allocs, stacks)),
        pages: page.pages.filter(|pages| pages.trace.is_none()).map(|pages| map(&pages.picture, 0)),
        ranks: ranks(page),
    }
}

fn small(page: &Page<'_>) -> Value {
    let run = page.run;
    json!({
        "version": VERSION,
        "name": text::escape(&run.name),
        "tree": { "low": series(&run.curve.tree_low, false), "high": series(&run.curve.tree_high, true) },
        "processes": run.curve.processes.iter().map(|one| json!({
            "pid": one.pid, "role": text::escape(&one.role), "rss": series(&one.rss, true),
        })).collect::<Vec<_>>(),
        "available": series(&run.curve.available, false),
        "swap": series(&run.curve.swap, true),
        "limit": run.limit.as_ref().map(|limit| json!({ "bytes": limit.bytes, "source": text::escape(&limit.source) })),
        "peak": run.peak.as_ref().map(|peak| json!({ "bytes": peak.bytes, "at": peak.at_s })),
        "steps": steps(run),
        "phases": run.phases.iter().map(|phase| json!([text::escape(&phase.name), phase.start_s, phase.duration_s])).collect::<Vec<_>>(),
        "events": run.events.iter().take(EVENTS).map(|event| json!([event.at_s, event.kind, text::escape(&event.text)])).collect::<Vec<_>>(),
        "ledgers": run.ledgers.as_ref().map(ledgers),
        "leak": page.leak.map(|leak| json!({
            "from": leak.window.from_s, "grows": leak.class.is_leak(),
        })),
        "compare": page.comparison.and_then(|all| Some(courses(&all.base, all.others.first()?))),
    })
}

/// The curves of two sides: first value and differences, as everywhere.
fn courses(base: &str, other: &Versus) -> Value {
    let pair = |pair: &Pair| {
        let side = |points: &[(f64, f64)]| {
            json!({
                "x": points.iter().map(|point| millis(point.0)).collect::<Vec<_>>(),
                "kib": differences(points.iter().map(|point| kib(point.1.max(0.0) as u64))),
            })
        };
        json!({ "by": if pair.axis == Axis::Step { "step" } else { "time" }, "base": side(&pair.base), "other": side(&pair.other) })
    };
    json!({
        "base": text::escape(base),
        "other": text::escape(&other.name),
        "pairs": other.courses.iter().map(pair).collect::<Vec<_>>(),
    })
}

/// Time to the right, one byte a cell, row by row.
#[derive(Debug, Serialize)]
struct Map {
    times: Vec<f64>,
    end: f64,
    names: Vec<String>,
    sizes: Vec<u64>,
    /// What a full cell stands for; 0 where it is a share of its row.
    full: u64,
    cells: String,
}

fn ranks(page: &Page<'_>) -> Option<Map> {
    let outer = of_one_recording(page.run);
    let strip = Strip::of(page.job.or(outer.as_ref())?, RANK_ROWS)?;
    Some(map(&strip.picture, strip.full_bytes))
}

/// 0 where there is nothing, then from 1 (none of it) to 255 (all of it).
fn map(picture: &Picture, full: u64) -> Map {
    let columns = picture.times_s.len();
    let level = |row: &PictureRow, column: usize| match row.levels.get(column).copied().flatten() {
        None => 0,
        Some(level) => 1 + (u16::from(level) * 254 / 255) as u8,
    };
    let rows = picture.rows.iter();
    let cells: Vec<u8> = rows.flat_map(|row| (0..columns).map(move |column| level(row, column))).collect();
    Map {
        times: picture.times_s.iter().map(|at_s| millis(*at_s)).collect(),
        end: millis(picture.end_s),
        names: picture.rows.iter().map(|row| text::escape(&row.name)).collect(),
        sizes: picture.rows.iter().map(|row| row.bytes).collect(),
        full,
        cells: BASE64_STANDARD.encode(cells),
    }
}

/// First value, then differences: small numbers are short.
fn differences(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut before = 0;
    values.map(|value| value - std::mem::replace(&mut before, value)).collect()
}

fn kib(bytes: u64) -> i64 {
    (bytes / 1024).min(i64::MAX as u64 / 2) as i64
}

fn series(series: &Series, is_high: bool) -> Value {
    let start = series.points.first().map_or(0.0, |point| point.at_s);
    let width = if series.width_s > 0.0 { series.width_s } else { 1.0 };
    let number = |at_s: f64| ((at_s - start) / width).round() as i64;
    json!({
        "start": start,
        "width": series.width_s,
        "at": differences(series.points.iter().map(|point| number(point.at_s))),
        "kib": differences(series.points.iter().map(|point| kib(if is_high { point.max } else { point.min }))),
    })
}

fn steps(run: &Run) -> Value {
    let stride = run.steps.len().div_ceil(STEPS).max(1);
    let kept: Vec<_> = run.steps.iter().step_by(stride).collect();
    json!({
        "number": differences(kept.iter().map(|step| step.step as i64)),
        "start": kept.iter().map(|step| millis(step.start_s)).collect::<Vec<_>>(),
        "end": kept.iter().map(|step| millis(step.start_s + step.duration_s)).collect::<Vec<_>>(),
        "peak": differences(kept.iter().map(|step| kib(step.peak_bytes))),
        "level": differences(kept.iter().map(|step| kib(step.end_bytes))),
    })
}

fn millis(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// Every ledger by the same lines, in one order.
fn ledgers(ledgers: &Ledgers) -> Value {
    let used = |line: &&Line| ledgers.curve.iter().any(|moment| moment.bytes(&[**line]) > 0);
    let lines: Vec<Line> = Line::ALL.iter().filter(used).copied().collect();
    let moment = |moment: &nilometer_analysis::ledger::run::Moment| {
        json!({
            "at": moment.at_s,
            "pid": moment.pid,
            "rss": kib(moment.rss_bytes),
            "residual": moment.residual_bytes / 1024,
            "parts": lines.iter().map(|line| kib(moment.bytes(&[*line]))).collect::<Vec<_>>(),
        })
    };
    json!({
        "lines": lines.iter().map(|line| line_name(*line)).collect::<Vec<_>>(),
        "inks": lines.iter().map(|line| plot::ledger_ink(*line).class()).collect::<Vec<_>>(),
        "nearest": ledgers.nearest,
        "moments": ledgers.curve.iter().map(moment).collect::<Vec<_>>(),
    })
}

/// Strings are told once, by number.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Strings {
    fn number(&mut self, text: &str) -> usize {
        let text = text::escape(text);
        if let Some(known) = self.known.get(&text) {
            return *known;
        }
        self.all.push(text.clone());
        self.known.insert(text, self.all.len() - 1);
        self.all.len() - 1
    }
}

/// Stacks as columns: nodes in preorder, their ends with all figures.
#[derive(Debug, Serialize)]
struct Allocations {
    strings: Vec<String>,
    /// Function, file, line, library, kind.
    frames: Vec<(usize, usize, u32, usize, u8)>,
    /// How far back the parent is: mostly one.
    parent: Vec<u32>,
    frame: Vec<u32>,
    ends: Vec<i64>,
    /// Who handed it out, of each end.
    types: Vec<u8>,
    type_names: Vec<&'static str>,
    own: Vec<Vec<i64>>,
    growth: bool,
    moments: AtSteps,
}

/// What was live at the steps that were kept.
#[derive(Debug, Serialize)]
struct AtSteps {
    peak_at: f64,
    stride: u64,
    step: Vec<i64>,
    at: Vec<f64>,
    live: Vec<i64>,
    curve_at: Vec<f64>,
    curve_kib: Vec<i64>,
    /// Nodes whose stacks had something at a step, and how much at each.
    nodes: Vec<i64>,
    types: Vec<u8>,
    bytes: Vec<Vec<i64>>,
}

const ALLOCATORS: [Allocator; 3] = [Allocator::Malloc, Allocator::Python, Allocator::Mapping];

fn allocations(allocs: &Allocs, stacks: &Stacks) -> Allocations {
    let mut strings = Strings::default();
    strings.number("");
    let mut frame = |frame: &Frame| {
        let kind = match frame.kind {
            FrameKind::Python => 0,
            FrameKind::Native => 1,
            FrameKind::Note => 2,
        };
        (
            strings.number(&frame.function),
            strings.number(frame.file.as_deref().unwrap_or("")),
            frame.line.unwrap_or(0),
            strings.number(frame.library.as_deref().unwrap_or("")),
            kind,
        )
    };
    let frames = stacks.frames.iter().map(|one| frame(one)).collect();
    let nodes = || stacks.nodes.iter().skip(1);
    let own = |figure: usize| stacks.ends.iter().map(|end| end.own[figure].round() as i64).collect();
    Allocations {
        strings: strings.all,
        frames,
        parent: nodes().zip(1..).map(|(node, index): (_, u32)| index - node.parent).collect(),
        frame: nodes().map(|node| node.frame).collect(),
        ends: differences(stacks.ends.iter().map(|end| i64::from(end.node))),
        types: stacks.ends.iter().map(|end| end.allocator as u8).collect(),
        type_names: ALLOCATORS.map(Allocator::words).to_vec(),
        own: (0..FIGURES).map(own).collect(),
        growth: allocs.growth_bytes_per_step.is_some(),
        moments: at_steps(&allocs.moments, stacks),
    }
}

fn at_steps(moments: &Moments, stacks: &Stacks) -> AtSteps {
    let whole = |bytes: u64| bytes.min(i64::MAX as u64 / 2) as i64;
    AtSteps {
        peak_at: millis(moments.peak_at_s),
        stride: moments.stride,
        step: differences(moments.steps.iter().map(|step| step.step as i64)),
        at: moments.steps.iter().map(|step| millis(step.at_s)).collect(),
        live: differences(moments.steps.iter().map(|step| whole(step.live_bytes))),
        curve_at: moments.curve.iter().map(|(at_s, _)| millis(*at_s)).collect(),
        curve_kib: differences(moments.curve.iter().map(|(_, bytes)| kib(*bytes))),
        nodes: differences(stacks.series.iter().map(|(node, ..)| i64::from(*node))),
        types: stacks.series.iter().map(|(_, allocator, _)| *allocator as u8).collect(),
        bytes: stacks
            .series
            .iter()
            .map(|(.., bytes)| differences(bytes.iter().map(|it| whole(*it))))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_analysis::model::Point;

    #[test]
    fn series_are_differences_in_kib() {
        let point = |at_s: f64, max: u64| Point { at_s, min: 0, max };
        let made = series(&Series { width_s: 0.5, points: vec![point(1.0, 4096), point(2.0, 2048)] }, true);
        assert_eq!(made, json!({ "start": 1.0, "width": 0.5, "at": [0, 2], "kib": [4, -2] }));
    }

    #[test]
    fn absurd_series_are_numbers() {
        let point = |at_s: f64| Point { at_s, min: 0, max: u64::MAX };
        let made = series(&Series { width_s: 0.0, points: vec![point(-1e300), point(f64::NAN)] }, true);
        assert!(made["kib"][0].as_i64().is_some_and(|kib| kib > 0));
    }
}
