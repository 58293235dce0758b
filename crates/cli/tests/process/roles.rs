//! Roles: what each process is for, told from real Python and real shells.

use serde_json::Value;

use crate::harness::{Lab, Run, py_program};
use crate::watched::{Watched, process, python};

/// Runs `roles.py KIND`; its children's pids and the report.
fn roles(kind: &str) -> (Vec<u64>, Run) {
    let lab = Lab::new();
    let mut watched = Watched::start(&lab, &[], &[&python(), &py_program("roles.py"), kind]);
    let line = watched.dialogue.line();
    let pids: Vec<u64> = line.split(' ').map(|pid| pid.parse().expect("pids")).collect();
    watched.ticks_pass();
    let run = watched.end();
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    (pids, run)
}

fn all(report: &Value) -> Vec<&str> {
    report["processes"].as_array().expect("processes").iter().filter_map(|p| p["role"].as_str()).collect()
}

fn main_pid(report: &Value) -> &Value {
    &report["processes"][0]["pid"]
}

#[test]
fn spawned_workers_and_their_resource_tracker() {
    let (pids, run) = roles("spawn");
    for pid in &pids {
        assert_eq!(process(&run.report, *pid)["role"], "spawned worker");
    }
    assert_eq!(all(&run.report).iter().filter(|role| **role == "resource tracker").count(), 1);
    assert_eq!(all(&run.report)[0], "main");
}

#[test]
fn workers_of_a_fork_server() {
    let (pids, run) = roles("forkserver");
    let processes = run.report["processes"].as_array().expect("processes");
    let servers: Vec<&Value> = processes.iter().filter(|p| p["role"] == "fork server").collect();
    assert_eq!(servers.len(), 1, "{:?}", all(&run.report));
    for pid in &pids {
        let worker = process(&run.report, *pid);
        assert_eq!(worker["role"], format!("fork of {}", servers[0]["pid"]));
        assert_eq!(worker["parent"], servers[0]["pid"]);
    }
    assert!(all(&run.report).contains(&"resource tracker"));
}

#[test]
fn forks_are_forks_of_their_parent() {
    let (pids, run) = roles("fork");
    for pid in &pids {
        let worker = process(&run.report, *pid);
        assert_eq!(worker["role"], format!("fork of {}", main_pid(&run.report)));
        assert_eq!(&worker["parent"], main_pid(&run.report));
    }
}

#[test]
fn data_loader_workers_are_known_by_their_name_and_numbered() {
    let (pids, run) = roles("loader");
    let mut names: Vec<&str> =
        pids.iter().filter_map(|pid| process(&run.report, *pid)["role"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["DataLoader worker 0", "DataLoader worker 1"]);
}

#[test]
fn ranks_are_told_by_their_own_environment() {
    let (pids, run) = roles("ranks");
    for (rank, pid) in pids.iter().enumerate() {
        assert_eq!(process(&run.report, *pid)["role"], format!("rank {rank}"));
    }
    assert_eq!(all(&run.report)[0], "main", "the parent has no rank");
}

#[test]
fn a_shell_is_a_shell_and_what_it_runs_a_program() {
    let lab = Lab::new();
    let mut watched = Watched::start(&lab, &[], &["sh", "-c", "cat; true"]);
    watched.dialogue.say("through");
    assert_eq!(watched.dialogue.line(), "through");
    watched.ticks_pass();
    let run = watched.end();
    assert_eq!(all(&run.report), ["shell", "program"]);
}
