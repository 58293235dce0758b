//! The watchdog: it ends the run's own tree before a limit is far behind, and nobody else's.

use std::fs::File;
use std::process::{Command, Stdio};

use nilometer_kernel::sys::process::{Change, wait_for};
use serde_json::Value;

use crate::control::after_ticks;
use crate::harness::{Dialogue, Lab, Run, c_program, finish_child, skip, text};
use crate::limited::Limited;
use crate::onlooker::{KILL, STOP, children, has_ended, is_stopped, send, stat, until};
use crate::watched::{MIB, Watched, assert_near, bytes, counter_slack, number_of, process};

const WATCHDOG: i32 = 75;

/// Runs to the end while the target's input stays open: whoever reads it waits.
fn run_to_end(lab: &Lab, nilo: &mut Command) -> Run {
    let mut child =
        nilo.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    let input = child.stdin.take();
    let output = finish_child(child);
    drop(input);
    let directory = lab.path("run.nilo");
    Run { output, report: lab.report(&directory), directory }
}

fn guarded(lab: &Lab, options: &[&str], program: &str, arguments: &[&str]) -> Run {
    let mut nilo = lab.nilo(["run", "-o", "run.nilo"]);
    run_to_end(lab, nilo.args(options).arg("--").arg(c_program(program)).args(arguments))
}

fn events<'r>(report: &'r Value, kind: &str) -> Vec<&'r Value> {
    report["events"].as_array().expect("events").iter().filter(|e| e["kind"] == kind).collect()
}

/// The only word of the evidence: limit, value, process, time.
#[track_caller]
fn assert_ended_by(run: &Run, option: &str) -> String {
    assert_eq!(run.code(), Some(WATCHDOG), "{}{:#}", run.stderr(), run.report["exit"]);
    assert_eq!(run.report["exit"]["cause"], "watchdog");
    let said = run.report["exit"]["evidence"][0].as_str().expect("evidence").to_owned();
    assert!(said.contains(&format!("{option} ")), "{said}");
    said
}

/// The number before ` UNIT` after `word` in a sentence.
fn number_after(said: &str, word: &str) -> f64 {
    let rest = said.split_once(word).unwrap_or_else(|| panic!("{word:?} in {said}")).1;
    let number: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().unwrap_or_else(|_| panic!("a number after {word:?} in {said}"))
}

fn fast_allocator(manner: &str) {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--max-rss", "1G", "--"]);
    nilo.arg(c_program("hog.c")).args(["1400", "0", manner]);
    let stderr = File::create(lab.path("stderr")).expect("create");
    let mut child = nilo.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().expect("spawn");
    let waited = wait_for(child.id() as i32).expect("wait4");
    let _ = child.wait(); // it was waited for
    assert_eq!(waited.change, Change::Exited(WATCHDOG));
    // The kernel's own maximum over nilo and all that nilo waited for.
    let maxrss = waited.usage.maxrss_kib * 1024;
    assert!((1000 * MIB..1280 * MIB).contains(&maxrss), "the kernel's ru_maxrss is {} MiB", maxrss / MIB);
    let report = lab.report(&lab.path("run.nilo"));
    let hwm = bytes(&report["processes"][0]["hwm_bytes"]);
    assert!((1000 * MIB..1280 * MIB).contains(&hwm), "VmHWM is {} MiB", hwm / MIB);
    // Both are sums of three counters (anonymous, file, shared), and each of those may lag.
    assert_near("VmHWM", hwm, maxrss, 3 * counter_slack());

    let pid = report["processes"][0]["pid"].as_u64().expect("pid");
    let said = report["exit"]["evidence"][0].as_str().expect("evidence");
    assert_eq!(number_after(said, "--max-rss").to_string(), "1024");
    let value = number_after(said, " with ");
    assert!((1024.0..=hwm as f64 / MIB as f64 + 0.1).contains(&value), "{said}");
    assert!(said.contains(&format!("process {pid} ")), "{said}");
    let at_s = number_after(said, " at ");
    let duration_s = report["duration_s"].as_f64().expect("duration");
    assert!((0.0..=duration_s + 0.1).contains(&at_s), "{said}, of {duration_s} s");
    assert_eq!(report["exit"]["cause"], "watchdog");
    assert!(report["cost"]["pause_s"].as_f64() > Some(0.0), "{}", report["cost"]);
    // The verdict says all this too.
    let verdict = text(&std::fs::read(lab.path("stderr")).expect("read"));
    for word in ["watchdog", "--max-rss 1024.0 MiB", &pid.to_string()] {
        assert!(verdict.contains(word), "{word:?} in {verdict}");
    }
}

