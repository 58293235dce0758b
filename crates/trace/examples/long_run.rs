//! A made-up run of many hours, as the recorder would have written it: for tests of size and speed of what reads it.
//!
//! `cargo run --release -p nilometer-trace --example long_run -- DIRECTORY HOURS SITES`: a sample every 100 ms, a step every
//! ten seconds, and allocations of so many stacks (none with 0).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a program for developers")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use nilometer_trace::allocs::{self, About, Amount, Code, Frame, Node, Recording, Site, special};
use nilometer_trace::manifest::{Host, Options};
use nilometer_trace::record::{
    Bounds, Column, Columns, Cost, End, Event, EventKind, Exit, Header, Mark, MarkKind, Phase, Process,
    ProcessSample, Role, Unit,
};
use nilometer_trace::{FORMAT_VERSION, LogWriter, Manifest, Record, TickRef};

const INTERVAL_NS: u64 = 100_000_000;
const START_NS: u64 = 1_000_000_000;
const STEP_TICKS: u64 = 100;
/// Frames of a stack, and how many functions there are.
const DEPTH: u64 = 24;
const FUNCTIONS: u64 = 5_000;
const COLUMNS: [&str; 8] =
    ["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree", "SwapCached"];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, directory, hours, sites] = words.as_slice() else { panic!("long_run DIRECTORY HOURS SITES") };
    let (hours, sites): (u64, u64) = (hours.parse().unwrap(), sites.parse().unwrap());
    let directory = Path::new(directory);
    fs::create_dir(directory).unwrap();
    manifest(directory).write(directory).unwrap();
    write_log(directory, hours * 36_000);
    if sites > 0 {
        let file = File::create(directory.join(allocs::ALLOCS_FILE)).unwrap();
        allocs::write(&recording(sites, hours), BufWriter::new(file)).unwrap();
    }
}

