//! A small language for record streams: times in milliseconds, sizes in MiB.

use nilometer_trace::Manifest;
use nilometer_trace::manifest::{Host, Options};
use nilometer_trace::record::*;

use crate::{LogEnding, Run, RunBuilder};

pub(super) const MIB: u64 = 1 << 20;
/// Log time of the target's start.
pub(super) const START_NS: u64 = 10_000_000_000;

pub(crate) fn manifest() -> Manifest {
    Manifest {
        format_version: 1,
        nilo_version: "0.1.0".into(),
        verb: "run".into(),
        command: vec!["python3".into(), "train.py".into()],
        name: "train".into(),
        directory: "/tmp".into(),
        started: "2026-08-10T10:00:00+00:00".into(),
        pid: 99,
        target_pid: 100,
        environment: Vec::new(),
        host: Host { memory_bytes: 16 << 30, ..Host::default() },
        limit: None,
        options: Options {
            interval_ms: 100.0,
            budget_percent: 1.0,
            single: false,
            exact_step_peaks: false,
            cgroup: false,
            before_s: 0.0,
            settle_s: 0.0,
            max_log_bytes: 1 << 28,
        },
        notes: Vec::new(),
        marks_file: None,
        control_socket: None,
        repeat: None,
        allocs: None,
        rank: None,
        end: None,
    }
}

pub(super) fn at(ms: i64) -> u64 {
    START_NS.saturating_add_signed(ms * 1_000_000)
}

/// A process sample whose RSS is anonymous; sizes in MiB.
pub(super) fn sample(index: u32, rss: u64, hwm: u64) -> ProcessSample {
    ProcessSample { index, anon_kib: rss << 10, hwm_kib: hwm << 10, threads: 1, ..ProcessSample::default() }
}

pub(super) struct Stream {
    pub(super) builder: RunBuilder,
}

impl Stream {
    pub(super) fn new() -> Self {
        Self::of(&manifest())
    }

    pub(super) fn of(manifest: &Manifest) -> Self {
        let mut stream = Self { builder: RunBuilder::new(manifest) };
        stream.event(0, EventKind::Started);
        stream
    }

    pub(super) fn columns(mut self, names: &[(&str, Unit)]) -> Self {
        let columns = names.iter().map(|(name, unit)| Column { name: (*name).into(), unit: *unit }).collect();
        self.builder.push(&Record::Columns(Columns { columns }));
        self
    }

    pub(super) fn process(mut self, index: u32, parent: Option<u32>, role: &str, ms: i64) -> Self {
        self.builder.push(&Record::Process(Process {
            index,
            pid: 100 + index as i32,
            parent_pid: parent.map_or(99, |parent| 100 + parent as i32),
            parent,
            start_ticks: 0,
            seen_ns: at(ms),
            comm: "python3".into(),
            command: "python3 train.py".into(),
            role: Role { name: role.into(), evidence: "test".into() },
        }));
        self
    }

    pub(super) fn event(&mut self, ms: i64, what: EventKind) {
        self.builder.push(&Record::Event(Event { at_ns: at(ms), what }));
    }

    /// One process, no sharing.
    pub(super) fn single(&mut self, ms: i64, rss: u64, hwm: u64) {
        self.tick(ms, Some((rss, rss)), vec![sample(0, rss, hwm)]);
    }

    pub(super) fn tick(&mut self, ms: i64, tree: Option<(u64, u64)>, processes: Vec<ProcessSample>) {
        let tree = tree.map(|(low, high)| Bounds { low_kib: low << 10, high_kib: high << 10 });
        self.builder.tick(&Tick { at_ns: at(ms), phase: Phase::During, tree, system: Vec::new(), processes });
    }

    pub(super) fn system(&mut self, ms: i64, phase: Phase, system: &[u64]) {
        let system = system.to_vec();
        self.builder.tick(&Tick { at_ns: at(ms), phase, tree: None, system, processes: Vec::new() });
    }

    pub(super) fn step(&mut self, ms: i64, step: u64) {
        self.mark(ms, None, MarkKind::Step(step));
    }

    pub(super) fn mark(&mut self, ms: i64, pid: Option<i32>, what: MarkKind) {
        self.builder.push(&Record::Mark(Mark { at_ns: at(ms), error_ns: 0, pid, what }));
    }

    pub(super) fn end_process(&mut self, ms: i64, index: u32, hwm: u64, waited: Option<Waited>) {
        let end = ProcessEnd { index, at_ns: at(ms), waited, hwm_kib: hwm << 10 };
        self.builder.push(&Record::ProcessEnd(end));
    }

    pub(super) fn end(mut self, ms: i64, exit: Option<Exit>) -> Run {
        self.event(ms, EventKind::Exited);
        self.builder.push(&Record::End(End {
            at_ns: at(ms),
            exit,
            cost: Cost { cpu_s: 0.01, rss_bytes: 4 * MIB, written_bytes: 1_000, pause_s: 0.0 },
            ticks: 0,
            missed_ticks: 0,
            cgroup_peak_bytes: None,
        }));
        self.builder.finish(LogEnding::Clean)
    }

    pub(super) fn exited(self, ms: i64) -> Run {
        self.end(ms, Some(exit(Some(0), None)))
    }

    pub(super) fn cut(self, ms: i64) -> Run {
        self.builder.finish(LogEnding::Cut { at_ns: at(ms), why: "the last frame is torn".into() })
    }
}

pub(super) fn exit(code: Option<i32>, signal: Option<i32>) -> Exit {
    Exit { code, signal, core_dumped: false, ended_by: None, enough: None }
}

pub(super) fn waited(maxrss: u64) -> Waited {
    Waited {
        code: Some(0),
        signal: None,
        maxrss_kib: maxrss << 10,
        launcher_kib: 0,
        user_us: 0,
        system_us: 0,
        minor_faults: 0,
        major_faults: 0,
    }
}
