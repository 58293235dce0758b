//! A thread that was borrowed is as it was, whenever we die: we are killed before each request to the kernel in turn, and
//! inside a call. The target compares its registers, its vector registers, its red zone, its mask and its stacks itself.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use super::super::clock::monotonic_ns;
use super::super::stop::Stopped;
use super::{Farewell, Footing, Frozen, borrow};
use crate::read::proc::Proc;

const PID: &str = "NILO_TEST_INJECT_PID";
const WORK: &str = "NILO_TEST_INJECT_WORK";
const KILLED_AT: &str = "NILO_TEST_KILLED_AT";
const MODES: [&str; 4] = ["spin", "read", "futex", "sleep"];
/// More requests than any work takes.
const MOST_STEPS: u64 = 200;

/// The program of `tests/programs/held.c`, for as long as this lives.
struct Program(tempfile::TempDir);

impl Program {
    fn build() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/held.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(directory.path().join("held")).arg(source);
        assert!(cc.status().unwrap().success(), "cc failed");
        Self(directory)
    }
}

/// The first thread of a process that holds its registers.
struct Held {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Held {
    fn start(program: &Program, mode: &str) -> Self {
        let mut child = Command::new(program.0.path().join("held"))
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        Self { child, lines }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it says of itself once it is let go.
    fn verdict(mut self) -> (Vec<String>, Option<i32>) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        let told = self.lines.by_ref().map_while(Result::ok).collect();
        (told, self.child.wait().unwrap().code())
    }

    /// Children that are not only waiting for somebody to take their end.
    fn living_children(&self) -> Vec<i32> {
        let listed = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
        let pids = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter(|pid| !super::is_dead(*pid)).collect()
    }

    fn is_in_call(&self, number: u32) -> bool {
        let call = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid())).unwrap_or_default();
        call.starts_with(&format!("{number} "))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again, as the one that borrows; with `killed_at` it is killed before that request.
fn tracer(held: &Held, work: &str, killed_at: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sys::inject::tests::borrow_a_thread", "--ignored", "--test-threads=1"])
        .env(PID, held.pid().to_string())
        .env(WORK, work)
        .env(KILLED_AT, killed_at.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the tracer of other tests"]
fn borrow_a_thread() {
    let Some(pid) = std::env::var(PID).ok().and_then(|pid| pid.parse().ok()) else { return };
    let footing = Footing::find(pid).unwrap();
    let stopped = Stopped::stop(&[pid], |_| vec![pid], monotonic_ns() + 10_000_000_000);
    match std::env::var(WORK).unwrap().as_str() {
        "fork" => {
            let frozen = Frozen::fork(&stopped, pid, &footing).unwrap();
            drop(stopped);
            let farewell = frozen.end(|pid| Proc::default().list_threads(pid).unwrap_or_default());
            assert!(matches!(farewell, Farewell::Reaped { .. }));
        }
        "wait" => {
            let borrowed = borrow(&stopped, &footing).unwrap();
            assert_eq!(borrowed.call(libc::SYS_poll, [0, 0, 300, 0, 0, 0]).unwrap().0, 0);
        }
        _ => {
            let borrowed = borrow(&stopped, &footing).unwrap();
            for _ in 0..2 {
                assert_eq!(borrowed.call(libc::SYS_getppid, [0; 6]).unwrap().0, i64::from(parent_of(pid)));
            }
        }
    }
}

fn parent_of(pid: i32) -> i32 {
    Proc::default().read_stat(pid, &mut Vec::new()).unwrap().ppid
}

/// Killed before each request, until there are no more.
fn kill_everywhere(work: &str) {
    let program = Program::build();
    for mode in MODES {
        let mut steps = 0;
        for step in 1..MOST_STEPS {
            let held = Held::start(&program, mode);
            let ended: ExitStatus = tracer(&held, work, step).wait().unwrap();
            assert!(ended.success() || ended.code().is_none(), "{work}, {mode}, step {step}: {ended}");
            while !held.living_children().is_empty() {
                std::thread::yield_now();
            }
            let (told, code) = held.verdict();
            assert_eq!(code, Some(0), "{work}, {mode}, killed before request {step}: {told:?}");
            // With us alive a sleep goes on as if nothing had been; the kernel knows how.
            let whole: &[&str] =
                if ended.success() || mode != "sleep" { &["whole"] } else { &["whole", "whole interrupted"] };
            assert!(
                whole.contains(&told.last().map_or("", |line| line)),
                "{work}, {mode}, step {step}: {told:?}"
            );
            steps = step;
            if ended.success() {
                break;
            }
        }
        assert!((10..MOST_STEPS - 1).contains(&steps), "{work}, {mode}: {steps} requests");
    }
}

#[test]
fn a_borrowed_thread_is_whole_wherever_we_are_killed() {
    kill_everywhere("calls");
}

#[test]
fn a_forked_target_is_whole_wherever_we_are_killed_and_no_child_runs() {
    kill_everywhere("fork");
}

#[test]
fn a_borrowed_thread_is_whole_if_we_are_killed_inside_a_call() {
    let program = Program::build();
    for mode in MODES {
        let held = Held::start(&program, mode);
        let mut tracer = tracer(&held, "wait", 0);
        while !held.is_in_call(libc::SYS_poll as u32) {
            std::thread::yield_now();
        }
        tracer.kill().unwrap();
        tracer.wait().unwrap();
        let (told, code) = held.verdict();
        assert_eq!(code, Some(0), "{mode}: {told:?}");
    }
}

#[test]
fn code_that_is_not_there_is_refused_and_harms_nobody() {
    let program = Program::build();
    let held = Held::start(&program, "spin");
    let footing = Footing::find(held.pid()).unwrap();
    let stopped = Stopped::stop(&[held.pid()], |pid| vec![pid], monotonic_ns() + 10_000_000_000);
    for wrong in [Footing { call: footing.back, ..footing.clone() }, Footing { back: 0, ..footing.clone() }] {
        assert!(borrow(&stopped, &wrong).is_err());
    }
    drop(stopped);
    assert_eq!(held.verdict(), (vec!["whole".to_owned()], Some(0)));
}
