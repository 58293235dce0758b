//! The verdict on one series of levels: what it does, how fast, and what it could have hidden.
//!
//! 1. Reduce it to its floor: the least level of each of at most 96 stretches. A leak raises the floor.
//! 2. Teeth: judge the floors of the falls (`teeth`).
//! 3. Cut the warm-up at the change point, at most 60 % of the series.
//! 4. Ask which law the rest follows (`form`) and whether its trend is certain (`trend`).
//! 5. Where longer stretches have a clearer floor, judge that: garbage and what an allocator keeps only ever add, so
//!    the lowest moments are nearest to what is live.
//! 6. Along marked steps that were seen often enough, the rate is that of the levels at their ends.
//! 7. How late looks see a rise is part of the doubt about the rate.
//!
//! The one invariant: `Grows` needs all of a line as the best law by a clear margin, a trend that is certain at
//! 99.9 %, and a rise that counters and allocators do not make by themselves.

use super::form::{self, Form, Law};
use super::teeth::{self, Teeth};
use super::trend::{self, CERTAIN, LIKELY, Trend};
use crate::growth;
use crate::stats::{self, XY};

/// Fewer points give no verdict.
pub const LEAST_POINTS: usize = 8;
/// A series of counts needs fewer.
const LEAST_COUNTS: usize = 4;
/// Two lines must leave less than this share of one line's squares to be believed.
const CUT_GAIN: f64 = 0.6;
/// How much better a law must be than its rivals, in units of the criterion: strong evidence.
const MARGIN: f64 = 4.0;
/// One jump with more than this share of the rise is a jump, not growth.
const JUMP_SHARE: f64 = 0.5;
/// Falls needed to say that their floors do not rise.
const LEAST_FALLS: usize = 3;
/// Share of a series with teeth that is left out.
const TEETH_WARM_UP: f64 = 0.28;
/// So many longer stretches are tried; fewer floors say nothing of a law.
const STRETCHES: [usize; 7] = [40, 28, 20, 14, 12, 10, 9];
/// Longer stretches must lower the smallest rate to this share to be preferred.
const CLEARER: f64 = 0.8;

/// What is known of a series besides its points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// How far a level may be off by itself: counters that lag, pages.
    pub noise_bytes: f64,
    /// A rise over the whole series below this is no growth, whatever its significance.
    pub least_bytes: f64,
    /// An interval that leaves room for a larger rise cannot be called flat.
    pub flat_bytes: f64,
    /// Counts of a census: few are enough, since nothing in them is estimated.
    pub counted: bool,
}

impl Terms {
    /// For resident memory around `level`.
    pub fn resident(level: f64, slack_bytes: f64) -> Self {
        Self {
            noise_bytes: (16.0 * 1024.0_f64).max(slack_bytes / 8.0),
            least_bytes: (512.0 * 1024.0_f64).max(slack_bytes).max(0.001 * level),
            flat_bytes: (8.0 * 1024.0 * 1024.0_f64).max(slack_bytes).max(0.05 * level),
            counted: false,
        }
    }

    /// For bytes that were counted.
    pub fn counted() -> Self {
        Self { noise_bytes: 512.0, least_bytes: 24.0 * 1024.0, flat_bytes: 1024.0 * 1024.0, counted: true }
    }

    fn least_points(&self) -> usize {
        if self.counted { LEAST_COUNTS } else { LEAST_POINTS }
    }
}

/// What a series does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    Steady,
    /// It rose at first and is flat since.
    Settled,
    Grows,
    /// It falls back to the same floor.
    Sawtooth,
    /// It rises ever more slowly.
    ToBound,
    Unclear,
}

/// Bytes per unit of `x`, with the 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Rate {
    /// The same with an interval of at least `half` to each side.
    #[must_use]
    pub fn no_surer_than(self, half: f64) -> Self {
        Self { low: self.low.min(self.value - half), high: self.high.max(self.value + half), ..self }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub course: Course,
    pub reason: String,
    pub rate: Option<Rate>,
    /// The smallest rate that would have been seen.
    pub smallest: Option<f64>,
    /// First `x` after warm-up.
    pub since_x: f64,
    pub points: usize,
    /// From there to the end.
    pub span: f64,
    /// How much it rose by its rate in that span.
    pub rise: f64,
    pub end_level: f64,
    /// Where a rise to a bound would end.
    pub bound: Option<f64>,
    /// Height and period of the teeth.
    pub teeth: Option<(f64, f64)>,
    /// So many times as long would probably tell.
    pub longer: Option<f64>,
    /// Its law is a level or a line: only noise can hide something.
    pub(crate) plain: bool,
}

