//! Weighted least squares of a few terms, by the normal equations of scaled columns.
//!
//! Sums are kept, not rows: leaving out one group of rows is a subtraction.

/// Most terms of one law.
pub(super) const MOST: usize = 5;

type Square = [[f64; MOST]; MOST];

/// Sums of a weighted system: `gram` is `XᵀWX`, `side` is `XᵀWy`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Normal {
    pub(super) terms: usize,
    gram: Square,
    side: [f64; MOST],
}

impl Normal {
    pub(super) fn new(terms: usize) -> Self {
        Self { terms: terms.min(MOST), gram: [[0.0; MOST]; MOST], side: [0.0; MOST] }
    }

    /// Adds a row; a negative weight takes it away again.
    pub(super) fn add(&mut self, row: &[f64], y: f64, weight: f64) {
        for (i, a) in row.iter().take(self.terms).enumerate() {
            for (j, b) in row.iter().take(self.terms).enumerate() {
                self.gram[i][j] += weight * a * b;
            }
            self.side[i] += weight * a * y;
        }
    }

    /// Coefficients, and the inverse that gives their errors; nothing where the terms cannot be told apart.
    pub(super) fn solve(&self) -> Option<Solution> {
        let inverse = invert(&self.gram, self.terms)?;
        let mut coefficients = [0.0; MOST];
        for (i, value) in coefficients.iter_mut().enumerate().take(self.terms) {
            *value = (0..self.terms).map(|j| inverse[i][j] * self.side[j]).sum();
        }
        Some(Solution { terms: self.terms, coefficients, inverse })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Solution {
    terms: usize,
    coefficients: [f64; MOST],
    inverse: Square,
}

impl Solution {
    pub(super) fn coefficients(&self) -> &[f64] {
        &self.coefficients[..self.terms]
    }

    pub(super) fn value(&self, row: &[f64]) -> f64 {
        self.coefficients().iter().zip(row).map(|(c, x)| c * x).sum()
    }

    /// xᵀ(XᵀWX)⁻¹x: the variance of a fitted value in units of the noise.
    pub(super) fn leverage(&self, row: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (i, a) in row.iter().take(self.terms).enumerate() {
            for (j, b) in row.iter().take(self.terms).enumerate() {
                sum += a * self.inverse[i][j] * b;
            }
        }
        sum.max(0.0)
    }
}

/// Gauss–Jordan with pivots on the diagonal's scale; columns are scaled before, so a tiny pivot means dependence.
fn invert(matrix: &Square, size: usize) -> Option<Square> {
    let largest = (0..size).map(|i| matrix[i][i].abs()).fold(0.0, f64::max);
    let mut left = *matrix;
    let mut right = [[0.0; MOST]; MOST];
    for (i, row) in right.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    for column in 0..size {
        let pivot =
            (column..size).max_by(|a, b| left[*a][column].abs().total_cmp(&left[*b][column].abs()))?;
        left.swap(column, pivot);
        right.swap(column, pivot);
        let scale = left[column][column];
        if scale.abs() <= 1e-11 * largest || !scale.is_finite() {
            return None;
        }
        for j in 0..size {
            left[column][j] /= scale;
            right[column][j] /= scale;
        }
        eliminate(&mut left, &mut right, column, size);
    }
    Some(right)
}

fn eliminate(left: &mut Square, right: &mut Square, column: usize, size: usize) {
    for i in (0..size).filter(|i| *i != column) {
        let factor = left[i][column];
        for j in 0..size {
            left[i][j] -= factor * left[column][j];
            right[i][j] -= factor * right[column][j];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_exact_points() {
        let mut normal = Normal::new(2);
        for x in 0..5 {
            normal.add(&[1.0, f64::from(x)], 3.0 + 2.0 * f64::from(x), 1.0);
        }
        let solution = normal.solve().unwrap();
        assert!(
            (solution.coefficients()[0] - 3.0).abs() < 1e-12
                && (solution.value(&[1.0, 9.0]) - 21.0).abs() < 1e-12
        );
        assert!((solution.leverage(&[1.0, 2.0]) - 0.2).abs() < 1e-12, "1/n in the middle");
    }

    #[test]
    fn taking_a_row_away_is_not_having_had_it() {
        let mut normal = Normal::new(1);
        normal.add(&[1.0], 10.0, 1.0);
        normal.add(&[1.0], 1e6, 2.0);
        normal.add(&[1.0], 1e6, -2.0);
        assert!((normal.solve().unwrap().coefficients()[0] - 10.0).abs() < 1e-6);
    }

    #[test]
    fn dependent_terms_have_no_solution() {
        let mut normal = Normal::new(2);
        for _ in 0..5 {
            normal.add(&[1.0, 4.0], 3.0, 1.0);
        }
        assert!(normal.solve().is_none());
    }
}
