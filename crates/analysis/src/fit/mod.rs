//! Laws of a quantity over the parameters of a sweep: chosen by what they predict of points left out, with an
//! interval for what has not been run. Pure mathematics: no bytes, no files.
//!
//! Every law is a sum of at most four terms with coefficients that are not negative: memory is added up, never taken
//! away. A law with a negative coefficient is dropped, which makes the search over subsets of terms the exact
//! solution of non-negative least squares. Squares are of relative errors: 1 % of a small point counts as much as
//! 1 % of a large one. The one invariant: no interval is narrower than what repeats, left-out points and
//! rival laws that are nearly as good allow.

#![allow(clippy::float_cmp, reason = "exponents and parameters are compared as they were typed")]

mod candidate;
mod solve;
pub(crate) mod student;
mod term;

#[cfg(test)]
mod tests;

use candidate::{Candidate, Group};
use serde::Serialize;
pub use term::Term;

/// Nothing is claimed to be known better than this share.
const LEAST_NOISE: f64 = 0.002;
/// A law with more parameters must predict left-out points better by this factor, and by more than the least noise.
const WORTH: f64 = 1.25;
/// A fitted exponent has no reason in the program: it must predict left-out points this much better than whole ones.
const FREE_EXPONENT: f64 = 1.5;
/// Laws whose left-out error is below this multiple of the chosen one's widen its interval.
const RIVAL: f64 = 2.0;
const MOST_RIVALS: usize = 12;
/// Farther outside the measured range than this, a prediction is marked.
pub const FARTHEST: f64 = 2.0;

/// One run: its parameters and the quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub x: Vec<f64>,
    pub y: f64,
}

/// What a law may look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// The quantity may fall with a parameter (time with threads): inverses are tried.
    pub may_fall: bool,
}

/// The law that was chosen.
#[derive(Debug, Clone)]
pub struct Law {
    pub names: Vec<String>,
    pub kind: &'static str,
    pub terms: Vec<Term>,
    pub coefficients: Vec<f64>,
    /// 95 % interval of each coefficient, where there are more points than parameters.
    pub ci95: Vec<Option<(f64, f64)>>,
    /// Root mean square of the relative errors at points left out.
    pub loo_error: Option<f64>,
    /// Different parameter sets it was fitted to.
    pub points: usize,
    range: Vec<(f64, f64)>,
    chosen: Candidate,
    rivals: Vec<Candidate>,
    noise: f64,
    /// Half-width of 95 % in standard errors; nothing where no point is left to judge by.
    quantile: Option<f64>,
}

/// What a law says about one parameter set; the interval holds one future run with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// How many times outside the measured range, where that is more than twice.
    pub beyond: Option<f64>,
}

/// The law of these runs; nothing where there are none, or a value is not positive.
pub fn fit(names: &[String], samples: &[Sample], shape: Shape) -> Option<Law> {
    let groups = candidate::group(samples);
    if groups.is_empty() || groups.iter().any(|group| !(group.y > 0.0 && group.y.is_finite())) {
        return None;
    }
    let candidates = candidate::all(names.len(), &groups, shape);
    let chosen = if groups.len() <= 2 { exact(&candidates) } else { choose(&candidates) }?.clone();
    let rivals = rivals(&candidates, &chosen);
    let noise = noise(&chosen, &groups);
    let freedom =
        groups.len().checked_sub(chosen.parameters()).filter(|freedom| *freedom > 0 && groups.len() > 2);
    let quantile = freedom.map(|freedom| student::t_95(freedom as f64));
    let loo_error = chosen.loo.filter(|_| groups.len() > 2);
    Some(Law {
        names: names.to_vec(),
        kind: kind(&chosen.terms),
        coefficients: chosen.coefficients(),
        ci95: chosen
            .errors()
            .iter()
            .zip(chosen.coefficients())
            .map(|(e, c)| ci(c, *e * noise, quantile))
            .collect(),
        terms: chosen.terms.clone(),
        loo_error,
        points: groups.len(),
        range: range(names.len(), &groups),
        chosen,
        rivals,
        noise,
        quantile,
    })
}

fn ci(value: f64, error: f64, quantile: Option<f64>) -> Option<(f64, f64)> {
    quantile.map(|quantile| (value - quantile * error, value + quantile * error))
}

