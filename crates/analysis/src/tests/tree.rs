use nilometer_trace::record::*;

use super::stream::*;
use crate::model::GrowthClass;
use crate::tracked::MAXRSS_METHOD;

#[test]
fn a_spike_between_two_ticks_is_seen_by_the_mark() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.single(0, 20, 20);
    stream.single(100, 20, 20);
    stream.single(200, 21, 520);
    stream.single(300, 21, 520);
    let run = stream.exited(400);
    let peak = run.peak.unwrap();
    assert_eq!((peak.low_bytes, peak.bytes, peak.high_bytes), (520 * MIB, 520 * MIB, 520 * MIB));
    assert_eq!((peak.method.as_str(), peak.exact), ("VmHWM", true));
    assert!((peak.at_s - 0.2).abs() < 1e-9);
    assert_eq!(run.largest_process.unwrap().hwm_bytes, 520 * MIB);
}

#[test]
fn a_spike_after_the_last_tick_comes_from_wait4() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.single(0, 20, 20);
    stream.end_process(90, 0, 20, Some(waited(520)));
    let peak = stream.exited(90).peak.unwrap();
    assert_eq!((peak.bytes, peak.method.as_str()), (520 * MIB, MAXRSS_METHOD));
    assert!((peak.at_s - 0.09).abs() < 1e-9);
}

/// Runs one after the other, each a phase; what they were at their ends they told by `wait4`.
#[test]
fn each_of_several_runs_has_the_peak_of_its_own_process() {
    let mut stream = Stream::new();
    let phase = |number: u32| MarkKind::Phase(format!("run {number}"));
    for (number, told) in [(0, 50), (1, 30), (2, 40)] {
        let begin = i64::from(number) * 300;
        stream.mark(begin, None, phase(number + 1));
        stream = stream.process(number, None, "main", begin);
        // The first ends at more than the second ever has; the last one is over before it is sampled.
        let rss = [45, 20, 0][number as usize];
        if rss > 0 {
            stream.tick(begin + 1, Some((rss, rss)), vec![sample(number, rss, rss)]);
        }
        stream.end_process(begin + 200, number, rss, Some(waited(told)));
        stream.tick(begin + 250, None, Vec::new());
    }
    let run = stream.exited(900);
    let peaks: Vec<u64> = run.phases.iter().map(|phase| phase.peak_bytes / MIB).collect();
    assert_eq!(peaks, [50, 30, 40]);
}

/// A wrapper that starts children before it becomes the program: `wait4` tells the most of all of them, and all were in
/// this run. Of the last process of a longer life it says nothing about the phase.
#[test]
fn what_wait4_tells_of_a_wrapper_is_the_peak_of_its_run() {
    let run = |phase_ms| {
        let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "program", 1);
        stream.mark(phase_ms, None, MarkKind::Phase("run 1".into()));
        stream.end_process(10, 1, 3, None);
        stream.tick(100, Some((4, 4)), vec![sample(0, 4, 4)]);
        stream.end_process(200, 0, 4, Some(waited(50)));
        stream.exited(200).phases[0].peak_bytes / MIB
    };
    assert_eq!((run(0), run(50)), (50, 4));
}

/// Recordings of before: who ended was stored behind the mark of the next run.
#[test]
fn an_end_that_is_told_late_belongs_to_the_run_that_it_ended() {
    let mut stream = Stream::new();
    stream.mark(0, None, MarkKind::Phase("run 1".into()));
    let mut stream = stream.process(0, None, "main", 0);
    stream.single(1, 20, 21);
    stream.mark(300, None, MarkKind::Phase("run 2".into()));
    stream.end_process(200, 0, 21, Some(waited(50)));
    let run = stream.exited(600);
    assert_eq!(run.phases[0].peak_bytes / MIB, 50);
    assert!(run.phases[1].peak_bytes / MIB <= 20, "{:?}", run.phases[1]);
}

#[test]
fn what_a_process_tells_at_its_end_counts_beside_who_lives_on_and_in_its_last_step() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "worker", 0);
    stream.mark(0, None, MarkKind::Phase("training".into()));
    for (ms, number) in [(10, 1), (110, 2)] {
        stream.step(ms, number);
        stream.tick(ms + 10, Some((70, 70)), vec![sample(0, 50, 50), sample(1, 20, 20)]);
    }
    stream.end_process(190, 1, 60, None);
    stream.tick(200, Some((50, 50)), vec![sample(0, 50, 50)]);
    let run = stream.exited(300);
    assert_eq!(run.phases[0].peak_bytes / MIB, 110);
    let peaks: Vec<u64> = run.steps.iter().map(|step| step.peak_bytes / MIB).collect();
    assert_eq!(peaks, [70, 110]);
    assert_eq!(run.steps[1].peak_method, "a process's mark, told at its end");
    assert_eq!(run.steps[1].end_bytes / MIB, 50);
}

