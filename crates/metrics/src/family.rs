//! A snapshot as series: which instrument has which values under which labels. Both formats walk this list.

use crate::MOST_PROCESSES;
use crate::instrument::{self as told, Instrument};
use crate::snapshot::{Bound, Process, Snapshot};

/// A label: its name in Prometheus, and in OpenTelemetry's conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label {
    pub prometheus: &'static str,
    pub attribute: &'static str,
}

const fn label(prometheus: &'static str, attribute: &'static str) -> Label {
    Label { prometheus, attribute }
}

pub(crate) const PID: Label = label("pid", "process.pid");
const COMMAND: Label = label("command", "process.command");
const ROLE: Label = label("role", "nilo.role");
const RANK: Label = label("rank", "nilo.rank");
const MODE: Label = label("mode", "cpu.mode");
const FAULT: Label = label("type", "system.paging.fault.type");
const KIND: Label = label("kind", "nilo.memory.kind");
const BOUND: Label = label("bound", "nilo.bound");
const STATE: Label = label("state", "system.memory.state");
const SWAP_STATE: Label = label("state", "system.paging.state");
const SOURCE: Label = label("source", "nilo.limit.source");

/// Longest value of a label: names are somebody else's.
const LONGEST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Signed(i64),
    Real(f64),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub labels: Vec<(Label, String)>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Family {
    pub instrument: &'static Instrument,
    pub points: Vec<Point>,
}

/// All series of a snapshot; families without a value are left out.
pub(crate) fn families(snapshot: &Snapshot) -> Vec<Family> {
    let mut all = of_run(snapshot);
    // What has ended uses nothing: its last values would stand for ever.
    if snapshot.ended.is_none() {
        all.extend(of_tree(snapshot));
        all.extend(of_processes(snapshot));
        all.extend(of_machine(snapshot));
    }
    all.retain(|family| !family.points.is_empty());
    all
}

fn of_run(s: &Snapshot) -> Vec<Family> {
    let code = s.ended.and_then(|ended| ended.code);
    let signal = s.ended.and_then(|ended| ended.signal);
    vec![
        one(&told::RUNNING, Value::Whole(u64::from(s.ended.is_none()))),
        one(&told::STARTED, seconds(s.run.started_ns)),
        one(&told::TICK_TIME, seconds(s.at_ns)),
        one(&told::TICKS, Value::Whole(s.ticks)),
        one(&told::MISSED, Value::Whole(s.missed_ticks)),
        one(&told::OWN_CPU, Value::Real(s.own_cpu_s)),
        maybe(&told::EXIT_CODE, code.map(|code| Value::Signed(code.into()))),
        maybe(&told::EXIT_SIGNAL, signal.map(|signal| Value::Signed(signal.into()))),
        one(&told::STEPS, Value::Whole(s.steps)),
        maybe(&told::LAST_STEP, s.last_step.map(Value::Whole)),
        bound(&told::TREE_PEAK, s.peak),
    ]
}

fn of_tree(s: &Snapshot) -> Vec<Family> {
    let unlisted = s.alive.saturating_sub(s.processes.len().min(MOST_PROCESSES) as u64);
    vec![
        bound(&told::TREE, s.tree),
        one(&told::TREE_PROCESSES, Value::Whole(s.alive)),
        one(&told::TREE_UNLISTED, Value::Whole(unlisted)),
    ]
}

