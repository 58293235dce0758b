//! Two runs: a leaking training with data-loader workers, and a small one that its cgroup killed.

use nilometer_analysis::model::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn gib(value: f64) -> u64 {
    (value * GIB as f64) as u64
}

fn about() -> About {
    About {
        nilo_version: "0.1.0".into(),
        verb: "run".into(),
        started: "2026-11-15T03:12:00+01:00".into(),
        directory: "/home/ada/tree".into(),
        host: "node7".into(),
        kernel: "6.8.0".into(),
        cpus: 8,
        memory_bytes: 16 * GIB,
        container: None,
        counter_slack_bytes: 0,
        method: vec!["orphans are re-parented to nilo (subreaper)".into()],
    }
}

fn process(pid: i32, parent: i32, role: &str, hwm: u64) -> Process {
    Process {
        pid,
        parent,
        role: role.into(),
        evidence: "command line".into(),
        command: "python3 train.py --epochs 3".into(),
        start_s: 0.0,
        end_s: Some(192.0),
        hwm_bytes: Some(hwm),
        hwm_exact_method: "VmHWM".into(),
        rss_end_bytes: hwm,
        pss_bytes: Some(hwm / 2),
        uss_bytes: Some(hwm / 3),
        shares_at_s: Some(191.0),
        device_bytes: 0,
        swap_max_bytes: 0,
        cpu_s: 170.0,
        minor_faults: 1_234_567,
        major_faults: 3,
        threads_max: 9,
        growth_per_step_bytes: Some(3.0 * MIB as f64),
    }
}

fn steps() -> Vec<Step> {
    let step = |step: u64| Step {
        step,
        start_s: step as f64 * 1.6,
        duration_s: 1.6,
        peak_bytes: gib(6.2) + step * MIB * 2,
        peak_method: "VmHWM rose in this step",
        increment_bytes: 2 * MIB as i64,
        end_bytes: gib(6.1) + step * MIB * 2,
    };
    (0..120).map(step).collect()
}

fn series(width_s: f64, level: impl Fn(u64) -> (u64, u64)) -> Series {
    let point = |n: u64| Point { at_s: n as f64 * width_s, min: level(n).0, max: level(n).1 };
    Series { width_s, points: (0..96).map(point).collect() }
}

fn curve() -> Curve {
    let climb = |n: u64| if n < 10 { gib(0.6) * n } else { gib(6.0) + n * 4 * MIB };
    Curve {
        tree_low: series(2.0, |n| (climb(n), climb(n))),
        tree_high: series(2.0, |n| (climb(n), climb(n) + gib(0.3))),
        available: series(2.0, |n| (gib(9.0) - climb(n), gib(9.2) - climb(n))),
        ..Curve::default()
    }
}

fn leaking_peak() -> Peak {
    Peak {
        bytes: gib(6.41),
        low_bytes: gib(6.38),
        high_bytes: gib(6.44),
        at_s: 160.0,
        step: Some(118),
        method: "PSS of the tree, bounds".into(),
        exact: false,
    }
}

fn leaking_growth() -> Growth {
    Growth {
        class: GrowthClass::Grows,
        reason: "every quarter is higher than the one before".into(),
        per: GrowthUnit::Step,
        bytes: Some(1.8 * MIB as f64),
        low_bytes: Some(1.7 * MIB as f64),
        high_bytes: Some(1.9 * MIB as f64),
        since_step: Some(20),
        since_s: None,
        points: 100,
        limit_at_step: Some(1_023),
        limit_at_s: None,
    }
}