/// The peak of a process that had 1 MiB at its only sample, by the mark of its end and the launcher's at its start.
fn peak_by_marks(maxrss: u64, launcher: u64) -> (u64, u64, String) {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.single(0, 1, 1);
    stream.end_process(90, 0, 1, Some(Waited { launcher_kib: launcher << 10, ..waited(maxrss) }));
    let peak = stream.exited(90).peak.unwrap();
    (peak.bytes / MIB, peak.high_bytes / MIB, peak.method)
}

#[test]
fn maxrss_of_the_launcher_is_not_the_targets() {
    let (bytes, high, method) = peak_by_marks(4, 4);
    assert_eq!((bytes, high), (1, 4), "{method}");
}

#[test]
fn a_mark_that_nothing_told_is_unknown_and_not_zero() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.end_process(2, 0, 0, Some(Waited { launcher_kib: 4 << 10, ..waited(4) }));
    let run = stream.exited(2);
    assert_eq!((&run.peak, &run.largest_process, run.processes[0].hwm_bytes), (&None, &None, None));
}

/// These streams end with a recorder of 4 MiB.
#[test]
fn what_the_launcher_grew_to_later_hides_no_peak() {
    assert_eq!(peak_by_marks(4, 3), (4, 4, MAXRSS_METHOD.to_owned()));
}

#[test]
fn a_tree_of_two_that_share_is_an_interval_not_a_sum() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "DataLoader worker 0", 50);
    stream.tick(0, Some((100, 100)), vec![sample(0, 100, 100)]);
    stream.tick(100, Some((120, 130)), vec![sample(0, 100, 100), sample(1, 100, 100)]);
    stream.tick(200, Some((110, 115)), vec![sample(0, 100, 100), sample(1, 90, 100)]);
    let run = stream.exited(300);
    let peak = run.peak.unwrap();
    assert_eq!((peak.low_bytes, peak.bytes, peak.high_bytes), (120 * MIB, 125 * MIB, 130 * MIB));
    assert!((peak.at_s - 0.1).abs() < 1e-9 && !peak.exact);
    assert_eq!(run.processes[1].parent, 100);
}

#[test]
fn a_spike_in_a_tree_moves_both_bounds() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "shell", 0);
    stream.tick(0, Some((100, 120)), vec![sample(0, 100, 100), sample(1, 20, 20)]);
    stream.tick(100, Some((100, 120)), vec![sample(0, 100, 400), sample(1, 20, 20)]);
    stream.end_process(150, 1, 900, None);
    let peak = stream.exited(300).peak.unwrap();
    assert_eq!((peak.low_bytes, peak.high_bytes), (900 * MIB, (120 + 880) * MIB));
    assert!((peak.at_s - 0.15).abs() < 1e-9);
}

#[test]
fn the_kernels_cgroup_mark_wins() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "shell", 0);
    stream.tick(0, Some((100, 120)), vec![sample(0, 100, 100), sample(1, 20, 20)]);
    stream.builder.push(&Record::End(End {
        at_ns: at(100),
        exit: None,
        cost: Cost::default(),
        ticks: 1,
        missed_ticks: 0,
        cgroup_peak_bytes: Some(111 * MIB),
    }));
    let peak = stream.builder.finish(crate::LogEnding::Clean).peak.unwrap();
    assert_eq!((peak.bytes, peak.method.as_str(), peak.exact), (111 * MIB, "cgroup memory.peak", true));
}

#[test]
fn unseen_children_are_what_sampled_ones_do_not_account_for() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "shell", 0);
    let child = ProcessSample { user_ticks: 30, minor_faults: 500, ..sample(1, 5, 5) };
    stream.tick(0, None, vec![sample(0, 10, 10), child]);
    stream.end_process(100, 1, 5, None);
    let parent = ProcessSample {
        child_user_ticks: 200,
        child_system_ticks: 41,
        child_minor_faults: 90_500,
        ..sample(0, 10, 10)
    };
    stream.tick(200, None, vec![parent]);
    let unseen = stream.exited(300).unseen.unwrap();
    // 241 ticks, less 30 of the sampled child, one of rounding and the 100 ms of its last moments.
    assert!((unseen.children_cpu_s - (2.10 - 0.10)).abs() < 1e-9, "{unseen:?}");
    assert_eq!(unseen.children_faults, 90_000);
}

#[test]
fn a_process_without_children_has_nothing_unseen() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.single(0, 10, 10);
    let run = stream.exited(100);
    assert_eq!(run.unseen, None);
    assert!(run.quality.is_empty(), "{:?}", run.quality);
}

