//! Hand-written looks and exact numbers.
#![allow(clippy::float_cmp)] // ratios of small whole numbers

use nilometer_trace::pages::{
    About, Births, Distances, End, Line, Look, Mapping, Owner, Process, Span, Unit,
};

use super::model::How;
use super::{Builder, Pages};

const PAGE: u64 = 4096;

fn about(unit: Unit, unit_bytes: u64) -> Line {
    let written = Some("a test".into());
    Line::About(Box::new(About { unit, unit_bytes, page_bytes: PAGE, written, ..About::default() }))
}

fn span(first: u64, pages: u64, touched: u64) -> Span {
    Span { first, pages, resident: pages, touched, mapping: 0 }
}

fn process(pid: i32, spans: Vec<Span>) -> Process {
    let rss_bytes = spans.iter().map(|span| span.resident).sum::<u64>() * PAGE;
    Process { pid, rss_bytes, spans, written: Some(Vec::new()), ..Process::default() }
}

fn look(round: u32, processes: Vec<Process>) -> Line {
    let mark_ns = u64::from(round) * 1_000_000_000;
    let asked_ns = 1_000_000_000;
    Line::Look(Look {
        round,
        last: true,
        mark_ns,
        asked_ns,
        effective_ns: asked_ns,
        processes,
        ..Look::default()
    })
}

fn build(lines: impl IntoIterator<Item = Line>) -> Pages {
    let mut builder = Builder::default();
    lines.into_iter().for_each(|line| builder.push(line));
    builder.finish()
}

#[test]
fn chunks_give_working_set_distances_and_cold_bytes() {
    let window = |round, touched: [u64; 3]| {
        let spans = touched.iter().zip(0..).map(|(touched, at)| span(at * 64, 64, *touched)).collect();
        look(round, vec![process(1, spans)])
    };
    let name = Mapping { id: 0, name: "/lib/libtorch.so".into(), ..Mapping::default() };
    let pages = build([
        about(Unit::Chunk, 64 * PAGE),
        Line::Mapping(name),
        window(0, [64, 1, 0]),
        window(1, [64, 0, 0]),
        window(2, [64, 1, 0]),
        Line::Owner(Owner { pid: 1, start: 128 * PAGE, end: 192 * PAGE, name: "weights".into() }),
        Line::End(End { duration_ns: 3_000_000_000, why: "done".into(), ..End::default() }),
    ]);
    let sizes: Vec<u64> = pages.windows.iter().map(|window| window.wss_bytes / PAGE).collect();
    assert_eq!(sizes, [65, 64, 65]);
    let [by] = pages.wss_by_window_s[..] else { panic!("one asked time") };
    assert_eq!((by.looks, by.median_bytes, by.mean_bytes), (3, 65 * PAGE, 194 * PAGE / 3));
    let reuse = pages.reuse.unwrap();
    // Touches: {a b} {a} {a b}; a comes back at distance 1..2, 1; b at 2.
    assert_eq!((reuse.touches, reuse.cold_share, reuse.windows), (5, 0.4, 3));
    assert_eq!(
        reuse.bounds.iter().map(|bound| bound.resident_bytes).collect::<Vec<_>>(),
        [64 * PAGE, 128 * PAGE]
    );
    assert_eq!(reuse.bounds[1].miss_high, 0.4);
    assert_eq!(pages.cold.len(), 1);
    assert_eq!((pages.cold[0].bytes, &*pages.cold[0].owners[0].name), (64 * PAGE, "weights"));
    let owners: Vec<(&str, u64)> =
        pages.owners.iter().map(|owner| (&*owner.name, owner.resident_bytes / PAGE)).collect();
    assert_eq!(owners, [("libtorch.so", 128), ("weights", 64)]);
    assert_eq!((pages.named_share, pages.coverage, pages.windows[0].written_bytes), (1.0, 1.0, Some(0)));
    assert_eq!((pages.picture.rows.len(), pages.picture.times_s.len()), (3, 3));
    assert_eq!(pages.picture.rows[0].levels, [Some(255), Some(255), Some(255)]);
}