#[test]
fn an_allocator_as_fast_as_it_can_is_stopped_in_time() {
    fast_allocator("plain");
}

#[test]
fn an_allocator_of_huge_pages_is_stopped_in_time() {
    fast_allocator("huge");
}

/// From the crossing to the end of the run, in seconds.
fn took_s(run: &Run) -> f64 {
    let crossed = events(&run.report, "limit");
    assert_eq!(crossed.len(), 1, "{crossed:#?}");
    run.number("duration_s") - crossed[0]["at_s"].as_f64().expect("at_s")
}

#[test]
fn a_target_that_ignores_sigterm_is_killed_after_its_grace() {
    let lab = Lab::new();
    let run = guarded(&lab, &["--max-rss", "100M", "--grace", "500ms"], "hog.c", &["104", "0", "deaf"]);
    assert_ended_by(&run, "--max-rss");
    assert_eq!(run.report["exit"]["signal"], KILL);
    assert!((0.5..5.0).contains(&took_s(&run)), "{} s", took_s(&run));
}

#[test]
fn a_target_that_obeys_sigterm_is_not_killed() {
    let lab = Lab::new();
    let run = guarded(&lab, &["--max-rss", "100M", "--grace", "30s"], "hog.c", &["150", "0", "plain"]);
    assert_ended_by(&run, "--max-rss");
    assert_eq!(run.report["exit"]["signal"], 15);
    assert!(took_s(&run) < 10.0, "the grace is not waited for: {} s", took_s(&run));
}

#[test]
fn a_target_that_cleans_up_at_sigterm_is_let() {
    let lab = Lab::new();
    let run = guarded(&lab, &["--max-rss", "100M", "--grace", "30s"], "hog.c", &["150", "0", "polite"]);
    assert_ended_by(&run, "--max-rss");
    assert_eq!(run.report["exit"]["code"], 5, "its own");
}

#[test]
fn a_target_that_goes_on_growing_after_sigterm_gets_no_grace() {
    let lab = Lab::new();
    // 1,000 MiB at 1 MiB in 5 ms would take 5 s.
    let run = guarded(&lab, &["--max-rss", "100M", "--grace", "30s"], "hog.c", &["90", "1000", "deaf"]);
    assert_ended_by(&run, "--max-rss");
    assert_eq!(run.report["exit"]["signal"], KILL);
    let hwm = bytes(&run.report["processes"][0]["hwm_bytes"]);
    assert!(hwm < 400 * MIB, "{} MiB", hwm / MIB);
}

/// A process of the test's own; ended at the end.
struct Bystander(std::process::Child);

impl Bystander {
    fn start() -> Self {
        Self(Command::new("sleep").arg("300").spawn().expect("sleep"))
    }

