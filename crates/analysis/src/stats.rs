//! Robust statistics of a series: median, Theil–Sen slope with an interval that survives autocorrelation,
//! the best place to cut it in two. No knowledge of memory in here.

use crate::random::Random;

/// A point of a series in increasing `x`.
pub type XY = (f64, f64);

/// Pairwise slopes are quadratic: longer series are binned to this many points first.
pub const MAX_POINTS: usize = 96;
/// Squares below this share of the whole are rounding: the points lie on the line.
const ROUNDING: f64 = 1e-9;
const RESAMPLES: usize = 299;
const SEED: u64 = 0x6e69_6c6f_6d65_7465;

/// The middle value (mean of the two middle ones); the slice is reordered.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let upper = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let odd = values.len() % 2 == 1;
    let (below, middle, _) = values.select_nth_unstable_by(upper, f64::total_cmp);
    let middle = *middle;
    let lower = below.iter().copied().max_by(f64::total_cmp).unwrap_or(middle);
    Some(if odd { middle } else { f64::midpoint(lower, middle) })
}

/// The value below which `share` of them lie (nearest rank); the slice is sorted.
pub fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil().max(1.0) as usize - 1;
    values.get(rank.min(values.len().saturating_sub(1))).copied()
}

/// Medians of equal runs of points, at most `limit` of them.
pub fn bin(points: &[XY], limit: usize) -> Vec<XY> {
    let per_bin = points.len().div_ceil(limit.max(1)).max(1);
    points.chunks(per_bin).filter_map(middle_of).collect()
}

fn middle_of(points: &[XY]) -> Option<XY> {
    let mut xs: Vec<f64> = points.iter().map(|point| point.0).collect();
    let mut ys: Vec<f64> = points.iter().map(|point| point.1).collect();
    Some((median(&mut xs)?, median(&mut ys)?))
}

/// Median of the slopes of all pairs.
pub fn theil_sen(points: &[XY]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (place, a) in points.iter().enumerate() {
        let later = points[place + 1..].iter().filter(|b| b.0 > a.0);
        slopes.extend(later.map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    median(&mut slopes)
}

/// A slope and the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// How far a slope may be off because a look sees a rise late, by up to what happens until the next look (or, where that
/// is less, by what happens within `step` along `x`). Where looks and rises have nearly the same rhythm, how late drifts
/// from the first to the last, and nothing in the points tells that from slope: each end may be off by one such rise.
pub fn slope_of_lateness(points: &[XY], slope: f64, step: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let span = last.0 - first.0;
    let late = (span / (points.len() - 1).max(1) as f64).min(step);
    if span > 0.0 { 2.0 * slope.abs() * late / span } else { 0.0 }
}

/// Theil–Sen slope; the interval is a moving-block bootstrap of the residuals with a fixed seed.
/// Blocks keep neighbours together, so that a slow wave does not pass for independent noise.
pub fn slope(points: &[XY]) -> Option<Slope> {
    let points = bin(points, MAX_POINTS);
    let value = theil_sen(&points)?;
    let residuals = residuals(&points, value);
    if residuals.iter().all(|residual| *residual == 0.0) {
        return Some(Slope { value, low: value, high: value }); // nothing to resample
    }
    let block = block_length(&residuals);
    let mut random = Random::new(SEED);
    let mut slopes: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| theil_sen(&resample(&points, value, &residuals, block, &mut random)))
        .collect();
    let low = quantile(&mut slopes, 0.025)?.min(value);
    let high = quantile(&mut slopes, 0.975)?.max(value);
    Some(Slope { value, low, high })
}

/// Distances from the line, centred, and widened for the two parameters that were fitted.
fn residuals(points: &[XY], slope: f64) -> Vec<f64> {
    let raw: Vec<f64> = points.iter().map(|point| point.1 - slope * point.0).collect();
    let centre = median(&mut raw.clone()).unwrap_or(0.0);
    let count = raw.len() as f64;
    let widen = (count / (count - 2.0).max(1.0)).sqrt();
    raw.into_iter().map(|value| (value - centre) * widen).collect()
}

/// Block length from the autocorrelation at lag one (Andrews' rule for AR(1)), at most a third of the series.
fn block_length(residuals: &[f64]) -> usize {
    let count = residuals.len() as f64;
    let power: f64 = residuals.iter().map(|value| value * value).sum();
    let lagged: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let rho = if power > 0.0 { (lagged / power).clamp(0.0, 0.97) } else { 0.0 };
    let length = (6f64.sqrt() * rho / (1.0 - rho * rho)).powf(2.0 / 3.0) * count.cbrt();
    (length.ceil() as usize).clamp(1, (residuals.len() / 3).max(1))
}

fn resample(points: &[XY], slope: f64, residuals: &[f64], block: usize, random: &mut Random) -> Vec<XY> {
    let starts = residuals.len() - block + 1;
    let mut drawn = Vec::with_capacity(points.len() + block);
    while drawn.len() < points.len() {
        let start = random.below(starts);
        drawn.extend_from_slice(&residuals[start..start + block]);
    }
    points.iter().zip(drawn).map(|(point, noise)| (point.0, slope * point.0 + noise)).collect()
}

/// A series cut in two, each part with its own straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// First point of the second part.
    pub at: usize,
    pub slope_before: f64,
    pub slope_after: f64,
    /// From the end of the first line to the begin of the second.
    pub jump: f64,
    /// Sum of squares left, as a share of what one line leaves.
    pub left: f64,
}

