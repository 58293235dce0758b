//! Every law that is tried: subsets of the terms, and one free exponent, each with its error at points left out.

use super::solve::{MOST, Normal, Solution};
use super::term::{Term, library};
use super::{Sample, Shape};

/// Terms beside the constant.
const MOST_VARYING: usize = 3;
/// A coefficient below zero by no more than this share of the data is rounding.
const ROUNDING: f64 = 1e-9;
/// Exponents that a power law may have.
const EXPONENTS: std::ops::RangeInclusive<u32> = 4..=60;
const EXPONENT_STEP: f64 = 0.05;
/// A free exponent needs this many different points.
const LEAST_FOR_POWER: usize = 5;

/// Runs with the same parameters.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) x: Vec<f64>,
    /// Mean of the quantity.
    pub(super) y: f64,
    count: usize,
    /// Sum of squares around the mean, relative to it.
    squares: f64,
}

pub(super) fn group(samples: &[Sample]) -> Vec<Group> {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    let order = |a: &[f64], b: &[f64]| {
        let first = a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
        first.unwrap_or(std::cmp::Ordering::Equal)
    };
    sorted.sort_by(|a, b| order(&a.x, &b.x));
    sorted.chunk_by(|a, b| order(&a.x, &b.x).is_eq()).filter_map(group_of).collect()
}

fn group_of(rows: &[&Sample]) -> Option<Group> {
    let count = rows.len();
    let y = rows.iter().map(|row| row.y).sum::<f64>() / count as f64;
    let squares = rows.iter().map(|row| (row.y / y - 1.0).powi(2)).sum();
    Some(Group { x: rows.first()?.x.clone(), y, count, squares })
}

/// Relative variance of runs with the same parameters.
pub(super) fn pure_variance(groups: &[Group]) -> f64 {
    let freedom: usize = groups.iter().map(|group| group.count - 1).sum();
    let squares: f64 = groups.iter().map(|group| group.squares).sum();
    if freedom > 0 { squares / freedom as f64 } else { 0.0 }
}

/// A fitted law.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) terms: Vec<Term>,
    scales: Vec<f64>,
    solution: Solution,
    /// Exponents that were fitted too.
    pub(super) free: usize,
    /// Sum of squared relative residuals.
    pub(super) misfit: f64,
    pub(super) loo: Option<f64>,
}

impl Candidate {
    pub(super) fn parameters(&self) -> usize {
        self.terms.len() + self.free
    }

    pub(super) fn coefficients(&self) -> Vec<f64> {
        self.solution.coefficients().iter().zip(&self.scales).map(|(c, scale)| c / scale).collect()
    }

    /// Standard errors of the coefficients per unit of relative noise.
    pub(super) fn errors(&self) -> Vec<f64> {
        let unit = |i: usize| std::array::from_fn::<f64, MOST, _>(|j| f64::from(u8::from(i == j)));
        let error = |(i, scale): (usize, &f64)| self.solution.leverage(&unit(i)).sqrt() / scale;
        self.scales.iter().enumerate().map(error).collect()
    }

    pub(super) fn value(&self, x: &[f64]) -> f64 {
        self.solution.value(&self.row(x))
    }

    pub(super) fn leverage(&self, x: &[f64]) -> f64 {
        self.solution.leverage(&self.row(x))
    }

    fn row(&self, x: &[f64]) -> [f64; MOST] {
        row(&self.terms, &self.scales, x)
    }

    /// Coefficients are of scaled terms: shares of the largest point each.
    fn is_physical(&self) -> bool {
        self.solution.coefficients().iter().all(|c| *c >= -ROUNDING)
    }
}

fn row(terms: &[Term], scales: &[f64], x: &[f64]) -> [f64; MOST] {
    let mut row = [0.0; MOST];
    for ((cell, term), scale) in row.iter_mut().zip(terms).zip(scales) {
        *cell = term.value(x) / scale;
    }
    row
}

/// All laws that the points can carry.
pub(super) fn all(axes: usize, groups: &[Group], shape: Shape) -> Vec<Candidate> {
    let varying: Vec<Term> =
        library(axes, shape.may_fall).into_iter().filter(|term| varies(term, groups)).collect();
    let constant = Term::constant(axes);
    let mut found = Vec::new();
    subsets(&varying, MOST_VARYING, &mut |subset| {
        let with_constant = std::iter::once(&constant).chain(subset.iter().copied()).cloned().collect();
        found.extend(fitted(with_constant, groups));
        if !subset.is_empty() {
            found.extend(fitted(subset.iter().map(|term| (*term).clone()).collect(), groups));
        }
    });
    found.extend(power_law(axes, groups));
    found
}

