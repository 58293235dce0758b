//! Which simple law does a settled series follow: a level, a line, one jump, or a way to a bound?
//!
//! Each is fitted by least squares and judged by the Bayesian information criterion, with the number of points that
//! their autocorrelation leaves: a better fit must pay for its parameters. The one invariant: `x` and the results
//! are those of the caller, whatever the fits use inside.

use super::trend::autocorrelation;
use crate::stats::XY;

/// How quickly a bound is approached, as shares of the span. Slower ones cannot be told from a line.
const FASTEST: f64 = 0.03;
const TAUS: i32 = 36;
/// From one to the next; the last is 0.7.
const TAU_STEP: f64 = 1.094;
/// A jump has at least so many points on either side.
const JUMP_MARGIN: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Level,
    Line,
    /// From this point on it is higher or lower.
    Jump {
        at: usize,
    },
    /// It approaches `bound`, and after the last point `left` is still to come.
    Bound {
        bound: f64,
        left: f64,
    },
    /// The same on top of a line.
    BoundAndLine,
}

/// A fitted law.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Law {
    pub(crate) form: Form,
    /// Of the straight part, per unit of `x`.
    pub(crate) slope: f64,
    /// What the law has beyond its straight part, at each point.
    pub(crate) bend: Vec<f64>,
    /// Smaller is better; a difference of 2 is a hint, of 6 strong, of 10 decisive.
    pub(crate) score: f64,
}

/// All laws, the best first. `noise` is how far a level may be off by itself.
pub(crate) fn laws(points: &[XY], noise: f64) -> Vec<Law> {
    let Some(scene) = Scene::of(points, noise) else { return Vec::new() };
    let mut laws: Vec<Law> = [scene.level(), scene.line()].into_iter().flatten().collect();
    // Five points are too few for three or four parameters.
    if points.len() > 5 {
        laws.extend([scene.jump(), scene.bound()].into_iter().flatten());
    }
    if points.len() > 7 {
        laws.extend(scene.bound_and_line());
    }
    laws.sort_by(|a, b| a.score.total_cmp(&b.score));
    laws
}

/// Points on 0..1 and what is known of their noise.
struct Scene {
    us: Vec<f64>,
    ys: Vec<f64>,
    span: f64,
    noise: f64,
    /// Points that their autocorrelation leaves.
    worth: f64,
}

/// Coefficients and the mean square that they leave.
pub(crate) type Fit<const K: usize> = ([f64; K], f64);

impl Scene {
    fn of(points: &[XY], noise: f64) -> Option<Self> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let span = last - first;
        if span <= 0.0 || points.len() < 4 {
            return None;
        }
        let us: Vec<f64> = points.iter().map(|point| (point.0 - first) / span).collect();
        let ys = points.iter().map(|point| point.1).collect();
        let mut scene = Self { us, ys, span, noise, worth: points.len() as f64 };
        scene.worth = scene.worth();
        Some(scene)
    }

    /// Residuals of the most flexible law that has no bend of its own choosing.
    fn worth(&self) -> f64 {
        let count = self.us.len() as f64;
        let (tau, _) = Self::best_tau(|tau| self.fit(|u| [1.0, u, (-u / tau).exp()])).unwrap_or((1.0, 0.0));
        let Some(([a, b, c], _)) = self.fit(|u| [1.0, u, (-u / tau).exp()]) else { return count };
        let rest = self.us.iter().zip(&self.ys).map(|(u, y)| y - a - b * u - c * (-u / tau).exp());
        let rho = autocorrelation(&rest.collect::<Vec<_>>(), 1).clamp(0.0, 0.8);
        (count * (1.0 - rho) / (1.0 + rho)).max(6.0)
    }

    fn score(&self, mean_square: f64, parameters: f64) -> f64 {
        let floor = self.noise.powi(2).max(1.0);
        self.worth * (mean_square + floor).ln() + parameters * self.worth.ln()
    }

    fn law(&self, form: Form, slope: f64, bend: Vec<f64>, mean_square: f64, parameters: f64) -> Law {
        Law { form, slope: slope / self.span, bend, score: self.score(mean_square, parameters) }
    }

    fn straight(&self) -> Vec<f64> {
        vec![0.0; self.us.len()]
    }

    fn level(&self) -> Option<Law> {
        let (_, left) = self.fit(|_| [1.0])?;
        Some(self.law(Form::Level, 0.0, self.straight(), left, 1.0))
    }

    fn line(&self) -> Option<Law> {
        let ([_, slope], left) = self.fit(|u| [1.0, u])?;
        Some(self.law(Form::Line, slope, self.straight(), left, 2.0))
    }

    fn jump(&self) -> Option<Law> {
        let last = self.us.len().checked_sub(JUMP_MARGIN)?;
        let cut = |at: usize| self.us[at];
        let fits = (JUMP_MARGIN..=last.saturating_sub(1)).filter_map(|at| {
            let from = cut(at);
            Some((at, self.fit(|u| [1.0, f64::from(u >= from)])?))
        });
        let (at, ([_, height], left)) = fits.min_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        let bend = self.us.iter().map(|u| height * f64::from(*u >= cut(at))).collect();
        // Two for the levels, two for the place that was searched for.
        Some(self.law(Form::Jump { at }, 0.0, bend, left, 4.0))
    }

    fn best_tau<const K: usize>(fit: impl Fn(f64) -> Option<Fit<K>>) -> Option<(f64, f64)> {
        let taus = (0..TAUS).map(|n| FASTEST * TAU_STEP.powi(n));
        let fits = taus.filter_map(|tau| Some((tau, fit(tau)?.1)));
        fits.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn bound(&self) -> Option<Law> {
        let fit = |tau: f64| self.fit(|u| [1.0, (-u / tau).exp()]);
        let (tau, _) = Self::best_tau(fit)?;
        let ([bound, height], left) = fit(tau)?;
        if height >= 0.0 {
            return None; // it falls: no cache
        }
        let to_come = -height * (-1.0 / tau).exp();
        let bend = self.us.iter().map(|u| height * (-u / tau).exp()).collect();
        Some(self.law(Form::Bound { bound, left: to_come }, 0.0, bend, left, 3.0))
    }

    fn bound_and_line(&self) -> Option<Law> {
        // Slow bends are not tried: together with a line they fit anything.
        let fit = |tau: f64| self.fit(|u| [1.0, u, (-u / tau.min(0.25)).exp()]);
        let (tau, _) = Self::best_tau(fit)?;
        let tau = tau.min(0.25);
        let ([_, slope, height], left) = fit(tau)?;
        let bend = self.us.iter().map(|u| height * (-u / tau).exp()).collect();
        (height < 0.0).then(|| self.law(Form::BoundAndLine, slope, bend, left, 4.0))
    }

    fn fit<const K: usize>(&self, columns: impl Fn(f64) -> [f64; K]) -> Option<Fit<K>> {
        least_squares(self.us.iter().zip(&self.ys).map(|(u, y)| (columns(*u), *y)))
    }
}

