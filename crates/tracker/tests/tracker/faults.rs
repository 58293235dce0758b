//! Ends and refusals: killed targets, killed recorders, no memory, nobody there.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nilometer_ring::event::{Level, Mode};
use nilometer_ring::layout::degraded;

use super::hazards::number_after;
use super::session::{Reaper, Session, describe, program};

fn counter(path: &Path) -> u64 {
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0));
    read.map_or(0, |()| u64::from_le_bytes(bytes))
}

fn wait_for(path: &Path, count: u64) {
    let start = Instant::now();
    while counter(path) < count {
        assert!(start.elapsed() < Duration::from_secs(60), "the counter stands at {}", counter(path));
        std::thread::yield_now();
    }
}

/// The allocations of `count.c`, by their sizes.
fn counted(session: Session, sizes: std::ops::Range<u64>) -> (u64, u64) {
    let heard = session.finish();
    let told = heard.only();
    assert_eq!((told.totals.lost, told.gap), (0, 0));
    let others = told.live().values().filter(|block| !sizes.contains(&block.bytes)).count() as u64;
    (told.allocations, others)
}

#[test]
fn a_kill_loses_no_event() {
    for round in 0..5_u64 {
        let session = Session::new();
        let path = session.folder.path().join("counter");
        let mut child = Reaper(session.command(program("count.c"), "mode=all").arg(&path).spawn().unwrap());
        wait_for(&path, 200_000 + 77_777 * round);
        child.0.kill().unwrap();
        assert_eq!(child.0.wait().unwrap().signal(), Some(9));
        let truth = counter(&path);
        let (allocations, others) = counted(session, 20_000..20_008);
        let told = allocations - others;
        // The counter follows the allocation: one more may be told than it says.
        assert!(told == truth || told == truth + 1, "round {round}: {told} told, {truth} made");
    }
}

#[test]
fn running_out_of_a_cgroups_memory_loses_no_event() {
    let root = Path::new("/sys/fs/cgroup/memory");
    let group = root.join(format!("nilo-test-{}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        println!("skipped: needs a writable memory cgroup (v1)");
        return;
    }
    fs::write(group.join("memory.limit_in_bytes"), "200000000").unwrap();
    let session = Session::new();
    let path = session.folder.path().join("counter");
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.display());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &enter, "sh", "/usr/bin/env"]);
    command.arg(format!("LD_PRELOAD={}", session.library.display()));
    command.arg(format!("NILO_TRACKER={}", session.settings("mode=all")));
    let status = command.arg(program("count.c")).arg(&path).arg("touch").status().unwrap();
    let _ = fs::remove_dir(&group);
    assert_eq!(status.signal(), Some(9), "{status}");
    let truth = counter(&path);
    let (allocations, others) = counted(session, 100_000..100_001);
    let told = allocations - others;
    assert!(told == truth || told == truth + 1, "{told} told, {truth} made");
}