/// The cut that leaves the smallest squares, with at least `least_before` and `least_after` points.
pub fn split(points: &[XY], least_before: usize, least_after: usize) -> Option<Split> {
    let sums = Sums::of(points);
    let whole = sums.line(0, points.len())?;
    let last = points.len().checked_sub(least_after)?;
    let cuts = least_before.max(2)..=last;
    let best = cuts.filter_map(|at| Some((at, sums.line(0, at)?, sums.line(at, points.len())?)));
    let (at, before, after) =
        best.min_by(|a, b| (a.1.squares + a.2.squares).total_cmp(&(b.1.squares + b.2.squares)))?;
    let jump = after.value(points[at].0) - before.value(points[at - 1].0);
    let exact = whole.squares <= ROUNDING * whole.spread;
    let left = if exact { 1.0 } else { (before.squares + after.squares) / whole.squares };
    Some(Split { at, slope_before: before.slope, slope_after: after.slope, jump, left })
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) slope: f64,
    mean: XY,
    /// Sum of squares around the mean, and what the line leaves of it.
    spread: f64,
    pub(crate) squares: f64,
}

impl Line {
    /// Ordinary least squares.
    pub(crate) fn of(points: &[XY]) -> Option<Self> {
        Sums::of(points).line(0, points.len())
    }

    pub(crate) fn value(&self, x: f64) -> f64 {
        self.mean.1 + self.slope * (x - self.mean.0)
    }
}

/// Running sums around the centre of the series, so that any stretch has its line in constant time.
struct Sums {
    rows: Vec<[f64; 5]>,
    centre: XY,
}

impl Sums {
    fn of(points: &[XY]) -> Self {
        let count = points.len().max(1) as f64;
        let centre_x = points.iter().map(|point| point.0).sum::<f64>() / count;
        let centre_y = points.iter().map(|point| point.1).sum::<f64>() / count;
        let mut row = [0.0; 5];
        let mut rows = vec![row];
        for point in points {
            let (x, y) = (point.0 - centre_x, point.1 - centre_y);
            for (sum, term) in row.iter_mut().zip([x, y, x * x, x * y, y * y]) {
                *sum += term;
            }
            rows.push(row);
        }
        Self { rows, centre: (centre_x, centre_y) }
    }

    fn line(&self, from: usize, to: usize) -> Option<Line> {
        let count = to.checked_sub(from).filter(|count| *count >= 2)? as f64;
        let [x, y, xx, xy, yy]: [f64; 5] = std::array::from_fn(|n| self.rows[to][n] - self.rows[from][n]);
        let (spread_x, spread_xy, spread_y) = (xx - x * x / count, xy - x * y / count, yy - y * y / count);
        let slope = if spread_x > 0.0 { spread_xy / spread_x } else { 0.0 };
        let squares = (spread_y - slope * spread_xy).max(0.0);
        Some(Line {
            slope,
            mean: (self.centre.0 + x / count, self.centre.1 + y / count),
            spread: spread_y,
            squares,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize) -> f64 {
        let mut random = Random::new(n as u64 * 7919 + 1);
        random.below(2_001) as f64 / 1_000.0 - 1.0
    }

    #[test]
    fn median_and_quantile_of_known_values() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
        assert_eq!(quantile(&mut [1.0, 2.0, 3.0, 4.0], 0.25), Some(1.0));
        assert_eq!(quantile(&mut [1.0, 2.0, 3.0, 4.0], 1.0), Some(4.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn theil_sen_ignores_a_quarter_of_outliers() {
        let points: Vec<XY> =
            (0..40).map(|n| (f64::from(n), if n % 4 == 0 { 1e6 } else { 3.0 * f64::from(n) })).collect();
        assert!((theil_sen(&points).unwrap() - 3.0).abs() < 0.2);
    }

    #[test]
    fn an_exact_line_has_a_narrow_interval() {
        let points: Vec<XY> = (0..50).map(|n| (f64::from(n), 5.0 * f64::from(n) + 100.0)).collect();
        let slope = slope(&points).unwrap();
        assert!((slope.value - 5.0).abs() < 1e-9 && slope.high - slope.low < 1e-9);
    }

    #[test]
    fn the_interval_holds_the_truth_for_most_noises() {
        let held = (0..40).filter(|round| {
            let points: Vec<XY> =
                (0..60).map(|n| (n as f64, 2.0 * n as f64 + 20.0 * noise(n + 1_000 * round))).collect();
            let slope = slope(&points).unwrap();
            slope.low <= 2.0 && 2.0 <= slope.high
        });
        assert!(held.count() >= 34);
    }

    #[test]
    fn a_slow_wave_widens_the_interval() {
        let width = |period: f64| {
            let points: Vec<XY> = (0..90).map(|n| (f64::from(n), (f64::from(n) / period).sin())).collect();
            slope(&points).map(|slope| slope.high - slope.low).unwrap()
        };
        assert!(width(5.0) > 1.5 * width(0.7));
    }

    #[test]
    fn split_finds_the_knee() {
        let points: Vec<XY> = (0..40).map(|n| (f64::from(n), f64::from(n.min(10)))).collect();
        let split = split(&points, 3, 8).unwrap();
        assert!((9..=12).contains(&split.at) && split.slope_after.abs() < 1e-9 && split.left < 0.01);
    }

    #[test]
    fn binning_keeps_the_line_and_bounds_the_count() {
        let points: Vec<XY> = (0..10_000).map(|n| (f64::from(n), f64::from(n) * 2.0)).collect();
        let binned = bin(&points, MAX_POINTS);
        assert!(binned.len() <= MAX_POINTS && (theil_sen(&binned).unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn too_few_points_have_no_slope() {
        assert_eq!(slope(&[]), None);
        assert_eq!(slope(&[(1.0, 1.0)]), None);
        assert_eq!(slope(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert!(split(&[(0.0, 0.0); 4], 3, 8).is_none());
    }
}
