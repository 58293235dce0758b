//! A thousand ranks, made up, one with a leak: `nilo merge`, and every engine of `docs/fleet.md` names that rank.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_trace::manifest::Rank;
use nilometer_trace::record::{
    Bounds, Cost, End, Event, EventKind, Exit, Header, Mark, MarkKind, Phase, Process, ProcessSample, Record,
    Role,
};
use nilometer_trace::{FORMAT_VERSION, LogWriter, Manifest, TickRef, job};
use serde_json::{Value, json};

use crate::harness::{Lab, finish, py_program, text};

const RANKS: u64 = 1_000;
const PER_NODE: u64 = 8;
const TICKS: u64 = 600;
const STEP_TICKS: u64 = 20;
const INTERVAL_NS: u64 = 100_000_000;
const LEAKY: u64 = 617;
/// 2 MiB a step of 2 s.
const LEAK_KIB: u64 = 2_048;
/// After this an engine is too slow.
const PATIENCE_S: f64 = 3.0;

fn node(rank: u64) -> u64 {
    rank / PER_NODE
}

/// Nodes started at different times since their boot, and their monotonic clocks say so.
fn start_ns(rank: u64) -> u64 {
    1_000_000_000_000 + node(rank) * 77_000_000_000
}

fn make(job: &Path, rank: u64) {
    let place = job.join(job::place(&format!("n{}", node(rank)), rank, 0));
    std::fs::create_dir_all(&place).expect("a directory");
    manifest(rank).write(&place).expect("a manifest");
    let mut log = LogWriter::create(&place).expect("a log");
    let begin = start_ns(rank);
    for record in &opening(begin) {
        log.append(record).expect("a record");
    }
    for n in 0..TICKS {
        tick(&mut log, rank, n, begin + n * INTERVAL_NS);
    }
    let at_ns = begin + TICKS * INTERVAL_NS;
    log.append(&Record::Event(Event { at_ns, what: EventKind::Exited })).expect("a record");
    let exit = Some(Exit { code: Some(0), ..Exit::default() });
    let end =
        End { at_ns, exit, cost: Cost::default(), ticks: TICKS, missed_ticks: 0, cgroup_peak_bytes: None };
    log.finish(end).expect("an end");
}

fn opening(begin: u64) -> [Record; 3] {
    let header = Header {
        format_version: FORMAT_VERSION,
        mono_ns: begin,
        realtime_ns: 1_700_000_000_000_000_000,
        page_bytes: 4096,
        ticks_per_s: 100,
        interval_ns: INTERVAL_NS,
        nilo_pid: 10,
    };
    let role = Role { name: "main".into(), evidence: "started by nilo".into() };
    let process = Process {
        index: 0,
        pid: 11,
        parent_pid: 10,
        parent: None,
        start_ticks: 1,
        seen_ns: begin,
        comm: "python".into(),
        command: "python train.py".into(),
        role,
    };
    [
        Record::Header(header),
        Record::Event(Event { at_ns: begin, what: EventKind::Started }),
        Record::Process(process),
    ]
}

/// Noise that is different for each rank and comes back.
fn tick(log: &mut LogWriter, rank: u64, n: u64, at_ns: u64) {
    if n.is_multiple_of(STEP_TICKS) {
        let what = MarkKind::Step(n / STEP_TICKS);
        log.append(&Record::Mark(Mark { at_ns, error_ns: 0, pid: Some(11), what })).expect("a mark");
    }
    let leaked = if rank == LEAKY { n / STEP_TICKS * LEAK_KIB } else { 0 };
    let rss = 400_000 + (rank * 7_919 + n * 104_729) % 613 + leaked;
    let sample = ProcessSample {
        anon_kib: rss - 90_000,
        file_kib: 90_000,
        hwm_kib: rss,
        threads: 3,
        ..ProcessSample::default()
    };
    let tree = Some(Bounds { low_kib: rss, high_kib: rss });
    let processes = std::slice::from_ref(&sample);
    log.tick(TickRef { at_ns, phase: Phase::During, tree, processes, ..TickRef::default() }).expect("a tick");
}