fn of_processes(s: &Snapshot) -> Vec<Family> {
    let all = s.processes.get(..MOST_PROCESSES).unwrap_or(&s.processes);
    let each = |instrument, value: &dyn Fn(&Process) -> Option<Value>| {
        let points = all.iter().filter_map(|p| Some(Point { labels: labels(p), value: value(p)? }));
        Family { instrument, points: points.collect() }
    };
    let split = |instrument, by: Label, parts: &dyn Fn(&Process) -> Vec<(&'static str, Value)>| {
        let points = all.iter().flat_map(|p| {
            parts(p).into_iter().map(|(part, value)| {
                let mut labels = labels(p);
                labels.push((by, part.to_owned()));
                Point { labels, value }
            })
        });
        Family { instrument, points: points.collect() }
    };
    vec![
        each(&told::PROCESS_USAGE, &|p| Some(Value::Whole(p.rss()))),
        each(&told::PROCESS_VIRTUAL, &|p| {
            Some(Value::Whole(p.address_space)).filter(|_| p.address_space > 0)
        }),
        split(&told::PROCESS_PARTS, KIND, &|p| {
            vec![
                ("anonymous", Value::Whole(p.anon)),
                ("file", Value::Whole(p.file)),
                ("shared", Value::Whole(p.shmem)),
            ]
        }),
        each(&told::PROCESS_PEAK, &|p| Some(Value::Whole(p.hwm))),
        each(&told::PROCESS_SWAP, &|p| Some(Value::Whole(p.swap))),
        each(&told::PROCESS_PSS, &|p| p.pss.map(Value::Whole)),
        each(&told::PROCESS_USS, &|p| p.uss.map(Value::Whole)),
        split(&told::PROCESS_CPU, MODE, &|p| {
            vec![("user", Value::Real(p.user_s)), ("system", Value::Real(p.system_s))]
        }),
        split(&told::PROCESS_FAULTS, FAULT, &|p| {
            vec![("minor", Value::Whole(p.minor_faults)), ("major", Value::Whole(p.major_faults))]
        }),
        each(&told::PROCESS_THREADS, &|p| Some(Value::Whole(p.threads))),
    ]
}

fn of_machine(s: &Snapshot) -> Vec<Family> {
    let m = &s.machine;
    if m.total == 0 {
        return Vec::new();
    }
    let limit = |value: &dyn Fn(&crate::Limit) -> u64| {
        let point = s.limit.as_ref().map(|limit| Point {
            labels: vec![(SOURCE, shorten(&limit.source))],
            value: Value::Whole(value(limit)),
        });
        point.into_iter().collect()
    };
    vec![
        Family { instrument: &told::LIMIT, points: limit(&|limit| limit.bytes) },
        Family { instrument: &told::LIMIT_FREE, points: limit(&|limit| limit.free) },
        maybe(&told::PRESSURE, m.pressure.map(Value::Real)),
        by_state(
            &told::SYSTEM_USAGE,
            STATE,
            &[("used", m.used()), ("free", m.free), ("cached", m.cached), ("buffers", m.buffers)],
        ),
        one(&told::SYSTEM_LIMIT, Value::Whole(m.total)),
        one(&told::SYSTEM_AVAILABLE, Value::Whole(m.available)),
        by_state(&told::SYSTEM_PAGING, SWAP_STATE, &[("used", m.swap_used()), ("free", m.swap_free)]),
    ]
}

fn labels(process: &Process) -> Vec<(Label, String)> {
    let mut labels = vec![
        (PID, process.pid.to_string()),
        (COMMAND, shorten(&process.command)),
        (ROLE, shorten(&process.role)),
    ];
    labels.extend(process.rank.map(|rank| (RANK, rank.to_string())));
    labels
}

fn shorten(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

fn one(instrument: &'static Instrument, value: Value) -> Family {
    maybe(instrument, Some(value))
}

fn maybe(instrument: &'static Instrument, value: Option<Value>) -> Family {
    let points = value.into_iter().map(|value| Point { labels: Vec::new(), value }).collect();
    Family { instrument, points }
}

fn bound(instrument: &'static Instrument, bound: Option<Bound>) -> Family {
    let values = bound.map(|bound| [("low", bound.low), ("high", bound.high)]);
    by_state(instrument, BOUND, values.as_ref().map_or(&[], |values| values))
}

fn by_state(instrument: &'static Instrument, by: Label, states: &[(&str, u64)]) -> Family {
    let point = |(state, value): &(&str, u64)| Point {
        labels: vec![(by, (*state).to_owned())],
        value: Value::Whole(*value),
    };
    Family { instrument, points: states.iter().map(point).collect() }
}

fn seconds(ns: u64) -> Value {
    Value::Real(ns as f64 / 1e9)
}