/// The verdict on a series in increasing `x`.
pub fn judge(points: &[XY], terms: &Terms) -> Judged {
    if terms.counted {
        return judge_floors(points, terms);
    }
    let points = growth::before_teardown(until_the_end_of_steps(points), terms.least_bytes);
    let judged = judge_floors(points, terms);
    clearer(points, &judged, terms).unwrap_or(judged)
}

/// After the last step nothing goes on along the axis, however long the program still takes: its first level stands for the rest.
fn until_the_end_of_steps(points: &[XY]) -> &[XY] {
    let Some(last) = points.last() else { return points };
    let first = points.partition_point(|point| point.0 < last.0);
    &points[..=first]
}

/// The same by the floors of longer stretches, where those are much clearer.
fn clearer(points: &[XY], judged: &Judged, terms: &Terms) -> Option<Judged> {
    let smallest = judged.smallest.filter(|_| judged.plain && judged.teeth.is_none())?;
    let until_x = judged.since_x + judged.span;
    let settled = &points[points.partition_point(|point| point.0 < judged.since_x)..];
    let settled = &settled[..settled.partition_point(|point| point.0 <= until_x)];
    let warmed = judged.course == Course::Settled;
    let tried = STRETCHES.iter().filter(|count| **count < judged.points);
    let tried = tried.map(|count| judge_settled(&floors(settled, settled.len() / count), 0, terms));
    // Few floors do not find what many do not: they tell it better, or that there is none.
    let found = matches!(judged.course, Course::Grows | Course::Unclear);
    let told = tried.filter(|other| match other.course {
        Course::Unclear => false,
        Course::Grows => other.plain && found,
        _ => other.plain,
    });
    let of = |other: &Judged| other.smallest.unwrap_or(f64::INFINITY);
    let best = told.min_by(|a, b| of(a).total_cmp(&of(b))).filter(|best| of(best) < CLEARER * smallest)?;
    let course = if warmed && best.course == Course::Steady { Course::Settled } else { best.course };
    Some(Judged { course, ..best })
}

/// The same with the rate of the levels at which steps end, where most were seen at least twice and that is clearer: memory
/// rises somewhere within a step, and where samples fall in it is chance. `points` are along marked steps.
pub fn by_step_ends(points: &[XY], judged: Judged, terms: &Terms) -> Judged {
    let is_open = matches!(judged.course, Course::Grows | Course::Unclear) && judged.teeth.is_none();
    let Some(rate) = judged.rate.filter(|_| is_open) else { return judged };
    let until_x = judged.since_x + judged.span;
    let settled = points.iter().filter(|point| point.0 >= judged.since_x && point.0 <= until_x);
    let Some(ends) = step_ends(&settled.copied().collect::<Vec<_>>()) else { return judged };
    let other = judge_settled(&floors(&ends, ends.len().div_ceil(stats::MAX_POINTS)), 0, terms);
    let width = |rate: Rate| rate.high - rate.low;
    let is_clearer = other.rate.is_some_and(|finer| width(finer) < CLEARER * width(rate));
    if other.course != Course::Grows || !other.plain || !is_clearer {
        return judged;
    }
    let Judged { since_x, points, span, end_level, .. } = judged;
    Judged { since_x, points, span, end_level, ..other }
}

/// The same with what looks that see a rise late may do to the rate. `step` is how long memory takes along `x` to rise once,
/// where that is known.
pub fn with_lateness(points: &[XY], judged: Judged, step: f64) -> Judged {
    let until_x = judged.since_x + judged.span;
    let settled = &points[points.partition_point(|point| point.0 < judged.since_x)..];
    let settled = &settled[..settled.partition_point(|point| point.0 <= until_x)];
    let rate =
        judged.rate.map(|rate| rate.no_surer_than(stats::slope_of_lateness(settled, rate.value, step)));
    Judged { rate, ..judged }
}

/// The number of each step and the last level in it; nothing where that is not near its end, as too few were seen twice.
fn step_ends(points: &[XY]) -> Option<Vec<XY>> {
    let steps: Vec<&[XY]> = points.chunk_by(|a, b| a.0.floor().total_cmp(&b.0.floor()).is_eq()).collect();
    // The first and the last may be seen in part.
    let whole = steps.get(1..steps.len().checked_sub(1)?)?;
    let twice = whole.iter().filter(|step| step.len() >= 2).count();
    let enough = whole.len() >= LEAST_POINTS && 4 * twice >= 3 * whole.len();
    enough.then(|| whole.iter().filter_map(|step| step.last()).map(|end| (end.0.floor(), end.1)).collect())
}

