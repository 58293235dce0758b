//! What a log says that matters for a leak: levels of each process, marks, tables of the heap, ledgers, runs.
//!
//! The one invariant: bounded, however long the run was. Levels are thinned evenly; processes, kinds and looks have
//! ceilings.

use std::collections::BTreeMap;

use nilometer_trace::ledger::{Ledger, Line};
use nilometer_trace::record::{
    self, EventKind, HeapTable, MarkKind, Phase, ProcessSample, Record, Remains, Tick,
};

use super::axis::Axis;
use super::repeat::Repeated;
use crate::bounded::{Capped, Thinned};
use crate::clock::Clock;
use crate::column::Layout;
use crate::unit::kib;

const LEVELS: usize = 4_096;
const PROCESS_LEVELS: usize = 1_024;
const PROCESSES: usize = 512;
const MARKS: usize = 16_384;
const LOOKS: usize = 512;
const REMAINS: usize = 64;

/// What the tree has at one tick, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Level {
    pub(crate) at_ns: u64,
    /// Cannot be taken back: private memory in RAM and swap, and the largest share of shared memory.
    pub(crate) held: u64,
    /// Pages of files.
    pub(crate) file: u64,
    /// Shared memory that one of the processes has mapped.
    pub(crate) shared: u64,
}

#[derive(Debug)]
pub(crate) struct ProcessLevels {
    pub(crate) pid: i32,
    pub(crate) role: String,
    pub(crate) parent: Option<u32>,
    pub(crate) levels: Thinned<(u64, u64)>,
    /// Bytes that nobody shares, by page-table walks.
    pub(crate) private: Thinned<(u64, u64)>,
}

/// A table of the heap: kinds with count, and header and payload together.
#[derive(Debug, Clone)]
pub(crate) struct HeapLook {
    pub(crate) at_ns: u64,
    pub(crate) pid: i32,
    pub(crate) kinds: Vec<(String, u64, u64)>,
    pub(crate) total: u64,
    pub(crate) pause_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct LedgerLook {
    pub(crate) at_ns: u64,
    pub(crate) pid: i32,
    pub(crate) lines: Vec<(Line, u64)>,
    pub(crate) pause_ns: u64,
}

/// Feed all records in the order of the log; [`super::verdict()`] reads what came together.
#[derive(Debug)]
pub struct LeakBuilder {
    pub(crate) clock: Clock,
    layout: Layout,
    pub(crate) levels: Thinned<Level>,
    pub(crate) processes: BTreeMap<u32, ProcessLevels>,
    pub(crate) marks: Thinned<(u64, u64)>,
    leader: Option<i32>,
    pub(crate) heap: Thinned<HeapLook>,
    pub(crate) ledgers: Thinned<LedgerLook>,
    pub(crate) repeated: Repeated,
    pub(crate) remains: Capped<Remains>,
}

impl Default for LeakBuilder {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            layout: Layout::default(),
            levels: Thinned::new(LEVELS),
            processes: BTreeMap::new(),
            marks: Thinned::new(MARKS),
            leader: None,
            heap: Thinned::new(LOOKS),
            ledgers: Thinned::new(LOOKS),
            repeated: Repeated::default(),
            remains: Capped::new(REMAINS),
        }
    }
}

impl LeakBuilder {
    pub fn push(&mut self, record: &Record) {
        match record {
            Record::Tick(tick) => self.tick(tick),
            Record::Header(header) => {
                self.clock.header(header.mono_ns);
                self.repeated.anchor(header.mono_ns, header.realtime_ns);
            }
            Record::Columns(columns) => self.layout = Layout::new(columns),
            Record::Process(process) => self.process(process),
            Record::ProcessUpdate(update) => {
                if let Some(process) = self.processes.get_mut(&update.index) {
                    process.role.clone_from(&update.role.name);
                }
            }
            Record::ProcessEnd(end) => self.repeated.peak(kib(end.hwm_kib)),
            Record::Shares(shares) => {
                if let Some(process) = self.processes.get_mut(&shares.index) {
                    process.private.push((shares.at_ns, kib(shares.uss_kib)));
                }
            }
            Record::Mark(mark) => self.mark(mark),
            Record::HeapTable(table) => self.heap.push(heap_look(table)),
            Record::Event(event) => self.event(event),
            Record::Ledger(taken) => self.ledger(taken.at_ns, &taken.ledger),
            Record::Kinds(_) | Record::End(_) => {}
        }
    }

