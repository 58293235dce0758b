//! The largest value that fits under a limit, with the fewest runs: predict, try, correct.
//!
//! Pure: it is asked again after each run and sees all that were made, so an interrupted search goes on where it was.
//! A run that crossed the limit was ended by the watchdog; it tells that its value is too large, and no size.
//! The one invariant: what is called `largest` has run, and fitted.

#![allow(clippy::float_cmp, reason = "candidates are compared with themselves")]

use crate::fit::{self, Law, Sample, Shape};

/// Most runs of one search.
const MOST_RUNS: usize = 16;
/// The second point, and every guess from a weak rise, goes no farther than this factor.
const STRIDE: f64 = 8.0;
/// A rise below this share says nothing about the slope.
const WEAK: f64 = 0.05;
/// A candidate that is larger by less than this share is not worth a run.
const RESOLUTION: f64 = 0.01;
/// A law that expected less than this share below the limit of what was too large was wrong by little.
const LITTLE: f64 = 0.07;

/// What is searched.
#[derive(Debug, Clone)]
pub struct Search {
    pub name: String,
    /// Ascending.
    pub candidates: Vec<f64>,
    pub limit: f64,
}

/// A run of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    pub x: f64,
    /// The quantity where it ran; nothing where it was stopped, killed, or failed.
    pub y: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Try(f64),
    Done(Answer),
}

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The largest candidate that ran and fitted.
    pub largest: Option<f64>,
    /// The largest value of which the law is 95 % sure, and the largest that it does not exclude.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The next candidate: tried and too large, or what the law expects of it.
    pub next: Option<NextUp>,
    /// Nothing larger was offered.
    pub is_last: bool,
    /// The budget of runs was used up before the answer was narrow.
    pub gave_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextUp {
    pub x: f64,
    /// It ran and did not fit.
    pub tried: bool,
    pub expected: Option<fit::Prediction>,
}

/// Places in the list of candidates: the largest that fits, the smallest that does not.
struct Bracket {
    fits: Option<usize>,
    over: usize,
}

/// What to do after these runs.
pub fn next(search: &Search, tried: &[Tried]) -> Next {
    let bracket = bracket(search, tried);
    let Some(fits) = bracket.fits else {
        let first = search.candidates.first().filter(|_| bracket.over > 0);
        // Nothing fits yet: the smallest decides whether anything does.
        return first.map_or_else(|| done(search, tried, &bracket, false), |first| Next::Try(*first));
    };
    if bracket.over <= fits + 1 {
        return done(search, tried, &bracket, false);
    }
    if tried.len() >= MOST_RUNS {
        return done(search, tried, &bracket, true);
    }
    match guess(search, tried, fits, bracket.over) {
        Some(place) => search
            .candidates
            .get(place)
            .map_or_else(|| done(search, tried, &bracket, false), |x| Next::Try(*x)),
        None => done(search, tried, &bracket, false),
    }
}

fn bracket(search: &Search, tried: &[Tried]) -> Bracket {
    let place = |x: f64| search.candidates.iter().position(|c| *c == x);
    let fit = |t: &&Tried| t.y.is_some_and(|y| y <= search.limit);
    let over =
        tried.iter().filter(|t| !fit(t)).filter_map(|t| place(t.x)).min().unwrap_or(search.candidates.len());
    let fits = tried.iter().filter(fit).filter_map(|t| place(t.x)).filter(|p| *p < over).max();
    Bracket { fits, over }
}

/// The law of what ran, also of runs that ended above the limit.
pub fn law(search: &Search, tried: &[Tried]) -> Option<Law> {
    let samples: Vec<Sample> = tried.iter().filter_map(|t| Some(Sample { x: vec![t.x], y: t.y? })).collect();
    fit::fit(std::slice::from_ref(&search.name), &samples, Shape::default())
}