fn manifest(directory: &Path) -> Manifest {
    Manifest {
        format_version: FORMAT_VERSION,
        nilo_version: "0.1.0".into(),
        verb: "run".into(),
        command: vec!["python".into(), "train.py".into()],
        name: "train".into(),
        directory: directory.display().to_string(),
        started: "2026-01-02T03:04:05+00:00".into(),
        pid: 10,
        target_pid: 11,
        environment: Vec::new(),
        host: Host::default(),
        limit: None,
        options: Options {
            interval_ms: 100.0,
            budget_percent: 1.0,
            single: false,
            exact_step_peaks: false,
            cgroup: false,
            before_s: 0.0,
            settle_s: 0.0,
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

fn write_log(directory: &Path, ticks: u64) {
    let mut log = LogWriter::create(directory).unwrap();
    for record in &opening() {
        log.append(record).unwrap();
    }
    for n in 0..ticks {
        write_tick(&mut log, n);
    }
    let at_ns = START_NS + ticks * INTERVAL_NS;
    log.append(&Record::Event(Event { at_ns, what: EventKind::Exited })).unwrap();
    let exit = Some(Exit { code: Some(0), ..Exit::default() });
    let cost = Cost::default();
    log.finish(End { at_ns, exit, cost, ticks, missed_ticks: 0, cgroup_peak_bytes: None }).unwrap();
}

fn opening() -> [Record; 4] {
    let column = |name: &&str| Column { name: format!("meminfo.{name}"), unit: Unit::Kib };
    let header = Header {
        format_version: FORMAT_VERSION,
        mono_ns: START_NS,
        realtime_ns: 1_700_000_000_000_000_000,
        page_bytes: 4096,
        ticks_per_s: 100,
        interval_ns: INTERVAL_NS,
        nilo_pid: 10,
    };
    let process = Process {
        index: 0,
        pid: 11,
        parent_pid: 10,
        parent: None,
        start_ticks: 1,
        seen_ns: START_NS,
        comm: "python".into(),
        command: "python train.py".into(),
        role: Role { name: "main".into(), evidence: "started by nilo".into() },
    };
    [
        Record::Header(header),
        Record::Columns(Columns { columns: COLUMNS.iter().map(column).collect() }),
        Record::Event(Event { at_ns: START_NS, what: EventKind::Started }),
        Record::Process(process),
    ]
}

/// A level that grows by a little each step, with the teeth of a training.
fn write_tick(log: &mut LogWriter, n: u64) {
    let at_ns = START_NS + n * INTERVAL_NS;
    if n.is_multiple_of(STEP_TICKS) {
        let what = MarkKind::Step(n / STEP_TICKS);
        log.append(&Record::Mark(Mark { at_ns, error_ns: 0, pid: Some(11), what })).unwrap();
    }
    let level = 2_000_000 + n / STEP_TICKS * 40 + n % STEP_TICKS * 5_000 + n * 7_919 % 613;
    let (rss, highest) = (level + 300_000, 2_300_000 + n / STEP_TICKS * 40 + 496_000);
    let sample = ProcessSample {
        anon_kib: level,
        file_kib: 300_000,
        hwm_kib: highest.max(rss),
        ..ProcessSample::default()
    };
    let system = [64_000_000, 30_000_000 - level, 50_000_000 - level, 500_000, 9_000_000, 0, 0, 0];
    let tree = Some(Bounds { low_kib: rss, high_kib: rss });
    let processes = std::slice::from_ref(&sample);
    log.tick(TickRef { at_ns, phase: Phase::During, tree, system: &system, processes, is_same: false })
        .unwrap();
}

/// Stacks that share their outer frames, as those of a program do: the deeper, the more of them there are.
fn recording(sites: u64, hours: u64) -> Recording {
    let mut made = Recording {
        codes: (0..FUNCTIONS).map(code).collect(),
        processes: vec![allocs::Process { pid: 11, mode: "all".into(), ..allocs::Process::default() }],
        ..Recording::default()
    };
    let mut known: HashMap<(u32, u32), u32> = HashMap::new();
    for site in 0..sites {
        let mut parent = special::NONE;
        for depth in 0..DEPTH {
            let choice = site * 2_654_435_761 % 1_000_003 % (1 + depth * depth * sites / 500);
            let code = ((depth * 131 + choice * 17) % FUNCTIONS) as u32;
            let next = made.nodes.len() as u32 + special::FIRST;
            let node = *known.entry((parent, code)).or_insert(next);
            if node == next {
                let frame = Frame::Python { code, line: 1 + code % 400, entry: depth == 0 };
                made.nodes.push(Node { frame, parent });
            }
            parent = node;
        }
        let bytes = 1_000 + site * 7_919 % 100_000;
        let amount = |share: u64| Amount { bytes: bytes * share, count: share, variance: 0 };
        made.sites.push(Site {
            python: parent,
            peak: amount(4),
            live: amount(1),
            total: amount(9),
            highest_bytes: bytes * 4,
            own_peak_bytes: bytes * 4,
            ..Site::default()
        });
    }
    let sum = |of: fn(&Site) -> Amount| {
        let amounts = made.sites.iter().map(of);
        amounts.fold(Amount::default(), |sum, one| Amount {
            bytes: sum.bytes + one.bytes,
            count: sum.count + one.count,
            variance: 0,
        })
    };
    let ended_ns = START_NS + hours * 36_000 * INTERVAL_NS;
    made.about = About {
        allocs_version: allocs::ALLOCS_VERSION,
        mode: "all".into(),
        started_ns: START_NS,
        ended_ns,
        finished: true,
        peak: sum(|site| site.peak),
        peak_at_ns: ended_ns - INTERVAL_NS,
        live: sum(|site| site.live),
        total: sum(|site| site.total),
        ..About::default()
    };
    made
}

fn code(number: u64) -> Code {
    let file =
        format!("/opt/venv/lib/python3.12/site-packages/package{}/module{}.py", number % 40, number % 400);
    Code { file, name: format!("Class{}.method{number}", number % 700), first_line: 1 }
}