/// 9 processes, 120 steps, +1.8 MiB per step.
#[allow(clippy::too_many_lines, reason = "one value, field by field")]
pub(crate) fn leaking() -> Run {
    let mut processes = vec![process(4711, 4710, "main", gib(4.1))];
    processes.extend((0..8).map(|n| process(4712 + n, 4711, &format!("DataLoader worker {n}"), gib(0.6))));
    Run {
        command: vec!["python3".into(), "train.py".into()],
        name: "train".into(),
        about: about(),
        exit: Exit {
            code: Some(0),
            signal: None,
            core_dumped: false,
            cause: Cause::Exited,
            inferred: false,
            evidence: vec!["wait4: exit code 0".into()],
        },
        origin_ns: 0,
        duration_s: 192.0,
        before_s: 0.3,
        after_s: 0.5,
        interval_ms: Interval {
            asked: 100.0,
            achieved: Some(100.1),
            achieved_mean: Some(100.4),
            missed: Some(2),
        },
        ticks: 1_918,
        peak: Some(leaking_peak()),
        largest_process: Some(LargestProcess {
            pid: 4711,
            role: "main".into(),
            hwm_bytes: gib(4.1),
            at_s: 159.0,
        }),
        limit: Some(Limit {
            bytes: 8 * GIB,
            source: "cgroup /user.slice/user-1000.slice".into(),
            headroom_bytes: gib(1.59) as i64,
            headroom_share: 1.59 / 8.0,
            least_free_bytes: Some(gib(1.55)),
            least_free_at_s: Some(160.0),
        }),
        growth: leaking_growth(),
        heap: None,
        ledgers: None,
        made_of: Some(MadeOf {
            parts: [
                ("anonymous", 4.5),
                ("heap", 1.1),
                ("code", 0.4),
                ("shared memory", 0.31),
                ("stacks", 0.02),
            ]
            .map(|(name, size)| Part { name: name.into(), bytes: gib(size) })
            .to_vec(),
            total_bytes: gib(6.39),
            residual_bytes: gib(0.06) as i64,
            at_s: 157.9,
            from_peak_s: -2.1,
            processes_missing: 0,
            largest: Vec::new(),
        }),
        processes,
        processes_seen: 9,
        unseen: None,
        workers: vec![Workers {
            role: "DataLoader worker".into(),
            count: 8,
            seen: 24,
            private_bytes: Some(gib(0.21)),
            growth_per_step_bytes: Some(3.0 * MIB as f64),
        }],
        system: System {
            swap_used_max_bytes: Some(0),
            swap_used_before_bytes: Some(0),
            available_min_bytes: Some(gib(2.6)),
            outlives_process_bytes: Some(0),
            outlives: vec![Outlives {
                name: "shared memory and tmpfs".into(),
                bytes: 0,
                change_bytes: -12_288,
                noise_bytes: 2 * MIB,
                settled: true,
            }],
            ..System::default()
        },
        repeats: None,
        steps: steps(),
        steps_seen: 120,
        ranks: Vec::new(),
        estimated_steps: None,
        phases: Vec::new(),
        notes: Vec::new(),
        events: vec![Event {
            at_s: 61.0,
            kind: "gap",
            text: "no samples for 4.00 s: stopped by job control".into(),
        }],
        events_omitted: 0,
        quality: Vec::new(),
        cost: Some(Cost { cpu_s: 0.4, rss_bytes: 9 * MIB, written_bytes: 310_000, pause_s: 0.0 }),
        data_end: DataEnd { clean: true, at_s: 192.5, why: "the run ended in order".into() },
        saved: Some("train.1115-0312.4711.nilo".into()),
        curve: curve(),
    }
}

/// One process, killed at its cgroup's limit together with `nilo`.
pub(crate) fn killed() -> Run {
    let about = About { counter_slack_bytes: MIB, ..about() };
    Run {
        command: vec!["./fill".into(), "--name".into(), "evil\x1b]0;owned\x07".into()],
        about,
        exit: Exit {
            code: None,
            signal: None,
            core_dumped: false,
            cause: Cause::CgroupOom,
            inferred: true,
            evidence: vec![
                "inferred: the log is cut at 2.00 s with 96 % of the limit in use (cgroup /job, 512 MiB)"
                    .into(),
                "grew last: main (4711), by 390 MiB in its last seconds".into(),
            ],
        },
        duration_s: 2.0,
        peak: Some(Peak {
            bytes: 490 * MIB,
            low_bytes: 490 * MIB,
            high_bytes: 490 * MIB,
            at_s: 2.0,
            step: None,
            method: "VmHWM".into(),
            exact: true,
        }),
        limit: Some(Limit {
            bytes: 512 * MIB,
            source: "cgroup /job".into(),
            headroom_bytes: 22 * MIB as i64,
            headroom_share: 22.0 / 512.0,
            least_free_bytes: Some(21 * MIB),
            least_free_at_s: Some(2.0),
        }),
        growth: Growth {
            class: GrowthClass::CannotTell,
            reason: "only 20 samples in 1.9 s and no steps".into(),
            per: GrowthUnit::Minute,
            bytes: None,
            low_bytes: None,
            high_bytes: None,
            since_step: None,
            since_s: Some(0.0),
            points: 20,
            limit_at_step: None,
            limit_at_s: None,
        },
        heap: None,
        ledgers: None,
        made_of: None,
        processes: vec![process(4711, 4710, "main", 490 * MIB)],
        processes_seen: 1,
        workers: Vec::new(),
        system: System::default(),
        steps: Vec::new(),
        steps_seen: 0,
        ranks: Vec::new(),
        estimated_steps: None,
        quality: vec!["the data ends at 2.00 s: the last frame is torn".into()],
        cost: None,
        data_end: DataEnd { clean: false, at_s: 2.0, why: "the last frame is torn".into() },
        saved: Some("fill.1115-0312.4711.nilo".into()),
        ..leaking()
    }
}
