//! Heap tables of a run: a census now and then, by a thread of its own, so that ticks go on.
//!
//! The one invariant: the target stands still for no more than 1 % of the time, whatever was asked.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nilometer_kernel::sys::clock::{monotonic_ns, thread_cpu_ns};
use nilometer_trace::heap::Graph;
use nilometer_trace::record::HeapTable;

use crate::answer::{publish, refuse};
use crate::census::{self, CensusOptions, Detail};
use crate::errand::{Came, Errands, Holding};

/// Rows that a table keeps; the rest is one row.
const MOST_ROWS: usize = 40;
/// The target stands still for at most one part in so many.
const PAUSE_SHARE: u64 = 100;
/// `auto`: we work on censuses for at most one part in so many of the time, on another core.
const WORK_SHARE: u64 = 20;
/// The first table: what is imported by then is not growth.
const FIRST_NS: u64 = 2_000_000_000;
/// `auto`: no more often than this; then ever more seldom, so that a long run keeps few tables.
const SHORTEST_NS: u64 = 10_000_000_000;
const SPREAD: u64 = 20;

/// Looks for a verdict on leaks: soon, often at first, then ever more seldom.
const LOOK_FIRST_NS: u64 = 400_000_000;
const LOOK_SHORTEST_NS: u64 = 250_000_000;
const LOOK_SPREAD: u64 = 9;
/// For these the target stands still for at most one part in so many, and we work for one in so many.
const LOOK_PAUSE_SHARE: u64 = 20;
const LOOK_WORK_SHARE: u64 = 2;
/// A whole census is kept whenever the run is so much older than at the last one.
const KEPT_STEP: f64 = 1.4;
/// Names of the kept ones in the run directory; between them the nanoseconds of the log's clock.
pub const LOOK_PREFIX: &str = "look-";
pub const LOOK_SUFFIX: &str = ".heap";

/// How often a table is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    Auto,
    Time(Duration),
    Steps(u64),
    /// For a verdict on leaks: tables, and now and then a whole census that is kept in the run directory.
    Looks,
}

/// What is asked of the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Errand {
    /// A table of the first of these that is a Python, and perhaps its whole census into this directory.
    Table { pids: Vec<i32>, keep_in: Option<PathBuf> },
    /// A whole snapshot of this process into that file, for `nilo heap`.
    Snapshot { pid: i32, path: PathBuf },
}

/// What the thread brought back.
#[derive(Debug, Default)]
pub struct Outcome {
    pub table: Option<HeapTable>,
    /// The whole census was kept.
    kept: Option<PathBuf>,
    /// How long a process stood still for it.
    pub pause_ns: u64,
    /// Processes that are no Python we can read, with the reason of the first.
    not_python: Vec<i32>,
    /// Why there is no table.
    pub failure: Option<String>,
}

/// Tables of one recording.
#[derive(Debug, Default)]
pub struct HeapWatch {
    every: Option<Every>,
    started_ns: u64,
    errands: Errands<Outcome>,
    waiting: Vec<Errand>,
    last_end_ns: u64,
    last_pause_ns: u64,
    last_work_ns: u64,
    tables: u64,
    /// Whose tables these are: one process is followed as long as it lives.
    followed: Option<i32>,
    steps: u64,
    /// Where whole censuses are kept, and those that are: age of the run and file.
    directory: PathBuf,
    kept: Vec<(u64, PathBuf)>,
    not_python: HashSet<i32>,
    told: HashSet<String>,
}

impl HeapWatch {
    pub fn new(every: Option<Every>, directory: PathBuf) -> Self {
        Self { every, directory, ..Self::default() }
    }

    /// True while the target is held by the thread: nobody else may wait for it.
    pub fn is_holding(&self) -> bool {
        self.errands.is_holding()
    }

    pub fn is_out(&self) -> bool {
        self.errands.is_out()
    }

    /// It has to be given its turn at every tick, whatever the target does.
    pub fn is_busy(&self) -> bool {
        self.is_out() || self.every.is_some() || !self.waiting.is_empty()
    }

    /// Tables taken so far.
    pub fn tables(&self) -> u64 {
        self.tables
    }

    pub fn step(&mut self) {
        self.steps += 1;
    }

    /// A snapshot for somebody who asked through the control socket.
    pub fn ask(&mut self, pid: i32, path: PathBuf) {
        self.waiting.push(Errand::Snapshot { pid, path });
    }

    /// Takes what the thread brought back, and sends it again if something is due and `may_begin`. `pids`: largest
    /// first.
    pub fn turn(&mut self, may_begin: bool, pids: impl FnOnce() -> Vec<i32>) -> Option<Outcome> {
        let now_ns = monotonic_ns();
        if self.started_ns == 0 {
            self.started_ns = now_ns;
        }
        let outcome = self.collect(now_ns);
        if may_begin && !self.errands.is_out() {
            if !self.waiting.is_empty() {
                let errand = self.waiting.remove(0);
                self.send(errand);
            } else if self.is_due(now_ns) {
                let known = &self.not_python;
                let mut pids: Vec<i32> = pids().into_iter().filter(|pid| !known.contains(pid)).collect();
                pids.sort_by_key(|pid| Some(*pid) != self.followed);
                let keep_in = self.is_worth_keeping(now_ns).then(|| self.directory.clone());
                self.send(Errand::Table { pids, keep_in });
            }
        }
        outcome
    }

