//! Ends and refusals: killed targets, killed recorders, no memory, nobody there.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nilometer_ring::Event;
use nilometer_ring::event::{Level, Mode};
use nilometer_ring::layout::degraded;
use nilometer_ring::reader::Stack;

use super::hazards::number_after;
use super::session::{Reaper, Session, Told, describe, program};

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

/// A memory cgroup of our own; removed at the end.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    highest: &'static str,
}

impl Group {
    fn new(name: &str) -> Option<Self> {
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.peak"),
        ];
        let name = format!("nilo-test-{name}-{}", std::process::id());
        let made = versions.into_iter().find_map(|(root, limit, highest)| {
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit, highest };
            group.folder.join(highest).exists().then_some(group)
        });
        if made.is_none() {
            nilometer_lab::skip("a memory cgroup", "to set limits");
        }
        made
    }

    fn limit_to(&self, bytes: u64) {
        fs::write(self.folder.join(self.limit), bytes.to_string()).unwrap();
    }

    fn highest(&self) -> u64 {
        fs::read_to_string(self.folder.join(self.highest)).unwrap().trim().parse().unwrap()
    }

    /// The session's command inside the cgroup; the shell before it is not tracked.
    fn command(&self, session: &Session, settings: Option<&str>) -> Command {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &enter, "sh", "/usr/bin/env"]);
        if let Some(settings) = settings {
            command.arg(format!("LD_PRELOAD={}", session.library.display()));
            command.arg(format!("NILO_TRACKER={}", session.settings(settings)));
        }
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn running_out_of_a_cgroups_memory_loses_no_event() {
    let Some(group) = Group::new("full") else { return };
    group.limit_to(200_000_000);
    let session = Session::new();
    let path = session.folder.path().join("counter");
    let mut command = group.command(&session, Some("mode=all"));
    let status = command.arg(program("count.c")).arg(&path).arg("touch").status().unwrap();
    assert_eq!(status.signal(), Some(9), "{status}");
    let truth = counter(&path);
    let (allocations, others) = counted(session, 100_000..100_001);
    let told = allocations - others;
    assert!(told == truth || told == truth + 1, "{told} told, {truth} made");
}

/// The program would fill the book and its table many times over. What it needs alone is measured first.
#[test]
fn a_target_that_just_fits_still_fits_with_the_tracker() {
    let paths = program("paths.c");
    let args = ["400000", "200"];
    let Some(alone) = Group::new("alone") else { return };
    let session = Session::deaf();
    assert!(alone.command(&session, None).arg(&paths).args(args).output().unwrap().status.success());
    let need = alone.highest();
    assert!((200 << 20..230 << 20).contains(&need), "{need}");
    let Some(group) = Group::new("fits") else { return };
    group.limit_to(need + (32 << 20));
    let session = Session::new();
    let output = group.command(&session, Some("mode=all")).arg(&paths).args(args).output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(output.stdout, b"made 400000\n");
    let heard = session.finish();
    let told = heard.only();
    assert_ne!(told.totals.degraded & degraded::LITTLE_ROOM, 0, "{:?}", told.totals);
    assert!(told.totals.refused > 0 && told.totals.stacks_folded + told.totals.stacks_dropped > 0);
    assert!(told.totals.lost > 0 || told.allocations > 100_000, "{:?}", told.totals);
}

/// A book of 1 MiB for two million stacks: all blocks are told, from the frames that had room.
#[test]
fn a_book_that_is_nearly_full_folds_and_says_so() {
    let session = Session::new();
    let output = session.run("paths.c", "mode=all,budget=2200000", &["200000"]);
    assert_eq!(output.stdout, b"made 200000\n");
    let heard = session.finish();
    let told = heard.only();
    assert_eq!((told.totals.lost, told.totals.stacks_dropped), (0, 0), "{:?}", told.totals);
    assert_eq!(told.totals.degraded, degraded::BOOK_FOLDED);
    assert!(told.totals.stacks_folded > 10_000, "{:?}", told.totals);
    let book = heard.book(told);
    let stacks = told.events.iter().filter_map(|(_, _, event)| match event {
        Event::Alloc { bytes: 32_000..32_008, stacks, .. } => Some(book.stack(stacks.native)),
        _ => None,
    });
    let (folded, whole): (Vec<_>, Vec<_>) = stacks.partition(|stack| stack.folded);
    assert!(whole.len() > 1000 && folded.len() > 10_000, "{} whole, {} folded", whole.len(), folded.len());
    // A path has 25 frames and what calls main; a folded one less of them, from the outside.
    let depth = whole[0].frames.len();
    assert!(depth >= 25 && whole.iter().all(|stack| stack.frames.len() == depth));
    assert!(
        folded.iter().all(|stack| (3..depth).contains(&stack.frames.len()) && !stack.dropped && !stack.cut)
    );
    let outermost = |stack: &Stack| stack.frames.last().copied();
    assert!(folded.iter().all(|stack| outermost(stack) == outermost(&whole[0])));
    assert!(told.totals.ring_bytes < 1_200_000);
}

