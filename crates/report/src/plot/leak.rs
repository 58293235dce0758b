//! Growth: the level at the end of each step, and the line whose slope the verdict tells.

use nilometer_analysis::Run;
use nilometer_analysis::leak::Leak;
use nilometer_analysis::leak::model::Per;
use nilometer_analysis::stats;

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span, TOP};
use crate::leak::sentence_of;
use crate::scene::{Ink, Scene};

/// Level against step, run or second, as the verdict counts.
pub(crate) fn levels(run: &Run, leak: &Leak) -> Vec<(f64, f64)> {
    if leak.per == Per::Step && !run.steps.is_empty() {
        return run.steps.iter().map(|step| (step.step as f64, step.end_bytes as f64)).collect();
    }
    run.curve.tree_low.points.iter().map(|point| (point.at_s, point.min as f64)).collect()
}

pub fn leak(run: &Run, leak: &Leak, size: Size) -> Option<Scene> {
    let points = levels(run, leak);
    let ((first, _), (last, _)) = (points.first()?, points.last()?);
    let highest = points.iter().map(|point| point.1).max_by(f64::total_cmp)?;
    let is_steps = leak.per == Per::Step && !run.steps.is_empty();
    let unit = if is_steps { Unit::Number } else { Unit::Seconds };
    let axis = if is_steps { "step" } else { "time" };
    let title = format!("Level by {axis}: {}", sentence_of(leak));
    let mut frame =
        Frame::new(&title, size, Span::new(*first, *last, unit), Span::up_to(highest, Unit::Bytes));
    let from = if is_steps { leak.window.from } else { leak.window.from_s };
    if from > *first {
        let (left, right) = (frame.at_x(*first), frame.at_x(from));
        let (top, bottom) = (TOP, frame.bottom());
        frame.scene.rect((left, top), (right - left, bottom - top), Ink::Stripe);
    }
    frame.axes();
    let drawn = points.iter().map(|(x, y)| frame.at(*x, *y)).collect();
    frame.scene.line(drawn, Ink::Series(0), 1.5);
    trend(&mut frame, &points, from, *last, leak);
    Some(frame.scene)
}

/// Through the middle of what was judged.
fn trend(frame: &mut Frame, points: &[(f64, f64)], from: f64, last: f64, leak: &Leak) {
    let rate = if frame.x.unit == Unit::Number { leak.rate_bytes_per_step } else { leak.rate_bytes_per_s };
    let Some(rate) = rate else { return };
    let mut rest: Vec<f64> =
        points.iter().filter(|point| point.0 >= from).map(|(x, y)| y - rate * x).collect();
    let Some(base) = stats::median(&mut rest) else { return };
    let ends = [from, last].map(|x| frame.at(x, base + rate * x));
    let ink = if leak.class.is_leak() { Ink::Limit } else { Ink::Faint };
    frame.scene.line(ends.to_vec(), ink, 2.0);
}