    /// Waits for the thread, no longer than this.
    pub fn finish(&mut self, patience: Duration) -> Option<Outcome> {
        let outcome = self.errands.wait(patience);
        let outcome = outcome.map(|outcome| self.take_note(outcome, monotonic_ns()));
        self.keep_two();
        outcome
    }

    fn is_worth_keeping(&self, now_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.started_ns);
        let last_ns = self.kept.last().map_or(0, |kept| kept.0);
        self.every == Some(Every::Looks) && age_ns as f64 >= KEPT_STEP * last_ns as f64
    }

    /// At the end: the last census, and the first that is left. Half as old or less, warm-up is over by then.
    fn keep_two(&mut self) {
        while self.kept.len() > 2 {
            let _ = std::fs::remove_file(self.kept.remove(1).1);
        }
    }

    /// The first one that is kept is at least a third as old as the run.
    fn drop_old(&mut self) {
        let age_ns = self.kept.last().map_or(0, |kept| kept.0);
        while self.kept.len() > 2 && self.kept[1].0 * 2 <= age_ns {
            let _ = std::fs::remove_file(self.kept.remove(0).1);
        }
    }

    fn collect(&mut self, now_ns: u64) -> Option<Outcome> {
        Some(match self.errands.collect()? {
            Came::Lost => {
                self.last_end_ns = now_ns;
                Outcome { failure: Some("the census broke off".to_owned()), ..Outcome::default() }
            }
            Came::Back(outcome) => self.take_note(outcome, now_ns),
        })
    }

    /// A reason is told once.
    fn take_note(&mut self, mut outcome: Outcome, now_ns: u64) -> Outcome {
        self.last_end_ns = now_ns;
        self.last_pause_ns = outcome.pause_ns;
        self.last_work_ns = outcome.table.as_ref().map_or(0, |table| table.cost_ns);
        self.not_python.extend(outcome.not_python.drain(..));
        self.tables += u64::from(outcome.table.is_some());
        if let Some(path) = outcome.kept.take() {
            self.kept.push((now_ns.saturating_sub(self.started_ns), path));
            self.drop_old();
        }
        self.followed = outcome.table.as_ref().map(|table| table.pid).or(self.followed);
        outcome.failure = outcome.failure.take().filter(|reason| self.told.insert(reason.clone()));
        outcome
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let Some(every) = self.every else { return false };
        let since_ns = now_ns.saturating_sub(self.last_end_ns.max(self.started_ns));
        let share = if every == Every::Looks { LOOK_PAUSE_SHARE } else { PAUSE_SHARE };
        if since_ns < self.last_pause_ns * share {
            return false;
        }
        match every {
            Every::Steps(steps) => self.steps >= steps.max(1) * (self.tables + 1),
            Every::Time(time) => since_ns >= time.as_nanos() as u64,
            Every::Looks if self.tables == 0 => since_ns >= LOOK_FIRST_NS,
            Every::Looks => {
                let age_ns = now_ns.saturating_sub(self.started_ns);
                since_ns
                    >= LOOK_SHORTEST_NS.max(age_ns / LOOK_SPREAD).max(self.last_work_ns * LOOK_WORK_SHARE)
            }
            Every::Auto if self.tables == 0 => since_ns >= FIRST_NS,
            Every::Auto => {
                let age_ns = now_ns.saturating_sub(self.started_ns);
                since_ns >= SHORTEST_NS.max(age_ns / SPREAD).max(self.last_work_ns * WORK_SHARE)
            }
        }
    }

    fn send(&mut self, errand: Errand) {
        self.errands.send("nilo-heap", move |holding| run(&errand, holding));
    }
}

fn run(errand: &Errand, holding: &Holding) -> Outcome {
    match errand {
        Errand::Table { pids, keep_in } => tabulate(pids, keep_in.as_deref(), holding),
        Errand::Snapshot { pid, path } => {
            let written = snapshot(*pid, path, holding);
            let pause_ns = *written.as_ref().unwrap_or(&0);
            if let Err(reason) = written {
                refuse(path, &reason);
            }
            Outcome { pause_ns, ..Outcome::default() }
        }
    }
}

