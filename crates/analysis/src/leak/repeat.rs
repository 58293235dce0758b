//! Several runs of one command: does each leave something on the machine that the next one finds?
//!
//! Others use the machine too. So a quantity of the whole machine needs a trend over the runs that is certain and
//! above what the quantity does by itself; files in memory are found by name and need only to come back.

use nilometer_trace::record::{Exit, Phase, Remains};

use super::model::RepeatedRun;
use super::series::{self, Judged, Terms};
use crate::column::{Field, View};
use crate::settle::{HELD, Quantity, SWAPPED};
use crate::stats::XY;
use crate::unit::{difference, signed};

/// Runs that are listed.
const RUNS: usize = 10_000;
const MIB: f64 = 1024.0 * 1024.0;
/// What memory in use on a whole machine does by itself, where nobody measured it.
const USUAL_NOISE: f64 = 64.0 * MIB;

/// Quantities of the machine at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Machine {
    in_use: Option<i64>,
    swapped: Option<i64>,
    held: [Option<i64>; HELD.len()],
}

#[derive(Debug, Clone)]
struct Run {
    n: u64,
    began_ns: u64,
    ended_ns: u64,
    exit: i32,
    peak: u64,
    after: Machine,
    remains: Vec<Remains>,
}

#[derive(Debug, Default)]
pub(crate) struct Repeated {
    anchor: Option<(u64, u64)>,
    started_ns: u64,
    before: Machine,
    latest: Machine,
    peak: u64,
    runs: Vec<Run>,
}

impl Repeated {
    pub(crate) fn anchor(&mut self, mono_ns: u64, realtime_ns: u64) {
        self.anchor = Some((mono_ns, realtime_ns));
    }

    pub(crate) fn started(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
    }

    pub(crate) fn peak(&mut self, bytes: u64) {
        self.peak = self.peak.max(bytes);
    }

    /// `alone`: no process of the tree lives.
    pub(crate) fn system(&mut self, phase: Phase, alone: bool, view: &View<'_>) {
        let swapped = SWAPPED.value(view);
        let shared = signed(view.meminfo(Field::Shmem).unwrap_or(0)).saturating_add(swapped.unwrap_or(0));
        let machine = Machine {
            in_use: view.in_use().map(|bytes| signed(bytes).saturating_add(shared)),
            swapped,
            held: std::array::from_fn(|n| HELD.get(n).and_then(|quantity: &Quantity| quantity.value(view))),
        };
        match phase {
            Phase::Before => self.before = machine,
            Phase::During if !alone => {}
            Phase::During | Phase::After => self.latest = machine,
        }
    }

