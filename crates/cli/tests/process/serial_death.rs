//! Causes of death: each with its evidence, also when nilo dies in the same instant as the target.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::control::after_ticks;
use crate::harness::{Dialogue, Lab, c_program, finish, skip, text};
use crate::limited::Limited;
use crate::onlooker::{KILL, send};
use crate::watched::{MIB, Watched, number_of, process};

const ROUNDS: u32 = 20;

fn evidence(report: &Value) -> Vec<String> {
    let words = report["exit"]["evidence"].as_array().expect("evidence");
    words.iter().map(|word| word.as_str().expect("text").to_owned()).collect()
}

#[track_caller]
fn assert_cause(report: &Value, cause: &str, inferred: bool) {
    assert_eq!(report["exit"]["cause"], cause, "{:#}", report["exit"]);
    assert_eq!(report["exit"]["inferred"], inferred, "{:#}", report["exit"]);
}

#[test]
fn twenty_of_twenty_oom_kills_of_a_cgroup_are_told() {
    for round in 1..=ROUNDS {
        let group = match Limited::new(64, 64) {
            Ok(group) => group,
            Err(reason) => return skip("cgroup-write", &reason),
        };
        let lab = Lab::new();
        let mut nilo = group.nilo(&lab, ["run", "-o", "run.nilo", "--"]);
        let output = finish(nilo.arg(c_program("hog.c")).args(["200", "0"]).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(128 + KILL), "round {round}: {}", text(&output.stderr));
        let kills = group.oom_kills();
        assert!(kills >= 1, "round {round}: the kernel killed nobody");
        let report = lab.report(&lab.path("run.nilo"));
        assert_cause(&report, "cgroup-oom", false);
        let said = evidence(&report);
        let counter = format!("cgroup {} rose by {kills}", group.name());
        assert!(said[0].contains(&counter), "round {round}: {counter:?} in {said:?}");
        assert!(said.iter().any(|word| word == "its limit: 64.0 MiB"), "round {round}: {said:?}");
        assert!(text(&output.stderr).contains("out of memory (cgroup limit)"), "{}", text(&output.stderr));
    }
}

#[test]
fn an_oom_kill_of_a_child_is_not_the_end_of_its_parent() {
    let group = match Limited::new(64, 64) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let mut nilo =
        group.nilo(&lab, ["run", "-q", "-o", "run.nilo", "--", "sh", "-c", "\"$0\" 200 0; exit 3"]);
    let output = finish(nilo.arg(c_program("hog.c")).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let report = lab.report(&lab.path("run.nilo"));
    assert_cause(&report, "exited", false);
    assert!(
        evidence(&report).iter().any(|word| word.starts_with("oom_kill of its cgroup rose by 1 ")),
        "{:#}",
        report["exit"]
    );
}

#[test]
fn a_shell_that_reports_an_oom_killed_child_is_understood() {
    let group = match Limited::new(64, 64) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let mut nilo =
        group.nilo(&lab, ["run", "-q", "-o", "run.nilo", "--", "sh", "-c", "\"$0\" 200 0; exit $?"]);
    let output = finish(nilo.arg(c_program("hog.c")).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(128 + KILL));
    assert_cause(&lab.report(&lab.path("run.nilo")), "cgroup-oom", false);
}

#[test]
fn a_plain_sigkill_has_an_unknown_killer() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    let pid = puppet.number("ready");
    puppet.ticks_pass();
    send(pid as i32, KILL);
    let run = puppet.end();
    assert_eq!(run.code(), Some(128 + KILL));
    assert_cause(&run.report, "unknown-killer", false);
}

#[test]
fn an_oom_kill_of_somebody_else_is_not_taken_for_ours() {
    let group = match Limited::new(64, 64) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    let pid = puppet.number("ready");
    puppet.ticks_pass();
    let other = Lab::new();
    let mut victim = group.nilo(&other, ["run", "-q", "-o", "run.nilo", "--"]);
    finish(victim.arg(c_program("hog.c")).args(["200", "0"]).stdin(Stdio::null()));
    assert_eq!(group.oom_kills(), 1);
    send(pid as i32, KILL);
    let run = puppet.end();
    assert!(run.number("system/oom_kills") >= 1.0, "the machine's counter tells of it");
    assert_cause(&run.report, "unknown-killer", false);
}

