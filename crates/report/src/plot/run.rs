//! Memory over time: the tree's band from low to high, its limit, phases, steps and peak; or several runs.

use nilometer_analysis::Run;
use nilometer_analysis::model::{Phase, Series, Step};

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span, TOP};
use crate::scene::{Anchor, Ink, Scene, fitted};
use crate::text;

/// A limit farther above the curve than this would flatten it.
const NEAR: f64 = 3.0;
/// More steps than this would be a grey wall.
const MOST_STEPS: usize = 60;

/// One run.
pub fn run(run: &Run, size: Size) -> Option<Scene> {
    let (low, high) = (&run.curve.tree_low, &run.curve.tree_high);
    let highest = top(run)?;
    let limit = run.limit.as_ref().filter(|limit| limit.bytes as f64 <= highest * NEAR);
    let top = limit.map_or(highest, |limit| highest.max(limit.bytes as f64));
    let title = format!("Memory of {}", run.command.join(" "));
    let mut frame = Frame::new(&title, size, time(&[run]), Span::up_to(top, Unit::Bytes));
    stripes(&mut frame, &run.phases, &run.steps);
    frame.axes();
    let upper = curve(&frame, high, |point| point.max);
    let lower = curve(&frame, low, |point| point.min);
    band(&mut frame, &upper, &lower);
    frame.scene.line(upper, Ink::Series(0), 1.5);
    if let Some(limit) = limit {
        frame.limit(limit.bytes as f64, &format!("{} ({})", text::bytes(limit.bytes), limit.source));
    }
    if let Some(peak) = &run.peak {
        let name = format!("peak {} at {}", text::bytes(peak.bytes), text::duration(peak.at_s));
        frame.flag(peak.at_s, peak.bytes as f64, &name);
    }
    Some(frame.scene)
}

/// Several runs on one chart, by the time since each one's start.
pub fn runs(runs: &[&Run], size: Size) -> Option<Scene> {
    if let [single] = runs {
        return run(single, size);
    }
    let highest = runs.iter().filter_map(|run| top(run)).max_by(f64::total_cmp)?;
    let mut frame = Frame::new("Memory", size, time(runs), Span::up_to(highest, Unit::Bytes));
    frame.axes();
    for (number, run) in runs.iter().enumerate() {
        let points = curve(&frame, &run.curve.tree_high, |point| point.max);
        frame.scene.line(points, Ink::Series(number), 1.5);
    }
    let name = |run: &&Run| {
        let peak = run.peak.as_ref().map(|peak| format!(", peak {}", text::bytes(peak.bytes)));
        format!("{}{}", run.name, peak.unwrap_or_default())
    };
    let names: Vec<(String, Ink)> =
        runs.iter().enumerate().map(|(number, run)| (name(run), Ink::Series(number))).collect();
    frame.legend(&names);
    Some(frame.scene)
}

fn top(run: &Run) -> Option<f64> {
    run.curve.tree_high.points.iter().map(|point| point.max as f64).max_by(f64::total_cmp)
}

fn time(runs: &[&Run]) -> Span {
    let all = || runs.iter().map(|run| &run.curve.tree_high);
    let first = all().filter_map(|series| series.points.first()).map(|point| point.at_s);
    let last = all().filter_map(|series| Some(series.points.last()?.at_s + series.width_s));
    Span::new(
        first.min_by(f64::total_cmp).unwrap_or(0.0),
        last.max_by(f64::total_cmp).unwrap_or(1.0),
        Unit::Seconds,
    )
}

pub(super) fn curve(
    frame: &Frame,
    series: &Series,
    value: impl Fn(&nilometer_analysis::model::Point) -> u64,
) -> Vec<(f64, f64)> {
    series.points.iter().map(|point| frame.at(point.at_s, value(point) as f64)).collect()
}

/// What is certain below, what is possible above it.
fn band(frame: &mut Frame, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
    let (Some(first), Some(last)) = (lower.first(), lower.last()) else { return };
    let ground = frame.bottom();
    let mut certain = lower.to_vec();
    certain.extend([(last.0, ground), (first.0, ground)]);
    frame.scene.area(certain, Ink::Band(0));
    let mut possible = upper.to_vec();
    possible.extend(lower.iter().rev());
    frame.scene.area(possible, Ink::Band(4));
}

/// Phases with their names; without phases the steps, if they are few.
fn stripes(frame: &mut Frame, phases: &[Phase], steps: &[Step]) {
    let (top, bottom) = (TOP, frame.bottom());
    let stripe = |frame: &mut Frame, number: usize, from: f64, to: f64, name: &str| {
        let (left, right) = (frame.at_x(from), frame.at_x(to));
        if number.is_multiple_of(2) {
            frame.scene.rect((left, top), (right - left, bottom - top), Ink::Stripe);
        }
        let shown = fitted(&text::escape(name), 11.0, right - left - 8.0);
        frame.scene.text((left + 4.0, top + 12.0), &shown, Anchor::Start, Ink::Faint);
    };
    for (number, phase) in phases.iter().enumerate() {
        stripe(frame, number, phase.start_s, phase.start_s + phase.duration_s, &phase.name);
    }
    if phases.is_empty() && steps.len() <= MOST_STEPS {
        for (number, step) in steps.iter().enumerate() {
            stripe(frame, number, step.start_s, step.start_s + step.duration_s, "");
        }
    }
}
