//! `--repeat`: one command several times into one recording.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Lab, finish, nilo_binary, text};

#[test]
fn each_run_is_a_phase_with_its_own_peak() {
    let lab = Lab::new();
    let script = "import os; x = b'x' * (int(os.environ.get('N', 20)) << 20)";
    let run = lab.run(&["-q", "--repeat", "3", "--interval", "5ms"], &["python3", "-c", script]);
    assert_eq!(run.code(), Some(0));
    assert_eq!(run.report["repeats"]["runs"], 3);
    let phases = run.report["phases"].as_array().expect("phases");
    let names: Vec<_> = phases.iter().filter_map(|phase| phase["name"].as_str()).collect();
    assert_eq!(names, ["run 1", "run 2", "run 3"]);
    for phase in phases {
        let peak = phase["peak_bytes"].as_u64().expect("a peak");
        assert!(peak > 20 << 20, "{phase}");
    }
}

/// Runs of various sizes: what each had, it tells itself at its end.
fn assert_runs_have_their_own_peaks(interval: &str, wrapper: &[&str]) {
    let lab = Lab::new();
    let script = "import os, resource
runs = os.open('runs', os.O_CREAT | os.O_RDWR | os.O_APPEND)
mib = [60, 30, 45][len(os.read(runs, 999).splitlines())]
data = b'x' * (mib << 20)
os.write(runs, b'%d\\n' % resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)";
    let command = [wrapper, &["python3", "-c", script]].concat();
    let run = lab.run(&["-q", "--repeat", "3", "--interval", interval], &command);
    assert_eq!(run.code(), Some(0));
    let told = std::fs::read_to_string(lab.path("runs")).expect("runs");
    let truths: Vec<u64> = told.lines().map(|line| line.parse().expect("kilobytes")).collect();
    let phases = run.report["phases"].as_array().expect("phases");
    assert_eq!((truths.len(), phases.len()), (3, 3));
    for (phase, truth) in phases.iter().zip(truths) {
        let peak = phase["peak_bytes"].as_u64().expect("a peak") >> 10;
        assert!(peak.abs_diff(truth) < 1024, "{phase}: {truth} kB");
    }
}

/// Each is sampled at its beginning only.
#[test]
fn short_runs_have_the_peaks_that_they_know_of_themselves() {
    assert_runs_have_their_own_peaks("10s", &[]);
}

/// The second has less than the first has when it is sampled last.
#[test]
fn a_run_does_not_begin_where_the_one_before_ended() {
    assert_runs_have_their_own_peaks("5ms", &[]);
}

/// What `wait4` tells may then be of its child as well; all of both was in this run.
#[test]
fn short_runs_of_a_wrapper_that_has_children_first_do_so_too() {
    assert_runs_have_their_own_peaks("10s", &["sh", "-c", "sleep 0.1; exec \"$@\"", "sh"]);
}

#[test]
fn the_exit_code_is_that_of_the_first_failure_and_all_runs_happen() {
    let lab = Lab::new();
    let script = "echo x >> count; n=$(wc -l < count); [ $n -ne 2 ] || exit 7; [ $n -ne 3 ] || exit 9";
    let run = lab.run(&["-q", "--repeat", "4"], &["sh", "-c", script]);
    assert_eq!(run.code(), Some(7));
    let count = std::fs::read_to_string(lab.path("count")).expect("count");
    assert_eq!(count.lines().count(), 4);
}

#[test]
fn the_watchdog_ends_the_repetition() {
    let lab = Lab::new();
    let script = "echo x >> count; exec python3 -c \"x = b'x' * (400 << 20); input()\"";
    let run = lab.run(&["-q", "--repeat", "3", "--max-rss", "200M"], &["sh", "-c", script]);
    assert_eq!(run.code(), Some(75));
    assert_eq!(std::fs::read_to_string(lab.path("count")).expect("count").lines().count(), 1);
}

/// The Caffe choke test: repeat a training under a swap guard; report and CSV come out.
#[test]
fn the_choke_example_runs_end_to_end() {
    let lab = Lab::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/choke.sh");
    let mut choke = Command::new("sh");
    choke
        .arg(script)
        .env("NILO", nilo_binary())
        .env("RUNS", "2")
        .env("STEPS", "3")
        .env("TMPDIR", lab.path(""));
    let output = finish(choke.stdin(Stdio::null()).current_dir(lab.path("")));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(err.contains("2 runs"), "{err}");
    assert!(out.contains("Memory of the tree"), "{out}");
    assert!(out.contains("run 2"), "{out}");
    let header = out.lines().find(|line| line.starts_with("seconds,MemTotal,")).expect("the CSV's header");
    assert!(header.contains(",program_usage,") && header.contains(",swap,"), "{header}");
    let left: Vec<_> = std::fs::read_dir(lab.path("")).expect("lab").flatten().map(|e| e.path()).collect();
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("choke")), "{left:?}");
}