fn manifest(rank: u64) -> Manifest {
    let document = json!({
        "format_version": FORMAT_VERSION, "nilo_version": "0.1.0", "verb": "run", "name": "train",
        "command": ["python", "train.py"], "directory": "/work", "started": "2026-01-02T03:04:05+00:00",
        "pid": 10, "target_pid": 11, "environment": [], "limit": null,
        "host": {"name": format!("n{}", node(rank)), "kernel": "6.1", "cpus": 64, "memory_bytes": 1u64 << 40,
                 "swap_bytes": 0, "transparent_hugepages": "", "overcommit": "0", "counter_slack_bytes": 0},
        "options": {"interval_ms": 100.0, "budget_percent": 1.0, "single": false, "exact_step_peaks": false,
                    "cgroup": false, "before_s": 0.0, "settle_s": 0.0, "max_log_bytes": 1u64 << 28},
    });
    let mut manifest: Manifest = serde_json::from_value(document).expect("a manifest");
    manifest.rank = Some(Rank {
        launcher: "slurm".into(),
        job: "fleet.nilo".into(),
        rank,
        restart: 0,
        local_rank: Some(rank % PER_NODE),
        world_size: Some(RANKS),
    });
    manifest
}

fn made(lab: &Lab, name: &str, ranks: Range<u64>) {
    let path = lab.path(name);
    std::fs::create_dir(&path).expect("a directory");
    let about = job::Job {
        format_version: FORMAT_VERSION,
        nilo_version: "0.1.0".into(),
        launcher: "slurm".into(),
        id: "17.0".into(),
        name: "train".into(),
        command: vec!["python".into(), "train.py".into()],
        started: "2026-01-02T03:04:05+00:00".into(),
        world_size: Some(RANKS),
    };
    about.write_first(&path).expect("job.json");
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (path, ranks) = (&path, ranks.clone());
            scope.spawn(move || ranks.filter(|rank| rank % 2 == half).for_each(|rank| make(path, rank)));
        }
    });
}

fn merge(lab: &Lab, job: &str, options: &[&str]) -> Value {
    let mut nilo = lab.nilo(["merge", job, "--json"]);
    let output = finish(nilo.args(options));
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The interpreter that has the engines.
fn engines() -> Option<PathBuf> {
    nilometer_lab::environment(&["fleet"]).map(PathBuf::from)
}

/// What each engine answers to the queries of the page, and how long that took.
fn assert_all_name_it(python: &Path, directory: &Path, layout: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let mut command = Command::new(python);
    command.arg(py_program("fleet_queries.py")).arg(page).arg(directory).arg(layout);
    let output = finish(&mut command);
    assert!(output.status.success(), "{layout}: {}", text(&output.stderr));
    let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for engine in ["duckdb", "datafusion", "polars"] {
        let answer = &answers[engine];
        assert_eq!(answer["rank"], LEAKY, "{engine}, {layout}: {answers:#}");
        let rate = answer["bytes_per_s"].as_f64().expect("a rate");
        assert!((rate / 1_048_576.0 - 1.0).abs() < 0.01, "2 MiB every 2 s: {engine}, {layout}: {rate}");
        assert!(
            answer["seconds"].as_f64().is_some_and(|s| s < PATIENCE_S),
            "{engine}, {layout}: {answers:#}"
        );
    }
}

#[test]
fn every_engine_names_the_rank_that_leaks_among_a_thousand() {
    let Some(python) = engines() else { return };
    let lab = Lab::new();
    made(&lab, "fleet.nilo", 0..RANKS);
    let merged = merge(&lab, "fleet.nilo", &["--by", "rank"]);
    assert_eq!((merged["ranks"].as_u64(), merged["rows"].as_u64()), (Some(RANKS), Some(RANKS * TICKS)));
    assert_eq!(merged["files"], RANKS + 1);
    let sentence = merged["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.starts_with("rank 617 grows 2.0 MiB/step") && sentence.contains("the other 999"),
        "{sentence}"
    );
    assert!(merged["step_skew_s"].as_f64().is_some_and(|skew| skew < 1e-6), "clocks are aligned: {merged:#}");
    assert_all_name_it(&python, &lab.path("fleet.nilo/merged"), "rank");
}

#[test]
fn the_same_queries_read_few_files() {
    let Some(python) = engines() else { return };
    let lab = Lab::new();
    made(&lab, "part.nilo", LEAKY - 20..LEAKY + 20);
    let merged = merge(&lab, "part.nilo", &[]);
    assert_eq!((merged["files"].as_u64(), merged["rows"].as_u64()), (Some(2), Some(40 * TICKS)));
    assert_all_name_it(&python, &lab.path("part.nilo/merged"), "run");
    let merged = merge(&lab, "part.nilo", &["--force", "--by", "node", "--interval", "1s"]);
    assert_eq!((merged["files"].as_u64(), merged["rows"].as_u64()), (Some(7), Some(40 * TICKS / 10)));
    assert_all_name_it(&python, &lab.path("part.nilo/merged"), "node");
}
