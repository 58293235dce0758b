//! A run directory made by hand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nilometer_trace::{
    FORMAT_VERSION, LogWriter, Manifest, TickRef,
    manifest::{Host, LOG_FILE, Limit, OPEN_BLOCK_FILE, Options},
    record::{
        Bounds, Column, Columns, Cost, End, Event, EventKind, Exit, Header, KindSum, Kinds, MappingKind,
        Mark, MarkKind, NamedMapping, Phase, Process, ProcessEnd, ProcessSample, ProcessUpdate, Record, Role,
        Shares, Tick, Unit, Waited,
    },
};
use tempfile::TempDir;

/// Monotonic time of the header, and the same instant since 1970.
pub(super) const MONO_NS: u64 = 1_000_000_000;
pub(super) const REALTIME_NS: u64 = 1_700_000_000_000_000_000;
pub(super) const MS: u64 = 1_000_000;
/// A name that breaks whoever joins text with commas, quotes and newlines.
pub(super) const HOSTILE: &str = "a \"b\",\nc\r\u{1b}é";

pub(super) fn at(ms: u64) -> u64 {
    MONO_NS + ms * MS
}

pub(super) struct Made {
    directory: TempDir,
    writer: Option<LogWriter>,
}

impl Made {
    /// A run directory with a header and nothing else.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("train 1.nilo");
        fs::create_dir(&run).unwrap();
        manifest().write(&run).unwrap();
        let mut made = Self { writer: Some(LogWriter::create(&run).unwrap()), directory };
        made.append(&Record::Header(Header {
            format_version: FORMAT_VERSION,
            mono_ns: MONO_NS,
            realtime_ns: REALTIME_NS,
            page_bytes: 4096,
            ticks_per_s: 100,
            interval_ns: 100 * MS,
            nilo_pid: 10,
        }));
        made
    }

    /// Every kind of record; the system is read before, during and after.
    pub(super) fn whole() -> Self {
        let mut made = Self::new();
        made.append(&first_columns());
        made.tick(&Tick {
            phase: Phase::Before,
            ..system_tick(at(100), &[1000, 600, 100, 200, 50, 40, 4, 7, 2048])
        });
        made.append(&event(at(150), EventKind::Started));
        made.append(&process());
        made.tick(&Tick {
            tree: Some(Bounds { low_kib: 30, high_kib: 36 }),
            processes: vec![sample(0)],
            ..system_tick(at(200), &[1000, 500, 100, 200, 50, 30, 5, 8, u64::MAX])
        });
        // Stands in the log before the tick at 300 ms, which it does not concern.
        made.append(&mark(at(310), MarkKind::Step(7)));
        made.append(&mark(at(220), MarkKind::Step(6)));
        made.append(&mark(at(230), MarkKind::Note(HOSTILE.into())));
        made.tick(&Tick { at_ns: at(300), processes: vec![sample(0)], ..Tick::default() });
        made.append(&update());
        made.append(&shares());
        made.append(&kinds());
        made.append(&process_end());
        made.append(&event(at(400), EventKind::Gap { until_ns: at(900), stopped: true }));
        made.append(&event(at(950), EventKind::Exited));
        made.tick(&Tick {
            phase: Phase::After,
            ..system_tick(at(1000), &[1000, 550, 100, 200, 50, 30, 5, 9, 4096])
        });
        made
    }

    pub(super) fn append(&mut self, record: &Record) {
        self.writer.as_mut().unwrap().append(record).unwrap();
    }

    pub(super) fn tick(&mut self, tick: &Tick) {
        self.writer.as_mut().unwrap().tick(TickRef::from(tick)).unwrap();
    }

    pub(super) fn finish(mut self) -> Self {
        self.writer.take().unwrap().finish(end()).unwrap();
        self
    }

    /// As SIGKILL in the middle of a write leaves it: the log loses its last bytes.
    pub(super) fn cut(mut self, bytes: u64) -> Self {
        self = self.finish();
        let log = fs::File::options().write(true).open(self.run().join(LOG_FILE)).unwrap();
        log.set_len(log.metadata().unwrap().len() - bytes).unwrap();
        drop(fs::remove_file(self.run().join(OPEN_BLOCK_FILE)));
        self
    }

    pub(super) fn run(&self) -> PathBuf {
        self.directory.path().join("train 1.nilo")
    }

    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