#[test]
fn children_that_shut_every_descriptor_stay_sound() {
    let session = Session::new();
    let path = session.folder.path().join("own");
    let output = session.run("shut.c", "mode=all", &[path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.ends_with("size 0")), "{text}");
    let heard = session.finish();
    assert_eq!(heard.processes.len(), 4, "{text}");
    for told in &heard.processes {
        let line = text.lines().find(|line| line.contains(&format!(" {} ", told.pid()))).unwrap();
        let made = number_after(line, "made");
        let work =
            told.events.iter().filter(|(_, _, e)| matches!(e, Event::Alloc { bytes: 30_000..30_050, .. }));
        assert_eq!(told.totals.corrupt_lanes, 0);
        let missing = told.totals.lost + told.totals.orphans_lost;
        assert!(
            work.count() as u64 == made || told.totals.degraded != 0,
            "{line}: {missing} {:?}",
            told.totals
        );
    }
}

#[test]
fn a_daemon_outlives_its_recorder() {
    let session = Session::deaf();
    let mut recorder = recorder(&session);
    let file = |name: &str| session.folder.path().join(name);
    let mut command = session.command(program("daemon.c"), "mode=all");
    let status = command.args([file("ready"), file("go"), file("done")]).status().unwrap();
    assert!(status.success());
    let wait = |name: &str| {
        let start = Instant::now();
        while !file(name).exists() {
            assert!(start.elapsed() < Duration::from_secs(30), "no {name}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait("ready");
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    fs::write(file("go"), "").unwrap();
    wait("done");
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

/// Blocks that live of each turn of `switch.c`.
fn live_by_turn(told: &Told) -> Vec<usize> {
    (0..8).map(|turn| told.live_of(1000 + 96 * turn)).collect()
}

#[test]
fn no_block_is_missed_when_the_mode_is_switched_under_threads_that_allocate() {
    use Level::{All, Deep, Sampled};
    let fewer = |level| Mode::new(level).with(Mode::ALL_FREES);
    let switches =
        [Mode::new(All), fewer(Sampled), Mode::new(Deep), fewer(All), fewer(Sampled), Mode::new(All)];
    let session = Session::new();
    // A sample in each byte: every block is drawn, and none for its size alone.
    let settings = "mode=sampled,mean=1,exact=1099511627776,wait=60000";
    let mut command = session.command(program("switch.c"), settings);
    let mut child = Reaper(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut orders = child.0.stdin.take().unwrap();
    let mut answers = BufReader::new(child.0.stdout.take().unwrap());
    session.until(|heard| heard.processes.len() == 1);
    let mut truth = Vec::new();
    for mode in [None].into_iter().chain(switches.map(Some)) {
        if let Some(mode) = mode {
            session.switch(mode);
            session.until(|heard| heard.only().mode == mode.0);
        }
        orders.write_all(b"\n").unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        truth = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        session.until(|heard| live_by_turn(heard.only()) == truth);
    }
    drop(orders);
    assert!(child.0.wait().unwrap().success());
    let heard = session.finish();
    let told = heard.only();
    assert_eq!(live_by_turn(told), truth);
    assert!(truth[6] == 1600 && truth.iter().sum::<usize>() > 1600, "{truth:?}");
    assert_eq!((told.live_of(5008), told.unknown_frees()), (0, 0), "{:?}", told.oddities());
    assert_eq!((told.totals.lost, told.totals.corrupt_lanes, told.gap), (0, 0, 0));
}
