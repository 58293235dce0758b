//! Faults around the recorder of allocations: the target goes on, and what is missing is told.

use std::path::Path;
use std::sync::OnceLock;

use crate::allocs::recording;
use crate::control::{ask, socket_of};
use crate::faults::SmallDisk;
use crate::harness::{Dialogue, Lab, c_program, skip, text};
use crate::limited::Limited;
use crate::onlooker::{KILL, is_stopped, send, until};

const CONT: i32 = 18;
const STOP: i32 = 19;
const QUICK: [&str; 6] = ["-q", "--before", "0ms", "--settle", "0ms", "--allocs=all"];
/// A stall that a target may see, in microseconds.
const MOST_STALL_US: u64 = 10_000;

fn start_pace(lab: &Lab) -> Dialogue {
    stolen_us();
    let mut nilo = lab.nilo(["run", "-o", "run.nilo"]);
    let mut pace = Dialogue::start(nilo.args(QUICK).arg("--").arg(c_program("allocs_pace.c")).arg("2"));
    assert!(pace.line().starts_with("ready"));
    pace
}

fn events(run: &Path) -> u64 {
    ask(&socket_of(run), r#"{"do":"status"}"#)["allocs"]["events"].as_u64().unwrap_or(0)
}

/// Ends the program: the longest stall in microseconds, and its calls.
/// What a hypervisor took from this machine's processors since the first call: for a thread that is as if it slept.
fn stolen_us() -> u64 {
    static BEFORE: OnceLock<u64> = OnceLock::new();
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let ticks = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok());
    let now_us = ticks.map_or(0, |ticks: u64| ticks * 10_000);
    now_us - BEFORE.get_or_init(|| now_us)
}

fn stalls(pace: Dialogue) -> (u64, u64) {
    let output = pace.end();
    let text = text(&output.stdout);
    let number = |word: &str| {
        let mut words = text.split_whitespace().skip_while(|found| *found != word).skip(1);
        words.next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{word}: {text}"))
    };
    (number("longest"), number("calls"))
}

/// Processor time of the target, in ticks: what it does goes on.
fn target_works(nilo: i32) -> impl FnMut() -> bool {
    let is_target = |name: &str| name.starts_with("allocs_p");
    let target = crate::onlooker::children(nilo).into_iter().find(|(_, stat)| is_target(&stat.name));
    let target = target.expect("the target").0;
    let ticks = move || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{target}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(11)?.parse().ok()).unwrap_or(0)
    };
    let begin = ticks();
    move || ticks() > begin + 60
}

#[test]
fn a_killed_recorder_stalls_nobody_and_leaves_what_it_had() {
    let lab = Lab::new();
    let pace = start_pace(&lab);
    let run = lab.path("run.nilo");
    until("a copy is stored", || run.join("allocs.nal").exists());
    let mut works = target_works(pace.pid());
    send(pace.pid(), KILL);
    until("the target works on", &mut works);
    let (longest_us, calls) = stalls(pace);
    assert!(longest_us < MOST_STALL_US + stolen_us(), "{longest_us} us in {calls} calls");
    let found = recording(&run);
    assert!(!found.about.finished && found.about.total.count > 1000 && !found.sites.is_empty());
}

#[test]
fn a_stopped_recorder_stalls_nobody_and_counts_what_it_missed() {
    let lab = Lab::new();
    let pace = start_pace(&lab);
    let run = lab.path("run.nilo");
    until("events come", || events(&run) > 10_000);
    let nilo = pace.pid();
    let mut works = target_works(nilo);
    send(nilo, STOP);
    until("it stands", || is_stopped(nilo));
    until("the target works on", &mut works);
    send(nilo, CONT);
    let before = events(&run);
    until("events come again, or it was given up", || events(&run) > before + 1000 || !recorded(&run));
    let (longest_us, calls) = stalls(pace);
    assert!(longest_us < MOST_STALL_US + stolen_us(), "{longest_us} us in {calls} calls");
    let found = recording(&run);
    assert!(found.about.finished && found.about.lost_events > 0, "{:?}", found.about.lost_events);
}