fn varies(term: &Term, groups: &[Group]) -> bool {
    let values = || groups.iter().map(|group| term.value(&group.x));
    let finite = values().all(f64::is_finite);
    finite && values().any(|value| groups.first().is_some_and(|first| value != term.value(&first.x)))
}

fn subsets<'a>(terms: &'a [Term], most: usize, visit: &mut impl FnMut(&[&'a Term])) {
    fn extend<'a>(
        rest: &'a [Term],
        taken: &mut Vec<&'a Term>,
        most: usize,
        visit: &mut impl FnMut(&[&'a Term]),
    ) {
        visit(taken);
        if taken.len() == most {
            return;
        }
        for (place, term) in rest.iter().enumerate() {
            taken.push(term);
            extend(&rest[place + 1..], taken, most, visit);
            taken.pop();
        }
    }
    extend(terms, &mut Vec::new(), most, visit);
}

/// A law with its error at points left out.
fn fitted(terms: Vec<Term>, groups: &[Group]) -> Option<Candidate> {
    let mut candidate = solved(terms, groups)?;
    let normal = sums(&candidate.terms, &candidate.scales, groups);
    candidate.loo = left_out(&normal, &candidate.terms, &candidate.scales, groups);
    Some(candidate)
}

/// The least squares of these terms; nothing where they do not suit the points or physics.
fn solved(terms: Vec<Term>, groups: &[Group]) -> Option<Candidate> {
    // Two points carry a line, and nothing says how good it is; else one more point than parameters is needed.
    let fits = terms.len() < groups.len() || (terms.len() == groups.len() && groups.len() <= 2);
    if !fits {
        return None;
    }
    let scales: Vec<f64> = terms.iter().map(|term| scale(term, groups)).collect();
    let solution = sums(&terms, &scales, groups).solve()?;
    let misfit =
        groups.iter().map(|group| relative(&solution, &row(&terms, &scales, &group.x), group).powi(2)).sum();
    let candidate = Candidate { terms, scales, solution, free: 0, misfit, loo: None };
    candidate.is_physical().then_some(candidate)
}

fn scale(term: &Term, groups: &[Group]) -> f64 {
    let largest = groups.iter().map(|group| (term.value(&group.x) / group.y).abs()).fold(0.0, f64::max);
    if largest > 0.0 { largest } else { 1.0 }
}

fn sums(terms: &[Term], scales: &[f64], groups: &[Group]) -> Normal {
    let mut normal = Normal::new(terms.len());
    for group in groups {
        normal.add(&row(terms, scales, &group.x), group.y, group.y.powi(-2));
    }
    normal
}

fn relative(solution: &Solution, row: &[f64], group: &Group) -> f64 {
    solution.value(row) / group.y - 1.0
}

/// Root mean square of the relative errors, each point predicted from the others.
fn left_out(normal: &Normal, terms: &[Term], scales: &[f64], groups: &[Group]) -> Option<f64> {
    if groups.len() <= normal.terms {
        return None;
    }
    let squares = groups.iter().map(|group| {
        let row = row(terms, scales, &group.x);
        let mut others = *normal;
        others.add(&row, group.y, -group.y.powi(-2));
        Some(relative(&others.solve()?, &row, group).powi(2))
    });
    let sum = squares.sum::<Option<f64>>()?;
    Some((sum / groups.len() as f64).sqrt())
}

/// `a + b·x^p` of one parameter, its exponent searched on a grid; left-out errors search it again.
fn power_law(axes: usize, groups: &[Group]) -> Option<Candidate> {
    let positive = groups.iter().all(|group| group.x.iter().all(|x| *x > 0.0));
    if axes != 1 || !positive || groups.len() < LEAST_FOR_POWER {
        return None;
    }
    let mut best = best_power(groups)?;
    let mut squares = 0.0;
    for (place, group) in groups.iter().enumerate() {
        let others: Vec<Group> =
            groups.iter().enumerate().filter(|(n, _)| *n != place).map(|(_, g)| g.clone()).collect();
        squares += (best_power(&others)?.value(&group.x) / group.y - 1.0).powi(2);
    }
    best.loo = Some((squares / groups.len() as f64).sqrt());
    Some(best)
}

fn best_power(groups: &[Group]) -> Option<Candidate> {
    let exponents = EXPONENTS.map(|n| f64::from(n) * EXPONENT_STEP).filter(|p| p.fract() != 0.0);
    let laws = exponents.flat_map(|p| {
        let power = Term::power(1, 0, p);
        [solved(vec![Term::constant(1), power.clone()], groups), solved(vec![power], groups)]
    });
    let best = laws.flatten().min_by(|a, b| a.misfit.total_cmp(&b.misfit))?;
    Some(Candidate { free: 1, ..best })
}
