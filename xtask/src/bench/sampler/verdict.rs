//! The bars that the readings are held against.

use super::beside::Beside;
use super::reading::Reading;
use super::tool::Tool;
use super::{INHABITED, LARGE, MANY, ONE, SMALL, Tree};
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

/// All bars; those without readings are kept and say so.
pub fn bars(best: &[Reading], beside: &[Beside]) -> Vec<Bar> {
    let mut bars = vec![core_bar(best, 100, 0.4), core_bar(best, 10, 3.0)];
    for rival in RIVALS {
        for tool in [Tool::NiloFast, Tool::Nilo] {
            bars.extend([100, 10].map(|interval_ms| against_mprof(best, tool, rival, interval_ms)));
        }
    }
    bars.extend([100, 10].map(|interval_ms| floor_bar(best, interval_ms)));
    bars.push(peak_bar(best));
    bars.push(beside_bar(beside));
    bars.extend([100, 10].map(|interval_ms| linear_bar(best, interval_ms)));
    bars.extend([100, 10].map(|interval_ms| size_bar(best, interval_ms)));
    bars
}

fn find(best: &[Reading], tree: Tree, tool: Tool, interval_ms: u64) -> Option<&Reading> {
    best.iter().find(|r| r.cell.tree == tree && r.cell.tool == tool && r.cell.interval_ms == interval_ms)
}

fn us_per_sample(best: &[Reading], tree: Tree, tool: Tool, interval_ms: u64) -> Option<f64> {
    find(best, tree, tool, interval_ms).map(Reading::us_per_sample)
}

fn core_bar(best: &[Reading], interval_ms: u64, percent: f64) -> Bar {
    Bar {
        what: format!("fast ticks with discovery, 10 processes at {interval_ms} ms: share of a core"),
        measured: find(best, SMALL, Tool::NiloFast, interval_ms).map(Reading::core_percent),
        limit: Limit::AtMost(percent),
        unit: " %",
    }
}

fn against_mprof(best: &[Reading], tool: Tool, rival: &Rival, interval_ms: u64) -> Bar {
    let Rival { mprof, gives, tree, whereabouts } = rival;
    let ours = us_per_sample(best, *tree, tool, interval_ms);
    let theirs = us_per_sample(best, *tree, *mprof, interval_ms);
    Bar {
        what: format!(
            "CPU per process-sample below that of {} ({gives}), {whereabouts} at {interval_ms} ms, {}",
            mprof.label(),
            tool.label()
        ),
        measured: theirs.zip(ours).map(|(theirs, ours)| theirs / ours),
        limit: Limit::AtLeast(20.0),
        unit: "×",
    }
}

/// How much of a fast tick is ours: the rest no sampler is spared.
fn floor_bar(best: &[Reading], interval_ms: u64) -> Bar {
    let cost = |tool| us_per_sample(best, SMALL, tool, interval_ms);
    Bar {
        what: format!(
            "fast ticks over what the kernel takes for the same answers (floor), 10 processes at {interval_ms} ms"
        ),
        measured: cost(Tool::NiloFast).zip(cost(Tool::Floor)).map(|(ours, floor)| ours / floor),
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
fn linear_bar(best: &[Reading], interval_ms: u64) -> Bar {
    let cost = |tree| us_per_sample(best, tree, Tool::NiloFast, interval_ms);
    let few = cost(SMALL).or_else(|| cost(ONE));
    Bar {
        what: format!("linear at {interval_ms} ms: CPU per process-sample, 200 processes over 10"),
        measured: cost(MANY).zip(few).map(|(many, few)| many / few),
        limit: Limit::AtMost(SAME),
        unit: "×",
    }
}

fn size_bar(best: &[Reading], interval_ms: u64) -> Bar {
    let cost = |tree| us_per_sample(best, tree, Tool::NiloFast, interval_ms);
    Bar {
        what: format!(
            "independent of size at {interval_ms} ms: CPU per process-sample, 400 MiB over 4 MiB each"
        ),
        measured: cost(LARGE).zip(cost(SMALL)).map(|(large, small)| large / small),
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

    #[test]
    fn more_than_linear_is_found() {
        let best = [reading(SMALL, Tool::NiloFast, 10, 0.1), reading(MANY, Tool::NiloFast, 10, 4.0)];
        assert_eq!(linear_bar(&best, 10).holds(), Some(false));
        let best = [reading(SMALL, Tool::NiloFast, 10, 0.1), reading(MANY, Tool::NiloFast, 10, 2.0)];
        assert_eq!(linear_bar(&best, 10).holds(), Some(true));
    }
}