/// The place to try next; nothing where the law says that the largest that fits has been found.
fn guess(search: &Search, tried: &[Tried], fits: usize, over: usize) -> Option<usize> {
    let at = |place: usize| search.candidates.get(place).copied().unwrap_or(f64::NAN);
    let reach = last_below(search, at(fits) * STRIDE).max(fits + 1).min(over - 1);
    let Some(law) = law(search, tried).filter(|_| is_strong(tried)) else { return Some(reach) };
    // Laws never fall with their parameter, so the place can be halved for.
    let fitting = search.candidates.partition_point(|x| law.predict(&[*x]).value <= search.limit);
    let predicted = fitting.saturating_sub(1).clamp(fits, over - 1);
    // A law that was wrong about the upper end is not asked again about the same gap.
    let expected = law.predict(&[at(over)]).value;
    if over < search.candidates.len() && expected <= search.limit {
        let too_large = tried.iter().filter(|t| t.y.is_none_or(|y| y > search.limit)).count();
        let by_little = too_large == 1 && expected > search.limit * (1.0 - LITTLE);
        return between(search, fits, over, by_little);
    }
    if predicted == fits
        || at(predicted) <= at(fits) * (1.0 + RESOLUTION) && predicted > fits && tried.len() > 2
    {
        return None;
    }
    Some(predicted.min(last_below(search, at(fits) * STRIDE * STRIDE).max(fits + 1)))
}

/// Two points apart enough for a slope.
fn is_strong(tried: &[Tried]) -> bool {
    let values = || tried.iter().filter_map(|t| t.y);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    values().count() >= 2 && high > low * (1.0 + WEAK)
}

fn last_below(search: &Search, x: f64) -> usize {
    search.candidates.partition_point(|c| *c <= x).saturating_sub(1)
}

/// Where to look next when the law is wrong about what was too large. Within a factor of two: in the middle. Else, at the
/// first time, a little below it if the law is wrong by little; then in the middle by factors, from where it knows better.
fn between(search: &Search, fits: usize, over: usize, wrong_by_little: bool) -> Option<usize> {
    let ends = search.candidates.get(fits).zip(search.candidates.get(over));
    let (low, high) = ends.map(|(low, high)| (*low, *high))?;
    if high <= low * (1.0 + RESOLUTION) {
        return None;
    }
    let x = if high <= 2.0 * low || low <= 0.0 {
        f64::midpoint(low, high)
    } else if wrong_by_little {
        high * (1.0 - 2.0 * RESOLUTION)
    } else {
        (low * high).sqrt()
    };
    Some(last_below(search, x).clamp(fits + 1, over - 1))
}