pub(super) fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn manifest() -> Manifest {
    Manifest {
        format_version: FORMAT_VERSION,
        nilo_version: "0.1.0".into(),
        verb: "run".into(),
        command: vec!["python".into(), HOSTILE.into()],
        name: "train".into(),
        directory: "/work".into(),
        started: "2023-11-14T22:13:20+00:00".into(),
        pid: 10,
        target_pid: 11,
        environment: vec![("SLURM_PROCID".into(), "3".into())],
        host: Host { name: "node7".into(), memory_bytes: 1 << 30, cpus: 2, ..Host::default() },
        limit: Some(Limit { bytes: 1 << 29, source: "cgroup /x".into() }),
        options: Options {
            interval_ms: 100.0,
            budget_percent: 1.0,
            single: false,
            exact_step_peaks: false,
            cgroup: false,
            before_s: 0.5,
            settle_s: 0.5,
            max_log_bytes: 256 << 20,
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

pub(super) fn columns(names: &[&str]) -> Record {
    let column = |name: &&str| {
        let unit = if name.starts_with("meminfo.") { Unit::Kib } else { Unit::Bytes };
        Column { name: (*name).to_owned(), unit }
    };
    Record::Columns(Columns { columns: names.iter().map(column).collect() })
}

fn first_columns() -> Record {
    columns(&[
        "meminfo.MemTotal",
        "meminfo.MemFree",
        "meminfo.Buffers",
        "meminfo.Cached",
        "meminfo.SwapTotal",
        "meminfo.SwapFree",
        "meminfo.SwapCached",
        "vmstat.pswpin",
        "nilo.rss",
    ])
}

pub(super) fn system_tick(at_ns: u64, system: &[u64]) -> Tick {
    Tick { at_ns, system: system.to_vec(), ..Tick::default() }
}

fn process() -> Record {
    Record::Process(Process {
        index: 0,
        pid: 11,
        parent_pid: 10,
        parent: None,
        start_ticks: 99,
        seen_ns: at(160),
        comm: "sh".into(),
        command: "sh -c x".into(),
        role: Role { name: "shell".into(), evidence: "program".into() },
    })
}

fn update() -> Record {
    let role = Role { name: "main".into(), evidence: "direct child".into() };
    Record::ProcessUpdate(ProcessUpdate {
        index: 0,
        at_ns: at(310),
        comm: HOSTILE.into(),
        command: format!("python {HOSTILE}"),
        role,
    })
}

fn process_end() -> Record {
    let waited = Waited {
        code: Some(1),
        signal: None,
        maxrss_kib: 41,
        launcher_kib: 0,
        user_us: 1_500_000,
        system_us: 250_000,
        minor_faults: 12,
        major_faults: 1,
    };
    Record::ProcessEnd(ProcessEnd { index: 0, at_ns: at(940), waited: Some(waited), hwm_kib: 40 })
}

fn sample(index: u32) -> ProcessSample {
    ProcessSample {
        index,
        anon_kib: 20,
        file_kib: 8,
        shmem_kib: 4,
        swap_kib: 2,
        hwm_kib: 40,
        minor_faults: 11,
        major_faults: 1,
        child_minor_faults: 5,
        child_major_faults: 0,
        user_ticks: 150,
        system_ticks: 25,
        child_user_ticks: 3,
        child_system_ticks: 0,
        threads: 2,
    }
}

fn shares() -> Record {
    Record::Shares(Shares {
        index: 0,
        at_ns: at(320),
        rss_kib: 32,
        pss_kib: 30,
        uss_kib: 28,
        private_dirty_kib: 24,
        pss_anon_kib: 20,
        pss_file_kib: 6,
        pss_shmem_kib: 4,
        swap_pss_kib: 2,
        device_kib: 0,
        cost_ns: 500_000,
    })
}

fn kinds() -> Record {
    let heap = KindSum {
        kind: MappingKind::Heap,
        mappings: 1,
        size_kib: 132,
        rss_kib: 20,
        pss_kib: 20,
        private_kib: 20,
        swap_kib: 2,
        anon_huge_kib: 0,
    };
    let largest = NamedMapping { name: HOSTILE.into(), kind: MappingKind::File, rss_kib: 8, pss_kib: 6 };
    Record::Kinds(Kinds {
        index: 0,
        at_ns: at(320),
        mappings: 2,
        kinds: vec![heap],
        largest: vec![largest],
        cost_ns: 700_000,
    })
}

pub(super) fn mark(at_ns: u64, what: MarkKind) -> Record {
    Record::Mark(Mark { at_ns, error_ns: 0, pid: Some(11), what })
}

pub(super) fn event(at_ns: u64, what: EventKind) -> Record {
    Record::Event(Event { at_ns, what })
}

fn end() -> End {
    End {
        at_ns: at(1100),
        exit: Some(Exit { code: Some(1), ..Exit::default() }),
        cost: Cost { cpu_s: 0.25, rss_bytes: 4096, written_bytes: 100, pause_s: 0.0 },
        ticks: 4,
        missed_ticks: 0,
        cgroup_peak_bytes: None,
    }
}
