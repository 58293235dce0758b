//! One small run with every kind of record, always the same.

use nilometer_trace::{
    FORMAT_VERSION, LogWriter, Record, TickRef,
    record::{
        Bounds, Column, Columns, Cost, End, Event, EventKind, Exit, Header, KindSum, Kinds, MappingKind,
        Mark, MarkKind, NamedMapping, Phase, Process, ProcessEnd, ProcessSample, ProcessUpdate, Role, Shares,
        Tick, Unit, Waited,
    },
};

const SECOND: u64 = 1_000_000_000;
pub const START_NS: u64 = 7_000 * SECOND;

/// In the order in which they are given to the writer.
pub fn records() -> Vec<Record> {
    let mut records = opening();
    records.extend((0..4).map(|n| Record::Tick(tick(n, Phase::Before))));
    records.push(event(4, EventKind::Started));
    records.push(Record::Process(process(0, "python3", "main")));
    records.extend((4..12).map(|n| Record::Tick(tick(n, Phase::During))));
    records.push(Record::Process(process(1, "python3", "DataLoader worker 0")));
    records.push(Record::ProcessUpdate(ProcessUpdate {
        index: 1,
        at_ns: at(12),
        comm: "pt_data_worker".into(),
        command: "python3 train.py".into(),
        role: role("DataLoader worker 0"),
    }));
    records.extend((12..36).map(|n| Record::Tick(tick(n, Phase::During))));
    records.extend(closing());
    records
}

fn opening() -> Vec<Record> {
    let column = |name: &str, unit| Column { name: name.into(), unit };
    vec![
        Record::Header(Header {
            format_version: FORMAT_VERSION,
            mono_ns: START_NS,
            realtime_ns: 1_700_000_000 * SECOND,
            page_bytes: 4096,
            ticks_per_s: 100,
            interval_ns: SECOND / 10,
            nilo_pid: 4000,
        }),
        Record::Columns(Columns {
            columns: vec![
                column("meminfo.MemFree", Unit::Kib),
                column("vmstat.oom_kill", Unit::Count),
                column("psi.memory.some_avg10", Unit::CentiPercent),
                column("psi.memory.some_total", Unit::Us),
                column("cgroup.0.limit", Unit::Bytes),
            ],
        }),
    ]
}

fn closing() -> Vec<Record> {
    let what = MarkKind::Phase("evaluate".into());
    vec![
        Record::Mark(Mark { at_ns: at(20), error_ns: 0, pid: Some(4001), what: MarkKind::Step(1) }),
        Record::Mark(Mark { at_ns: at(30), error_ns: SECOND / 10, pid: None, what }),
        Record::Shares(Shares { index: 1, at_ns: at(31), rss_kib: 9000, pss_kib: 5120, ..Shares::default() }),
        Record::Kinds(Kinds {
            index: 0,
            at_ns: at(32),
            mappings: 210,
            kinds: vec![KindSum {
                kind: MappingKind::Anonymous,
                mappings: 40,
                size_kib: 90_000,
                rss_kib: 70_000,
                pss_kib: 65_000,
                private_kib: 60_000,
                swap_kib: 0,
                anon_huge_kib: 2048,
            }],
            largest: vec![NamedMapping {
                name: "/data/train \"1\".bin".into(),
                kind: MappingKind::File,
                rss_kib: 4000,
                pss_kib: 4000,
            }],
            cost_ns: 150_000,
        }),
        Record::ProcessEnd(ProcessEnd { index: 1, at_ns: at(36), waited: None, hwm_kib: 9000 }),
        Record::ProcessEnd(ProcessEnd {
            index: 0,
            at_ns: at(36),
            waited: Some(Waited {
                code: None,
                signal: Some(9),
                maxrss_kib: 99_000,
                launcher_kib: 0,
                user_us: 2_500_000,
                system_us: 300_000,
                minor_faults: 31_000,
                major_faults: 2,
            }),
            hwm_kib: 98_000,
        }),
        event(36, EventKind::Exited),
        event(36, EventKind::LeftBehind { indexes: vec![] }),
        Record::Tick(tick(37, Phase::After)),
    ]
}

pub fn end() -> End {
    End {
        at_ns: at(40),
        exit: Some(Exit { code: None, signal: Some(9), core_dumped: false, ended_by: None, enough: None }),
        cost: Cost { cpu_s: 0.25, rss_bytes: 3 << 20, written_bytes: 4096, pause_s: 0.0 },
        ticks: 37,
        missed_ticks: 1,
        cgroup_peak_bytes: None,
    }
}

/// Gives records to a writer.
pub fn play(records: &[Record], writer: &mut LogWriter) {
    for record in records {
        match record {
            Record::Tick(tick) => writer.tick(TickRef::from(tick)).unwrap(),
            rare => writer.append(rare).unwrap(),
        }
    }
}

fn at(tick: u64) -> u64 {
    START_NS + tick * SECOND / 10 + tick * tick % 7 * 1000
}

fn event(tick: u64, what: EventKind) -> Record {
    Record::Event(Event { at_ns: at(tick), what })
}

fn role(name: &str) -> Role {
    Role { name: name.into(), evidence: "command line".into() }
}

fn process(index: u32, comm: &str, name: &str) -> Process {
    Process {
        index,
        pid: 4001 + index as i32,
        parent_pid: 4000 + index as i32,
        parent: index.checked_sub(1),
        start_ticks: 700_000 + u64::from(index),
        seen_ns: at(4 + 8 * u64::from(index)),
        comm: comm.into(),
        command: "python3 train.py --lr=0.1".into(),
        role: role(name),
    }
}

fn tick(n: u64, phase: Phase) -> Tick {
    let processes: Vec<_> = match (phase, n) {
        (Phase::During, 12..) => vec![sample(0, n), sample(1, n)],
        (Phase::During, _) => vec![sample(0, n)],
        _ => vec![],
    };
    let rss = processes.iter().map(ProcessSample::rss_kib);
    let tree = rss.clone().max().map(|low_kib| Bounds { low_kib, high_kib: rss.sum() });
    let limit = if n == 10 { u64::MAX } else { 8 << 30 };
    // The system is read at every other tick.
    let system =
        if n.is_multiple_of(2) { vec![16_000_000 - 52 * n, 0, n % 3, 900 + n, limit] } else { vec![] };
    Tick { at_ns: at(n), phase, tree, system, processes }
}

fn sample(index: u32, n: u64) -> ProcessSample {
    let anon_kib = 20_000 + 4 * (n * 379 % 1000) * u64::from(2 - index);
    ProcessSample {
        index,
        anon_kib,
        // Once not a multiple of a page: kept all the same.
        file_kib: if n == 13 { 8_193 } else { 8_192 },
        shmem_kib: if n > 20 { 1_024 } else { 0 },
        swap_kib: 0,
        hwm_kib: 33_000.max(anon_kib + 9_300),
        minor_faults: 900 * n,
        major_faults: n / 16,
        child_minor_faults: 12,
        child_major_faults: 0,
        user_ticks: 9 * n,
        system_ticks: n,
        child_user_ticks: 1,
        child_system_ticks: 0,
        threads: 4,
    }
}
