//! The deepest place of a leak: the code that allocates what stays, where the run recorded its allocations.
//!
//! The one invariant: a line of code is listed because its live bytes rise with the steps by a trend of their own.

use super::inside;
use super::model::{Depth, Leak, Per, Place};
use super::place::{CODE, LEAST_SHARE, place};
use super::series::{self, Course, Terms};
use crate::stats::XY;

const SITES: usize = 4;

/// A line of code: its live bytes along the verdict's axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    /// Who called it, inside out; may be empty.
    pub callers: String,
    pub category: String,
    pub points: Vec<XY>,
    /// How far a level may be off because only some blocks are seen.
    pub noise_bytes: f64,
}

/// Adds the lines of code that grow, fastest first. Where there are none nothing is said of code.
pub fn add_sites(leak: &mut Leak, lines: &[Line]) {
    let whole = leak.rate_bytes_per_step.filter(|rate| *rate > 0.0 && leak.per == Per::Step);
    let Some(whole) = whole.filter(|_| leak.class.is_leak()) else { return };
    let mut places: Vec<Place> = lines.iter().filter_map(|line| grown(line, whole)).collect();
    places.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
    places.truncate(SITES);
    if !places.is_empty() {
        leak.missing.retain(|missing| missing.what != CODE);
    }
    leak.places.extend(places);
}

fn grown(line: &Line, whole: f64) -> Option<Place> {
    let counted = Terms::counted();
    let noise_bytes = counted.noise_bytes.max(line.noise_bytes).max(of_one_step(&line.points));
    let terms = Terms { noise_bytes, ..counted };
    let judged = series::judge(&line.points, &terms);
    let (rate, low) = (inside::rate(&judged), judged.rate?.low);
    let rises = judged.course == Course::Grows && rate > LEAST_SHARE * whole || low > LEAST_SHARE * whole;
    let evidence = format!("its live bytes at {} steps", line.points.len());
    rises.then(|| Place {
        share: Some(rate / whole),
        path: Some(line.callers.clone()).filter(|callers| !callers.is_empty()),
        category: Some(line.category.clone()),
        ..place(Depth::Site, line.name.clone(), Some(rate), &evidence)
    })
}

/// What a step adds. Its mark is heard before or after that, so that a level may be off by as much.
fn of_one_step(points: &[XY]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    if last.0 > first.0 { (last.1 - first.1) / (last.0 - first.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with each step, seen at every eighth; from `late` to `until` its mark is heard after it.
    fn line(late: usize, until: usize) -> Line {
        let heard = |point: usize| usize::from((late..until).contains(&point));
        let blocks = (0..20).map(|point| (8.0 * point as f64, (8 * point + heard(point)) as f64));
        Line {
            name: "train.py:6".to_owned(),
            callers: String::new(),
            category: String::new(),
            points: blocks.map(|(x, blocks)| (x, 200_001.0 * blocks)).collect(),
            noise_bytes: 0.0,
        }
    }

    #[test]
    fn marks_that_are_heard_late_are_no_bend() {
        for (late, until) in [(0, 0), (0, 10), (10, 20), (12, 20), (5, 15), (3, 4), (13, 14)] {
            let place = grown(&line(late, until), 200_000.0).expect("it grows");
            let rate = place.rate_bytes_per_step.expect("a rate");
            assert!((rate / 200_001.0 - 1.0).abs() < 0.01, "{late}..{until}: {rate}");
        }
    }
}
