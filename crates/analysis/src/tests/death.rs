use nilometer_trace::record::*;

use super::stream::*;
use crate::model::Cause;

const COUNTERS: [(&str, Unit); 7] = [
    ("vmstat.oom_kill", Unit::Count),
    ("cgroup.0.oom_kills", Unit::Count),
    ("cgroup.0.oom_events", Unit::Count),
    ("cgroup.0.usage", Unit::Bytes),
    ("cgroup.0.limit", Unit::Bytes),
    ("cgroup.1.oom_events", Unit::Count),
    ("cgroup.1.oom_kills", Unit::Count),
];

fn killed_with(before: &[u64], after: &[u64]) -> crate::Run {
    let mut stream = Stream::new().columns(&COUNTERS).process(0, None, "main", 0);
    stream.system(-100, Phase::Before, before);
    stream.single(0, 10, 10);
    stream.single(1_500, 400, 400);
    stream.end_process(1_600, 0, 400, None);
    stream.system(1_700, Phase::After, after);
    stream.end(1_600, Some(exit(None, Some(9))))
}

#[test]
fn a_moved_cgroup_counter_is_a_cgroup_oom_with_its_group_and_limit() {
    let limit = 512 * MIB;
    let run = killed_with(&[7, 1, 0, 0, limit, 3, 1], &[8, 2, 1, 0, limit, 4, 2]);
    assert_eq!((run.exit.cause, run.exit.inferred), (Cause::CgroupOom, false));
    assert_eq!(run.exit.evidence[0], "oom_kill of the cgroup of the process rose by 1");
    assert_eq!(run.exit.evidence[1], "its limit: 512 MiB");
    assert_eq!(run.exit.evidence[2], "grew last: main (100), by 390 MiB in its last seconds");
    assert_eq!(run.system.oom_kills, Some(1));
}

#[test]
fn the_group_whose_limit_was_hit_is_named_not_that_of_the_victim() {
    let run = killed_with(&[7, 1, 0, 0, u64::MAX, 3, 1], &[8, 2, 0, 0, u64::MAX, 4, 2]);
    assert!(run.exit.evidence[0].contains("cgroup 1 above"), "{:?}", run.exit.evidence);
}

#[test]
fn a_victim_in_a_group_without_any_limit_is_a_system_oom() {
    let run = killed_with(&[7, 1, 0, 0, u64::MAX, 3, 1], &[9, 2, 0, 0, u64::MAX, 3, 2]);
    assert_eq!(run.exit.cause, Cause::SystemOom);
}

#[test]
fn a_victim_elsewhere_on_the_machine_is_no_evidence() {
    let run = killed_with(&[7, 1, 0, 0, 1, 3, 1], &[9, 1, 0, 0, 1, 3, 1]);
    assert_eq!(run.exit.cause, Cause::UnknownKiller);
    assert!(run.exit.evidence[0].contains("the kernel killed others"), "{:?}", run.exit.evidence);
}

#[test]
fn the_machines_counter_is_evidence_where_no_group_is_seen() {
    let mut stream = Stream::new().columns(&COUNTERS[..1]).process(0, None, "main", 0);
    stream.system(-100, Phase::Before, &[7]);
    stream.system(1_700, Phase::After, &[8]);
    assert_eq!(stream.end(1_600, Some(exit(None, Some(9)))).exit.cause, Cause::SystemOom);
}

#[test]
fn a_kill_without_evidence_has_an_unknown_killer() {
    let run = killed_with(&[7, 1, 0, 0, 1, 3, 1], &[7, 1, 0, 0, 1, 3, 1]);
    assert_eq!(run.exit.cause, Cause::UnknownKiller);
}

#[test]
fn other_ends_are_what_wait4_says() {
    let cause = |exit| Stream::new().end(100, Some(exit)).exit.cause;
    assert_eq!(cause(exit(Some(3), None)), Cause::Exited);
    assert_eq!(cause(exit(None, Some(11))), Cause::Signal);
    let ended_by = Some("watchdog: --max-rss".to_owned());
    assert_eq!(cause(Exit { ended_by, ..exit(None, Some(15)) }), Cause::Watchdog);
    assert_eq!(Stream::new().end(100, None).exit.cause, Cause::NotSeen);
}

#[test]
fn a_log_cut_at_a_full_limit_is_an_inferred_oom() {
    let mut stream = Stream::new().columns(&COUNTERS[3..5]).process(0, None, "main", 0);
    for (ms, used) in [(0, 100), (1_000, 300), (2_000, 480)] {
        stream.single(ms, used, used);
        stream.system(ms, Phase::During, &[used * MIB, 500 * MIB]);
    }
    let run = stream.cut(2_000);
    assert_eq!((run.exit.cause, run.exit.inferred), (Cause::CgroupOom, true));
    assert!(run.exit.evidence[0].contains("cut at 2.00 s with 96 % of the limit"), "{:?}", run.exit.evidence);
    assert!(run.exit.evidence[1].starts_with("grew last: main (100)"));
    assert!(!run.data_end.clean && run.quality[0].contains("the last frame is torn"));
}

#[test]
fn a_fast_climb_towards_the_limit_counts_as_full() {
    let mut stream = Stream::new().columns(&COUNTERS[3..5]);
    for (ms, used) in [(0, 100), (100, 250), (200, 400)] {
        stream.system(ms, Phase::During, &[used * MIB, 600 * MIB]);
    }
    assert_eq!(stream.cut(200).exit.cause, Cause::CgroupOom);
}

/// The system is told of when it moves: silence after a climb is its end.
#[test]
fn a_climb_that_has_ended_is_none() {
    let cut_after = |silent_ms: &[i64]| {
        let mut stream = Stream::new().columns(&COUNTERS[3..5]).process(0, None, "main", 0);
        stream.system(0, Phase::During, &[100 * MIB, 600 * MIB]);
        stream.system(60, Phase::During, &[400 * MIB, 600 * MIB]);
        for ms in silent_ms {
            stream.single(60 + ms, 400, 400);
        }
        stream.cut(60 + silent_ms.last().copied().unwrap_or(0)).exit.cause
    };
    assert_eq!(cut_after(&[]), Cause::CgroupOom);
    assert_eq!(cut_after(&[20, 40, 60]), Cause::CgroupOom, "nobody has looked since");
    assert_eq!(cut_after(&[20, 40, 60, 80, 100]), Cause::NotSeen);
}

#[test]
fn a_log_cut_far_from_any_limit_says_nothing() {
    let mut stream = Stream::new().columns(&COUNTERS[3..5]);
    stream.system(0, Phase::During, &[100 * MIB, 500 * MIB]);
    stream.system(100, Phase::During, &[100 * MIB, 500 * MIB]);
    assert_eq!(stream.cut(100).exit.cause, Cause::NotSeen);
}
