//! Heap tables of a run: a census now and then, by a thread of its own, so that ticks go on.
//!
//! The one invariant: the target stands still for no more than 1 % of the time, whatever was asked.
//! While the thread holds the target, the main loop must not wait for children: the kernel would give it the stop
//! that the thread waits for (`wait_consider_task`, `kernel/exit.c`: a child traced by its parent's own group).

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use nilometer_kernel::sys::clock::{monotonic_ns, thread_cpu_ns};
use nilometer_trace::heap::Graph;
use nilometer_trace::record::HeapTable;

use crate::census::{self, CensusOptions, Detail, Progress, Stage};

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

/// How often a table is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    Auto,
    Time(Duration),
    Steps(u64),
}

/// What is asked of the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Errand {
    /// A table of the first of these that is a Python.
    Table(Vec<i32>),
    /// A whole snapshot of this process into that file, for `nilo heap`.
    Snapshot { pid: i32, path: PathBuf },
}

/// What the thread brought back.
#[derive(Debug, Default)]
pub struct Outcome {
    pub table: Option<HeapTable>,
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
    worker: Option<Receiver<Outcome>>,
    holding: Arc<AtomicBool>,
    waiting: Vec<Errand>,
    last_end_ns: u64,
    last_pause_ns: u64,
    last_work_ns: u64,
    tables: u64,
    /// Whose tables these are: one process is followed as long as it lives.
    followed: Option<i32>,
    steps: u64,
    not_python: HashSet<i32>,
    told: HashSet<String>,
}

impl HeapWatch {
    pub fn new(every: Option<Every>) -> Self {
        Self { every, ..Self::default() }
    }

    /// True while the target is held by the thread: nobody else may wait for it.
    pub fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Acquire)
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

    /// Takes what the thread brought back, and sends it again if something is due. `pids`: largest first.
    pub fn turn(&mut self, pids: impl FnOnce() -> Vec<i32>) -> Option<Outcome> {
        let now_ns = monotonic_ns();
        if self.started_ns == 0 {
            self.started_ns = now_ns;
        }
        let outcome = self.collect(now_ns);
        if self.worker.is_none() {
            if !self.waiting.is_empty() {
                let errand = self.waiting.remove(0);
                self.send(errand);
            } else if self.is_due(now_ns) {
                let known = &self.not_python;
                let mut pids: Vec<i32> = pids().into_iter().filter(|pid| !known.contains(pid)).collect();
                pids.sort_by_key(|pid| Some(*pid) != self.followed);
                self.send(Errand::Table(pids));
            }
        }
        outcome
    }

    /// Waits for the thread, no longer than this.
    pub fn finish(&mut self, patience: Duration) -> Option<Outcome> {
        let worker = self.worker.take()?;
        worker.recv_timeout(patience).ok().map(|outcome| self.take_note(outcome, monotonic_ns()))
    }

    fn collect(&mut self, now_ns: u64) -> Option<Outcome> {
        match self.worker.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.worker = None;
                self.last_end_ns = now_ns;
                Some(Outcome { failure: Some("the census broke off".to_owned()), ..Outcome::default() })
            }
            Ok(outcome) => {
                self.worker = None;
                Some(self.take_note(outcome, now_ns))
            }
        }
    }

    /// A reason is told once.
    fn take_note(&mut self, mut outcome: Outcome, now_ns: u64) -> Outcome {
        self.last_end_ns = now_ns;
        self.last_pause_ns = outcome.pause_ns;
        self.last_work_ns = outcome.table.as_ref().map_or(0, |table| table.cost_ns);
        self.not_python.extend(outcome.not_python.drain(..));
        self.tables += u64::from(outcome.table.is_some());
        self.followed = outcome.table.as_ref().map(|table| table.pid).or(self.followed);
        outcome.failure = outcome.failure.take().filter(|reason| self.told.insert(reason.clone()));
        outcome
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let Some(every) = self.every else { return false };
        let since_ns = now_ns.saturating_sub(self.last_end_ns.max(self.started_ns));
        if since_ns < self.last_pause_ns * PAUSE_SHARE {
            return false;
        }
        match every {
            Every::Steps(steps) => self.steps >= steps.max(1) * (self.tables + 1),
            Every::Time(time) => since_ns >= time.as_nanos() as u64,
            Every::Auto if self.tables == 0 => since_ns >= FIRST_NS,
            Every::Auto => {
                let age_ns = now_ns.saturating_sub(self.started_ns);
                since_ns >= SHORTEST_NS.max(age_ns / SPREAD).max(self.last_work_ns * WORK_SHARE)
            }
        }
    }

    fn send(&mut self, errand: Errand) {
        let (sender, receiver) = channel();
        let holding = Arc::clone(&self.holding);
        let work = move || {
            // Whoever waits may have gone: then nobody needs the answer.
            let _ = sender.send(run(&errand, &holding));
        };
        if std::thread::Builder::new().name("nilo-heap".to_owned()).spawn(work).is_ok() {
            self.worker = Some(receiver);
        }
    }
}

fn run(errand: &Errand, holding: &Arc<AtomicBool>) -> Outcome {
    match errand {
        Errand::Table(pids) => tabulate(pids, holding),
        Errand::Snapshot { pid, path } => {
            let written = snapshot(*pid, path, holding);
            let pause_ns = *written.as_ref().unwrap_or(&0);
            if let Err(reason) = written {
                // The one who asked waits for one of the two files.
                let _ = std::fs::write(path.with_extension("error"), reason);
            }
            Outcome { pause_ns, ..Outcome::default() }
        }
    }
}

/// The first of these that can be read.
fn tabulate(pids: &[i32], holding: &Arc<AtomicBool>) -> Outcome {
    let mut outcome = Outcome::default();
    for &pid in pids {
        let (begin_ns, at_ns) = (thread_cpu_ns(), monotonic_ns());
        match take(pid, Detail::Counts, holding) {
            Ok(graph) => {
                outcome.pause_ns = graph.origin.pause.stopped_ns;
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

fn take(pid: i32, detail: Detail, holding: &Arc<AtomicBool>) -> Result<Graph, census::Error> {
    let flag = Arc::clone(holding);
    let progress = Progress::new(move |stage| flag.store(stage == Stage::Copy, Ordering::Release));
    let taken = census::take(pid, &CensusOptions { detail, progress, ..CensusOptions::default() });
    holding.store(false, Ordering::Release);
    taken
}

/// Written beside and renamed: it is there whole or not at all.
fn snapshot(pid: i32, path: &Path, holding: &Arc<AtomicBool>) -> Result<u64, String> {
    let graph = take(pid, Detail::Graph, holding).map_err(|error| error.to_string())?;
    let part = path.with_extension("part");
    write_private(&graph, &part)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(graph.origin.pause.stopped_ns)
}

fn write_private(graph: &Graph, path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    nilometer_trace::heap::write(graph, BufWriter::new(file)).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(every: Every, last_pause_ns: u64, tables: u64) -> HeapWatch {
        HeapWatch { started_ns: 1, last_end_ns: 1, last_pause_ns, tables, ..HeapWatch::new(Some(every)) }
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
    fn steps_are_counted_and_nothing_is_due_unasked() {
        let mut watch = watch(Every::Steps(2), 0, 0);
        watch.step();
        assert!(!watch.is_due(u64::MAX));
        watch.step();
        assert!(watch.is_due(u64::MAX));
        assert!(!HeapWatch::new(None).is_due(u64::MAX));
    }
}