fn judge_floors(points: &[XY], terms: &Terms) -> Judged {
    let reduced = floors(points, points.len().div_ceil(stats::MAX_POINTS));
    if reduced.len() < terms.least_points() {
        let needed = terms.least_points();
        let longer = Some((needed as f64 / points.len().max(1) as f64).max(1.5));
        return Judged {
            longer,
            ..unclear(&reduced, format!("only {} points, {needed} are needed", reduced.len()))
        };
    }
    // Teeth need more points than trends: a fall has its place between two of them.
    let fine = floors(points, points.len().div_ceil(4 * stats::MAX_POINTS));
    if !terms.counted
        && let Some(teeth) = teeth::find(&fine, terms.noise_bytes)
        && teeth.height >= 2.0 * terms.least_bytes
    {
        return judge_teeth(&fine, teeth, terms);
    }
    let from = settled_from(&reduced, terms);
    judge_settled(&reduced, from, terms)
}

/// The least level of each stretch of so many points: what is only there for a moment is no leak.
fn floors(points: &[XY], per: usize) -> Vec<XY> {
    let per = per.max(1);
    let floor = |stretch: &[XY]| stretch.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    // A last stretch that is shorter than the others would have a higher floor.
    points.chunks(per).filter(|stretch| stretch.len() == per).filter_map(floor).collect()
}

fn unclear(points: &[XY], reason: String) -> Judged {
    let first = points.first().map_or(0.0, |point| point.0);
    Judged {
        course: Course::Unclear,
        reason,
        rate: None,
        smallest: None,
        since_x: first,
        points: points.len(),
        span: points.last().map_or(0.0, |last| last.0 - first),
        rise: 0.0,
        end_level: points.last().map_or(0.0, |point| point.1),
        bound: None,
        teeth: None,
        longer: None,
        plain: false,
    }
}

/// Where the settled part begins. Twice, because loading and the first step are often two different rises.
fn settled_from(points: &[XY], terms: &Terms) -> usize {
    let least_after = terms.least_points().max(points.len() * 2 / 5);
    let mut from = 0;
    for _ in 0..2 {
        let rest = &points[from..];
        let split = stats::split(rest, 2, least_after);
        match split.filter(|split| split.left < CUT_GAIN && matters(rest, split, terms)) {
            Some(split) => from += split.at,
            None => break,
        }
    }
    from
}

/// A change point is one of warm-up if memory rose there by something worth talking of.
fn matters(points: &[XY], split: &stats::Split, terms: &Terms) -> bool {
    let (begin, cut, after) = (points[0].0, points[split.at - 1].0, points[split.at].0);
    // Where points are few and far apart, what it rises from one to the next anyway is no jump.
    let anyway = if terms.counted { split.slope_after * (after - cut) } else { 0.0 };
    let jump = split.jump - anyway;
    let bend = (split.slope_before - split.slope_after) * (cut - begin) + jump;
    bend.abs() > terms.least_bytes.max(4.0 * terms.noise_bytes)
}

fn judge_settled(points: &[XY], from: usize, terms: &Terms) -> Judged {
    let settled = &points[from..];
    let laws = form::laws(settled, terms.noise_bytes);
    let Some(best) = laws.first() else {
        return unclear(settled, "no progress along the axis".into());
    };
    let straight: Vec<XY> =
        settled.iter().zip(&best.bend).map(|(point, bend)| (point.0, point.1 - bend)).collect();
    let plain = matches!(best.form, Form::Level | Form::Line);
    let Some(trend) = trend::trend(if plain { settled } else { &straight }, terms.noise_bytes) else {
        return unclear(settled, "too few points after warm-up".into());
    };
    let warmed = from > 0 && rose(points, from, terms);
    let scene = Settled { points: settled, laws: &laws, trend, terms, warmed };
    match best.form {
        Form::Level => scene.level(),
        Form::Line => scene.line(),
        Form::Jump { at } => scene.jump(at),
        Form::Bound { bound, left } => scene.bound(bound, left),
        Form::BoundAndLine => scene.bound_and_line(),
    }
}

fn rose(points: &[XY], from: usize, terms: &Terms) -> bool {
    let middle = |part: &[XY]| stats::median(&mut part.iter().map(|point| point.1).collect::<Vec<_>>());
    let (before, after) = (points.first().map(|point| point.1), middle(&points[from..]));
    before.zip(after).is_some_and(|(before, after)| after - before > terms.least_bytes)
}

