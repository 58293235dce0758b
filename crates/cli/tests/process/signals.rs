//! Every signal reaches the target exactly once, whoever sent it and to whom; ours are nobody's business.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::counter::{Counter, counter_program, ready};
use crate::harness::{Dialogue, Lab, finish, finish_child, nilo_binary, text};
use crate::onlooker::{
    ALRM, CONT, HUP, INT, KILL, QUIT, REALTIME, STOP, TERM, TSTP, USR1, USR2, WINCH, has_ended, is_stopped,
    send, sentinel_of, stat, until,
};

const FORWARDED: [i32; 10] = [HUP, INT, QUIT, USR1, USR2, ALRM, TERM, CONT, WINCH, REALTIME];

fn counted(options: &[&str]) -> Vec<String> {
    let words = ["run", "-q", "-o", "run.nilo"].iter().chain(options).chain(&["--"]);
    words.map(|w| (*w).to_owned()).chain([counter_program()]).collect()
}

/// The counter under `nilo`, in a process group of its own.
fn grouped(lab: &Lab) -> Counter {
    Counter::start(lab.nilo(counted(&[])).process_group(0))
}

fn events<'r>(report: &'r Value, kind: &str) -> Vec<&'r str> {
    let events = report["events"].as_array().expect("events");
    events.iter().filter(|e| e["kind"] == kind).filter_map(|e| e["text"].as_str()).collect()
}

#[test]
fn a_signal_to_nilo_alone_reaches_the_target_once() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    for round in 1..=3 {
        for signal in FORWARDED {
            send(counter.nilo, signal);
            let counts = counter.counts();
            let expected = format!("{signal}={round}");
            assert!(counts.split(' ').any(|c| c == expected), "{expected} in {counts}");
        }
    }
    let expected: Vec<String> = FORWARDED.iter().map(|s| format!("{s}=3")).collect();
    assert_eq!(counter.counts(), expected.join(" "));
    assert_eq!(counter.exit(0).status.code(), Some(0));
    let report = lab.report(&lab.path("run.nilo"));
    assert!(events(&report, "signal").iter().any(|e| e.contains("signal 15, forwarded")), "{report:#}");
}

#[test]
fn a_signal_to_the_group_reaches_the_target_once() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    for round in 1..=5 {
        for signal in FORWARDED {
            send(-counter.nilo, signal);
            let counts = counter.counts();
            let expected = format!("{signal}={round}");
            assert!(counts.split(' ').any(|c| c == expected), "{expected} in {counts}");
        }
    }
    assert_eq!(counter.exit(3).status.code(), Some(3));
    let report = lab.report(&lab.path("run.nilo"));
    assert!(!events(&report, "signal").iter().any(|e| e.contains("signal 15, forwarded")), "{report:#}");
}

#[test]
fn queued_signals_are_counted_one_by_one() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    for _ in 0..50 {
        send(-counter.nilo, REALTIME);
    }
    assert_eq!(counter.counts(), "36=50");
    for _ in 0..50 {
        send(counter.nilo, REALTIME);
    }
    assert_eq!(counter.counts(), "36=100");
    for _ in 0..25 {
        send(-counter.nilo, REALTIME);
        send(counter.nilo, REALTIME);
    }
    assert_eq!(counter.counts(), "36=150");
    counter.exit(0);
}

#[test]
fn a_burst_to_the_group_is_never_forwarded_again() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    for _ in 0..200 {
        send(-counter.nilo, USR1);
    }
    counter.counts();
    counter.exit(0);
    let report = lab.report(&lab.path("run.nilo"));
    let forwarded: Vec<&str> =
        events(&report, "signal").into_iter().filter(|e| e.contains("signal 10, forwarded")).collect();
    assert!(forwarded.is_empty(), "{forwarded:?}");
}

#[test]
fn one_to_nilo_alone_is_forwarded_after_one_to_the_group() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    send(-counter.nilo, INT);
    assert_eq!(counter.counts(), "2=1");
    send(counter.nilo, INT);
    assert_eq!(counter.counts(), "2=2");
    counter.exit(0);
}

