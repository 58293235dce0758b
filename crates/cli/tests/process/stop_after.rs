//! `nilo run --stop-after`: a run ends when enough was seen of it, and says so.

use std::process::Stdio;

use crate::harness::{Lab, finish, py_program, text};

#[test]
fn a_run_ends_after_its_steps_with_success() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    let run = lab
        .run(&["--stop-after", "4steps,60s", "--interval", "20ms"], &["python3", &program, "5", "1000000"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert_eq!(run.report["exit"]["cause"], "enough");
    assert!(
        run.report["exit"]["evidence"][0].as_str().unwrap().contains("4 steps"),
        "{}",
        run.report["exit"]
    );
    assert!(run.number("steps_seen") >= 5.0);
    assert!(run.stderr().contains("enough seen"), "{}", run.stderr());
}

#[test]
fn a_run_ends_after_a_time_with_all_its_processes() {
    let lab = Lab::new();
    let script = "trap '' TERM; sleep 600 & sleep 600";
    let run = lab.run(&["--stop-after", "300ms", "--grace", "200ms", "-q"], &["sh", "-c", script]);
    assert_eq!((run.code(), &run.report["exit"]["cause"]), (Some(0), &"enough".into()));
    assert!(run.number("duration_s") < 20.0);
}

#[test]
fn a_run_that_ends_before_is_its_own() {
    let lab = Lab::new();
    let run = lab.run(&["--stop-after", "settled,100steps", "-q"], &["sh", "-c", "exit 7"]);
    assert_eq!((run.code(), &run.report["exit"]["cause"]), (Some(7), &"exited".into()));
    let output = finish(lab.nilo(["run", "--stop-after", "never", "--", "true"]).stdin(Stdio::null()));
    assert!(text(&output.stderr).contains("30steps"), "{}", text(&output.stderr));
}
