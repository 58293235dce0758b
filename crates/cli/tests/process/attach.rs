//! Recordings of what already runs: a process of somebody else's, and the machine alone.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::control::after_ticks;
use crate::harness::{Dialogue, Lab, c_program, finish, finish_child, nilo_binary, skip, text};
use crate::onlooker::{INT, KILL, TERM, send, stat, until};
use crate::watched::{MIB, assert_near, bytes, is_root, number_of, process, wait_for_ticks};

const NOBODY: u32 = 65_534;

/// A puppet that nilo did not start.
struct Puppet {
    dialogue: Dialogue,
    pid: u64,
}

impl Puppet {
    fn start() -> Self {
        let mut dialogue = Dialogue::start(&mut Command::new(c_program("puppet.c")));
        let pid = number_of(&dialogue.line(), "ready");
        Self { dialogue, pid }
    }

    fn order(&mut self, words: &str, answer: &str) -> u64 {
        self.dialogue.say(words);
        number_of(&self.dialogue.line(), answer)
    }
}

/// `nilo attach PID OPTIONS`, after its first tick.
fn attach(lab: &Lab, pid: u64, options: &[&str]) -> std::process::Child {
    let mut nilo = lab.nilo(["attach", &pid.to_string(), "-o", "run.nilo"]);
    nilo.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = nilo.spawn().expect("spawn");
    until("the recording has begun", || lab.path("run.nilo/open.nlog").exists());
    until("it is described", || lab.path("run.nilo/manifest.json").exists());
    after_ticks(&lab.path("run.nilo"), 1);
    child
}

fn events(report: &Value) -> Vec<&str> {
    report["events"].as_array().expect("events").iter().filter_map(|e| e["kind"].as_str()).collect()
}

#[test]
fn it_records_until_the_process_ends() {
    let lab = Lab::new();
    let mut puppet = Puppet::start();
    let nilo = attach(&lab, puppet.pid, &[]);
    let rss = puppet.order("grow 100", "rss") * 1024;
    after_ticks(&lab.path("run.nilo"), 1);
    let pid = puppet.pid;
    assert_eq!(puppet.dialogue.end().status.code(), Some(0));
    let output = finish_child(nilo);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("peak"), "{}", text(&output.stderr));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(report["about"]["verb"], "attach");
    assert_eq!(report["exit"]["cause"], "not-seen", "its exit code is its parent's to know");
    assert_eq!(report["data_end"]["clean"], true);
    assert_near("hwm", bytes(&process(&report, pid)["hwm_bytes"]), rss, MIB);
    assert_near("peak", bytes(&report["peak"]["bytes"]), rss, MIB);
}

#[test]
fn a_duration_is_waited_for() {
    let lab = Lab::new();
    let mut puppet = Puppet::start();
    let begin = Instant::now();
    let mut nilo = lab.nilo(["attach", &puppet.pid.to_string(), "-q", "-o", "run.nilo", "--duration", "1s"]);
    let output = finish(&mut nilo);
    let took = begin.elapsed();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!((Duration::from_secs(1)..Duration::from_secs(5)).contains(&took), "{took:?}");
    let report = lab.report(&lab.path("run.nilo"));
    let duration_s = report["duration_s"].as_f64().expect("duration");
    assert!((1.0..2.0).contains(&duration_s), "{duration_s}");
    assert!(report["ticks"].as_u64() >= Some(5), "{}", report["ticks"]);
    assert!(puppet.order("born", "born") > 0, "it goes on");
    assert_eq!(puppet.dialogue.end().status.code(), Some(0));
}

#[test]
fn a_signal_ends_the_recording_and_not_the_process() {
    for signal in [INT, TERM] {
        let lab = Lab::new();
        let mut puppet = Puppet::start();
        let nilo = attach(&lab, puppet.pid, &[]);
        send(nilo.id() as i32, signal);
        let output = finish_child(nilo);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("saved"), "the verdict is told: {}", text(&output.stderr));
        let report = lab.report(&lab.path("run.nilo"));
        assert_eq!(report["data_end"]["clean"], true);
        assert_eq!(report["cost"]["pause_s"], 0.0);
        assert!(puppet.order("grow 10", "rss") > 10 << 10);
        assert_eq!(puppet.dialogue.end().status.code(), Some(0));
    }
}

#[test]
fn killing_nilo_leaves_the_process_alone() {
    let lab = Lab::new();
    let mut puppet = Puppet::start();
    let nilo = attach(&lab, puppet.pid, &["-q"]);
    send(nilo.id() as i32, KILL);
    finish_child(nilo);
    assert!(puppet.order("grow 10", "rss") > 10 << 10);
    assert_eq!(puppet.dialogue.end().status.code(), Some(0));
    assert_eq!(lab.report(&lab.path("run.nilo"))["data_end"]["clean"], false);
}