/// The part after warm-up with all that is known of it.
struct Settled<'a> {
    points: &'a [XY],
    laws: &'a [Law],
    trend: Trend,
    terms: &'a Terms,
    warmed: bool,
}

impl Settled<'_> {
    fn span(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last.0 - self.points[0].0)
    }

    fn rise(&self) -> f64 {
        self.trend.slope * self.span()
    }

    fn judged(&self, course: Course, reason: impl Into<String>) -> Judged {
        let Trend { slope, low, high, smallest, .. } = self.trend;
        let span = self.span();
        Judged {
            course,
            reason: reason.into(),
            rate: Some(Rate { value: slope, low, high }),
            smallest: Some(smallest.max(self.terms.least_bytes / span)),
            rise: self.rise(),
            plain: true,
            ..unclear(self.points, String::new())
        }
    }

    /// It would take so many times as long for a slope of this size to be seen.
    fn longer(&self, slope: f64) -> f64 {
        let needed = self.trend.smallest / slope.abs().max(f64::MIN_POSITIVE);
        needed.powf(2.0 / 3.0).clamp(1.5, 50.0)
    }

    fn doubtful(&self, reason: impl Into<String>, longer: f64) -> Judged {
        Judged { longer: Some(longer), plain: false, ..self.judged(Course::Unclear, reason) }
    }

    fn is_certain(&self) -> bool {
        self.trend.z > CERTAIN && self.trend.low > 0.0 && self.rise() >= self.terms.least_bytes
    }

    /// Not enough to say that it rises, but too much to say that it does not.
    fn is_likely(&self) -> bool {
        (self.trend.z > LIKELY || self.trend.low > 0.0) && self.rise() >= self.terms.least_bytes
    }

    /// No line by the criterion, but perhaps the noise hides one.
    fn level(&self) -> Judged {
        if self.is_certain() {
            return self.line();
        }
        let hidden = self.trend.smallest * self.span();
        if hidden > self.terms.flat_bytes {
            let allowed = self.terms.flat_bytes / self.span();
            return Judged {
                longer: Some(self.longer(allowed)),
                ..self.judged(Course::Unclear, "the noise is larger than a rise that matters")
            };
        }
        match (self.is_likely(), self.warmed) {
            (true, _) => Judged {
                longer: Some(self.longer(self.trend.slope)),
                ..self.judged(Course::Unclear, "it probably rises, but not certainly")
            },
            (false, true) => self.judged(Course::Settled, "no rise beyond the noise after warm-up"),
            (false, false) => self.judged(Course::Steady, "no rise beyond the noise"),
        }
    }

    /// By how much the best of these laws is worse than this one.
    fn margin(&self, of: impl Fn(&Form) -> bool, against: impl Fn(&Form) -> bool) -> f64 {
        let score = |wanted: &dyn Fn(&Form) -> bool| {
            self.laws.iter().find(|law| wanted(&law.form)).map_or(f64::INFINITY, |law| law.score)
        };
        score(&against) - score(&of)
    }

    fn line(&self) -> Judged {
        if !self.is_certain() {
            return if self.is_likely() {
                let judged = self.judged(Course::Unclear, "it probably rises, but not certainly");
                Judged { longer: Some(self.longer(self.trend.slope)), ..judged }
            } else {
                self.flat()
            };
        }
        let is_line = |form: &Form| matches!(form, Form::Line);
        if self.margin(is_line, |form| matches!(form, Form::Bound { .. })) < MARGIN {
            return self.doubtful("it rises, but perhaps to a bound", 2.0);
        }
        if self.margin(is_line, |form| matches!(form, Form::Jump { .. })) < MARGIN || self.is_one_jump() {
            return self.doubtful("it rose, but mostly by one jump", 2.0);
        }
        self.judged(Course::Grows, "it rises steadily after warm-up, as a line")
    }

    fn flat(&self) -> Judged {
        if self.trend.smallest * self.span() > self.terms.flat_bytes {
            return self.level();
        }
        let course = if self.warmed { Course::Settled } else { Course::Steady };
        self.judged(
            course,
            if self.rise() < -self.terms.least_bytes { "it falls" } else { "no rise worth speaking of" },
        )
    }

    /// The largest step from one point to the next has more than half of the rise, and stands out of the noise.
    fn is_one_jump(&self) -> bool {
        let steps: Vec<f64> = self.points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        let largest = steps.iter().copied().fold(0.0, f64::max);
        let usual =
            stats::median(&mut steps.iter().map(|step| step.abs()).collect::<Vec<_>>()).unwrap_or(0.0);
        largest > JUMP_SHARE * self.rise() && largest > 6.0 * usual.max(self.terms.noise_bytes)
    }

    fn jump(&self, at: usize) -> Judged {
        let height = self.laws.first().and_then(|law| law.bend.last()).copied().unwrap_or(0.0);
        if height.abs() < self.terms.least_bytes {
            return self.level();
        }
        let after = &self.points[at..];
        let enough = after.len() >= self.terms.least_points() && after.len() * 10 >= self.points.len() * 3;
        if height < 0.0 && !enough {
            // It fell at the end: what counts is what it did before.
            return judge_settled(&self.points[..at], 0, self.terms);
        }
        if enough {
            let judged = judge_settled(after, 0, self.terms);
            return match judged.course {
                Course::Steady => Judged { course: Course::Settled, ..judged },
                _ => judged,
            };
        }
        self.doubtful(format!("one jump at {:.0}, and too little after it", self.points[at].0), 2.0)
    }

    fn bound(&self, bound: f64, left: f64) -> Judged {
        let is_bound = |form: &Form| matches!(form, Form::Bound { .. });
        let margin = self.margin(is_bound, |form| matches!(form, Form::Line | Form::BoundAndLine));
        let height = bound - self.points[0].1;
        let reached = left < self.terms.least_bytes || left < 0.05 * height;
        if margin < MARGIN && !reached {
            return self.doubtful("it rises ever more slowly, or as a line", 2.0);
        }
        // What the law leaves is level: its trend says what the noise would have hidden.
        let judged = if reached {
            self.judged(Course::Settled, "it rose to a bound and has reached it")
        } else {
            self.judged(Course::ToBound, "it rises ever more slowly")
        };
        Judged { bound: Some(bound), rise: height, plain: false, ..judged }
    }

    fn bound_and_line(&self) -> Judged {
        if !self.is_certain() {
            return Judged { course: Course::Settled, plain: false, ..self.flat() };
        }
        let is_both = |form: &Form| matches!(form, Form::BoundAndLine);
        if self.margin(is_both, |form| matches!(form, Form::Bound { .. } | Form::Jump { .. })) < 2.0 * MARGIN
        {
            return self.doubtful("it still rises, but perhaps to a bound", 2.0);
        }
        if !self.goes_on() {
            return self.doubtful("it still rises, but ever more slowly", 2.0);
        }
        Judged { plain: false, ..self.judged(Course::Grows, "it rises steadily once warm-up has faded") }
    }

    /// The last three tenths rise nearly as fast as the three before: no way to a bound does.
    fn goes_on(&self) -> bool {
        let tenth = self.points.len() / 10;
        let slope = |part: &[XY]| stats::theil_sen(part).unwrap_or(0.0);
        let middle = slope(&self.points[4 * tenth..7 * tenth]);
        slope(&self.points[7 * tenth..]) > 0.6 * middle
    }
}

