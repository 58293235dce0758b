use nilometer_analysis::rank::missing;

use super::*;

const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn ranked(rank: u64, class: GrowthClass, mib: f64) -> Ranked {
    Ranked {
        rank,
        node: "vm\u{1b}[31m".into(),
        restart: 0,
        peak_bytes: Some(300 << 20),
        growth: Growth {
            class,
            reason: "only 3 points".into(),
            per: GrowthUnit::Step,
            bytes: Some(mib * MIB),
            low_bytes: Some((mib - 0.1) * MIB),
            high_bytes: Some((mib + 0.1) * MIB),
            since_step: None,
            since_s: None,
            points: 20,
            limit_at_step: None,
            limit_at_s: None,
        },
        steps: 20,
        duration_s: 10.0,
        end: "exit 0".into(),
        good: true,
        saved: Some(format!("job.nilo/node=vm/rank={rank}/restart=0")),
        course: vec![(0.0, 200 << 20), (5.0, 300 << 20)],
    }
}

pub(crate) fn job(ranks: Vec<Ranked>) -> Job {
    Job {
        name: "train".into(),
        launcher: "torchrun".into(),
        id: "none".into(),
        started: String::new(),
        command: vec!["python".into(), "train.py".into()],
        world_size: Some(8),
        nodes: vec!["vm".into()],
        duration_s: 10.0,
        missing: missing(Some(8), &ranks),
        comparison: compare(&ranks.iter().collect::<Vec<_>>()),
        ranks,
        problems: Vec::new(),
        saved: Some("job.nilo".into()),
    }
}

fn flat(count: u64) -> Vec<Ranked> {
    (0..count).map(|n| ranked(n, GrowthClass::Flat, n as f64 * 0.015)).collect()
}

const STYLE: Style = Style { width: 100, color: false, unicode: true, whole: false };

#[test]
fn the_first_sentence_names_the_rank_that_grows() {
    let mut ranks = flat(8);
    ranks[5] = ranked(5, GrowthClass::Grows, 12.0);
    let job = job(ranks);
    assert_eq!(sentence(&job), "rank 5 grows 12.0 MiB/step ± 0.1, the other seven 0.0–0.1");
    let screen = render(&job, &STYLE);
    assert!(screen.contains("→ nilo leak job.nilo --rank 5"), "{screen}");
    assert!(screen.contains("+12.0 ± 0.1 MiB/step"), "{screen}");
    assert!(!screen.contains('\u{1b}'), "a node cannot drive the terminal");
}

#[test]
fn other_jobs_have_other_sentences() {
    let told = |ranks: Vec<Ranked>| sentence(&job(ranks));
    assert_eq!(told(flat(8)), "no rank grows: 0.0–108 KiB/step in 8 ranks");
    let all = (0..8).map(|n| ranked(n, GrowthClass::Grows, 12.0)).collect();
    assert_eq!(told(all), "all eight ranks grow 12.0 MiB/step");
    let mut two = flat(8);
    (two[6], two[1]) = (ranked(6, GrowthClass::Grows, 5.0), ranked(1, GrowthClass::Grows, 2.0));
    assert_eq!(told(two), "ranks 6, 1 grow 2.0–5.0 MiB/step, the other six 0.0–0.1");
    let mut large = flat(8);
    large[3].peak_bytes = Some(900 << 20);
    assert_eq!(told(large), "rank 3 peaks at 900 MiB, the other seven 300");
    let mut short = flat(3);
    for it in &mut short {
        it.growth.bytes = None;
    }
    assert_eq!(told(short), "cannot tell whether ranks grow: only 3 points");
    assert!(told(Vec::new()).contains("nothing was recorded"));
}

#[test]
fn a_large_job_shows_who_stands_out_and_counts_the_rest() {
    let mut ranks = flat(0);
    ranks.extend((0..1_000).map(|n| ranked(n, GrowthClass::Flat, 0.0)));
    ranks[700] = ranked(700, GrowthClass::Grows, 3.0);
    let screen = render(&job(ranks), &STYLE);
    assert!(screen.starts_with("nilo: python train.py · 1,000 ranks on 1 node"), "{screen}");
    assert!(screen.contains("rank 700 grows 3.0 MiB/step ± 0.1, the other 999 0.0"), "{screen}");
    assert!(screen.contains("976 more") && screen.lines().any(|line| line.trim_start().starts_with("700 ")));
}

#[test]
fn ranks_that_are_not_there_or_failed_are_told() {
    let mut ranks = flat(6);
    (ranks[2].good, ranks[2].end) = (false, "signal 9".into());
    let screen = render(&job(ranks), &STYLE);
    assert!(screen.contains("nothing was recorded of ranks 6, 7") && screen.contains("ranks 2"), "{screen}");
}