    fn is_untouched(&mut self) -> bool {
        self.0.try_wait().expect("wait").is_none() && !is_stopped(self.0.id() as i32)
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_whole_tree_is_ended_and_nobody_else() {
    let lab = Lab::new();
    let mut bystander = Bystander::start();
    let options = ["--max-rss", "200M", "--grace", "200ms"];
    let mut family = Watched::start_program(&lab, &options, "family.c", &["3", "5"]);
    let parent = family.number("parent");
    let mut members: Vec<i32> = (0..4).map(|_| family.number("member") as i32).collect();
    members.push(parent as i32);
    // All of them live: ended ones would prove nothing.
    assert!(members.iter().all(|pid| !has_ended(*pid)), "{members:?}");
    family.dialogue.say("grow");
    let input = family.dialogue.child.stdin.take();
    let run = family.end();
    drop(input);
    let said = assert_ended_by(&run, "--max-rss");
    assert!(said.contains(&format!("process {parent} ")), "the one that grew: {said}");
    let left: Vec<&i32> = members.iter().filter(|pid| !has_ended(**pid)).collect();
    assert!(left.is_empty(), "{left:?} of {members:?} still run");
    assert!(bystander.is_untouched());
    assert_eq!(events(&run.report, "left-behind").len(), 0);
    for pid in members {
        process(&run.report, pid as u64);
    }
}

#[test]
fn shared_memory_counts_once() {
    let lab = Lab::new();
    // 320 MiB counted once, 1,000 MiB by RSS.
    let mut tree = Watched::start_program(&lab, &["--max-pss", "400M"], "cow_tree.c", &[]);
    let pss = tree.number("pss") * 1024;
    (0..4).for_each(|_| assert!(tree.number("fork") > 0));
    after_ticks(&tree.directory, 3);
    let run = tree.end();
    assert!((300 * MIB..400 * MIB).contains(&pss), "{pss}");
    assert_eq!(run.code(), Some(0), "{}", run.report["exit"]);
    assert_eq!(run.report["exit"]["cause"], "exited");
    assert_eq!(run.number("cost/pause_s").to_string(), "0");
}

#[test]
fn private_memory_of_all_processes_counts() {
    let lab = Lab::new();
    for options in [&["--max-pss", "400M"][..], &["--max-pss", "400M", "--no-slow"]] {
        let options = [options, &["--force", "--grace", "200ms"]].concat();
        // No one of them is near the limit.
        let run = guarded(&lab, &options, "family.c", &["4", "150"]);
        let said = assert_ended_by(&run, "--max-pss");
        let value = number_after(&said, " with ");
        assert!((400.0..650.0).contains(&value), "{said}");
        assert!(bytes(&run.report["largest_process"]["hwm_bytes"]) < 200 * MIB);
    }
}

#[test]
fn little_available_memory_ends_the_run() {
    let lab = Lab::new();
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:")).expect("MemAvailable");
    let available_kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("kB");
    if available_kib < 6 << 20 {
        return skip("memory", "less than 6 GiB are available");
    }
    // The machine is never short: only 300 MiB of what it has may be taken. Pages that others freed are still on
    // their way back (about 1 GiB was seen), so the program goes on for longer than the difference.
    let limit = format!("{}KiB", available_kib - (300 << 10));
    let run = guarded(&lab, &["--min-available", &limit], "hog.c", &["3000", "0"]);
    let said = assert_ended_by(&run, "--min-available");
    assert!(number_after(&said, " with ") < number_after(&said, "--min-available"), "{said}");
    assert!(bytes(&run.report["processes"][0]["hwm_bytes"]) < 3000 * MIB, "it was not let to its end");
}

#[test]
fn a_filling_cgroup_ends_the_run_before_the_kernel_does() {
    let group = match Limited::new(256, 256) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let mut nilo = group.nilo(&lab, ["run", "-o", "run.nilo", "--max-cgroup", "50%", "--"]);
    let run = run_to_end(&lab, nilo.arg(c_program("hog.c")).args(["400", "0"]));
    let said = assert_ended_by(&run, "--max-cgroup");
    assert_eq!(number_after(&said, "--max-cgroup").to_string(), "128", "half of the limit: {said}");
    assert_eq!(group.oom_kills(), 0);
}

#[test]
fn the_guard_is_on_by_one_word() {
    let group = match Limited::new(512, 512) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let mut nilo = group.nilo(&lab, ["run", "-o", "run.nilo", "--guard", "--"]);
    let run = run_to_end(&lab, nilo.arg(c_program("hog.c")).args(["440", "200"]));
    let said = assert_ended_by(&run, "--max-cgroup");
    let value = number_after(&said, "--max-cgroup");
    assert!((value - 512.0 * 0.97).abs() < 0.1, "97 % of the limit: {said}");
    assert_eq!(group.oom_kills(), 0);
}

#[test]
fn limits_that_are_not_reached_change_nothing() {
    let lab = Lab::new();
    let far =
        ["-q", "--guard", "--max-rss", "8G", "--max-pss", "80%", "--max-psi", "100%", "--max-swap", "8G"];
    let refused = lab.run(&far, &["true"]);
    assert_eq!(refused.code(), Some(125), "a share of what? {}", refused.stderr());
    let far =
        ["-q", "--guard", "--max-rss", "8G", "--max-pss", "8G", "--max-psi", "100%", "--max-swap", "8G"];
    let run = lab.run(&far, &["sh", "-c", "echo out; exit 3"]);
    assert_eq!((run.code(), run.stdout().as_str()), (Some(3), "out\n"));
    assert_eq!(run.number("cost/pause_s").to_string(), "0");
}

#[test]
fn last_words_are_saved_near_a_limit_and_nothing_is_stopped() {
    let group = match Limited::new(256, 256) {
        Ok(group) => group,
        Err(reason) => return skip("cgroup-write", &reason),
    };
    let lab = Lab::new();
    let mut nilo = group.nilo(&lab, ["run", "-q", "-o", "run.nilo", "--"]);
    let mut hog = Dialogue::start(nilo.arg(c_program("hog.c")).args(["238", "0"]));
    let pid = number_of(&hog.line(), "ready");
    number_of(&hog.line(), "fast");
    number_of(&hog.line(), "slow");
    after_ticks(&lab.path("run.nilo"), 2);
    assert_eq!(hog.end().status.code(), Some(0));
    let report = lab.report(&lab.path("run.nilo"));
    let said = events(&report, "limit");
    let words = said.iter().filter_map(|e| e["text"].as_str()).find(|t| t.contains("last words saved"));
    let words = words.unwrap_or_else(|| panic!("no last words in {:#}", report["events"]));
    assert!(words.contains(&group.name()), "{words}");
    // What it was made of is known of that moment, give or take the 2 % that are worth new last words.
    let parts = report["made_of"]["parts"].as_array().expect("parts");
    let anonymous: u64 = parts.iter().map(|part| bytes(&part["bytes"])).max().expect("a part");
    assert_near("anonymous memory", anonymous, 238 * MIB, 8 * MIB);
    assert_near("hwm", bytes(&process(&report, pid)["hwm_bytes"]), 240 * MIB, 4 * MIB);
    assert_eq!(report["exit"]["cause"], "exited");
    assert_eq!(report["cost"]["pause_s"], 0.0, "never stopped");
    assert_eq!(group.oom_kills(), 0);
}

/// `nilo` dies while the tree stands still for its post-mortem.
#[test]
fn killing_nilo_while_the_tree_is_stopped_lets_it_go_on() {
    let lab = Lab::new();
    let options = ["--max-rss", "100M", "--grace", "60s"];
    let mut watched = Watched::start_program(&lab, &options, "patchwork.c", &[]);
    let pid = watched.number("ready") as i32;
    let nilo = watched.dialogue.pid();
    watched.dialogue.say("grow");
    // Reading 60,000 mappings takes long; 2 ms pass between two looks of ours.
    until("the target stands still", || stat(pid).is_some_and(|s| s.state == 't'));
    send(nilo, STOP);
    until("nilo is stopped", || is_stopped(nilo));
    let state = stat(pid).map(|s| s.state);
    send(nilo, KILL);
    assert_eq!(state, Some('t'), "nilo was killed too late to prove anything");
    assert_eq!(watched.number("answer"), 1);
    assert_eq!(watched.order("are you there?", "answer"), 2);
    assert!(stat(pid).is_some_and(|s| matches!(s.state, 'R' | 'S')));
    let run = watched.end();
    until("the target has ended", || has_ended(pid));
    // What was recorded until then is readable, and says why the tree was stopped.
    assert_eq!(run.report["data_end"]["clean"], false);
    assert_eq!(events(&run.report, "limit").len(), 1, "{:#}", run.report["events"]);
}

/// A parent after `vfork` cannot be stopped before its child is done; it must not stop then.
#[test]
fn what_could_not_be_stopped_is_not_stopped_later() {
    let lab = Lab::new();
    let options = ["--max-rss", "145M", "--grace", "60s"];
    let mut watched = Watched::start_program(&lab, &options, "vfork_wait.c", &[]);
    let parent = watched.number("ready") as i32;
    let child = children(parent).first().expect("a child").0;
    watched.dialogue.say("grow");
    until("the child stands still", || stat(child).is_some_and(|s| s.state == 't'));
    until("the child goes on", || stat(child).is_some_and(|s| s.state != 't'));
    assert_eq!(watched.order("end", "answer"), 1);
    let run = watched.end();
    assert_eq!(events(&run.report, "limit").len(), 1, "{:#}", run.report["events"]);
}
