//! Any stream of records ends in a model whose bounds hold.

use nilometer_trace::record::*;
use proptest::prelude::*;

use super::stream::manifest;
use crate::{LogEnding, RunBuilder};

/// Small and absurd numbers.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_000u64, Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 53), any::<u64>()]
}

fn samples() -> impl Strategy<Value = Vec<ProcessSample>> {
    let one = (0..5u32, number(), number(), number(), number()).prop_map(|(index, anon, file, hwm, work)| {
        ProcessSample {
            index,
            anon_kib: anon,
            file_kib: file,
            hwm_kib: hwm,
            swap_kib: work,
            child_user_ticks: work,
            child_minor_faults: anon,
            user_ticks: hwm,
            threads: work as u32,
            ..ProcessSample::default()
        }
    });
    prop::collection::vec(one, 0..4)
}

fn tick() -> impl Strategy<Value = Tick> {
    let phase = prop_oneof![Just(Phase::Before), Just(Phase::During), Just(Phase::After)];
    let tree =
        prop::option::of((number(), number()).prop_map(|(low_kib, high_kib)| Bounds { low_kib, high_kib }));
    (number(), phase, tree, prop::collection::vec(number(), 0..14), samples())
        .prop_map(|(at_ns, phase, tree, system, processes)| Tick { at_ns, phase, tree, system, processes })
}

fn process() -> impl Strategy<Value = Record> {
    (0..5u32, number(), prop::option::of(0..5u32)).prop_map(|(index, seen_ns, parent)| {
        Record::Process(Process {
            index,
            pid: index as i32,
            parent_pid: i32::MAX,
            parent,
            start_ticks: seen_ns,
            seen_ns,
            comm: "a".into(),
            command: "a".into(),
            role: Role { name: format!("worker {index}"), evidence: String::new() },
        })
    })
}

fn process_end() -> impl Strategy<Value = Record> {
    (0..5u32, number(), number(), any::<bool>()).prop_map(|(index, at_ns, hwm_kib, told)| {
        let waited = told.then_some(Waited {
            code: None,
            signal: Some(9),
            maxrss_kib: hwm_kib,
            launcher_kib: 0,
            user_us: at_ns,
            system_us: at_ns,
            minor_faults: at_ns,
            major_faults: at_ns,
        });
        Record::ProcessEnd(ProcessEnd { index, at_ns, waited, hwm_kib })
    })
}

fn mark() -> impl Strategy<Value = Record> {
    let what = prop_oneof![
        number().prop_map(MarkKind::Step),
        Just(MarkKind::Phase("p".into())),
        Just(MarkKind::Note("n".into()))
    ];
    (number(), what).prop_map(|(at_ns, what)| Record::Mark(Mark { at_ns, error_ns: 0, pid: None, what }))
}

fn event() -> impl Strategy<Value = Record> {
    let what = prop_oneof![
        Just(EventKind::Started),
        Just(EventKind::Exited),
        number().prop_map(|until_ns| EventKind::Gap { until_ns, stopped: false }),
        number().prop_map(|step| EventKind::PeaksReset { step }),
        number().prop_map(|by_ns| EventKind::ClockStep { by_ns: by_ns as i64 }),
        number().prop_map(|ticks| EventKind::Dropped { ticks, why: String::new() }),
        number().prop_map(|index| EventKind::LeftBehind { indexes: vec![index as u32; 9] }),
    ];
    (number(), what).prop_map(|(at_ns, what)| Record::Event(Event { at_ns, what }))
}

fn kinds() -> impl Strategy<Value = Record> {
    (0..5u32, number(), number()).prop_map(|(index, at_ns, pss_kib)| {
        let sum = KindSum {
            kind: MappingKind::Heap,
            mappings: 1,
            size_kib: 0,
            rss_kib: pss_kib,
            pss_kib,
            private_kib: 0,
            swap_kib: 0,
            anon_huge_kib: 0,
        };
        Record::Kinds(Kinds {
            index,
            at_ns,
            mappings: 1,
            kinds: vec![sum; 2],
            largest: Vec::new(),
            cost_ns: 0,
        })
    })
}

fn columns() -> Record {
    let names = ["meminfo.MemTotal", "meminfo.MemAvailable", "meminfo.Shmem", "meminfo.SUnreclaim"]
        .into_iter()
        .chain([
            "meminfo.SwapTotal",
            "meminfo.SwapFree",
            "cgroup.0.usage",
            "cgroup.0.limit",
            "cgroup.0.reclaimable",
        ])
        .chain(["cgroup.3.limit", "cgroup.0.oom_kills", "vmstat.oom_kill", "nilo.rss"]);
    let columns = names.map(|name| Column { name: name.into(), unit: Unit::Kib }).collect();
    Record::Columns(Columns { columns })
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![6 => tick().prop_map(Record::Tick), 2 => process(), 1 => process_end(), 3 => mark(), 1 => event(), 1 => kinds()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bounds_hold_and_nothing_panics(records in prop::collection::vec(record(), 0..60), cut in any::<bool>()) {
        let mut builder = RunBuilder::new(&manifest());
        builder.push(&columns());
        for record in &records {
            builder.push(record);
        }
        let run = builder.finish(if cut { LogEnding::Cut { at_ns: u64::MAX, why: String::new() } } else { LogEnding::Clean });
        if let Some(peak) = &run.peak {
            prop_assert!(peak.low_bytes <= peak.bytes && peak.bytes <= peak.high_bytes);
        }
        if let Some(peak) = run.peak.as_ref().filter(|_| run.processes_seen > 1) {
            let lows = records.iter().filter_map(|record| match record {
                Record::Tick(tick) if tick.phase == Phase::During => tick.tree,
                _ => None,
            });
            for low in lows {
                prop_assert!(peak.bytes >= low.low_kib.saturating_mul(1024));
            }
        }
        if let Some(made_of) = &run.made_of {
            let sum = made_of.parts.iter().fold(0u128, |sum, part| sum + u128::from(part.bytes)) as i128;
            let closes = sum + i128::from(made_of.residual_bytes) == i128::from(made_of.total_bytes);
            prop_assert!(closes || made_of.residual_bytes.unsigned_abs() == i64::MAX as u64 || sum >= i128::from(u64::MAX));
        }
        prop_assert!(serde_json::to_string(&run).is_ok());
    }

    #[test]
    fn a_longer_stream_never_has_a_lower_peak(ticks in prop::collection::vec(tick(), 1..40)) {
        let peak_of = |ticks: &[Tick]| {
            let mut builder = RunBuilder::new(&manifest());
            for tick in ticks {
                builder.tick(tick);
            }
            builder.finish(LogEnding::Clean).peak.map_or(0, |peak| peak.high_bytes)
        };
        prop_assert!(peak_of(&ticks) >= peak_of(&ticks[..ticks.len() / 2]));
    }
}
