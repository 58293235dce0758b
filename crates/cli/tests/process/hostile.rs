//! Hostile targets and places: a correct result, at a sane cost.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Lab, Run, c_library, c_program, finish, nilo_binary, skip, text};
use crate::watched::{MIB, Watched, bytes, is_root, process, wait_for_ticks};

/// A recording of a program with so many mappings of a page each; how many were granted.
fn record_mappings(lab: &Lab, options: &[&str], wanted: u64) -> (u64, Run) {
    let mut watched = Watched::start_program(lab, options, "mappings.c", &[&wanted.to_string()]);
    let made = watched.number("mappings");
    wait_for_ticks(&watched.directory, 30);
    (made, watched.end())
}

#[test]
fn sixty_thousand_mappings_are_sampled_at_a_sane_cost() {
    const MAPPINGS: u64 = 60_000;
    // Their text alone would be 42 MiB. A ledger names each of them, for a moment; sampling keeps none.
    for (options, most) in [(["--no-ledger"].as_slice(), 16 * MIB), (&["--budget", "50%"], 42 * MIB)] {
        let few = record_mappings(&Lab::new(), options, 100).1;
        let (made, run) = record_mappings(&Lab::new(), options, MAPPINGS);
        assert_eq!(run.code(), Some(0));
        if made < MAPPINGS {
            return skip("vm.max_map_count", &format!("only {made} mappings were granted"));
        }
        let truth = MAPPINGS * 4096;
        let hwm = bytes(&run.report["peak"]["bytes"]);
        assert!((truth..truth + 16 * MIB).contains(&hwm), "{hwm} for {truth}");
        let ledgers = run.report["ledgers"]["curve"].as_array().map_or(0, Vec::len);
        assert_eq!(ledgers > 0, options[0] != "--no-ledger", "{ledgers} were taken");
        let [own, own_of_few] = [&run, &few].map(|run| bytes(&run.report["cost"]["rss_bytes"]));
        assert!(own < own_of_few + most, "{own_of_few} for 100 mappings, {own} for {MAPPINGS}");
        let (cpu_s, duration_s) = (run.number("cost/cpu_s"), run.number("duration_s"));
        assert!(cpu_s < duration_s, "{cpu_s} s of CPU in {duration_s} s");
    }
}

#[test]
fn a_tree_that_forks_all_the_time_is_sampled_every_5_ms() {
    let lab = Lab::new();
    let mut watched = Watched::start_program(&lab, &["--interval", "5ms"], "forking.c", &["300"]);
    let pid = watched.number("ready");
    assert_eq!(watched.number("ended"), 300);
    let run = watched.end();
    assert_eq!(run.code(), Some(0));
    assert_eq!(run.report["data_end"]["clean"], true);
    let processes = run.report["processes"].as_array().expect("processes");
    let seen = run.number("processes_seen");
    assert!((2.0..=601.0).contains(&seen), "{seen} of 601 processes");
    // Each is the program itself, its child, or a child of one that is listed too.
    let known: Vec<&Value> = processes.iter().map(|p| &p["pid"]).collect();
    for child in processes.iter().filter(|p| p["pid"] != pid) {
        let adopted = child["parent"] == process(&run.report, pid)["parent"]; // by nilo
        assert!(known.contains(&&child["parent"]) || adopted, "{child} has no parent in the tree");
        // Null: it ended before the first sample of it.
        assert!(child["hwm_bytes"].as_u64().is_none_or(|hwm| (1..16 * MIB).contains(&hwm)), "{child}");
    }
    // At most three live at once, of a few MiB each.
    assert!(bytes(&run.report["peak"]["high_bytes"]) < 40 * MIB, "{}", run.report["peak"]);
}