#[test]
fn without_a_listener_the_program_runs_as_ever() {
    let session = Session::deaf();
    let output = session.run("threads.c", "mode=all", &["short", "40"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "made 4000\n");
    assert!(output.stderr.is_empty());
}

#[test]
fn settings_that_cannot_be_read_leave_the_program_alone() {
    let session = Session::new();
    let mut command = session.command(program("threads.c"), "mode=all");
    let output = command.env("NILO_TRACKER", "mode=").args(["short", "4"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", describe(&output));
    assert!(session.finish().processes.is_empty());
}

#[test]
fn refused_pages_of_the_book_mean_samples_and_a_count() {
    let session = Session::new();
    let (refuse, threads) = (program("refuse.c"), program("threads.c"));
    let mut command = session.command(refuse, "mode=all");
    let output = command.arg("262144").arg(threads).args(["short", "400"]).output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let heard = session.finish();
    let told = heard.processes.last().unwrap();
    assert_ne!(told.totals.degraded & degraded::BOOK_REFUSED, 0, "{:?}", told.totals);
    assert!(told.totals.refused > 0 && told.totals.stacks_dropped > 0, "{:?}", told.totals);
    let mode = Mode(told.mode);
    assert_eq!((mode.level(), mode.has(Mode::ALL_FREES)), (Level::Sampled, true));
}

#[test]
fn refused_rings_leave_the_program_running() {
    let session = Session::new();
    let (refuse, threads) = (program("refuse.c"), program("threads.c"));
    // Less than a lane is granted: the header pages only. There is no ring, and nothing is told but that.
    let mut command = session.command(&refuse, "mode=all");
    let output = command.arg("40000").arg(&threads).args(["short", "40"]).output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let heard = session.finish();
    let told = heard.processes.last().unwrap();
    assert!(told.totals.refused > 0, "{:?}", told.totals);
}

#[test]
fn a_file_size_limit_is_respected_not_met() {
    let session = Session::new();
    let (limit, threads) = (program("limit.c"), program("threads.c"));
    let mut command = session.command(limit, "mode=all");
    let output = command.arg("1000000").arg(threads).args(["short", "40"]).output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(session.finish().processes.len(), 1, "only the launcher could make its files");
}

#[test]
fn a_small_budget_drops_stacks_and_says_so() {
    let session = Session::new();
    session.run("threads.c", "mode=all,budget=400000", &["short", "4"]);
    let heard = session.finish();
    let told = heard.only();
    assert_ne!(told.totals.degraded, 0);
    assert!(told.totals.ring_bytes <= 200_000, "{:?}", told.totals);
}

#[test]
fn closed_descriptors_are_never_taken_for_ours() {
    let session = Session::new();
    let path = session.folder.path().join("own");
    let output = session.run("closer.c", "mode=all", &[path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(number_after(&text, "size"), 0, "the program's own file was written");
    let heard = session.finish();
    let told = heard.only();
    assert_eq!(told.totals.corrupt_lanes, 0);
    assert!(told.totals.refused > 0, "{:?}", told.totals);
}

/// The example recorder as a process of its own, listening where the session's programs look.
fn recorder(session: &Session) -> Reaper {
    let folder = std::env::current_exe().unwrap();
    let recorder = folder.parent().unwrap().parent().unwrap().join("examples/record");
    let mut child = Command::new(recorder)
        .arg(session.folder.path().join("socket"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");
    Reaper(child)
}

fn start_pace(session: &Session) -> Child {
    let mut command = session.command(program("pace.c"), "mode=all");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    child
}

/// Ends `pace.c` and returns the longest wait in microseconds and its number of calls.
fn stop_pace(mut child: Child) -> (u64, u64) {
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    (number_after(&text, "longest"), number_after(&text, "calls"))
}

fn cpu_ms(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: u64 = fields.get(11).and_then(|field| field.parse().ok()).unwrap_or(0);
    ticks * 10
}

fn burn(pid: u32, milliseconds: u64) {
    let (from, start) = (cpu_ms(pid), Instant::now());
    while cpu_ms(pid) < from + milliseconds && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

mod serial_stalls {
    use super::*;

    #[test]
    fn a_killed_recorder_stalls_nobody() {
        let session = Session::deaf();
        let mut recorder = recorder(&session);
        let child = start_pace(&session);
        burn(child.id(), 100);
        recorder.0.kill().unwrap();
        recorder.0.wait().unwrap();
        burn(child.id(), 1500);
        let (longest_us, calls) = stop_pace(child);
        assert!(longest_us < 10_000, "{longest_us} us");
        assert!(calls > 50_000, "{calls}");
    }

    #[test]
    fn a_stopped_recorder_stalls_nobody_and_can_go_on() {
        let session = Session::deaf();
        let recorder = recorder(&session);
        let child = start_pace(&session);
        let send = |signal: &str| {
            let pid = recorder.0.id().to_string();
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        };
        burn(child.id(), 50);
        send("-STOP");
        burn(child.id(), 800);
        send("-CONT");
        burn(child.id(), 100);
        let (longest_us, calls) = stop_pace(child);
        assert!(longest_us < 10_000, "{longest_us} us");
        assert!(calls > 50_000, "{calls}");
    }
}

#[test]
fn a_mode_can_be_switched_while_the_program_runs() {
    let session = Session::new();
    let mut command = session.command(program("pace.c"), "mode=later");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    session.until(|heard| heard.processes.len() == 1);
    burn(child.id(), 30);
    assert_eq!(session.heard().only().allocations, 0);
    session.switch(Mode::new(Level::All));
    session.until(|heard| heard.only().allocations > 1000);
    session.switch(Mode::new(Level::Sampled).with(Mode::ALL_FREES));
    session.until(|heard| Mode(heard.only().mode).level() == Level::Sampled);
    session.switch(Mode::new(Level::Off));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let heard = session.finish();
    assert_eq!(heard.only().totals.corrupt_lanes, 0);
}