#[test]
fn a_window_without_written_pages_is_unknown_and_not_nothing() {
    let window = |round, written: Option<Vec<(u64, u64)>>| {
        look(round, vec![Process { written, ..process(1, vec![span(0, 64, 64)]) }])
    };
    let windows = [Some(vec![(0, 8)]), None, Some(vec![(0, 4)]), None, None];
    let looks = windows.into_iter().zip(0..).map(|(written, round)| window(round, written));
    let pages = build([about(Unit::Chunk, 64 * PAGE)].into_iter().chain(looks));
    let told: Vec<Option<u64>> = pages.windows.iter().map(|window| window.written_bytes).collect();
    assert_eq!(told, [Some(8 * PAGE), None, Some(4 * PAGE), None, None]);
    assert_eq!(pages.wss_by_window_s[0].written_mean_bytes, Some(6 * PAGE), "of those that are known");
    let pages = build([about(Unit::Chunk, 64 * PAGE), window(0, None)]);
    assert_eq!(pages.wss_by_window_s[0].written_mean_bytes, None);
}

#[test]
fn new_memory_has_owners_and_what_is_gone_is_told() {
    let about = About {
        unit: Unit::Chunk,
        unit_bytes: 64 * PAGE,
        page_bytes: PAGE,
        births: Some("faults".into()),
        ..About::default()
    };
    let born = |round, faults, pages: Vec<(u64, u64)>, code: &[(&str, u64)]| {
        let code = code.iter().map(|(name, faults)| ((*name).to_owned(), *faults)).collect();
        let births = Some(Births { faults, pages, code, lost: 1, elsewhere: 2 });
        look(round, vec![Process { births, ..process(1, vec![span(0, 64, 64), span(64, 64, 64)]) }])
    };
    let pages = build([
        Line::About(Box::new(about)),
        Line::Mapping(Mapping { name: "/lib/libc.so.6".into(), ..Mapping::default() }),
        born(0, 30, vec![(60, 10), (200, 6)], &[("a", 20), ("b", 10)]),
        born(1, 10, vec![], &[("b", 25)]),
        Line::Owner(Owner { pid: 1, start: 64 * PAGE, end: 128 * PAGE, name: "weights".into() }),
    ]);
    let told: Vec<_> = pages.windows.iter().map(|window| (window.faults, window.born_bytes)).collect();
    assert_eq!(told, [(Some(30), Some(16 * PAGE)), (Some(10), Some(0))]);
    assert_eq!(pages.wss_by_window_s[0].born_mean_bytes, Some(8 * PAGE));
    let owners: Vec<_> = pages.owners.iter().map(|owner| (&*owner.name, owner.born_bytes)).collect();
    assert_eq!(owners, [("libc.so.6", Some(2 * PAGE)), ("weights", Some(3 * PAGE))], "a mean of two windows");
    let births = pages.births.unwrap();
    let code: Vec<_> = births.code.iter().map(|met| (&*met.name, met.faults)).collect();
    assert_eq!((births.faults, births.lost, births.elsewhere), (40, 2, 4));
    assert_eq!((births.gone_bytes, code), (3 * PAGE, vec![("b", 35), ("a", 20)]));
}

#[test]
fn without_births_nothing_is_told_of_them() {
    let pages = build([about(Unit::Chunk, 64 * PAGE), look(0, vec![process(1, vec![span(0, 64, 64)])])]);
    assert_eq!((pages.windows[0].faults, pages.windows[0].born_bytes, pages.births), (None, None, None));
    assert_eq!(pages.owners[0].born_bytes, None);
}

#[test]
fn shared_pages_of_a_tree_are_bounds() {
    let shared = |pid| Process { shared_bytes: 10 * PAGE, ..process(pid, vec![span(0, 30, 30)]) };
    let pages = build([about(Unit::Mapping, 0), look(0, vec![shared(1), shared(2)])]);
    let window = pages.windows[0];
    assert_eq!((window.wss_low_bytes / PAGE, window.wss_bytes / PAGE, window.processes), (50, 60, 2));
    assert!(pages.reuse.is_none() && pages.reuse_why_not.is_some());
    assert_eq!((pages.unit_bytes, &*pages.ended), (None, "the recording was cut"));
}