/// Least squares by the normal equations: coefficients and the mean square that is left. The first column is 1.
pub(crate) fn least_squares<const K: usize>(
    rows: impl Iterator<Item = ([f64; K], f64)> + Clone,
) -> Option<Fit<K>> {
    // Around the first value: squares of a hundred megabytes would eat the digits.
    let base = rows.clone().next()?.1;
    let (mut matrix, mut right) = ([[0.0; K]; K], [0.0; K]);
    for (row, y) in rows.clone() {
        for i in 0..K {
            right[i] += row[i] * (y - base);
            for j in 0..K {
                matrix[i][j] += row[i] * row[j];
            }
        }
    }
    let mut solved = solve(matrix, right)?;
    let (mut squares, mut count) = (0.0, 0.0);
    for (row, y) in rows {
        let fitted: f64 = (0..K).map(|k| row[k] * solved[k]).sum();
        squares += (y - base - fitted).powi(2);
        count += 1.0;
    }
    solved[0] += base;
    Some((solved, squares / count))
}

/// Gaussian elimination with the largest pivot; nothing where the columns say the same.
fn solve<const K: usize>(mut matrix: [[f64; K]; K], mut right: [f64; K]) -> Option<[f64; K]> {
    for column in 0..K {
        let pivot =
            (column..K).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-12 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..K {
            let factor = matrix[row][column] / matrix[column][column];
            let pivot_row = matrix[column];
            matrix[row]
                .iter_mut()
                .zip(pivot_row)
                .skip(column)
                .for_each(|(cell, above)| *cell -= factor * above);
            right[row] -= factor * right[column];
        }
    }
    let mut solution = [0.0; K];
    for row in (0..K).rev() {
        let known: f64 = (row + 1..K).map(|place| matrix[row][place] * solution[place]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn best(of: impl Fn(f64) -> f64, noise: f64) -> Law {
        let mut random = Random::new(7);
        let points: Vec<XY> = (0..60)
            .map(|n| (100.0 + f64::from(n), of(f64::from(n) / 59.0) + noise * random.normal()))
            .collect();
        laws(&points, 0.01).remove(0)
    }

    #[test]
    fn each_law_is_told_from_the_others() {
        assert_eq!(best(|_| 5.0, 1.0).form, Form::Level);
        let line = best(|u| 5.0 + 59.0 * u, 1.0);
        assert!(line.form == Form::Line && (line.slope - 1.0).abs() < 0.05, "{line:?}");
        let Form::Jump { at } = best(|u| if u < 0.7 { 0.0 } else { 20.0 }, 1.0).form else { panic!() };
        assert!((40..=43).contains(&at));
        let Form::Bound { bound, left } = best(|u| 100.0 - 60.0 * (-u / 0.3).exp(), 0.5).form else {
            panic!()
        };
        assert!((bound - 100.0).abs() < 2.0 && (left - 60.0 * (-1.0_f64 / 0.3).exp()).abs() < 1.0);
        let both = best(|u| 59.0 * u - 80.0 * (-u / 0.08).exp(), 0.5);
        assert!(both.form == Form::BoundAndLine && (both.slope - 1.0).abs() < 0.1, "{both:?}");
    }

    #[test]
    fn equal_columns_have_no_solution() {
        assert_eq!(solve([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]), None);
        assert_eq!(solve([[0.0, 2.0], [1.0, 0.0]], [4.0, 3.0]), Some([3.0, 2.0]));
    }
}