/// With the teeth filed off the rest is a series like any other, but for what the filing leaves: no law is fitted.
fn judge_teeth(points: &[XY], teeth: Teeth, terms: &Terms) -> Judged {
    let whole = points.last().map_or(0.0, |last| last.0 - points[0].0);
    let more = (teeth.period * 3.0 / whole).max(1.5);
    // A change point is hard to find among teeth: the first part is given to warm-up in any case.
    let teeth = teeth.since(points, points[0].0 + TEETH_WARM_UP * whole);
    let shape = Some((teeth.height, teeth.period));
    let few = |reason: &str| Judged { teeth: shape, longer: Some(more), ..unclear(points, reason.into()) };
    let noise = terms.noise_bytes.max(teeth.blur);
    let Some(trend) = trend::trend(&teeth.filed, noise).filter(|_| teeth.count() >= LEAST_FALLS) else {
        return few("memory falls back and climbs again: too few periods");
    };
    // What the teeth hide is measured by their height.
    let terms = Terms { flat_bytes: terms.flat_bytes.max(0.4 * teeth.height), ..*terms };
    let scene = Settled { points: &teeth.filed, laws: &[], trend, terms: &terms, warmed: false };
    let judged = |course, reason: &str| Judged { teeth: shape, ..scene.judged(course, reason) };
    if scene.is_certain() {
        return judged(Course::Grows, "it falls back again and again, each time less deep");
    }
    if scene.is_likely() || trend.smallest * scene.span() > terms.flat_bytes {
        return Judged {
            longer: Some(more),
            ..judged(Course::Unclear, "its floors may rise: too few periods")
        };
    }
    judged(Course::Sawtooth, "it falls back to the same floor")
}
