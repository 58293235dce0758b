//! A frozen child is the target as it was, dies with us, and leaves nothing behind.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)] // helpers of tests are outside `#[test]` functions

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use nilometer_kernel::parse::maps::parse_header;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::inject::{Farewell, Footing, Frozen};
use nilometer_kernel::sys::memory::read_bytes;
use nilometer_kernel::sys::signals;
use nilometer_kernel::sys::stop::Stopped;

const VARIABLE: &str = "NILO_TEST_FORK_PID";
const SIGKILL: i32 = 9;

/// `cat`: answers each line with itself; killed at the end.
struct Echo {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Echo {
    fn start() -> Self {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut echo = Self { child, answers };
        assert_eq!(echo.ask("ready?"), "ready?\n");
        echo
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }

    fn children(&self) -> String {
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn threads_of(pid: i32) -> Vec<i32> {
    Proc::default().list_threads(pid).unwrap_or_default()
}

fn state(pid: i32) -> Option<u8> {
    Some(Proc::default().read_stat(pid, &mut Vec::new()).ok()?.state)
}

/// The first range of a mapping with this name.
fn mapping(pid: i32, name: &[u8]) -> (u64, u64) {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap();
    let mut headers = maps.split(|byte| *byte == b'\n').filter_map(parse_header);
    headers.find(|header| header.name == name).map(|header| (header.start, header.end)).unwrap()
}

fn freeze(pid: i32) -> Frozen {
    let footing = Footing::find(pid).unwrap();
    let stopped = Stopped::stop(&[pid], threads_of, monotonic_ns() + 10_000_000_000);
    Frozen::fork(&stopped, pid, &footing).unwrap()
}

#[test]
fn the_child_stays_as_the_target_was() {
    let mut echo = Echo::start();
    let (start, end) = mapping(echo.pid(), b"[stack]");
    let mut before = vec![0; (end - start) as usize];
    let footing = Footing::find(echo.pid()).unwrap();
    let stopped = Stopped::stop(&[echo.pid()], threads_of, monotonic_ns() + 10_000_000_000);
    read_bytes(echo.pid(), start, &mut before).unwrap();
    let frozen = Frozen::fork(&stopped, echo.pid(), &footing).unwrap();
    drop(stopped);
    assert_eq!((state(frozen.pid()), echo.children().trim()), (Some(b't'), &*frozen.pid().to_string()));
    assert_eq!(echo.ask("a line that changes its buffers"), "a line that changes its buffers\n");
    let mut after = vec![0; before.len()];
    read_bytes(frozen.pid(), start, &mut after).unwrap();
    assert!(after == before);
    let child = frozen.pid();
    assert!(matches!(frozen.end(threads_of), Farewell::Reaped { .. }));
    assert_eq!((state(child), echo.children()), (None, String::new()));
    assert_eq!(echo.ask("and now?"), "and now?\n");
}

#[test]
fn the_child_goes_with_a_target_that_ends() {
    let mut echo = Echo::start();
    let frozen = freeze(echo.pid());
    signals::send(echo.pid(), SIGKILL).unwrap();
    echo.child.wait().unwrap();
    let child = frozen.pid();
    assert_eq!(frozen.end(threads_of), Farewell::TargetEnded);
    assert!(matches!(state(child), None | Some(b'Z' | b'X')));
}

#[test]
fn an_address_without_the_instruction_is_refused_and_harms_nobody() {
    let mut echo = Echo::start();
    let (start, _) = mapping(echo.pid(), b"[stack]");
    let footing = Footing::find(echo.pid()).unwrap();
    let stopped = Stopped::stop(&[echo.pid()], threads_of, monotonic_ns() + 10_000_000_000);
    for call in [start, 0] {
        let mut wrong = footing.clone();
        wrong.call = call;
        assert!(Frozen::fork(&stopped, echo.pid(), &wrong).is_err());
    }
    drop(stopped);
    assert_eq!((echo.ask("well?"), echo.children()), ("well?\n".to_owned(), String::new()));
}

#[test]
fn the_child_dies_with_whoever_made_it() {
    let mut echo = Echo::start();
    let mut tracer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "freeze_and_stay", "--ignored", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, echo.pid().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tracer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let child = lines.into_iter().find_map(|line| line.strip_prefix("frozen ")?.parse::<i32>().ok()).unwrap();
    assert_eq!(state(child), Some(b't'));
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    while state(child).is_some_and(|state| !matches!(state, b'Z' | b'X')) {
        std::thread::yield_now();
    }
    assert_eq!(echo.ask("still there?"), "still there?\n");
}

#[test]
#[ignore = "the tracer of another test"]
fn freeze_and_stay() {
    let Some(pid) = std::env::var(VARIABLE).ok().and_then(|pid| pid.parse().ok()) else { return };
    let frozen = freeze(pid);
    println!("\nfrozen {}", frozen.pid());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}
