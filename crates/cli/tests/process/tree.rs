//! Trees: who belongs to them, and how much they have when each page counts once.

use std::collections::BTreeMap;
use std::path::Path;

use nilometer_trace::Follower;
use nilometer_trace::record::Record;

use crate::harness::{Dialogue, Lab};
use crate::onlooker::until;
use crate::watched::{MIB, Watched, assert_near, bytes, number_of, process, rss_slack};

#[test]
fn shared_pages_count_once() {
    let lab = Lab::new();
    let mut tree = Watched::start_program(&lab, &[], "cow_tree.c", &[]);
    let pss = tree.number("pss") * 1024; // of all five, measured by the program while they stood still
    let forks: Vec<u64> = (0..4).map(|_| tree.number("fork")).collect();
    assert!((320 * MIB..325 * MIB).contains(&pss), "the program's own sum of PSS is {pss}");
    wait_for_private(&tree.directory, &forks, is_the_forks_own);
    tree.ticks_pass();
    let run = tree.end();
    let peak = &run.report["peak"];
    let (low, high) = (bytes(&peak["low_bytes"]), bytes(&peak["high_bytes"]));
    // Five processes' counters may lag, and code shared with the rest of the machine is less than 4 MiB.
    let slack = 5 * rss_slack() + 4 * MIB;
    assert!(
        low <= pss + slack && pss <= high + slack,
        "{peak:#} does not contain {pss}; {:#}",
        run.report["events"]
    );
    assert_eq!(peak["method"], "PSS of the tree, bounds");
    assert!(high < 500 * MIB, "{high} is more like the sum of RSS (1,000 MiB)");
    assert_near("peak.bytes", bytes(&peak["bytes"]), pss, pss / 5);
    assert_eq!(run.report["processes_seen"], 5);
    for fork in forks {
        let fork = process(&run.report, fork);
        assert!(is_the_forks_own(bytes(&fork["uss_bytes"])), "{fork:#}");
        let (from_s, to_s) = (fork["start_s"].as_f64(), fork["end_s"].as_f64());
        assert!(from_s <= fork["shares_at_s"].as_f64() && fork["shares_at_s"].as_f64() <= to_s, "{fork:#}");
        assert_near("hwm_bytes", bytes(&fork["hwm_bytes"]), 200 * MIB, 4 * MIB);
    }
}

fn is_the_forks_own(bytes: u64) -> bool {
    bytes.abs_diff(30 * MIB) <= MIB
}

/// Until the last page-table walk of each of these processes told such private memory. Walks are made at a pace of their
/// own: one may have met a fork that was still writing, and the next one tells.
fn wait_for_private(run: &Path, pids: &[u64], is_right: fn(u64) -> bool) {
    let mut log = Follower::open(run).expect("a log");
    let (mut known, mut private) = (BTreeMap::new(), BTreeMap::new());
    until("the private memory of all is known", || {
        log.look(|record| match record {
            Record::Process(process) => drop(known.insert(process.index, process.pid as u64)),
            Record::Shares(shares) => drop(private.insert(known[&shares.index], shares.uss_kib * 1024)),
            _ => {}
        })
        .expect("a log that grows");
        pids.iter().all(|pid| private.get(pid).copied().is_some_and(is_right))
    });
}

#[test]
fn without_walks_a_tree_is_told_by_rss_and_says_so() {
    let lab = Lab::new();
    let mut tree = Watched::start_program(&lab, &["--no-slow"], "cow_tree.c", &[]);
    let pss = tree.number("pss") * 1024;
    tree.ticks_pass();
    let run = tree.end();
    let peak = &run.report["peak"];
    assert_eq!(peak["method"], "largest RSS to sum of RSS, bounds", "{peak:#}");
    assert!(bytes(&peak["low_bytes"]) <= pss && pss <= bytes(&peak["high_bytes"]), "{peak:#}: {pss}");
    assert_eq!(run.report["processes"][0]["pss_bytes"], serde_json::Value::Null);
}

#[test]
fn single_watches_the_direct_child_only() {
    let lab = Lab::new();
    let mut tree = Watched::start_program(&lab, &["--single"], "cow_tree.c", &[]);
    tree.number("pss");
    tree.ticks_pass();
    let run = tree.end();
    assert_eq!(run.report["processes"].as_array().expect("processes").len(), 1);
    assert_eq!(run.report["processes_seen"], 1);
    assert_near("peak.bytes", bytes(&run.report["peak"]["bytes"]), 202 * MIB, 4 * MIB);
}