#[test]
fn under_timeout_in_the_foreground_the_target_gets_one_signal() {
    let lab = Lab::new();
    let mut timeout = Command::new("timeout");
    timeout.args(["--foreground", "-s", "TERM", "600", nilo_binary()]).args(counted(&[]));
    let mut counter = Counter::start(timeout.current_dir(lab.path("")));
    send(counter.dialogue.pid(), ALRM); // its clock rings
    assert_eq!(counter.ask(&format!("wait {TERM}")), "15=1");
    assert_eq!(counter.counts(), "15=1");
    assert_eq!(counter.exit(0).status.code(), Some(124));
}

#[test]
fn under_timeout_the_target_gets_no_more_signals_than_without_us() {
    let lab = Lab::new();
    let mut timeout = Command::new("timeout");
    timeout.args(["-s", "TERM", "600", nilo_binary()]).args(counted(&[]));
    let mut counter = Counter::start(timeout.current_dir(lab.path("")));
    send(counter.dialogue.pid(), ALRM);
    counter.ask(&format!("wait {TERM}"));
    // It sends TERM and CONT, each to its child and to the group: twice, if the first is taken before the second.
    let counts = counter.counts();
    let mut numbers = counts.split(' ').map(|c| c.split_once('=').expect("a count"));
    let term = numbers.next().expect("TERM");
    assert!(term.0 == "15" && ["1", "2"].contains(&term.1), "{counts}");
    assert_eq!(counter.exit(0).status.code(), Some(124));
}

#[test]
fn timeout_ends_a_program_that_ignores_nothing() {
    let lab = Lab::new();
    let mut timeout = Command::new("timeout");
    timeout.args(["-s", "TERM", "600", nilo_binary(), "run", "--summary", "line", "-o", "run.nilo", "--"]);
    let command = ["sh", "-c", "echo ready; exec sleep 600"];
    let mut target = Dialogue::start(timeout.args(command).current_dir(lab.path("")));
    assert_eq!(target.line(), "ready");
    send(target.pid(), ALRM);
    let output = target.end();
    assert_eq!(output.status.code(), Some(124));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(report["exit"]["signal"], TERM);
    assert!(!output.stderr.is_empty(), "the verdict is told");
}

#[test]
fn a_signal_of_the_tree_to_nilo_does_not_bounce() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    for signal in [TERM, USR1, HUP] {
        let line = format!("kill {} {signal}", counter.nilo);
        assert_eq!(counter.ask(&line), "sent 0");
        assert_eq!(counter.counts(), "");
        let line = format!("childkill {} {signal}", counter.nilo);
        assert_eq!(counter.ask(&line), "sent 0");
        assert_eq!(counter.counts(), "");
    }
    let line = format!("groupkill {USR2}");
    assert_eq!(counter.ask(&line), "sent 0");
    assert_eq!(counter.counts(), "12=1");
    counter.exit(0);
}

#[test]
fn the_target_outlives_a_killed_nilo() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    let sentinel = sentinel_of(counter.nilo);
    crate::onlooker::after_some_ticks(counter.nilo);
    send(counter.nilo, KILL);
    until("nilo is dead", || counter.dialogue.child.try_wait().expect("wait").is_some());
    until("the sentinel dies with nilo", || has_ended(sentinel));
    assert_eq!(counter.ask("counts"), "none", "the target was not touched");
    assert!(!has_ended(counter.target) && !is_stopped(counter.target));
    let report = lab.report(&lab.path("run.nilo"));
    assert!(report["exit"]["code"].is_null() && report["exit"]["signal"].is_null(), "{:#}", report["exit"]);
    assert!(report["ticks"].as_u64().is_some_and(|t| t > 0) || report["peak"]["bytes"].as_u64() > Some(0));
    counter.dialogue.say("exit 0");
    assert_eq!(counter.dialogue.line(), "", "the end of its output");
    until("the target ends in its own time", || has_ended(counter.target));
}

