//! A run while it goes on, seen from outside.

use serde_json::Value;

use crate::harness::{Dialogue, Lab, finish, text};
use crate::watched::Watched;

#[test]
fn a_run_that_goes_on_is_told_as_such_and_never_removed() {
    let lab = Lab::new();
    let mut watched = Watched::start(&lab, &[], &["cat"]);
    watched.dialogue.say("it has begun");
    watched.dialogue.line();
    watched.ticks_pass();
    let report = finish(&mut lab.nilo(["report", "run.nilo", "--json"]));
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["exit"]["cause"], "running", "{:#}", report["exit"]);
    assert_eq!(report["exit"]["evidence"].as_array().map(Vec::len), Some(0));
    let screen = text(&finish(&mut lab.nilo(["report", "run.nilo"])).stdout);
    assert!(screen.contains("cat · still running · "), "{screen}");
    assert!(!screen.contains("doubt"), "{screen}");

    let kept = finish(&mut lab.nilo(["list", "--keep", "0"]));
    assert!(text(&kept.stderr).contains("is recording it"), "{kept:?}");
    let refused = finish(&mut lab.nilo(["list", "--rm", "run.nilo"]));
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(text(&refused.stderr).contains("wait for its end, or end it:  kill "), "{refused:?}");

    let run = watched.end();
    assert_eq!(run.report["exit"]["cause"], "exited");
    let removed = finish(&mut lab.nilo(["list", "--keep", "0"]));
    assert!(text(&removed.stderr).contains("removed "), "{removed:?}");
    assert!(!lab.path("run.nilo").exists());
}

/// What only the start needed is given back: most of a recorder's memory is its own code.
#[test]
fn a_recorder_keeps_less_than_its_start_took() {
    let lab = Lab::new();
    let mut watched = Watched::start(&lab, &[], &["cat"]);
    watched.dialogue.say("it has begun");
    watched.dialogue.line();
    watched.ticks_pass();
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", watched.dialogue.pid())).expect("it runs");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a size")
    };
    let (now, highest) = (kib("VmRSS:"), kib("VmHWM:"));
    assert!(now * 10 < highest * 9, "{now} KiB of {highest}");
    watched.end();
}

/// Its home has nothing but a note of where it is recorded.
#[test]
fn a_job_whose_rank_is_recorded_elsewhere_is_not_removed() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-q", "--spool", "fast", "--", "cat"]);
    nilo.envs([("NILO_RANK", "0"), ("LOCAL_RANK", "0"), ("NILO_RUN", "mine")]);
    let mut dialogue = Dialogue::start(&mut nilo);
    dialogue.say("it has begun");
    dialogue.line();
    let refused = finish(&mut lab.nilo(["list", "--rm", "mine.nilo"]));
    assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    assert!(text(&refused.stderr).contains("wait for its end, or end it:  kill "), "{refused:?}");
    assert!(dialogue.end().status.success());
    assert_eq!(std::fs::read_dir(lab.path("fast")).expect("the spool").count(), 0, "it came home");
    let removed = finish(&mut lab.nilo(["list", "--rm", "mine.nilo"]));
    assert!(text(&removed.stderr).contains("removed ") && !lab.path("mine.nilo").exists(), "{removed:?}");
}