fn kin_is_seen(kind: &str) {
    let lab = Lab::new();
    let mut watched = Watched::start_program(&lab, &[], "kin.c", &[kind]);
    let kin = watched.number("kin");
    watched.ticks_pass();
    let run = watched.end();
    let found = process(&run.report, kin);
    assert_near("hwm_bytes", bytes(&found["hwm_bytes"]), 51 * MIB, 2 * MIB);
    assert!(bytes(&run.report["peak"]["high_bytes"]) >= 50 * MIB);
}

#[test]
fn a_grandchild_whose_parent_died_is_in_the_tree() {
    kin_is_seen("orphan");
}

#[test]
fn a_child_of_a_second_thread_is_in_the_tree() {
    kin_is_seen("thread");
}

#[test]
fn a_process_whose_first_thread_left_is_still_seen() {
    let lab = Lab::new();
    let mut watched = Watched::start_program(&lab, &[], "leader_exits.c", &[]);
    let pid = watched.number("ready");
    watched.ticks_pass();
    let hwm = watched.order("go on", "hwm") * 1024;
    let run = watched.end();
    assert_eq!(run.code(), Some(0));
    let found = process(&run.report, pid);
    assert!(hwm > 100 * MIB);
    assert_near("hwm_bytes", bytes(&found["hwm_bytes"]), hwm, rss_slack());
    // The last sample was taken through the thread that lives: it is not the small one of the beginning.
    assert_near("rss_end_bytes", bytes(&found["rss_end_bytes"]), hwm, MIB);
}

/// What the program says of its thousand children.
struct Thousand {
    faults: u64,
    cpu_us: u64,
}

impl Thousand {
    fn hear(dialogue: &mut Dialogue) -> Self {
        number_of(&dialogue.line(), "ready");
        dialogue.say("go");
        let mut next = |name| number_of(&dialogue.line(), name);
        next("ms"); // its own time, for people
        Self { faults: next("faults"), cpu_us: next("us") }
    }
}

#[test]
fn serial_a_thousand_short_children() {
    let lab = Lab::new();
    let mut watched = Watched::start_program(&lab, &[], "thousand.c", &["1000"]);
    let truth = Thousand::hear(&mut watched.dialogue);
    watched.ticks_pass();
    let run = watched.end();
    assert_eq!(run.code(), Some(0));
    // Looking for a thousand new processes costs us CPU, never them their time; it stays small (debug build).
    let cpu_s = run.number("cost/cpu_s");
    assert!(cpu_s < 2.0, "nilo used {cpu_s} s of CPU");
    // Most lived between two ticks; what they used is known from their parent all the same.
    let seen = run.number("processes_seen");
    assert!((1.0..=1001.0).contains(&seen), "{seen} processes of 1,001");
    let unseen = bytes(&run.report["unseen"]["children_faults"]);
    assert!(unseen <= truth.faults, "{unseen} faults, the program knows of {}", truth.faults);
    assert!(unseen * 2 >= truth.faults, "{unseen} faults, the program knows of {}", truth.faults);
    let cpu_s = run.number("unseen/children_cpu_s");
    let truth_s = truth.cpu_us as f64 / 1e6;
    // "At least": what sampled ones may have used after their last sample is taken away, be it all.
    assert!((0.0..=truth_s + 0.03).contains(&cpu_s), "{cpu_s} s of CPU, the program knows of {truth_s}");
}

#[test]
fn orphans_between_two_ticks_are_counted() {
    const MADE: u64 = 300;
    let lab = Lab::new();
    let options = ["--interval", "60s", "--settle", "0"];
    let mut watched = Watched::start_program(&lab, &options, "orphans.c", &[&MADE.to_string()]);
    watched.number("ready");
    assert_eq!(watched.order("go", "made"), MADE);
    let run = watched.end();
    let unseen = &run.report["unseen"];
    // Those that had not ended when the program did are left behind, not counted.
    let counted = bytes(&unseen["processes"]);
    assert!((MADE - 10..=MADE).contains(&counted), "{counted} of {MADE}");
    assert!(run.number("unseen/children_cpu_s") > 0.0, "{unseen}");
    // Each touched 256 pages.
    assert!(bytes(&unseen["children_faults"]) >= counted * 256, "{unseen}");
    let said = run.report["quality"].as_array().expect("quality");
    assert!(said.iter().any(|doubt| doubt.as_str().is_some_and(|d| d.contains("no tick saw"))), "{said:?}");
    assert_eq!(run.report["peak"]["exact"], false, "a child that no tick saw may have been larger");
}
