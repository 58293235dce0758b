//! Runs over a parameter, the law that was fitted with its doubt, and the limit.

use nilometer_analysis::fit::Law;
use nilometer_analysis::metric::{self, Unit as MetricUnit};
use nilometer_analysis::sweep::model::{Group, MetricLaw, PointRun, Sweep};
use nilometer_analysis::sweep::space;

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span};
use crate::scene::{Ink, Scene};
use crate::sweep::law_text;
use crate::text;

const POINTS: usize = 120;
/// How far beyond what was measured the law is drawn.
const BEYOND: f64 = 1.25;

pub fn sweep(sweep: &Sweep, size: Size) -> Option<Scene> {
    let name = sweep.varying.first()?;
    let points: Vec<(f64, f64, bool)> = sweep.runs.iter().filter_map(|run| point(sweep, run, name)).collect();
    let (low, high) = ends(points.iter().map(|point| point.0))?;
    let law = sweep.groups.first().and_then(|group| law_of(sweep, group));
    let limit =
        sweep.groups.iter().find_map(|group| group.found.as_ref()).map(|found| found.limit_bytes as f64);
    let last = law.filter(|law| law.law.names.len() == 1).map(|law| law.law.predict(&[high * BEYOND]));
    let last = last.and_then(|last| last.high.or(Some(last.value)));
    let highest = points.iter().map(|point| point.1).chain(limit).chain(last).max_by(f64::total_cmp)?;
    let unit =
        if law.is_some_and(|law| law.unit == MetricUnit::Seconds) { Unit::Seconds } else { Unit::Bytes };
    let told = law.map_or_else(|| format!("{} by {name}", sweep.metric), law_text);
    let x = Span::new(low.min(0.0), high * BEYOND, Unit::Number);
    let mut frame = Frame::new(&told, size, x, Span::up_to(highest, unit));
    frame.axes();
    if let Some(law) = law.filter(|law| law.law.names.len() == 1) {
        curve(&mut frame, &law.law);
    }
    for (x, y, ran) in points {
        let (px, py) = frame.at(x, y);
        frame.scene.rect((px - 3.5, py - 3.5), (7.0, 7.0), if ran { Ink::Series(1) } else { Ink::Limit });
    }
    if let Some(limit) = limit {
        frame.limit(limit, &format!("limit {}", text::bytes(limit as u64)));
    }
    Some(frame.scene)
}

fn point(sweep: &Sweep, run: &PointRun, name: &str) -> Option<(f64, f64, bool)> {
    let value = metric::named(&run.metrics, &sweep.metric)?.value;
    Some((space::number(&run.params, name)?, value, run.outcome.ran()))
}

fn law_of<'a>(sweep: &Sweep, group: &'a Group) -> Option<&'a MetricLaw> {
    group.laws.iter().find(|law| law.metric == sweep.metric)
}

fn ends(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    Some((values.clone().min_by(f64::total_cmp)?, values.max_by(f64::total_cmp)?))
}

/// The law, and what one future run may need.
fn curve(frame: &mut Frame, law: &Law) {
    let span = frame.x;
    let at = |n: usize| span.low + (span.high - span.low) * n as f64 / POINTS as f64;
    let told: Vec<_> = (1..=POINTS).map(|n| (at(n), law.predict(&[at(n)]))).collect();
    let side = |value: fn(&nilometer_analysis::fit::Prediction) -> Option<f64>| -> Vec<(f64, f64)> {
        told.iter().filter_map(|(x, prediction)| Some(frame.at(*x, value(prediction)?))).collect()
    };
    let (mut band, middle) = (side(|p| p.high), side(|p| Some(p.value)));
    band.extend(side(|p| p.low).into_iter().rev());
    frame.scene.area(band, Ink::Band(0));
    frame.scene.line(middle, Ink::Series(0), 1.5);
}
