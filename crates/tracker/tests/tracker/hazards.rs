//! Programs that do what trackers break on: threads, forks, jumps, signals, fibers, exceptions.

use std::collections::HashMap;

use nilometer_ring::Event;

use super::session::{Heard, Session, Told};

/// The number after a word of the program's output.
pub fn number_after(text: &str, word: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|w| *w != word).skip(1);
    words.next().and_then(|w| w.parse().ok()).unwrap_or_else(|| panic!("no {word} in {text:?}"))
}

/// Allocations made by `work` in the programs: told by their sizes.
fn is_work(event: &Event) -> bool {
    matches!(event, Event::Alloc { bytes: 30_000..30_050, .. })
}

fn work_of(told: &Told) -> u64 {
    told.events.iter().filter(|(_, _, event)| is_work(event)).count() as u64
}

fn assert_whole(told: &Told) {
    assert_eq!((told.totals.lost, told.gap, told.totals.orphans_lost), (0, 0, 0), "{:?}", told.totals);
    assert_eq!((told.totals.corrupt_lanes, told.totals.refused), (0, 0), "{:?}", told.totals);
}

fn run(program: &str, args: &[&str]) -> (String, Heard) {
    let session = Session::new();
    let output = session.run(program, "mode=all", args);
    (String::from_utf8(output.stdout).unwrap(), session.finish())
}

#[test]
fn twenty_thousand_short_threads_lose_nothing() {
    let (text, heard) = run("threads.c", &["short", "20000"]);
    let told = heard.only();
    assert_eq!(number_after(&text, "made"), 2_000_000);
    assert_whole(told);
    assert!(told.allocations >= 2_000_000 && told.begins >= 20_001, "{} {}", told.allocations, told.begins);
    assert_eq!(told.unknown_frees(), 0);
    let held = told.live().values().filter(|block| (30_000..30_050).contains(&block.bytes)).count();
    assert_eq!(held, 0);
    // Lanes are used again: a handful of rings for all of them.
    assert!(told.totals.ring_bytes < 8 << 20, "{}", told.totals.ring_bytes);
}

#[test]
fn six_hundred_threads_at_once_lose_nothing() {
    let (text, heard) = run("threads.c", &["many", "600"]);
    let told = heard.only();
    assert_whole(told);
    assert_eq!(work_of(told), number_after(&text, "made"));
    assert_eq!(told.unknown_frees(), 0);
    assert!(told.totals.ring_bytes < 20 << 20, "{}", told.totals.ring_bytes);
}

#[test]
fn frees_after_the_last_destructor_are_told() {
    let (_, heard) = run("threads.c", &["after", "50"]);
    let told = heard.only();
    assert_whole(told);
    let of_holder = |event: &Event| matches!(event, Event::Alloc { bytes: 31_234, .. });
    assert_eq!(told.events.iter().filter(|(_, _, event)| of_holder(event)).count(), 50);
    assert_eq!(told.live_of(31_234), 0);
    assert_eq!(told.unknown_frees(), 0);
}

#[test]
fn threads_that_vanish_leave_their_lanes_to_others() {
    let (text, heard) = run("threads.c", &["exit", "5000"]);
    let told = heard.only();
    assert_whole(told);
    assert_eq!(number_after(&text, "made"), 100_000);
    assert!(told.allocations >= 100_000);
    assert!(told.totals.ring_bytes < 8 << 20, "{}", told.totals.ring_bytes);
}

/// What each process said it made, by its id.
fn claims(text: &str) -> HashMap<u32, u64> {
    let mut claims = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        *claims.entry(words[1].parse().unwrap()).or_insert(0) += words[3].parse::<u64>().unwrap();
    }
    claims
}

fn assert_children(text: &str, heard: &Heard, processes: usize) {
    let claims = claims(text);
    assert_eq!(heard.processes.len(), processes, "{text}");
    let mut told: HashMap<u32, u64> = HashMap::new();
    for process in &heard.processes {
        assert_whole(process);
        *told.entry(process.pid()).or_default() += work_of(process);
        assert!(heard.books.contains_key(&process.book));
    }
    assert_eq!(told, claims);
}

#[test]
fn forked_children_are_told_apart_and_whole() {
    let (text, heard) = run("children.c", &["fork", "5"]);
    assert_children(&text, &heard, 6);
    let parent = &heard.processes[0];
    assert_eq!(heard.books.len(), 1, "one book for the family");
    for child in &heard.processes[1..] {
        let facts = child.facts.unwrap();
        assert_eq!(facts.forked_from, parent.pid());
        assert!(facts.start_ticks > parent.facts.unwrap().start_ticks);
        assert!(parent.events.iter().any(|(_, _, e)| *e == Event::Fork { child: facts.pid }));
    }
}

