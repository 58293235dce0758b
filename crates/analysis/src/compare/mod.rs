//! What changed between runs: environment first, then figures with their noise, steps, kinds of object; and gates.
//!
//! The first side is the base. Pure: sides are made from models. The one invariant: a difference is called one only
//! where its interval does not hold zero.

pub mod course;
pub mod fact;
pub mod gate;
pub mod object;
pub mod part;
pub mod side;
pub mod site;
pub mod stat;
pub mod step;

use serde::Serialize;

use crate::metric::{self, Unit};
use crate::model::Run;
use crate::sweep::space::Point;
use course::Pair;
use fact::FactChange;
use gate::{Gate, Judged};
use object::KindChange;
use part::Parts;
pub use side::Side;
use site::SiteChange;
use stat::{Difference, Stat, difference};
use step::Alignment;

/// One figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub metric: String,
    pub unit: Unit,
    pub base: Stat,
    pub other: Stat,
    #[serde(flatten)]
    pub difference: Difference,
}

/// The same parameter set in two sweeps.
#[derive(Debug, Clone)]
pub struct PointChange {
    pub params: Point,
    pub changes: Vec<Change>,
}

/// One side against the base.
#[derive(Debug, Clone)]
pub struct Versus {
    pub name: String,
    pub what: &'static str,
    pub runs: usize,
    pub facts: Vec<FactChange>,
    pub changes: Vec<Change>,
    /// Figures that only one side has.
    pub only_base: Vec<String>,
    pub only_other: Vec<String>,
    pub steps: Option<Alignment>,
    /// Curves of both, for charts.
    pub courses: Vec<Pair>,
    pub parts: Option<Parts>,
    pub kinds: Vec<KindChange>,
    /// Code that allocates, where both sides recorded it.
    pub sites: Vec<SiteChange>,
    pub points: Vec<PointChange>,
    pub gates: Vec<Judged>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Comparison {
    pub base: String,
    pub base_what: &'static str,
    pub base_runs: usize,
    pub others: Vec<Versus>,
}

/// All others against the first.
pub fn compare(base: &Side, others: &[Side], gates: &[Gate]) -> Comparison {
    Comparison {
        base: base.name.clone(),
        base_what: base.what,
        base_runs: base.samples.len(),
        others: others.iter().map(|other| versus(base, other, gates)).collect(),
    }
}

fn versus(base: &Side, other: &Side, gates: &[Gate]) -> Versus {
    let changes = changes(base, other);
    let points = points(base, other);
    let (base_runs, other_runs): (Vec<&Run>, Vec<&Run>) =
        (base.runs.iter().collect(), other.runs.iter().collect());
    let mut kinds = object::changes(&base_runs, &other_runs);
    if !base.kinds.is_empty() && !other.kinds.is_empty() {
        kinds = object::between(&base.kinds, &other.kinds);
    }
    let only = |a: &Side, b: &Side| {
        let there = b.names();
        a.names().into_iter().filter(|name| !there.contains(name)).map(str::to_owned).collect()
    };
    Versus {
        name: other.name.clone(),
        what: other.what,
        runs: other.samples.len(),
        facts: fact::changes(&base.facts, &other.facts),
        gates: gates.iter().flat_map(|gate| judge(gate, &changes, &points, base, other)).collect(),
        only_base: only(base, other),
        only_other: only(other, base),
        steps: step::align(&base_runs, &other_runs),
        courses: course::pairs(&base_runs, &other_runs),
        parts: part::parts(base, other),
        kinds,
        sites: site::changes(&base.sites, &other.sites),
        points,
        notes: notes(base, other, &changes),
        changes,
    }
}

fn changes(base: &Side, other: &Side) -> Vec<Change> {
    base.names().into_iter().filter_map(|name| change(base, other, name)).collect()
}

fn change(base: &Side, other: &Side, name: &str) -> Option<Change> {
    let (a, b) = (base.figures(name), other.figures(name));
    let unit = a.first()?.unit;
    if b.first()?.unit != unit {
        return None;
    }
    let (base, other) = (Stat::of(&a, base.slack)?, Stat::of(&b, other.slack)?);
    let difference = difference(&base, &other);
    Some(Change { metric: name.to_owned(), unit, base, other, difference })
}

fn points(base: &Side, other: &Side) -> Vec<PointChange> {
    let same = |params: &Point| other.points.iter().find(|(its, _)| its == params).map(|(_, side)| side);
    let pairs = base.points.iter().filter_map(|(params, side)| Some((params, side, same(params)?)));
    pairs.map(|(params, a, b)| PointChange { params: params.clone(), changes: changes(a, b) }).collect()
}

/// Once for a comparison of runs, once for each parameter set of sweeps.
fn judge(gate: &Gate, changes: &[Change], points: &[PointChange], base: &Side, other: &Side) -> Vec<Judged> {
    let of = |changes: &[Change]| {
        let found = changes.iter().find(|change| metric::is_named(&change.metric, &gate.metric));
        found.map(|change| gate.judge(change.unit, &change.other, &change.difference))
    };
    if points.is_empty() {
        let alone = || gate.judge_alone(&other.figures(&gate.metric), other.slack);
        let judged = of(changes).or_else(alone);
        let mut judged = judged.unwrap_or_else(|| gate.unknown(&why_absent(gate, base, other)));
        if gate.metric == "leak" && judged.reason.is_empty() {
            judged.reason = other.leaks.join(", ");
        }
        return vec![judged];
    }
    let judged = points.iter().map(|point| {
        let mut judged = of(&point.changes).unwrap_or_else(|| gate.unknown(&why_absent(gate, base, other)));
        let params: Vec<String> =
            point.params.iter().map(|(name, value)| format!("{name}={}", value.text)).collect();
        judged.gate = format!("{} at {}", judged.gate, params.join(" "));
        judged
    });
    judged.collect()
}

fn why_absent(gate: &Gate, base: &Side, other: &Side) -> String {
    for side in [other, base] {
        if side.figures(&gate.metric).is_empty() {
            let known = side.absent.iter().find(|(name, _)| *name == gate.metric);
            if let Some((_, why)) = known {
                return format!("{}: {why}", side.name);
            }
            let first = side.points.first().map_or(side, |(_, point)| point);
            return format!(
                "{} has no figure `{}`; it has {}",
                side.name,
                gate.metric,
                first.names().join(", ")
            );
        }
    }
    format!("`{}` is measured in different units", gate.metric)
}

fn notes(base: &Side, other: &Side, changes: &[Change]) -> Vec<String> {
    let mut notes: Vec<String> = base.notes.iter().chain(&other.notes).cloned().collect();
    if changes.iter().any(|change| change.difference.assumed) && base.what == "run" {
        let percent = stat::SINGLE_NOISE * 100.0;
        notes.push(format!(
            "single runs: their noise is not known; {percent} % of the peak is assumed. Repeats tell it:  nilo run --repeat 5"
        ));
    }
    notes
}
