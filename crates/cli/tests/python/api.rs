//! `import nilometer`: nothing without `nilo`, marks and answers under it.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Lab, finish, nilo_binary, text};
use crate::interpreter::{package, program, pythons, torch};

/// What a program of `python/tests` says that must end well.
#[track_caller]
fn said(command: &mut Command) -> String {
    let output = finish(command);
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{command:?}");
    text(&output.stdout)
}

#[test]
fn without_nilo_each_python_pays_for_an_empty_call() {
    for (_, python) in pythons() {
        let mut command = Command::new(&python);
        command.arg(program("unheard.py")).env("PYTHONPATH", package()).env_remove("NILO_MARKS");
        let said = said(&mut command);
        assert!(said.starts_with("ok"), "{said}");
        eprint!("{said}");
    }
}

#[test]
fn the_package_has_the_version_of_the_command() {
    let text = std::fs::read_to_string(package().join("nilometer/__init__.py")).unwrap();
    assert!(text.contains(&format!("__version__ = \"{}\"", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn sizes_are_those_known_another_way() {
    let mut found: Vec<String> = pythons().iter().map(|(_, python)| python.display().to_string()).collect();
    found.extend(torch("2.15"));
    for python in found {
        let mut command = Command::new(&python);
        assert!(
            said(command.arg(program("sizes.py")).env("PYTHONPATH", package())).starts_with("ok objects")
        );
    }
}

/// A Python program under `nilo run`, and its report.
fn recorded(lab: &Lab, python: &str, name: &str) -> Value {
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--force", "--", python, &program(name)]);
    said(nilo.env("PYTHONPATH", package()).env("NILO_BINARY", nilo_binary()));
    lab.report(&lab.path("run.nilo"))
}

#[test]
fn marks_of_each_python_arrive_whole() {
    let lab = Lab::new();
    for (_, python) in pythons() {
        let report = recorded(&lab, &python.display().to_string(), "marks.py");
        assert_eq!(report["steps_seen"], 5, "{python:?}");
        let names: Vec<&str> = report["phases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|phase| phase["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["outer", "inner", "outer", "decorated", "awaited"], "{python:?}");
        let marks = std::fs::read_to_string(lab.path("run.nilo/marks")).unwrap();
        let notes =
            |text: &str| marks.lines().filter(|line| line.starts_with(&format!("note {text} pid="))).count();
        assert_eq!((notes("t"), notes("child"), notes("two lines and spaces")), (200, 1, 1), "{python:?}");
        assert_eq!(report["malformed_marks"].as_u64().unwrap_or(0), 0);
    }
}

#[test]
fn a_peak_that_was_reset_stays_the_run_s_peak() {
    let lab = Lab::new();
    let (_, python) = pythons().remove(0);
    let report = recorded(&lab, &python.display().to_string(), "marks.py");
    let peak = report["peak"]["bytes"].as_u64().unwrap();
    assert!(peak > 200 << 20, "{}", report["peak"]);
}

#[test]
fn a_keeper_of_metrics_that_fails_hurts_nobody() {
    let lab = Lab::new();
    let (_, python) = pythons().remove(0);
    let report = recorded(&lab, &python.display().to_string(), "forwarding.py");
    assert_eq!(report["steps_seen"], 3);
}

#[test]
fn ledger_and_snapshot_are_those_of_this_moment() {
    let lab = Lab::new();
    let (_, python) = pythons().pop().unwrap();
    let report = recorded(&lab, &python.display().to_string(), "questions.py");
    assert!(report["peak"]["bytes"].as_u64().is_some());
    let taken = std::fs::read_dir(lab.path("run.nilo")).unwrap().flatten();
    let snapshots = taken.filter(|entry| entry.file_name().to_string_lossy().ends_with(".heap"));
    assert_eq!(snapshots.count(), 1);
}

#[test]
fn an_ordinary_process_may_ask_as_well() {
    let lab = Lab::new();
    let (_, python) = pythons().remove(0);
    let mut command = Command::new(python);
    command.arg(program("questions.py")).env("PYTHONPATH", package()).env("NILO_BINARY", nilo_binary());
    said(command.current_dir(lab.path("")).env_remove("NILO_MARKS"));
}
