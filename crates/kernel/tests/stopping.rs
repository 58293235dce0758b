//! Processes that stand still because of us go on when we let them, and when we are killed.
#![allow(clippy::unwrap_used)] // helpers of tests are outside `#[test]` functions

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::signals;
use nilometer_kernel::sys::stop::Stopped;

const VARIABLE: &str = "NILO_TEST_STOP_PID";
const SIGTERM: i32 = 15;
const SECOND_NS: u64 = 1_000_000_000;

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

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.answer()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The states of all threads of a process.
fn states(pid: i32) -> String {
    let threads = Proc::default().list_threads(pid).unwrap();
    let stat = |thread: i32| std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).unwrap();
    threads
        .into_iter()
        .map(|thread| stat(thread).rsplit_once(") ").unwrap().1.chars().next().unwrap())
        .collect()
}

fn stop(pid: i32) -> Stopped {
    Stopped::stop(
        &[pid],
        |pid| Proc::default().list_threads(pid).unwrap_or_default(),
        monotonic_ns() + 10 * SECOND_NS,
    )
}

#[test]
fn a_stopped_process_goes_on_when_it_is_let_go() {
    let mut echo = Echo::start();
    let stopped = stop(echo.pid());
    assert_eq!((stopped.count(), states(echo.pid()).as_str()), (1, "t"));
    echo.say("still there?");
    drop(stopped);
    assert_eq!(echo.answer(), "still there?\n");
}

#[test]
fn all_threads_stand_still() {
    let code = "import threading,sys\nfor i in range(6): threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()\nprint('up', flush=True)\nsys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let stopped = stop(child.id() as i32);
    let seen = (stopped.count(), states(child.id() as i32));
    drop(stopped);
    let after = states(child.id() as i32);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen, (7, "ttttttt".to_owned()), "six busy threads and the first one");
    assert!(!after.contains('t'), "{after}");
}

#[test]
fn a_thread_that_did_not_stop_in_time_is_waited_for_once_more() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("vfork");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/vfork.c");
    assert!(
        Command::new("cc").arg("-o").args([program.as_os_str(), source.as_ref()]).status().unwrap().success()
    );
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let (pid, one) = (child.id() as i32, |pid| vec![pid]);
    let mut stopped = Stopped::stop(&[pid], one, monotonic_ns());
    assert_eq!((stopped.count(), stopped.seized()), (0, 1), "it sleeps uninterruptibly");
    let began_ns = stopped.began_ns();
    drop(child.stdin.take());
    stopped.go_on(&[pid], one, monotonic_ns() + 10 * SECOND_NS);
    assert_eq!((stopped.count(), stopped.refused.is_none()), (1, true));
    assert!(stopped.began_ns() > began_ns, "it stood still later than it was asked to");
    drop(stopped);
    said.read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(line, "ready\nawake\n");
}

#[test]
fn a_signal_that_arrives_meanwhile_is_delivered_after() {
    let mut echo = Echo::start();
    let stopped = stop(echo.pid());
    signals::send(echo.pid(), SIGTERM).unwrap();
    assert_eq!(states(echo.pid()), "t");
    drop(stopped);
    let status = echo.child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(SIGTERM));
}

#[test]
fn a_child_that_ends_meanwhile_is_left_to_whoever_waits_for_it() {
    for _ in 0..20 {
        let mut echo = Echo::start();
        signals::send(echo.pid(), 9).unwrap();
        // Ended before it was seized, or after.
        let stopped = stop(echo.pid());
        assert_eq!(stopped.count(), 0);
        drop(stopped);
        let status = echo.child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}

#[test]
fn a_stopped_process_goes_on_when_its_tracer_is_killed() {
    let mut echo = Echo::start();
    let mut tracer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stop_and_stay", "--ignored", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, echo.pid().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(tracer.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("stopped") {
        line.clear();
        assert_ne!(told.read_line(&mut line).unwrap(), 0, "the tracer ended");
    }
    let seen = (line, states(echo.pid()));
    echo.say("still there?");
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    assert_eq!(seen, ("stopped 1\n".to_owned(), "t".to_owned()));
    assert_eq!(echo.answer(), "still there?\n");
    assert_eq!(echo.ask("and now?"), "and now?\n");
}

#[test]
#[ignore = "the tracer of another test"]
fn stop_and_stay() {
    let Some(pid) = std::env::var(VARIABLE).ok().and_then(|pid| pid.parse().ok()) else { return };
    let stopped = stop(pid);
    println!("\nstopped {}", stopped.count());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}
