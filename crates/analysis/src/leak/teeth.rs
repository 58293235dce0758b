//! Rises that fall back again and again: garbage that waits for a collector, buffers that are flushed.
//!
//! A tooth ends with a fall that is large against all that the curve does besides. What counts for a leak is where
//! the falls end: the floors.

use super::form::least_squares;
use crate::stats::{self, XY};

/// A fall must be at least this share of what the curve does around its trend.
const LEAST_FALL: f64 = 0.35;
/// Shorter teeth are noise.
const LEAST_LENGTH: usize = 4;
/// What teeth may leave of the squares that a line leaves: noise has no teeth.
const LEFT_BY_TEETH: f64 = 0.35;
const LEFT_BY_TWO: f64 = 0.1;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Teeth {
    falls: Vec<Fall>,
    /// The series with its teeth filed off: what is left says how the floor moves.
    pub(crate) filed: Vec<XY>,
    pub(crate) height: f64,
    pub(crate) period: f64,
    /// A fall lies between two points: so much of the height is not known.
    pub(crate) blur: f64,
}

/// The teeth of a series, if it has at least two falls. `noise` is how far a level may be off by itself.
pub(crate) fn find(points: &[XY], noise: f64) -> Option<Teeth> {
    let slope = stats::theil_sen(points)?;
    let rest: Vec<f64> = points.iter().map(|point| point.1 - slope * point.0).collect();
    let range = stats::quantile(&mut rest.clone(), 0.95)? - stats::quantile(&mut rest.clone(), 0.05)?;
    of(points, falls(points, (LEAST_FALL * range).max(4.0 * noise)))
}

fn of(points: &[XY], falls: Vec<Fall>) -> Option<Teeth> {
    let median = |values: &mut dyn Iterator<Item = f64>| stats::median(&mut values.collect::<Vec<_>>());
    let length = median(&mut falls.windows(2).map(|pair| (pair[1].bottom - pair[0].bottom) as f64))?;
    // A tooth rises slowly and falls at once; a wave does both alike.
    let falling = median(&mut falls.iter().map(|fall| (fall.bottom - fall.top) as f64))?;
    if length < LEAST_LENGTH as f64 || 2.0 * falling > length {
        return None;
    }
    let period =
        median(&mut falls.windows(2).map(|pair| points[pair[1].bottom].0 - points[pair[0].bottom].0))?;
    let (height, filed) = file_off(points, &falls, length)?;
    Some(Teeth { falls, filed, height, period, blur: height / length })
}

impl Teeth {
    /// How many falls there were.
    pub(crate) fn count(&self) -> usize {
        self.falls.len()
    }

    /// The same without the teeth of warm-up, which are another height: where two or more are left.
    pub(crate) fn since(self, points: &[XY], from_x: f64) -> Self {
        let later = self.falls.iter().filter(|fall| points[fall.bottom].0 >= from_x).copied().collect();
        of(points, later).unwrap_or(self)
    }
}

/// Fits a line and teeth that rise from 0 to 1 between the falls, and takes the teeth away where they explain the
/// most. What is left is one level for each half of a tooth.
fn file_off(points: &[XY], falls: &[Fall], length: f64) -> Option<(f64, Vec<XY>)> {
    let teeth: Vec<Vec<(XY, f64)>> =
        (0..falls.len()).map(|place| tooth(points, falls, place, length)).collect();
    let rows = teeth.iter().flatten().map(|(point, phase)| ([1.0, point.0, *phase], point.1));
    let ([_, _, height], squares) = least_squares(rows.clone())?;
    let (_, plain_squares) = least_squares(rows.map(|(row, y)| ([row[0], row[1]], y)))?;
    // Two falls are found in any noise.
    let left = if falls.len() > 2 { LEFT_BY_TEETH } else { LEFT_BY_TWO };
    if height <= 0.0 || squares > left * plain_squares {
        return None;
    }
    let halves = teeth.iter().flat_map(|tooth| tooth.chunks(tooth.len().div_ceil(2).max(1)));
    let level = |half: &[(XY, f64)]| {
        let mut xs: Vec<f64> = half.iter().map(|(point, _)| point.0).collect();
        let mut ys: Vec<f64> = half.iter().map(|(point, phase)| point.1 - height * phase).collect();
        Some((stats::median(&mut xs)?, stats::median(&mut ys)?))
    };
    Some((height, halves.filter_map(level).collect()))
}

/// The points from one fall to the next, and how far each is on its tooth.
fn tooth(points: &[XY], falls: &[Fall], place: usize, length: f64) -> Vec<(XY, f64)> {
    let (begin, next) = (falls[place].bottom, falls.get(place + 1));
    let end = next.map_or(points.len() - 1, |next| next.top);
    let full = next.map_or(length, |next| (next.bottom - begin) as f64);
    (begin..=end).map(|at| (points[at], (at - begin) as f64 / full)).filter(|row| row.1 <= 1.0).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fall {
    top: usize,
    bottom: usize,
}

/// Falls of at least `threshold` from the highest point since the last one to the lowest before it rises as much.
fn falls(points: &[XY], threshold: f64) -> Vec<Fall> {
    let mut found = Vec::new();
    let (mut top, mut bottom) = (0, 0);
    let mut falling = false;
    for place in 0..points.len() {
        let level = points[place].1;
        if falling {
            if level < points[bottom].1 {
                bottom = place;
            } else if level - points[bottom].1 >= threshold {
                found.push(Fall { top, bottom });
                (falling, top) = (false, place);
            }
        } else if level > points[top].1 {
            top = place;
        } else if points[top].1 - level >= threshold {
            (falling, bottom) = (true, place);
        }
    }
    // The last fall counts when there was time to see that it has ended.
    if falling && points.len() - bottom > LEAST_LENGTH / 2 {
        found.push(Fall { top, bottom });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn series(of: impl Fn(f64) -> f64, noise: f64) -> Vec<XY> {
        let mut random = Random::new(5);
        (0..96).map(|n| (f64::from(n), of(f64::from(n)) + noise * random.normal())).collect()
    }

    #[test]
    fn teeth_have_height_and_period_and_are_filed_off() {
        let found = find(&series(|x| 50.0 * (x / 16.0).fract() + x, 1.0), 0.5).unwrap();
        assert_eq!(found.count(), 5, "{found:?}");
        assert!((found.period - 16.0).abs() < 0.6 && (found.height - 50.0).abs() < 3.0, "{found:?}");
        assert!((stats::theil_sen(&found.filed).unwrap() - 1.0).abs() < 0.05);
    }

    #[test]
    fn noise_lines_jumps_and_plateaus_have_none() {
        assert_eq!(find(&series(|_| 0.0, 5.0), 0.1), None);
        assert_eq!(find(&series(|x| x, 1.0), 0.1), None);
        assert_eq!(find(&series(|x| if x > 40.0 { 50.0 } else { 0.0 }, 1.0), 0.1), None);
        assert_eq!(find(&series(|x| x.min(30.0), 0.2), 0.1), None);
        assert_eq!(find(&[], 1.0), None);
    }
}