#[test]
fn the_target_runs_although_nilo_is_killed_before_its_start() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(counted(&["--before", "600s"]));
    let mut dialogue = Dialogue::start(&mut nilo);
    until("the run has begun", || lab.path("run.nilo/manifest.json").exists());
    send(dialogue.pid(), KILL);
    let (target, _) = ready(&dialogue.line());
    dialogue.say("exit 0");
    until("it ends", || has_ended(target));
    dialogue.end();
}

#[test]
fn a_signal_before_the_start_is_not_lost() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--before", "600s", "--", "touch", "ran"]);
    let dialogue = Dialogue::start(&mut nilo);
    until("the run has begun", || lab.path("run.nilo/manifest.json").exists());
    send(dialogue.pid(), TERM);
    assert_eq!(dialogue.end().status.code(), Some(128 + TERM));
    assert!(!lab.path("ran").exists());
}

#[test]
fn a_signal_while_the_system_settles_ends_the_wait_and_not_the_verdict() {
    let lab = Lab::new();
    let words = ["run", "--summary", "line", "-o", "run.nilo", "--settle", "600s", "--"];
    let mut nilo = lab.nilo(words);
    let mut counter = Counter::start(nilo.arg(counter_program()));
    counter.dialogue.say("exit 4");
    until("the target is waited for", || stat(counter.target).is_none());
    send(counter.nilo, TERM);
    let output = finish_child(counter.dialogue.child);
    assert_eq!(output.status.code(), Some(4));
    assert!(!output.stderr.is_empty(), "the verdict is told");
}

/// A child that holds the output keeps our relay for a while, after the target was waited for and before the system is looked at.
#[test]
fn a_signal_between_the_end_of_the_target_and_the_look_at_the_system_is_not_lost() {
    let lab = Lab::new();
    let words = ["run", "-q", "-o", "run.nilo", "--steps", "step (\\d+)", "--settle", "600s", "--"];
    let held = "sleep 100 & echo $! > left; echo $$ > target; read line; exit 4";
    let mut nilo = lab.nilo(words);
    let mut dialogue = Dialogue::start(nilo.args(["sh", "-c", held]));
    let number = |name: &str| std::fs::read_to_string(lab.path(name)).ok()?.trim().parse::<i32>().ok();
    until("the target has begun", || number("target").is_some());
    let (target, left) = (number("target").unwrap(), number("left").unwrap());
    dialogue.say("end");
    until("the target is waited for", || stat(target).is_none());
    send(dialogue.pid(), TERM);
    until("nilo ends", || has_ended(dialogue.pid()));
    send(left, KILL); // the relay, which has our output, stays as long as it
    assert_eq!(dialogue.end().status.code(), Some(4));
}

#[test]
fn a_stopped_nilo_does_not_stop_the_target() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    send(counter.nilo, STOP);
    until("nilo is stopped", || is_stopped(counter.nilo));
    assert_eq!(counter.ask("counts"), "none");
    assert!(!is_stopped(counter.target));
    send(counter.nilo, CONT);
    assert_eq!(counter.counts(), "18=1");
    assert_eq!(counter.exit(7).status.code(), Some(7));
}

/// Nothing that the target does reaches us while we are stopped; our helper notices.
#[test]
fn a_target_that_is_stopped_and_continued_alone_takes_nilo_along() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    for round in 1..=2 {
        send(counter.target, TSTP);
        until("both are stopped", || is_stopped(counter.nilo) && is_stopped(counter.target));
        send(counter.target, CONT);
        until("both go on", || !is_stopped(counter.nilo) && !is_stopped(counter.target));
        assert_eq!(counter.counts(), format!("18={round}"), "ours is not passed on");
    }
    assert_eq!(counter.exit(7).status.code(), Some(7));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(events(&report, "gap").len(), 2, "{:#}", report["events"]);
}