#[test]
fn attaching_does_not_count_what_was_before() {
    let mut manifest = manifest();
    manifest.verb = "attach".into();
    let mut stream = Stream::of(&manifest).process(0, None, "main", 0);
    let old = ProcessSample { child_user_ticks: 900, ..sample(0, 10, 700) };
    stream.tick(0, Some((10, 10)), vec![old]);
    stream.tick(100, Some((10, 10)), vec![old]);
    let run = stream.end(200, None);
    assert_eq!(run.unseen, None);
    assert!(run.quality.iter().any(|doubt| doubt.contains("before nilo attached")), "{:?}", run.quality);
}

#[test]
fn workers_are_counted_at_once_and_each_has_its_share() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    for epoch in 0..2i64 {
        for worker in 0..4 {
            let index = 1 + epoch as u32 * 4 + worker;
            stream =
                stream.process(index, Some(0), &format!("DataLoader worker {worker}"), 100 + epoch * 100);
            let shares = Shares { index, uss_kib: 200 << 10, pss_kib: 210 << 10, ..Shares::default() };
            stream.builder.push(&Record::Shares(shares));
        }
        (1..5).for_each(|worker| stream.end_process(150 + epoch * 100, epoch as u32 * 4 + worker, 1, None));
    }
    let run = stream.exited(900);
    assert_eq!(run.workers.len(), 1);
    let workers = &run.workers[0];
    assert_eq!((workers.role.as_str(), workers.count, workers.seen), ("DataLoader worker", 4, 8));
    assert_eq!(workers.private_bytes, Some(200 * MIB));
}

#[test]
fn steps_have_peak_increment_and_end() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.single(0, 10, 10);
    stream.step(50, 1);
    stream.single(100, 30, 90);
    stream.single(150, 20, 90);
    stream.step(200, 2);
    stream.single(250, 25, 90);
    stream.step(300, 3);
    stream.step(350, 4);
    stream.single(400, 22, 90);
    let run = stream.exited(500);
    let rows: Vec<_> = run
        .steps
        .iter()
        .map(|s| (s.step, s.peak_bytes / MIB, s.end_bytes / MIB, s.increment_bytes / MIB as i64))
        .collect();
    assert_eq!(rows, [(1, 90, 20, 10), (2, 25, 25, 5), (3, 25, 25, 0), (4, 22, 22, -3)]);
    let methods: Vec<_> = run.steps.iter().map(|step| step.peak_method).collect();
    assert_eq!(methods[..2], ["VmHWM rose in this step", "highest sample"]);
    assert!(methods[2].starts_with("no sample"));
    assert!((run.steps[3].duration_s - 0.15).abs() < 1e-9);
    assert_eq!(run.peak.unwrap().step, Some(1));
}

#[test]
fn a_reset_mark_gives_each_step_its_own_peak() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    for step in 0..3u64 {
        let ms = step as i64 * 100;
        stream.step(ms, step);
        stream.event(ms, EventKind::PeaksReset { step });
        stream.single(ms + 50, 10, 100 - step * 20);
        stream.single(ms + 90, 10, 100 - step * 20);
    }
    let run = stream.exited(300);
    let peaks: Vec<_> = run.steps.iter().map(|step| (step.peak_bytes / MIB, step.peak_method)).collect();
    assert_eq!(peaks, [100, 80, 60].map(|peak| (peak, "VmHWM reset at this step")));
    assert_eq!(run.peak.unwrap().bytes, 100 * MIB);
}

#[test]
fn a_spike_that_is_seen_between_a_mark_and_its_reset_was_in_the_step_before() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    stream.step(0, 1);
    stream.event(0, EventKind::PeaksReset { step: 1 });
    stream.single(50, 10, 10);
    stream.step(100, 2);
    stream.single(101, 10, 70); // the reading before the reset: up and down since 50 ms
    stream.event(100, EventKind::PeaksReset { step: 2 });
    stream.single(150, 10, 10);
    let run = stream.exited(200);
    let peaks: Vec<_> = run.steps.iter().map(|step| (step.peak_bytes / MIB, step.peak_method)).collect();
    assert_eq!(peaks, [(70, "VmHWM rose in this step"), (10, "VmHWM reset at this step")]);
}

#[test]
fn a_leak_per_step_is_found_and_projected() {
    let mut manifest = manifest();
    manifest.host.memory_bytes = 1000 * MIB;
    let mut stream = Stream::of(&manifest).process(0, None, "main", 0);
    for step in 0..40u64 {
        stream.step(step as i64 * 100, step);
        stream.single(step as i64 * 100 + 50, 100 + 2 * step, 100 + 2 * step);
    }
    let run = stream.exited(4_000);
    assert_eq!(run.growth.class, GrowthClass::Grows);
    assert!((run.growth.bytes.unwrap() - 2.0 * MIB as f64).abs() < 1.0);
    assert_eq!((run.growth.since_step, run.growth.limit_at_step), (Some(0), Some(450)));
    assert_eq!(run.processes[0].growth_per_step_bytes, Some(2.0 * MIB as f64));
}