#[test]
fn a_command_line_and_an_environment_of_a_megabyte() {
    let lab = Lab::new();
    let puppet = c_program("puppet.c");
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--"]);
    nilo.arg(&puppet).arg("1");
    for number in 0..8 {
        nilo.arg("x".repeat(120_000)).env(format!("LONG_{number}"), "y".repeat(120_000));
    }
    let output = finish(nilo.stdin(std::process::Stdio::null()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = lab.report(&lab.path("run.nilo"));
    let command = report["command"].as_array().expect("command");
    assert_eq!(command[0].as_str(), puppet.to_str());
    assert_eq!(report["exit"]["code"], 0);
    assert_eq!(report["data_end"]["clean"], true);
    let screen = finish(&mut lab.nilo(["report", "run.nilo", "--width", "100"]));
    let longest = text(&screen.stdout).lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|columns| columns <= 100), "a line of {longest:?} columns");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("mkdir");
    for entry in std::fs::read_dir(from).expect("read").flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copy");
    }
}

#[test]
fn a_copied_run_gives_the_same_report() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &["50"]);
    puppet.number("ready");
    puppet.order("mark step 1", "mark");
    puppet.ticks_pass();
    let mut run = puppet.end();
    let elsewhere = Lab::new();
    copy(&run.directory, &elsewhere.path("copy.nilo"));
    std::fs::remove_dir_all(&run.directory).expect("remove");
    let mut copied = elsewhere.report(&elsewhere.path("copy.nilo"));
    for report in [&mut run.report, &mut copied] {
        report["saved"].take(); // the place, and nothing else
    }
    assert_eq!(run.report, copied);
}

/// nilo sees a wall clock that jumps by an hour; nothing but its time stamps may care.
#[test]
fn a_step_of_the_wall_clock_is_told_and_changes_nothing() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--interval", "20ms", "--"]);
    nilo.arg(c_program("puppet.c"))
        .env("LD_PRELOAD", c_library("clock_step.c"))
        .env("CLOCK_STEP", lab.path("sign"));
    let mut puppet = crate::harness::Dialogue::start(&mut nilo);
    crate::watched::number_of(&puppet.line(), "ready");
    wait_for_ticks(&lab.path("run.nilo"), 5);
    std::fs::write(lab.path("sign"), "").expect("write");
    wait_for_ticks(&lab.path("run.nilo"), 8); // the clock is compared with each reading of the system
    assert_eq!(puppet.end().status.code(), Some(0));
    let report = lab.report(&lab.path("run.nilo"));
    let events = report["events"].as_array().expect("events");
    let clock: Vec<&Value> = events.iter().filter(|e| e["kind"] == "clock").collect();
    assert_eq!(clock.len(), 1, "{events:#?}");
    assert!(report["duration_s"].as_f64().is_some_and(|s| s < 60.0), "{}", report["duration_s"]);
    assert!(report["data_end"]["at_s"].as_f64().is_some_and(|s| s < 60.0));
}

/// Another user's processes are invisible: ours are all that is needed.
#[test]
fn serial_a_proc_that_hides_other_users() {
    if !is_root() {
        return skip("namespaces", "a mount namespace needs root here");
    }
    let lab = Lab::new();
    for name in ["", "out"] {
        std::fs::create_dir_all(lab.path(name)).expect("mkdir");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(lab.path(name), all).expect("chmod");
    }
    for (from, to) in [(Path::new(nilo_binary()), "nilo"), (&c_program("kin.c"), "kin")] {
        std::fs::copy(from, lab.path(to)).expect("copy");
    }
    // Hidden: not even process 1 is there. The inner shell fails if it is.
    let script = r"mount -t proc -o hidepid=2 proc /proc || exit 90
        exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '
        test ! -e /proc/1/status || exit 91
        exec ./nilo run -q -o out/run.nilo -- ./kin orphan'";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script]).current_dir(lab.path(""));
    let mut inner = crate::harness::Dialogue::start(&mut shell);
    let line = inner.line();
    if line.is_empty() {
        let output = inner.end();
        return skip("namespaces", &format!("{:?} {}", output.status, text(&output.stderr)));
    }
    let kin = crate::watched::number_of(&line, "kin");
    wait_for_ticks(&lab.path("out/run.nilo"), 3);
    assert_eq!(inner.end().status.code(), Some(0));
    let report = lab.report(&lab.path("out/run.nilo"));
    assert!(bytes(&process(&report, kin)["hwm_bytes"]) > 50 * MIB);
    assert!(report["system"]["available_min_bytes"].is_number());
}