/// The fewest parameters that predict nearly as well as the best.
fn choose(candidates: &[Candidate]) -> Option<&Candidate> {
    let error = |c: &Candidate| c.loo.map(|loo| if c.free > 0 { loo * FREE_EXPONENT } else { loo });
    let best = candidates.iter().filter_map(error).min_by(f64::total_cmp)?;
    let good = (best * WORTH).max(best + LEAST_NOISE);
    let enough = candidates.iter().filter(|c| error(c).is_some_and(|error| error <= good));
    enough.min_by(|a, b| {
        let by_error = || error(a).unwrap_or(f64::MAX).total_cmp(&error(b).unwrap_or(f64::MAX));
        a.parameters().cmp(&b.parameters()).then_with(by_error)
    })
}

/// Without left-out points: the first that goes through the points, simplest first.
fn exact(candidates: &[Candidate]) -> Option<&Candidate> {
    let least = LEAST_NOISE * LEAST_NOISE;
    candidates.iter().min_by(|a, b| a.misfit.max(least).total_cmp(&b.misfit.max(least)))
}

fn rivals(candidates: &[Candidate], chosen: &Candidate) -> Vec<Candidate> {
    let Some(error) = chosen.loo else { return Vec::new() };
    let limit = (error * RIVAL).max(error + LEAST_NOISE);
    let near =
        |c: &&Candidate| c.loo.is_some_and(|loo| loo <= limit) && c.parameters() <= chosen.parameters() + 1;
    let mut rivals: Vec<Candidate> = candidates.iter().filter(near).cloned().collect();
    rivals.sort_by(|a, b| a.loo.unwrap_or(f64::MAX).total_cmp(&b.loo.unwrap_or(f64::MAX)));
    rivals.truncate(MOST_RIVALS);
    rivals
}

/// Relative standard deviation of one future run around the law.
fn noise(chosen: &Candidate, groups: &[Group]) -> f64 {
    let freedom = groups.len().saturating_sub(chosen.parameters()).max(1) as f64;
    let lack_of_fit = chosen.misfit / freedom;
    let repeats = candidate::pure_variance(groups);
    let left_out = chosen.loo.unwrap_or(0.0);
    (lack_of_fit + repeats).sqrt().max(left_out).max(LEAST_NOISE)
}

fn range(axes: usize, groups: &[Group]) -> Vec<(f64, f64)> {
    let of = |axis: usize| groups.iter().map(move |group| group.x[axis]);
    (0..axes).map(|axis| (of(axis).fold(f64::INFINITY, f64::min), of(axis).fold(0.0, f64::max))).collect()
}

fn kind(terms: &[Term]) -> &'static str {
    let varying: Vec<&Term> = terms.iter().filter(|term| !term.is_constant()).collect();
    let exponents = || varying.iter().flat_map(|term| term.exponents.iter().copied());
    let axes_of = |term: &&&Term| term.exponents.iter().filter(|e| **e != 0.0).count();
    if varying.is_empty() {
        "constant"
    } else if exponents().any(|e| e.fract() != 0.0) {
        "power law"
    } else if exponents().any(|e| e < 0.0) {
        "inverse"
    } else if varying.iter().any(|term| axes_of(&term) > 1) {
        "product"
    } else if exponents().any(|e| e > 1.0) {
        "quadratic"
    } else if varying.len() == terms.len() && terms.len() == 1 {
        "proportional"
    } else {
        "affine"
    }
}

impl Law {
    /// The value at a parameter set, with its interval where one can be had.
    pub fn predict(&self, x: &[f64]) -> Prediction {
        let value = self.chosen.value(x);
        let half = self.half_width(x, value);
        let others = || self.rivals.iter().map(|rival| rival.value(x)).chain([value]);
        let low = others().fold(f64::INFINITY, f64::min);
        let high = others().fold(0.0, f64::max);
        let beyond = Some(self.stretch(x)).filter(|factor| *factor > FARTHEST);
        Prediction {
            value,
            low: half.map(|h| (low - h).max(0.0).min(value)),
            high: half.map(|h| (high + h).max(value)),
            beyond,
        }
    }

    fn half_width(&self, x: &[f64], value: f64) -> Option<f64> {
        // Leverages are of relative rows: at the scale of the value that is predicted.
        let spread = (value * value + self.chosen.leverage(x)).sqrt();
        self.quantile.map(|quantile| quantile * self.noise * spread)
    }

    /// The largest ratio by which a parameter lies outside what was measured; 1 inside.
    pub fn stretch(&self, x: &[f64]) -> f64 {
        let ratio = |(x, (low, high)): (&f64, &(f64, f64))| {
            if x > high {
                x / high.max(f64::MIN_POSITIVE)
            } else if x < low {
                low / x.max(f64::MIN_POSITIVE)
            } else {
                1.0
            }
        };
        x.iter().zip(&self.range).map(ratio).fold(1.0, f64::max)
    }
}
