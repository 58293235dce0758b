//! The bars that the readings are held against.

use super::reading::Reading;
use super::tool::Tool;
use super::{LARGE, SMALL, Tree};
use crate::bench::bar::{Bar, Limit};

const ONE: Tree = Tree { processes: 1, mib_each: 4 };
const MANY: Tree = Tree { processes: 200, mib_each: 4 };
/// What counts as "the same cost per process-sample", noise included.
const SAME: f64 = 1.25;

/// All bars; those without readings are kept and say so.
pub fn bars(best: &[Reading]) -> Vec<Bar> {
    let mut bars = vec![core_bar(best, 100, 0.4), core_bar(best, 10, 3.0)];
    for (mprof, gives) in [(Tool::MprofSum, "each process and the sum, as ours"), (Tool::Mprof, "no sum")] {
        for tool in [Tool::NiloFast, Tool::Nilo] {
            bars.extend([100, 10].map(|interval_ms| against_mprof(best, tool, (mprof, gives), interval_ms)));
        }
    }
    bars.push(peak_bar(best));
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

/// Against a way of calling mprof, and what that one tells.
fn against_mprof(best: &[Reading], tool: Tool, (mprof, gives): (Tool, &str), interval_ms: u64) -> Bar {
    let ours = us_per_sample(best, SMALL, tool, interval_ms);
    let theirs = us_per_sample(best, SMALL, mprof, interval_ms);
    Bar {
        what: format!(
            "CPU per process-sample below that of {} ({gives}), 10 processes at {interval_ms} ms, {}",
            mprof.label(),
            tool.label()
        ),
        measured: theirs.zip(ours).map(|(theirs, ours)| theirs / ours),
        limit: Limit::AtLeast(20.0),
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
        assert!(bars(&[]).iter().all(|bar| bar.holds().is_none()));
    }

    #[test]
    fn both_ways_of_calling_mprof_are_rivals() {
        let best = [
            reading(SMALL, Tool::NiloFast, 100, 0.02),
            reading(SMALL, Tool::Mprof, 100, 0.3),
            reading(SMALL, Tool::MprofSum, 100, 0.6),
        ];
        let times = |mprof| against_mprof(&best, Tool::NiloFast, (mprof, ""), 100);
        assert!((times(Tool::Mprof).measured.unwrap() - 15.0).abs() < 1e-9);
        assert!((times(Tool::MprofSum).measured.unwrap() - 30.0).abs() < 1e-9);
        assert_eq!(
            [times(Tool::Mprof), times(Tool::MprofSum)].map(|bar| bar.holds()),
            [Some(false), Some(true)]
        );
        assert_eq!(core_bar(&best, 100, 0.4).holds(), Some(true));
    }

    #[test]
    fn more_than_linear_is_found() {
        let best = [reading(SMALL, Tool::NiloFast, 10, 0.1), reading(MANY, Tool::NiloFast, 10, 4.0)];
        assert_eq!(linear_bar(&best, 10).holds(), Some(false));
        let best = [reading(SMALL, Tool::NiloFast, 10, 0.1), reading(MANY, Tool::NiloFast, 10, 2.0)];
        assert_eq!(linear_bar(&best, 10).holds(), Some(true));
    }
}