#[test]
fn other_ends_are_what_the_kernel_says() {
    let lab = Lab::new();
    let run = lab.run(&["-q"], &["sh", "-c", "ulimit -c 0; kill -SEGV $$"]);
    assert_eq!(run.code(), Some(128 + 11));
    assert_cause(&run.report, "signal", false);
    assert_eq!(evidence(&run.report), ["wait4: signal 11"]);
    let run = lab.run(&["-q"], &["sh", "-c", "exit 3"]);
    assert_eq!(run.code(), Some(3));
    assert_cause(&run.report, "exited", false);
    assert_eq!(evidence(&run.report), ["wait4: exit code 3"]);
}

/// A puppet under nilo in a process group of their own, both inside `group`.
fn start_puppet(lab: &Lab, mut nilo: Command) -> (Dialogue, u64) {
    let mut puppet = Dialogue::start(nilo.arg(c_program("puppet.c")).process_group(0));
    let pid = number_of(&puppet.line(), "ready");
    after_ticks(&lab.path("run.nilo"), 1);
    (puppet, pid)
}

/// One signal to all of the process group: nilo cannot see the target's end.
///
/// The system is read every 50 ms: eight ticks of 20 ms, of which the first may have begun before.
fn die_together(lab: &Lab, puppet: Dialogue) -> Value {
    after_ticks(&lab.path("run.nilo"), 8);
    send(-puppet.pid(), KILL);
    assert_eq!(puppet.end().status.code(), None, "nilo itself was killed");
    lab.report(&lab.path("run.nilo"))
}

#[test]
fn twenty_of_twenty_joint_deaths_at_a_full_limit_are_inferred() {
    const LIMIT_MIB: u64 = 128;
    for round in 1..=ROUNDS {
        let group = match Limited::new(LIMIT_MIB, LIMIT_MIB) {
            Ok(group) => group,
            Err(reason) => return skip("cgroup-write", &reason),
        };
        let lab = Lab::new();
        let nilo = group.nilo(&lab, ["run", "-q", "-o", "run.nilo", "--interval", "20ms", "--"]);
        let (mut puppet, pid) = start_puppet(&lab, nilo);
        let full = LIMIT_MIB * MIB * 96 / 100;
        let missing = full.saturating_sub(group.held_bytes()).div_ceil(MIB);
        puppet.say(&format!("grow {missing}"));
        number_of(&puppet.line(), "rss");
        let held = group.held_bytes();
        assert!(held * 100 >= LIMIT_MIB * MIB * 95, "round {round}: {held} bytes are not 95 %");
        let report = die_together(&lab, puppet);
        assert_eq!(group.oom_kills(), 0, "round {round}: not even a counter moved");
        assert_eq!(report["data_end"]["clean"], false);
        assert_cause(&report, "cgroup-oom", true);
        let said = evidence(&report);
        assert!(said[0].starts_with("inferred: the log is cut at "), "round {round}: {said:?}");
        assert!(said[0].contains(&group.name()) && said[0].contains("128 MiB"), "round {round}: {said:?}");
        let percent =
            said[0].split_once(" with ").and_then(|(_, rest)| rest.split_once(" %")).expect("a share").0;
        let percent: u64 = percent.parse().expect("a number");
        assert!((95..=100).contains(&percent), "round {round}: {said:?}");
        assert!(said[1].starts_with("grew last: ") && said[1].contains(&format!("({pid})")), "{said:?}");
        process(&report, pid);
    }
}

#[test]
fn a_joint_death_far_from_any_limit_is_not_called_oom() {
    let group = match Limited::new(256, 256) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let nilo = group.nilo(&lab, ["run", "-q", "-o", "run.nilo", "--interval", "20ms", "--"]);
    let (mut puppet, _) = start_puppet(&lab, nilo);
    puppet.say("grow 100");
    number_of(&puppet.line(), "rss");
    after_ticks(&lab.path("run.nilo"), 8); // a climb that has ended
    let report = die_together(&lab, puppet);
    assert_cause(&report, "not-seen", true);
    assert_eq!(evidence(&report), ["the log is cut and no limit was near"]);
}