#[test]
fn the_tree_below_is_recorded_and_single_is_not() {
    for (options, seen) in [(&["-q"][..], 5), (&["-q", "--single"], 1)] {
        let lab = Lab::new();
        let mut tree = Dialogue::start(&mut Command::new(c_program("cow_tree.c")));
        number_of(&tree.line(), "pss");
        let forks: Vec<u64> = (0..4).map(|_| number_of(&tree.line(), "fork")).collect();
        let root = tree.child.id().into();
        let nilo = attach(&lab, root, options);
        tree.end();
        finish_child(nilo);
        let report = lab.report(&lab.path("run.nilo"));
        assert_eq!(report["processes_seen"], seen);
        process(&report, root);
        for fork in forks.iter().take(seen - 1) {
            process(&report, *fork);
        }
    }
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let lab = Lab::new();
    let mut gone = Command::new("true").spawn().expect("spawn");
    let pid = gone.id().to_string();
    gone.wait().expect("wait");
    let output = finish(&mut lab.nilo(["attach", &pid, "-o", "run.nilo"]));
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("process {pid}")), "{said}");
    assert!(!lab.path("run.nilo").exists());
    for word in ["0", "-5", "nobody"] {
        let output = finish(&mut lab.nilo(["attach", word, "-o", "run.nilo"]));
        assert_eq!(output.status.code(), Some(125), "{word}: {}", text(&output.stderr));
    }
}

#[test]
fn a_zombie_has_no_memory_to_record() {
    let lab = Lab::new();
    let mut zombie = Command::new("true").spawn().expect("spawn");
    let pid = zombie.id() as i32;
    until("it has ended", || stat(pid).is_some_and(|s| s.state == 'Z'));
    let output = finish(&mut lab.nilo(["attach", &pid.to_string(), "-q", "-o", "run.nilo"]));
    zombie.wait().expect("wait");
    // Ended already: nothing to wait for, nothing to fail at.
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_process_of_another_user_is_recorded_as_far_as_is_allowed() {
    if !is_root() {
        return skip("root", "a second user is needed");
    }
    let lab = Lab::new();
    std::fs::set_permissions(lab.path(""), PermissionsExt::from_mode(0o777)).expect("chmod");
    let binary = lab.path("nilo");
    std::fs::copy(nilo_binary(), &binary).expect("copy"); // the build directory may be closed to others
    let mut puppet = Puppet::start(); // ours, so root's
    let rss = puppet.order("grow 50", "rss") * 1024;
    let mut nilo = Command::new(binary);
    nilo.args(["attach", &puppet.pid.to_string(), "--duration", "500ms", "-o", "run.nilo"])
        .uid(NOBODY)
        .gid(NOBODY);
    let output =
        finish(nilo.current_dir(lab.path("")).env("XDG_STATE_HOME", lab.path("")).env_remove("NILO_DIR"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = lab.report(&lab.path("run.nilo"));
    let found = process(&report, puppet.pid);
    assert_near("rss", bytes(&found["hwm_bytes"]), rss, MIB);
    assert_eq!(found["pss_bytes"], Value::Null, "page tables of others are not for us");
    assert_eq!(puppet.dialogue.end().status.code(), Some(0));
}

#[test]
fn the_machine_alone_is_recorded() {
    let lab = Lab::new();
    let words = ["record", "--samples", "3", "--interval", "5ms", "-o", "run.nilo"];
    let output = finish(lab.nilo(words).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(report["about"]["verb"], "record");
    assert_eq!(report["ticks"], 3);
    assert_eq!(report["processes"], Value::Array(Vec::new()));
    assert_eq!(report["data_end"]["clean"], true);
    assert!(bytes(&report["system"]["available_min_bytes"]) > 0, "{:#}", report["system"]);
    assert!(!events(&report).contains(&"left-behind"));
}

#[test]
fn a_recording_of_the_machine_has_an_end() {
    let lab = Lab::new();
    let begin = Instant::now();
    let words = ["record", "-q", "--duration", "700ms", "--interval", "50ms", "-o", "run.nilo"];
    let output = finish(lab.nilo(words).stdin(Stdio::null()));
    let took = begin.elapsed();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!((Duration::from_millis(700)..Duration::from_secs(4)).contains(&took), "{took:?}");
    let ticks = lab.report(&lab.path("run.nilo"))["ticks"].as_u64().expect("ticks");
    assert!((4..=15).contains(&ticks), "{ticks}");
    // Without one, a signal is it.
    let mut nilo = lab.nilo(["record", "--interval", "5ms", "-o", "second.nilo"]);
    let child =
        nilo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    until("the recording has begun", || lab.path("second.nilo/open.nlog").exists());
    wait_for_ticks(&lab.path("second.nilo"), 3);
    send(child.id() as i32, INT);
    let output = finish_child(child);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(lab.report(&lab.path("second.nilo"))["ticks"].as_u64() >= Some(2));
}