    pub(crate) fn ended(&mut self, n: u64, began_ns: u64, ended_ns: u64, exit: &Exit, remains: &[Remains]) {
        let peak = std::mem::take(&mut self.peak);
        if self.runs.len() < RUNS {
            let exit = exit.code.unwrap_or_else(|| 128 + exit.signal.unwrap_or(0));
            let remains = remains.to_vec();
            self.runs.push(Run { n, began_ns, ended_ns, exit, peak, after: self.latest, remains });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn models(&self) -> Vec<RepeatedRun> {
        let mut before = self.before;
        let mut models = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let change = |of: fn(&Machine) -> Option<i64>| Some(of(&run.after)?.saturating_sub(of(&before)?));
            let left = change(|machine| machine.in_use);
            models.push(self.model(run, left, change(|machine| machine.swapped)));
            before = run.after;
        }
        models
    }

    fn model(
        &self,
        run: &Run,
        left_behind_bytes: Option<i64>,
        left_in_swap_bytes: Option<i64>,
    ) -> RepeatedRun {
        let largest = run.remains.iter().max_by_key(|remains| remains.bytes);
        let (mono_ns, realtime_ns) = self.anchor.unwrap_or((run.began_ns, 0));
        let since = |at_ns: u64, from_ns: u64| difference(at_ns, from_ns) as f64 / 1e9;
        RepeatedRun {
            n: run.n,
            start: crate::text::timestamp(realtime_ns.saturating_add(run.began_ns.saturating_sub(mono_ns))),
            start_s: since(run.began_ns, self.started_ns),
            seconds: since(run.ended_ns, run.began_ns),
            exit: run.exit,
            peak_bytes: Some(run.peak).filter(|peak| *peak > 0),
            left_behind_bytes,
            left_in_swap_bytes,
            remains_bytes: run.remains.iter().fold(0, |sum: u64, remains| sum.saturating_add(remains.bytes)),
            remains: largest.map(|remains| remains.what.clone()),
        }
    }

    /// Files in memory that the runs left, summed up run by run.
    pub(crate) fn named(&self) -> (Judged, Option<String>) {
        let mut sum = 0.0;
        let mut points = vec![(0.0, 0.0)];
        for run in &self.runs {
            sum += run.remains.iter().map(|remains| remains.bytes as f64).sum::<f64>();
            points.push((run.n as f64, sum));
        }
        let terms =
            Terms { noise_bytes: 4096.0, least_bytes: 256.0 * 1024.0, flat_bytes: 4.0 * MIB, counted: true };
        let last =
            self.runs.iter().rev().flat_map(|run| &run.remains).map(|remains| remains.what.clone()).next();
        (series::judge(&points, &terms), last)
    }

    /// The trend of each quantity of the kernel over the runs.
    pub(crate) fn kernel(&self) -> Vec<(&'static str, Judged)> {
        let judge = |n: usize, quantity: &Quantity| {
            let before = self.before.held.get(n).copied().flatten().map(|value| (0.0, value as f64));
            let after =
                self.runs.iter().filter_map(|run| Some((run.n as f64, (*run.after.held.get(n)?)? as f64)));
            let points: Vec<XY> = before.into_iter().chain(after).collect();
            let noise = quantity.noise_bytes();
            let terms = Terms {
                noise_bytes: noise / 4.0,
                least_bytes: 2.0 * noise,
                flat_bytes: 8.0 * noise.max(4.0 * MIB),
                counted: false,
            };
            (quantity.name, series::judge(&points, &terms))
        };
        HELD.iter().enumerate().map(|(n, quantity)| judge(n, quantity)).collect()
    }
}

/// Two looks at the machine around several runs: what each left, and how much of that may be others' doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TwoLooks {
    pub(crate) per_run: f64,
    pub(crate) ci95: [f64; 2],
    /// The difference is far above what a machine does by itself.
    pub(crate) certain: bool,
}

/// From memory in use before and after, in bytes.
pub(crate) fn two_looks(before: f64, after: f64, runs: u64) -> Option<TwoLooks> {
    let runs = Some(runs).filter(|runs| *runs > 0)? as f64;
    let per_run = (after - before) / runs;
    let half = 1.96 * USUAL_NOISE / runs;
    let certain = after - before > 3.2905 * USUAL_NOISE;
    Some(TwoLooks { per_run, ci95: [per_run - half, per_run + half], certain })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of 30 trainings that is published with the repeats test: kB in use before and after.
    #[test]
    fn the_published_thirty_runs_left_57_169_kb_each() {
        let found = two_looks(1_627_552.0 * 1024.0, 3_342_636.0 * 1024.0, 30).unwrap();
        assert_eq!((found.per_run / 1024.0).round() as u64, 57_169);
        assert!(found.certain && found.ci95[0] > 50.0 * MIB && found.ci95[1] < 62.0 * MIB, "{found:?}");
        let quiet = two_looks(1_627_552.0 * 1024.0, 1_700_000.0 * 1024.0, 30).unwrap();
        assert!(!quiet.certain && quiet.ci95[0] < 0.0);
        assert_eq!(two_looks(1.0, 2.0, 0), None);
    }
}
