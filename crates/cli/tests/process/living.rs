//! A run while it goes on, seen from outside.

use serde_json::Value;

use crate::harness::{Lab, finish, text};
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