#[test]
fn a_stopped_target_that_is_killed_ends_nilo() {
    let lab = Lab::new();
    let counter = grouped(&lab);
    send(counter.target, TSTP);
    until("both are stopped", || is_stopped(counter.nilo) && is_stopped(counter.target));
    send(counter.target, KILL);
    assert_eq!(counter.dialogue.end().status.code(), Some(128 + KILL));
}

#[test]
fn nilo_ends_although_its_helper_stays_stopped() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    let sentinel = sentinel_of(counter.nilo);
    send(sentinel, STOP);
    until("the sentinel is stopped", || is_stopped(sentinel));
    send(counter.nilo, TERM);
    assert_eq!(counter.ask(&format!("wait {TERM}")), "15=1", "forwarded, although the sentinel is silent");
    assert_eq!(counter.exit(7).status.code(), Some(7));
    until("no sentinel is left", || has_ended(sentinel));
}

#[test]
fn late_answers_of_the_helper_are_not_taken_for_new_ones() {
    let lab = Lab::new();
    let mut counter = grouped(&lab);
    let sentinel = sentinel_of(counter.nilo);
    send(sentinel, STOP);
    until("the sentinel is stopped", || is_stopped(sentinel));
    send(-counter.nilo, USR1); // its answer will be late
    counter.ask(&format!("wait {USR1}"));
    counter.counts();
    send(sentinel, CONT);
    until("the sentinel goes on", || !is_stopped(sentinel));
    let before = counter.counts();
    let count = |counts: &str, signal: i32| -> u32 {
        let found = counts.split(' ').find_map(|c| c.strip_prefix(&format!("{signal}=")));
        found.map_or(0, |c| c.parse().expect("a number"))
    };
    for round in 1..=3 {
        send(counter.nilo, USR2);
        assert_eq!(count(&counter.counts(), USR2), 2 * round - 1);
        send(-counter.nilo, USR2);
        assert_eq!(count(&counter.counts(), USR2), 2 * round);
    }
    assert_eq!(count(&counter.counts(), USR1), count(&before, USR1));
    counter.exit(0);
}

#[test]
fn nested_launchers_deliver_once() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-q", "-o", "outer.nilo", nilo_binary()]);
    let mut counter = Counter::start(nilo.args(counted(&[])).process_group(0));
    let outer = counter.dialogue.pid();
    assert_ne!(outer, counter.nilo);
    for (round, signal) in [INT, TERM, REALTIME].into_iter().enumerate() {
        send(-outer, signal);
        assert_eq!(counter.counts().split(' ').count(), round + 1);
        assert!(counter.counts().split(' ').all(|c| c.ends_with("=1")), "{}", counter.counts());
    }
    send(outer, USR1);
    assert_eq!(counter.ask(&format!("wait {USR1}")), counter.ask("counts"));
    assert!(counter.counts().split(' ').all(|c| c.ends_with("=1")));
    assert_eq!(counter.exit(6).status.code(), Some(6));
}

#[test]
fn a_timer_set_before_nilo_rings_in_the_target() {
    let lab = Lab::new();
    let code =
        "import os,signal,sys; signal.setitimer(signal.ITIMER_REAL,2); os.execv(sys.argv[1],sys.argv[1:])";
    let mut python = Command::new("python3");
    python.args(["-c", code, nilo_binary()]).args(counted(&[])).current_dir(lab.path(""));
    let mut counter = Counter::start(&mut python);
    assert_eq!(counter.ask(&format!("wait {ALRM}")), "14=1");
    counter.exit(0);
}

#[test]
fn a_command_that_cannot_be_recorded_is_not_run_behind_our_back() {
    let lab = Lab::new();
    let mut shell = Command::new("sh");
    let words =
        ["-c", "ulimit -f 8; exec \"$@\"", "sh", nilo_binary(), "run", "-o", "run.nilo", "--", "echo", "ran"];
    let output = finish(shell.args(words).current_dir(lab.path("")));
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    assert!(!lab.path("run.nilo").exists());
}