    fn process(&mut self, process: &record::Process) {
        if self.processes.len() < PROCESSES {
            let levels = ProcessLevels {
                pid: process.pid,
                role: process.role.name.clone(),
                parent: process.parent,
                levels: Thinned::new(PROCESS_LEVELS),
                private: Thinned::new(PROCESS_LEVELS),
            };
            self.processes.insert(process.index, levels);
        }
    }

    fn mark(&mut self, mark: &record::Mark) {
        let MarkKind::Step(step) = mark.what else { return };
        let foreign = mark.pid.is_some_and(|pid| *self.leader.get_or_insert(pid) != pid);
        if !foreign {
            self.marks.push((mark.at_ns, step));
        }
    }

    fn event(&mut self, event: &record::Event) {
        match &event.what {
            EventKind::Started => {
                self.clock.started(event.at_ns);
                self.repeated.started(event.at_ns);
            }
            EventKind::Exited => self.clock.exited(event.at_ns),
            EventKind::Remains { what, bytes, births } => {
                let births = births.clone();
                self.remains.push(Remains { what: what.clone(), bytes: *bytes, births });
            }
            EventKind::RunEnded { run, began_ns, exit, remains } => {
                self.repeated.ended(*run, *began_ns, event.at_ns, exit, remains);
            }
            _ => {}
        }
    }

    fn tick(&mut self, tick: &Tick) {
        self.clock.saw(tick.at_ns);
        if let Some(view) = self.layout.view(tick) {
            self.repeated.system(tick.phase, tick.processes.is_empty(), &view);
        }
        if tick.phase != Phase::During || tick.processes.is_empty() {
            return;
        }
        self.clock.during(tick.at_ns);
        let mut level = Level { at_ns: tick.at_ns, ..Level::default() };
        let mut shared = 0;
        for sample in &tick.processes {
            self.sample(tick.at_ns, sample);
            level.held = level.held.saturating_add(private_of(sample));
            level.file = level.file.saturating_add(kib(sample.file_kib));
            shared = shared.max(kib(sample.shmem_kib));
        }
        level.held = level.held.saturating_add(shared);
        level.shared = shared;
        self.levels.push(level);
    }

    fn sample(&mut self, at_ns: u64, sample: &ProcessSample) {
        self.repeated.peak(kib(sample.hwm_kib));
        if let Some(process) = self.processes.get_mut(&sample.index) {
            process.levels.push((at_ns, private_of(sample).saturating_add(kib(sample.shmem_kib))));
        }
    }

    /// Where a time of the log is on the axis of the verdict.
    pub fn place_of(&self, at_ns: u64, run: &crate::Run) -> Option<f64> {
        self.axis(run).x(self.clock.seconds(at_ns))
    }

    pub(crate) fn axis(&self, run: &crate::Run) -> Axis {
        let marks: Vec<(f64, u64)> =
            self.marks.items().iter().map(|mark| (self.clock.seconds(mark.0), mark.1)).collect();
        Axis::of(&marks, run.estimated_steps.as_ref())
    }

    /// What one process is made of.
    pub(crate) fn ledger(&mut self, at_ns: u64, ledger: &Ledger) {
        let lines = ledger.parts.iter().map(|part| (part.name, part.bytes)).collect();
        self.ledgers.push(LedgerLook { at_ns, pid: ledger.pid, lines, pause_ns: ledger.pause.stopped_ns });
    }
}

/// In RAM and in swap: what was swapped out is not gone.
fn private_of(sample: &ProcessSample) -> u64 {
    kib(sample.anon_kib.saturating_add(sample.swap_kib))
}

fn heap_look(table: &HeapTable) -> HeapLook {
    let kinds: Vec<_> =
        table.rows.iter().map(|row| (row.kind.clone(), row.count, row.total_bytes())).collect();
    let total = kinds.iter().fold(table.other.total_bytes(), |sum, kind| sum.saturating_add(kind.2));
    HeapLook { at_ns: table.at_ns, pid: table.pid, kinds, total, pause_ns: table.pause_ns }
}