/// The first of these that can be read.
fn tabulate(pids: &[i32], keep_in: Option<&Path>, holding: &Holding) -> Outcome {
    let mut outcome = Outcome::default();
    for &pid in pids {
        let (begin_ns, at_ns) = (thread_cpu_ns(), monotonic_ns());
        let detail = if keep_in.is_some() { Detail::Graph } else { Detail::Counts };
        match take(pid, detail, holding) {
            Ok(graph) => {
                outcome.pause_ns = graph.origin.pause.stopped_ns;
                outcome.kept = keep_in.and_then(|directory| keep(&graph, directory, at_ns));
                let mut table = HeapTable::of(&graph, at_ns, pid, MOST_ROWS);
                table.cost_ns = thread_cpu_ns().saturating_sub(begin_ns);
                outcome.table = Some(table);
                outcome.failure = None;
                return outcome;
            }
            Err(error) => {
                if matches!(error, census::Error::Python { .. }) {
                    outcome.not_python.push(pid);
                }
                outcome.failure.get_or_insert_with(|| format!("no heap table: {error}"));
            }
        }
    }
    outcome
}

/// A full disk costs the holders in the verdict, nothing else.
fn keep(graph: &Graph, directory: &Path, at_ns: u64) -> Option<PathBuf> {
    let path = directory.join(format!("{LOOK_PREFIX}{at_ns}{LOOK_SUFFIX}"));
    publish(&path, |file| write(graph, file)).ok().map(|()| path)
}

fn take(pid: i32, detail: Detail, holding: &Holding) -> Result<Graph, census::Error> {
    let progress = holding.progress();
    let taken = census::take(pid, &CensusOptions { detail, progress, ..CensusOptions::default() });
    holding.release();
    taken
}

fn snapshot(pid: i32, path: &Path, holding: &Holding) -> Result<u64, String> {
    let graph = take(pid, Detail::Graph, holding).map_err(|error| error.to_string())?;
    publish(path, |file| write(&graph, file))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(graph.origin.pause.stopped_ns)
}

/// Without a buffer, which snapshots do not need: what it still had when it was dropped would be lost without a word.
fn write(graph: &Graph, file: &File) -> std::io::Result<()> {
    nilometer_trace::heap::write(graph, file).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(every: Every, last_pause_ns: u64, tables: u64) -> HeapWatch {
        HeapWatch {
            started_ns: 1,
            last_end_ns: 1,
            last_pause_ns,
            tables,
            ..HeapWatch::new(Some(every), PathBuf::new())
        }
    }

    #[test]
    fn a_pause_is_paid_for_with_a_hundred_times_its_length() {
        let every = Every::Time(Duration::from_secs(1));
        assert!(watch(every, 0, 1).is_due(1_000_000_001));
        assert!(!watch(every, 50_000_000, 1).is_due(5_000_000_000));
        assert!(watch(every, 50_000_000, 1).is_due(5_000_000_001));
    }

    #[test]
    fn auto_is_early_once_and_ever_more_seldom() {
        assert!(watch(Every::Auto, 0, 0).is_due(FIRST_NS + 1));
        assert!(!watch(Every::Auto, 0, 1).is_due(SHORTEST_NS));
        let late = HeapWatch { last_end_ns: 3_600_000_000_000, ..watch(Every::Auto, 0, 9) };
        assert!(!late.is_due(3_600_000_000_000 + 179_000_000_000));
        assert!(late.is_due(3_600_000_000_000 + 190_000_000_000));
    }

    #[test]
    fn looks_are_soon_and_often_and_a_pause_costs_twenty_times_its_length() {
        assert!(watch(Every::Looks, 0, 0).is_due(LOOK_FIRST_NS + 1));
        assert!(watch(Every::Looks, 0, 3).is_due(LOOK_SHORTEST_NS + 1));
        assert!(!watch(Every::Looks, 50_000_000, 3).is_due(999_000_000));
        let late = HeapWatch { last_end_ns: 900_000_000_000, ..watch(Every::Looks, 0, 9) };
        assert!(!late.is_due(999_000_000_000) && late.is_due(1_020_000_000_000));
    }

    #[test]
    fn two_censuses_are_kept_and_the_first_is_not_of_warm_up() {
        let mut watch = watch(Every::Looks, 0, 0);
        for age in [10, 14, 20, 28, 40, 56, 79] {
            watch.kept.push((age, PathBuf::from(format!("/nowhere/{age}"))));
            watch.drop_old();
        }
        assert_eq!(watch.kept.first().map(|kept| kept.0), Some(28));
        watch.keep_two();
        assert_eq!(watch.kept.iter().map(|kept| kept.0).collect::<Vec<_>>(), [28, 79]);
        assert!(!watch.is_worth_keeping(100) && watch.is_worth_keeping(120));
    }

    #[test]
    fn a_full_disk_is_noticed_however_small_the_census() {
        let mut graph = Graph::default();
        graph.edges.start.push(0);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(write(&graph, &full).is_err());
    }

    #[test]
    fn steps_are_counted_and_nothing_is_due_unasked() {
        let mut watch = watch(Every::Steps(2), 0, 0);
        watch.step();
        assert!(!watch.is_due(u64::MAX));
        watch.step();
        assert!(watch.is_due(u64::MAX));
        assert!(!HeapWatch::new(None, PathBuf::new()).is_due(u64::MAX));
    }
}
