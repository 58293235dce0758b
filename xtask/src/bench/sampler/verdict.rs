//! The bars that the readings are held against.

use super::beside::Beside;
use super::reading::{Reading, best_of};
use super::tool::Tool;
use super::{Cell, INHABITED, LARGE, MANY, ONE, SMALL, Tree};
use crate::bench::bar::{Bar, Limit};

/// What counts as "the same cost per process-sample", noise included.
const SAME: f64 = 1.25;

/// A way of calling mprof, and where.
struct Rival {
    mprof: Tool,
    gives: &'static str,
    tree: Tree,
    whereabouts: &'static str,
}

const RIVALS: &[Rival] = &[
    Rival {
        mprof: Tool::MprofSum,
        gives: "each process and the sum, as ours",
        tree: SMALL,
        whereabouts: "10 processes",
    },
    Rival { mprof: Tool::MprofAlone, gives: "the command alone", tree: SMALL, whereabouts: "10 processes" },
    Rival { mprof: Tool::Mprof, gives: "no sum", tree: SMALL, whereabouts: "10 processes" },
    Rival {
        mprof: Tool::Mprof,
        gives: "no sum",
        tree: INHABITED,
        whereabouts: "10 processes beside 200 of others",
    },
];

/// All bars; those without readings are kept and say so. `all`: of every round.
pub fn bars(all: &[Reading], beside: &[Beside]) -> Vec<Bar> {
    let best = best_of(all);
    let mut bars = vec![core_bar(&best, 100, 0.4), core_bar(&best, 10, 3.0)];
    for rival in RIVALS {
        for tool in [Tool::NiloFast, Tool::Nilo] {
            bars.extend([100, 10].map(|interval_ms| against_mprof(all, tool, rival, interval_ms)));
        }
    }
    bars.extend([100, 10].map(|interval_ms| floor_bar(all, interval_ms)));
    bars.push(peak_bar(&best));
    bars.push(beside_bar(beside));
    bars.extend([100, 10].map(|interval_ms| linear_bar(all, interval_ms)));
    bars.extend([100, 10].map(|interval_ms| size_bar(all, interval_ms)));
    bars
}

fn find(best: &[Reading], tree: Tree, tool: Tool, interval_ms: u64) -> Option<&Reading> {
    best.iter().find(|r| r.cell.tree == tree && r.cell.tool == tool && r.cell.interval_ms == interval_ms)
}