/// Whether the target still tells: after two seconds of silence it gives the recorder up.
fn recorded(run: &Path) -> bool {
    let status = || ask(&socket_of(run), r#"{"do":"status"}"#)["allocs"].clone();
    let (first, second) = (status(), status());
    first["events"] != second["events"]
}

#[test]
fn a_full_disk_costs_the_stored_allocations_and_nothing_else() {
    let lab = Lab::new();
    let disk = match SmallDisk::mount(lab.path("disk")) {
        Ok(disk) => disk,
        Err(why) => return skip("root", &why),
    };
    let run = disk.0.join("run.nilo");
    let mut nilo = lab.nilo(["run".as_ref(), "-o".as_ref(), run.as_os_str()]);
    nilo.args(QUICK).args(["--events", "--"]).arg(c_program("allocs_pace.c")).arg("1");
    let mut pace = Dialogue::start(&mut nilo);
    assert!(pace.line().starts_with("ready"));
    until("events come", || events(&run) > 10_000);
    disk.fill();
    let before = events(&run);
    until("events come still", || events(&run) > before + 10_000);
    let (longest_us, _) = stalls(pace);
    assert!(longest_us < MOST_STALL_US + stolen_us(), "{longest_us} us");
}

/// What `command` becomes inside of the group, while `nilo` stays outside: with both inside, the kernel
/// now and then ends `nilo` too, before the pages of the first victim are given back.
fn only_target_inside<'a>(group: &Limited, command: &[&'a str], enter: &'a mut String) -> Vec<&'a str> {
    *enter = format!("echo $$ > /sys/fs/cgroup/memory{}/cgroup.procs && exec \"$@\"", group.name());
    [&["sh", "-c", enter.as_str(), "sh"], command].concat()
}

#[test]
fn running_out_of_a_cgroups_memory_loses_no_event() {
    let lab = Lab::new();
    let group = match Limited::new(220, 220) {
        Ok(group) => group,
        Err(why) => return skip("memory cgroup", &why),
    };
    let path = lab.path("counter");
    let program = c_program("allocs_count.c").display().to_string();
    let (counter, mut enter) = (path.display().to_string(), String::new());
    let command = only_target_inside(&group, &[&program, &counter, "touch"], &mut enter);
    let run = lab.run(&QUICK, &command);
    assert_eq!(run.code(), Some(137), "{}", run.stderr());
    assert_eq!(group.oom_kills(), 1);
    let found = recording(&run.directory);
    let truth = crate::allocs::counter(&path);
    let told: u64 =
        found.sites.iter().filter(|site| site.total.bytes >= 100_000).map(|s| s.total.count).sum();
    assert!(told == truth || told == truth + 1, "{told} told, {truth} made");
    assert_eq!(found.about.lost_events, 0);
}

#[test]
fn a_tight_limit_is_kept() {
    let lab = Lab::new();
    let group = match Limited::new(44, 44) {
        Ok(group) => group,
        Err(why) => return skip("memory cgroup", &why),
    };
    // The target needs some megabytes, the tracker has the rest.
    let (program, mut enter) = (c_program("allocs_known.c").display().to_string(), String::new());
    let command = only_target_inside(&group, &[&program, "200000", "4"], &mut enter);
    let run = lab.run(&QUICK, &command);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert_eq!(group.oom_kills(), 0);
    assert!(run.stdout().starts_with("truth"));
    let found = recording(&run.directory);
    let told = found.processes.iter().any(|p| p.total.count >= 800_000 || !p.degraded.is_empty());
    assert!(told, "{:?}", found.processes);
}

#[test]
fn a_fork_storm_is_followed() {
    let lab = Lab::new();
    let script = "for i in $(seq 150); do /bin/true & done; wait";
    let run = lab.run(&QUICK, &["/bin/sh", "-c", script]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let found = recording(&run.directory);
    let ended = found.processes.iter().filter(|process| process.ended_ns.is_some()).count();
    assert!(found.processes.len() > 150, "{} images", found.processes.len());
    assert_eq!(ended, found.processes.len());
}