#[test]
fn a_storm_of_forks_is_followed() {
    let (text, heard) = run("children.c", &["storm", "200"]);
    assert_children(&text, &heard, 201);
}

#[test]
fn a_raw_clone_is_noticed_and_loses_nothing() {
    let (text, heard) = run("children.c", &["raw", "5"]);
    assert_children(&text, &heard, 6);
}

#[test]
fn grandchildren_know_their_parents() {
    let (text, heard) = run("children.c", &["grandchild"]);
    assert_children(&text, &heard, 3);
    let chain: Vec<u32> = heard.processes.iter().map(|p| p.facts.unwrap().forked_from).collect();
    let known: Vec<u32> = heard.processes.iter().map(Told::pid).collect();
    assert!(chain.iter().filter(|from| known.contains(from)).count() == 2, "{chain:?} {known:?}");
}

#[test]
fn forks_under_busy_threads_are_whole() {
    let session = Session::new();
    let output = session.run("children.c", "mode=all", &["threaded", "20"]);
    let heard = session.finish();
    let claims = claims(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(heard.processes.len(), 21);
    for child in &heard.processes[1..] {
        assert_whole(child);
        assert_eq!(work_of(child), claims[&child.pid()]);
    }
}

#[test]
fn vfork_and_spawn_are_taken_for_the_parent() {
    let (text, heard) = run("children.c", &["vfork", "3"]);
    let parent = &heard.processes[0];
    assert_whole(parent);
    assert_eq!(work_of(parent), number_after(&text, "made"));
    let in_vfork = |event: &Event| matches!(event, Event::Alloc { bytes: 40_404, .. });
    assert_eq!(parent.events.iter().filter(|(_, _, event)| in_vfork(event)).count(), 3);
    assert_eq!(heard.processes.len(), 7, "the parent, and six images of true");
    assert!(heard.processes[1..].iter().all(|image| image.facts.unwrap().forked_from == 0));
}

#[test]
fn exec_starts_a_new_image_of_the_same_process() {
    let (text, heard) = run("children.c", &["exec"]);
    assert_children(&text, &heard, 2);
    assert_eq!(heard.processes[0].pid(), heard.processes[1].pid());
    assert_eq!(heard.books.len(), 2);
}

#[test]
fn a_hook_left_by_a_jump_is_taken_over() {
    let (text, heard) = run("jump.c", &[]);
    let told = heard.only();
    assert_eq!(told.totals.corrupt_lanes, 0);
    let after: Vec<_> = told.events.iter().filter(|(_, _, e)| is_work(e)).collect();
    let kept_all = told.events.len() < 300_000;
    assert!(!kept_all || after.len() as u64 == number_after(&text, "made"), "{}", after.len());
    assert!(told.allocations >= 1000, "{}", told.allocations);
    assert!(told.totals.abandoned > 0, "no jump hit a hook: {:?}", told.totals);
}

#[test]
fn handlers_that_interrupt_the_tracker_do_not_disturb_it() {
    let (text, heard) = run("signals.c", &[]);
    let told = heard.only();
    assert_whole(told);
    let made = number_after(&text, "made");
    assert!(told.allocations >= made && told.allocations < made + 20, "{} {made}", told.allocations);
    assert_eq!(told.unknown_frees(), 0);
}

#[test]
fn fibers_are_told_with_what_is_known_of_their_stacks() {
    let (text, heard) = run("fibers.c", &[]);
    let told = heard.only();
    assert_whole(told);
    assert_eq!(work_of(told), number_after(&text, "made"));
    let book = heard.book(told);
    let depths: Vec<usize> = told
        .events
        .iter()
        .filter_map(|(_, _, event)| match event {
            Event::Alloc { bytes: 30_000..30_050, stacks, .. } => {
                Some(book.stack(stacks.native).frames.len())
            }
            _ => None,
        })
        .collect();
    assert!(depths.contains(&1), "a fiber has its leaf only");
    assert!(depths.iter().filter(|&&depth| depth >= 3).count() > 5000, "main has its whole stack");
}

#[test]
fn exceptions_pass_and_operators_are_told() {
    let (text, heard) = run("throw.cc", &[]);
    assert_eq!(number_after(&text, "caught"), 250);
    let told = heard.only();
    assert_whole(told);
    let address = |word: &str| {
        let hex = text.split_whitespace().skip_while(|w| *w != word).nth(1).unwrap();
        u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap()
    };
    assert_eq!(told.live()[&address("wide")].bytes, 40_064);
    assert_eq!(told.live()[&address("array")].bytes, 60_013);
    let vectors = |event: &Event| matches!(event, Event::Alloc { bytes: 50_021, .. });
    assert_eq!(told.events.iter().filter(|(_, _, event)| vectors(event)).count(), 1200);
    assert_eq!(told.live_of(50_021), 0);
}