/// How many times dearer a process-sample of `one` is than of `other`: the middle of the rounds, each compared within itself,
/// because what everything costs changes by a factor with the machine's caches from one minute to another.
fn ratio(all: &[Reading], one: (Tree, Tool), other: (Tree, Tool), interval_ms: u64) -> Option<f64> {
    let of =
        |(tree, tool)| all.iter().filter(move |reading| reading.cell == Cell { tree, tool, interval_ms });
    let pairs = of(one).filter_map(|one| Some((one, of(other).find(|other| other.round == one.round)?)));
    let mut ratios: Vec<f64> =
        pairs.map(|(one, other)| one.us_per_sample() / other.us_per_sample()).collect();
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios.get(ratios.len().saturating_sub(1) / 2)?, ratios.get(ratios.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

fn core_bar(best: &[Reading], interval_ms: u64, percent: f64) -> Bar {
    Bar {
        what: format!("fast ticks with discovery, 10 processes at {interval_ms} ms: share of a core"),
        measured: find(best, SMALL, Tool::NiloFast, interval_ms).map(Reading::core_percent),
        limit: Limit::AtMost(percent),
        unit: " %",
    }
}

fn against_mprof(all: &[Reading], tool: Tool, rival: &Rival, interval_ms: u64) -> Bar {
    let Rival { mprof, gives, tree, whereabouts } = rival;
    Bar {
        what: format!(
            "CPU per process-sample below that of {} ({gives}), {whereabouts} at {interval_ms} ms, {}",
            mprof.label(),
            tool.label()
        ),
        measured: ratio(all, (*tree, *mprof), (*tree, tool), interval_ms),
        limit: Limit::AtLeast(20.0),
        unit: "×",
    }
}

/// How much of a fast tick is ours: the rest no sampler is spared.
fn floor_bar(all: &[Reading], interval_ms: u64) -> Bar {
    Bar {
        what: format!(
            "fast ticks over what the kernel takes for the same answers (floor), 10 processes at {interval_ms} ms"
        ),
        measured: ratio(all, (SMALL, Tool::NiloFast), (SMALL, Tool::Floor), interval_ms),
        limit: Limit::AtMost(2.0),
        unit: "×",
    }
}

fn peak_bar(best: &[Reading]) -> Bar {
    let ours = best.iter().filter(|reading| reading.cell.tool.family() == "nilo");
    Bar {
        what: "own peak RSS, worst of all trees".to_owned(),
        measured: ours.map(Reading::peak_mb).reduce(f64::max),
        limit: Limit::AtMost(12.0),
        unit: " MB",
    }
}

fn beside_bar(beside: &[Beside]) -> Bar {
    Bar {
        what: "own peak RSS, worst of all trainings".to_owned(),
        measured: beside.iter().map(Beside::own_mb).reduce(f64::max),
        limit: Limit::AtMost(12.0),
        unit: " MB",
    }
}

/// One process carries the fixed cost of a tick, so the dearest share allowed is that of ten or of one.
fn linear_bar(all: &[Reading], interval_ms: u64) -> Bar {
    let over = |few| ratio(all, (MANY, Tool::NiloFast), (few, Tool::NiloFast), interval_ms);
    Bar {
        what: format!("linear at {interval_ms} ms: CPU per process-sample, 200 processes over 10"),
        measured: over(SMALL).or_else(|| over(ONE)),
        limit: Limit::AtMost(SAME),
        unit: "×",
    }
}

fn size_bar(all: &[Reading], interval_ms: u64) -> Bar {
    Bar {
        what: format!(
            "independent of size at {interval_ms} ms: CPU per process-sample, 400 MiB over 4 MiB each"
        ),
        measured: ratio(all, (LARGE, Tool::NiloFast), (SMALL, Tool::NiloFast), interval_ms),
        limit: Limit::AtMost(SAME),
        unit: "×",
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::reading;
    use super::*;

    #[test]
    fn without_readings_nothing_is_judged() {
        assert!(bars(&[], &[]).iter().all(|bar| bar.holds().is_none()));
    }

    #[test]
    fn all_ways_of_calling_mprof_are_rivals_alone_and_among_others() {
        let best = [
            reading(SMALL, Tool::NiloFast, 100, 0.02),
            reading(SMALL, Tool::MprofSum, 100, 0.6),
            reading(SMALL, Tool::MprofAlone, 100, 0.5),
            reading(SMALL, Tool::Mprof, 100, 0.3),
            reading(INHABITED, Tool::NiloFast, 100, 0.03),
            reading(INHABITED, Tool::Mprof, 100, 0.9),
        ];
        let bars = RIVALS.iter().map(|rival| against_mprof(&best, Tool::NiloFast, rival, 100));
        let told: Vec<_> = bars.map(|bar| (bar.measured.unwrap().round(), bar.holds())).collect();
        assert_eq!(told, [(30.0, Some(true)), (25.0, Some(true)), (15.0, Some(false)), (30.0, Some(true))]);
        assert_eq!(core_bar(&best, 100, 0.4).holds(), Some(true));
    }

    #[test]
    fn what_is_ours_of_a_tick_is_told() {
        let of = |ours| [reading(SMALL, Tool::NiloFast, 10, ours), reading(SMALL, Tool::Floor, 10, 0.1)];
        let holds = |ours| floor_bar(&of(ours), 10).holds();
        assert_eq!([holds(0.15), holds(0.25)], [Some(true), Some(false)]);
    }

    /// In one of three rounds the machine was slower, and got so between the two.
    #[test]
    fn what_is_compared_is_of_one_round() {
        let rounds = [(0.02, 0.5), (0.02, 1.4), (0.06, 1.5)];
        let all: Vec<Reading> = (1..)
            .zip(rounds)
            .flat_map(|(round, (ours, theirs))| {
                [(Tool::NiloFast, ours), (Tool::Mprof, theirs)]
                    .map(|(tool, cpu_s)| Reading { round, ..reading(SMALL, tool, 100, cpu_s) })
            })
            .collect();
        let of = |tool| (SMALL, tool);
        assert_eq!(ratio(&all, of(Tool::Mprof), of(Tool::NiloFast), 100).map(f64::round), Some(25.0));
        assert_eq!(ratio(&all[..4], of(Tool::Mprof), of(Tool::NiloFast), 100).map(f64::round), Some(48.0));
        assert_eq!(ratio(&all[..1], of(Tool::Mprof), of(Tool::NiloFast), 100), None);
    }

    #[test]
    fn more_than_linear_is_found() {
        let best = [reading(SMALL, Tool::NiloFast, 10, 0.1), reading(MANY, Tool::NiloFast, 10, 4.0)];
        assert_eq!(linear_bar(&best, 10).holds(), Some(false));
        let best = [reading(SMALL, Tool::NiloFast, 10, 0.1), reading(MANY, Tool::NiloFast, 10, 2.0)];
        assert_eq!(linear_bar(&best, 10).holds(), Some(true));
    }
}
