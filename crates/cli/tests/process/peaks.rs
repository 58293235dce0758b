//! Heights: the kernel's own marks, whatever the sampling interval.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Dialogue, Lab, Run, c_program, finish, nilo_binary, skip, text};
use crate::watched::{
    MIB, Watched, assert_near, bytes, counter_slack, number_of, python, rss_slack, wait_for_ticks,
};

const SPIKE: u64 = 500 * MIB;

/// The peak is the program's own VmHWM, and the spike is in it.
fn assert_exact(run: &Run, hwm_kib: u64) {
    let hwm = hwm_kib * 1024;
    assert!((SPIKE..SPIKE + 16 * MIB).contains(&hwm), "the program's own mark is {hwm}");
    let peak = &run.report["peak"];
    assert_near("peak.bytes", bytes(&peak["bytes"]), hwm, rss_slack());
    assert_eq!(peak["low_bytes"], peak["bytes"]);
    assert_eq!(peak["high_bytes"], peak["bytes"]);
    assert_eq!(peak["exact"], true);
    assert_eq!(run.report["largest_process"]["hwm_bytes"], peak["bytes"]);
    assert_eq!(run.report["about"]["counter_slack_bytes"], 3 * counter_slack());
}

#[test]
fn a_spike_between_two_ticks_is_exact() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "100ms"], "puppet.c", &[]);
    puppet.number("ready");
    puppet.ticks_pass();
    let hwm = puppet.order("spike 500", "hwm");
    puppet.ticks_pass();
    let run = puppet.end();
    assert_exact(&run, hwm);
    assert_eq!(run.report["peak"]["method"], "VmHWM");
}

#[test]
fn a_spike_as_the_very_last_thing_is_exact() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "100ms"], "puppet.c", &[]);
    puppet.number("ready");
    puppet.ticks_pass();
    let hwm = puppet.order("last 500", "hwm");
    assert_exact(&puppet.end(), hwm);
}

#[test]
fn a_spike_as_the_first_thing_is_exact() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "100ms"], "puppet.c", &["500"]);
    puppet.number("ready");
    let hwm = puppet.order("hwm", "hwm");
    puppet.ticks_pass();
    assert_exact(&puppet.end(), hwm);
}

/// No tick after the first: `ru_maxrss` alone tells.
#[test]
fn a_spike_within_one_interval_of_a_minute_is_exact() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "60s"], "puppet.c", &[]);
    puppet.number("ready");
    let hwm = puppet.order("spike 500", "hwm");
    assert_exact(&puppet.end(), hwm);
}

/// `nilo run -- COMMAND` started by a Python process of 300 MB, by a plain fork.
fn from_a_large_parent(lab: &Lab, command: &[&str]) -> Command {
    let script = "import os, sys
big = bytearray(b'x') * (300 << 20)
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))";
    let mut parent = Command::new(python());
    parent.args(["-c", script, nilo_binary(), "run", "-q", "-o", "run.nilo", "--"]).args(command);
    parent.current_dir(lab.path(""));
    parent
}

#[test]
fn the_size_of_whoever_starts_nilo_never_shows() {
    let lab = Lab::new();
    let puppet = c_program("puppet.c");
    let mut dialogue = Dialogue::start(&mut from_a_large_parent(&lab, &[puppet.to_str().expect("UTF-8")]));
    number_of(&dialogue.line(), "ready");
    dialogue.say("hwm");
    let hwm = number_of(&dialogue.line(), "hwm") * 1024;
    wait_for_ticks(&lab.path("run.nilo"), 2);
    assert_eq!(dialogue.end().status.code(), Some(0));
    let report = lab.report(&lab.path("run.nilo"));
    assert!(hwm < 10_000_000);
    assert_near("peak.bytes", bytes(&report["peak"]["bytes"]), hwm, rss_slack());
    assert!(bytes(&report["cost"]["rss_bytes"]) < 40_000_000, "{}", report["cost"]);
}

/// Over before a tick could see it: small, or not told at all.
#[test]
fn the_size_of_whoever_starts_nilo_never_shows_in_true() {
    let lab = Lab::new();
    let output = finish(&mut from_a_large_parent(&lab, &["/bin/true"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = lab.report(&lab.path("run.nilo"));
    for size in [&report["peak"]["bytes"], &report["largest_process"]["hwm_bytes"]] {
        assert!(size.as_u64().unwrap_or(0) < 10_000_000, "/bin/true has {size} bytes");
    }
}

/// The memory control group of a process, in a hierarchy that is mounted.
fn group_of(pid: u64) -> PathBuf {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
    let named = |line: &str| Some(line.splitn(3, ':').nth(2)?.trim_start_matches('/').to_owned());
    let v1 = text.lines().find(|line| line.split(':').nth(1) == Some("memory")).and_then(named);
    match v1 {
        Some(path) => PathBuf::from("/sys/fs/cgroup/memory").join(path),
        None => PathBuf::from("/sys/fs/cgroup").join(text.lines().find_map(named).expect("a group")),
    }
}

/// The kernel's own counter, and all of the tree under it.
fn counted(group: &std::path::Path) -> u64 {
    ["memory.max_usage_in_bytes", "memory.peak"]
        .iter()
        .find_map(|name| std::fs::read_to_string(group.join(name)).ok())
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or_else(|| panic!("no counter in {}", group.display()))
}

#[test]
fn serial_a_group_of_its_own_gives_the_kernels_peak_and_is_removed() {
    let lab = Lab::new();
    let tried = lab.run(&["-q", "--cgroup"], &["true"]);
    if tried.code() == Some(125) {
        return skip("cgroup-write", &tried.stderr());
    }
    std::fs::remove_dir_all(&tried.directory).expect("remove");
    let mut tree = Watched::start_program(&lab, &["--cgroup"], "cow_tree.c", &[]);
    tree.number("pss");
    let group = group_of(tree.number("fork"));
    assert!(group.file_name().expect("a name").to_string_lossy().starts_with("nilo-"), "{}", group.display());
    let counter = counted(&group);
    let run = tree.end();
    let peak = &run.report["peak"];
    // Charges come in batches of 64 pages per CPU; ending may touch some pages more.
    assert_near("peak.bytes", bytes(&peak["bytes"]), counter, rss_slack() + MIB);
    assert_eq!(peak["low_bytes"], peak["high_bytes"]);
    assert_eq!(peak["exact"], true);
    assert!((320 * MIB..340 * MIB).contains(&counter), "the kernel counted {counter}");
    assert!(!group.exists(), "{} is still there", group.display());
}