#[test]
fn pages_of_a_tree_whose_frames_are_known_count_once() {
    let with = |pid, again| Process {
        shared_bytes: 10 * PAGE,
        again_bytes: Some(again * PAGE),
        ..process(pid, vec![span(0, 30, 30)])
    };
    let pages = build([about(Unit::Page, PAGE), look(0, vec![with(1, 0), with(2, 7)])]);
    let window = pages.windows[0];
    assert_eq!((window.wss_low_bytes / PAGE, window.wss_bytes / PAGE), (53, 53));
    let half_known = Process { again_bytes: None, ..with(2, 7) };
    let pages = build([about(Unit::Page, PAGE), look(0, vec![with(1, 0), half_known])]);
    assert_eq!((pages.windows[0].wss_low_bytes / PAGE, pages.windows[0].wss_bytes / PAGE), (50, 60));
}

#[test]
fn pages_are_shown_in_blocks_and_nothing_is_lost() {
    let spans = vec![span(60, 10, 10), span(70, 100, 0), span(170, 1, 1)];
    let pages = build([
        about(Unit::Page, PAGE),
        look(0, vec![process(1, spans.clone())]),
        look(1, vec![process(1, spans)]),
    ]);
    assert_eq!(pages.windows[0].wss_bytes, 11 * PAGE);
    assert_eq!(pages.owners.iter().map(|owner| owner.touched_bytes).sum::<u64>(), 11 * PAGE);
    let reuse = pages.reuse.unwrap();
    assert_eq!((reuse.touches, reuse.cold_share, reuse.median_bytes), (22, 0.5, Some((PAGE, 11 * PAGE))));
}

#[test]
fn nothing_at_all_is_no_panic() {
    let pages = build([]);
    assert!(pages.windows.is_empty() && pages.reuse.is_none() && pages.picture.rows.is_empty());
}

#[test]
fn a_window_that_was_asked_for_and_not_seen_is_told() {
    let told = |asked_s: &[f64]| {
        let about = About { asked_s: asked_s.to_vec(), page_bytes: PAGE, ..About::default() };
        let end = End { duration_ns: 1_420_000_000, why: "the process ended".into(), ..End::default() };
        let lines =
            [Line::About(Box::new(about)), look(0, vec![process(1, vec![span(0, 4, 1)])]), Line::End(end)];
        build(lines).notes
    };
    assert_eq!(told(&[0.5, 1.0, 2.0]), ["the process ended after 1.42 s: no window of 500 ms, 2 s was seen"]);
    assert!(told(&[1.0]).is_empty() && told(&[2.0]).is_empty());
}

#[test]
fn a_trace_has_no_windows_and_lower_is_upper() {
    let told = |share: f64, cold: u64| {
        let distances = Distances {
            unit_bytes: 64,
            touches: 10,
            cold,
            counts: vec![(1, 4), (3, 2)],
            share,
            error: (share < 1.0).then_some(0.5),
            ..Distances::default()
        };
        let mut builder = Builder::default();
        builder.push(Line::Distances(Box::new(distances)));
        builder.finish()
    };
    let pages = told(1.0, 4);
    assert!(pages.windows.is_empty() && pages.trace.is_some() && pages.reuse_why_not.is_none());
    let reuse = pages.reuse.unwrap();
    assert_eq!((reuse.how, reuse.touches, reuse.units, reuse.cold_share), (How::Exact, 10, 4, 0.4));
    assert_eq!((&reuse.lower, reuse.median_bytes), (&reuse.upper, Some((64, 64))));
    let misses: Vec<_> = reuse.bounds.iter().map(|bound| (bound.resident_bytes, bound.miss_high)).collect();
    assert_eq!(misses, [(64, 0.6), (128, 0.6), (256, 0.4)]);
    assert!(reuse.bounds.iter().all(|bound| bound.miss_low == bound.miss_high));
    let sampled = told(0.25, 4).reuse.unwrap();
    assert_eq!((sampled.how, sampled.sampled_share, sampled.sampling_error), (How::Sampled, 0.25, Some(0.5)));
    assert!(told(1.0, u64::MAX).reuse.unwrap().cold_share > 0.99, "no number of a file is a panic");
}