fn done(search: &Search, tried: &[Tried], bracket: &Bracket, gave_up: bool) -> Next {
    let at = |place: usize| search.candidates.get(place).copied();
    let law = law(search, tried);
    let next_place = bracket.fits.map_or(0, |fits| fits + 1);
    let next = at(next_place).map(|x| NextUp {
        x,
        tried: bracket.over == next_place,
        expected: law.as_ref().map(|law| law.predict(&[x])).filter(|_| bracket.over != next_place),
    });
    let within = |bound: fn(&fit::Prediction) -> Option<f64>| {
        let law = law.as_ref()?;
        let fitting = |x: &f64| bound(&law.predict(&[*x])).is_some_and(|y| y <= search.limit);
        search.candidates.partition_point(fitting).checked_sub(1).and_then(at)
    };
    let highest = bracket.over.checked_sub(1).and_then(at);
    let largest = bracket.fits.and_then(at);
    let high = within(|p| p.low)
        .map(|high| highest.map_or(high, |highest| high.min(highest)).max(largest.unwrap_or(0.0)));
    Next::Done(Answer {
        largest,
        low: within(|p| p.high).map(|low| high.map_or(low, |high| low.min(high))),
        high,
        next,
        is_last: bracket.fits.is_some_and(|fits| fits + 1 == search.candidates.len()),
        gave_up,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs the search against a true law; runs above 1.02 × limit are stopped.
    fn search(candidates: Vec<f64>, limit: f64, truth: impl Fn(f64) -> f64) -> (Answer, Vec<Tried>) {
        let search = Search { name: "batch".into(), candidates, limit };
        let mut tried: Vec<Tried> = Vec::new();
        loop {
            match next(&search, &tried) {
                Next::Done(answer) => return (answer, tried),
                Next::Try(x) => {
                    assert!(tried.iter().all(|t| t.x != x), "{x} again: {tried:?}");
                    let y = truth(x);
                    tried.push(Tried { x, y: Some(y).filter(|y| *y <= limit) });
                    assert!(tried.len() <= MOST_RUNS);
                }
            }
        }
    }

    fn range(to: u32) -> Vec<f64> {
        (1..=to).map(f64::from).collect()
    }

    #[test]
    fn an_affine_law_takes_four_runs() {
        let (answer, tried) = search(range(4096), 16_000.0, |x| 600.0 + 24.0 * x);
        let best = (16_000.0 - 600.0) / 24.0;
        let largest = answer.largest.unwrap();
        assert!(largest <= best && largest > best * 0.985, "{answer:?}");
        assert!(tried.len() <= 4, "{tried:?}");
    }

    /// Measured sizes are off by so much, and a law of two small ones by more.
    #[test]
    fn a_law_that_is_wrong_by_little_costs_few_runs() {
        for (level, most) in [(0.002, 6), (0.005, 8)] {
            for seed in 0..500 {
                let noise =
                    |x: f64| ((x * 12.9898 + f64::from(seed) * 78.233).sin() * 43_758.545).fract() * level;
                let (answer, tried) = search(range(2000), 150.0, |x| (33.0 + x) * (1.0 + noise(x)));
                assert!(answer.largest.is_some_and(|x| (x - 117.0).abs() <= 2.0), "{answer:?}");
                assert!(tried.len() <= most, "{seed}, {level}: {tried:?}");
            }
        }
    }

    /// Of the first two sizes, both small, all laws are about the same.
    #[test]
    fn a_law_that_bends_far_above_the_first_sizes_costs_few_runs() {
        for (square, slope) in
            [1e-5, 5e-5, 1.5e-4, 5e-4, 2e-3].iter().flat_map(|s| [0.0, 0.01, 0.05].map(|l| (*s, l)))
        {
            for limit in [200.0, 500.0, 1500.0] {
                let candidates = (1..=256).map(|n| f64::from(16 * n)).collect();
                let (answer, tried) = search(candidates, limit, |x| 33.0 + slope * x + square * x * x);
                let fits = |x: f64| 33.0 + slope * x + square * x * x <= limit;
                let largest = answer.largest.unwrap();
                assert!(
                    fits(largest) && !fits((largest * 1.04).max(largest + 16.0)) || answer.is_last,
                    "{answer:?}"
                );
                assert!(tried.len() <= 8, "{slope} {square} {limit}: {tried:?}");
            }
        }
    }

    #[test]
    fn nothing_fits_and_everything_fits() {
        let (answer, tried) = search(range(100), 10.0, |x| 600.0 + x);
        assert_eq!((answer.largest, tried.len()), (None, 1));
        let (answer, tried) = search(range(64), 1e9, |x| 600.0 + x);
        assert_eq!((answer.largest, answer.is_last), (Some(64.0), true));
        assert!(tried.len() <= 4, "{tried:?}");
        assert_eq!(search(Vec::new(), 1.0, |x| x).0.largest, None);
    }

    #[test]
    fn a_flat_start_does_not_mislead() {
        let (answer, _) = search(range(4096), 4_000.0, |x| (900.0f64).max(300.0 + 3.0 * x));
        let largest = answer.largest.unwrap();
        assert!((1_200.0..=1_233.0).contains(&largest), "{answer:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_is_found_fits_and_is_near_the_best(
            base in 10.0f64..1_000.0, slope in 0.01f64..100.0, square in 0.0f64..0.01, limit in 1_000.0f64..50_000.0,
        ) {
            let truth = |x: f64| base + slope * x + square * x * x;
            let (answer, _) = search(range(4096), limit, truth);
            let best = range(4096).into_iter().rev().find(|x| truth(*x) <= limit).unwrap_or(0.0);
            let largest = answer.largest.unwrap_or(0.0);
            prop_assert!(largest <= best && largest >= (best * 0.95).floor(), "{largest} of {best}: {answer:?}");
        }
    }
}