#[test]
fn marks_of_other_processes_do_not_cut_steps() {
    let mut stream = Stream::new().process(0, None, "rank 0", 0);
    for step in 0..5 {
        stream.mark(step * 100, Some(7), MarkKind::Step(step as u64));
        stream.mark(step * 100 + 30, Some(8), MarkKind::Step(step as u64));
    }
    let run = stream.exited(500);
    assert_eq!((run.steps.len(), run.steps_seen), (5, 5));
    assert!(run.quality.iter().any(|doubt| doubt.contains("5 step marks of other processes")));
}

#[test]
fn a_million_steps_are_thinned_and_it_is_said() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    for step in 0..100_001u64 {
        stream.step(step as i64, step);
        stream.single(step as i64, 10, 10);
    }
    let run = stream.exited(100_001);
    assert!(run.steps.len() <= 10_000);
    assert_eq!(run.steps.last().unwrap().step, 100_000);
    assert!(run.quality.iter().any(|doubt| doubt.contains("100001 steps")), "{:?}", run.quality);
    assert_eq!(run.growth.class, GrowthClass::Flat);
}

#[test]
fn composition_is_that_nearest_to_the_peak_and_closes() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    for (ms, rss) in [(0, 10), (1_000, 50), (2_000, 80), (3_000, 40)] {
        stream.single(ms, rss, rss);
        let part = |kind, pss: u64| KindSum {
            kind,
            mappings: 1,
            size_kib: 0,
            rss_kib: pss << 10,
            pss_kib: pss << 10,
            private_kib: 0,
            swap_kib: 0,
            anon_huge_kib: 0,
        };
        let kinds = vec![part(MappingKind::Heap, rss / 2), part(MappingKind::Code, 4)];
        let record =
            Kinds { index: 0, at_ns: at(ms + 200), mappings: 2, kinds, largest: Vec::new(), cost_ns: 0 };
        stream.builder.push(&Record::Kinds(record));
    }
    let made_of = stream.exited(4_000).made_of.unwrap();
    let parts: Vec<_> = made_of.parts.iter().map(|part| (part.name.as_str(), part.bytes / MIB)).collect();
    assert_eq!(parts, [("heap", 40), ("code", 4)]);
    assert_eq!((made_of.total_bytes, made_of.residual_bytes), (80 * MIB, 36 * MIB as i64));
    assert!((made_of.from_peak_s - 0.2).abs() < 1e-9);
}

#[test]
fn gaps_and_what_was_left_behind_are_named() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "resource tracker", 0);
    stream.single(0, 10, 10);
    stream.event(100, EventKind::Gap { until_ns: at(4_100), stopped: true });
    stream.event(4_200, EventKind::LeftBehind { indexes: vec![1] });
    let run = stream.exited(4_200);
    assert_eq!(run.events[0].text, "no samples for 4.00 s: stopped by job control");
    assert_eq!(run.events[1].text, "still running when the command ended: resource tracker (101)");
    assert!(run.quality.contains(&"no samples for 4.00 s in all".to_owned()));
}

#[test]
fn many_short_processes_keep_the_table_bounded() {
    let mut stream = Stream::new().process(0, None, "main", 0);
    for n in 1..20_000u32 {
        stream = stream.process(n, Some(0), "shell", i64::from(n));
        stream.tick(i64::from(n), None, vec![sample(0, 10, 10), sample(n, 1, u64::from(n % 97))]);
        stream.end_process(i64::from(n) + 1, n, 1, None);
    }
    let run = stream.exited(20_000);
    assert_eq!(run.processes_seen, 20_000);
    assert!(run.processes.len() < 4_096 + 256 + 2 && run.curve.processes.len() == 12);
    assert!(run.processes.iter().any(|process| process.role == "main"));
}

#[test]
fn orphans_without_a_sample_are_counted_and_raise_the_lower_bound() {
    let mut stream = Stream::new().process(0, None, "main", 0).process(1, Some(0), "shell", 0);
    stream.tick(0, Some((20, 30)), vec![sample(0, 15, 15), sample(1, 15, 15)]);
    let (user_us, system_us, maxrss_kib) = (1_500_000, 500_000, 50 << 10);
    let what =
        EventKind::Unsampled { processes: 1_000, user_us, system_us, minor_faults: 70_000, maxrss_kib };
    stream.event(100, what);
    let run = stream.exited(200);
    let unseen = run.unseen.unwrap();
    assert_eq!((unseen.processes, unseen.children_faults), (Some(1_000), 70_000));
    assert!((unseen.children_cpu_s - 2.0).abs() < 1e-9);
    assert_eq!(run.peak.unwrap().low_bytes, 50 * MIB);
}
