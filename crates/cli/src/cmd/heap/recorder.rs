//! Asking the recording that a process belongs to: as an ancestor it may read where we may not (Yama).

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nilometer_capture::control::socket_of;
use nilometer_kernel::read::proc::Proc;
use nilometer_trace::heap::{self, Graph};
use nilometer_trace::ledger::Ledger;
use serde_json::{Value, json};

/// A census of a large heap takes seconds; a recorder that was killed meanwhile is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A recorder that is stopped does not answer.
const ANSWER: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// Ancestors that are looked at: a tree is not deeper, and a cycle cannot be.
const MOST_ANCESTORS: usize = 64;

/// The census, if a recording of an ancestor takes it for us.
pub fn ask(pid: i32) -> Option<Graph> {
    fetch(pid, "heap", |path| heap::read(std::fs::File::open(path).ok()?).ok())
}

/// The ledger, in the same way.
pub fn ask_for_ledger(pid: i32) -> Option<Ledger> {
    fetch(pid, "ledger", |path| serde_json::from_slice(&std::fs::read(path).ok()?).ok())
}

fn fetch<T>(pid: i32, what: &str, read: impl FnOnce(&Path) -> Option<T>) -> Option<T> {
    let folder = tempfile::tempdir().ok()?; // 0700: nobody else sees it
    let path = folder.path().join(format!("asked.{what}"));
    let request = json!({"do": what, "pid": pid, "path": path}).to_string();
    ancestors(pid).find_map(|ancestor| request_of(&socket_of(ancestor)?, &request))?;
    wait_for(&path)?;
    read(&path)
}

/// True when a recording of an ancestor took a census into this file for us.
pub fn save(pid: i32, file: &Path) -> bool {
    let Ok(path) = std::path::absolute(file) else { return false };
    let request = json!({"do": "heap", "pid": pid, "path": path}).to_string();
    let asked = ancestors(pid).find_map(|ancestor| request_of(&socket_of(ancestor)?, &request));
    let saved = asked.and_then(|()| wait_for(&path)).is_some();
    let _ = std::fs::remove_file(path.with_extension("error"));
    saved
}

/// The run directory of the recording that a process belongs to.
pub fn recording_of(pid: i32) -> Option<PathBuf> {
    let request = json!({"do": "status"}).to_string();
    let belongs = |status: &Value| {
        status["processes"].as_array().is_some_and(|all| all.iter().any(|process| process["pid"] == pid))
    };
    let status = |ancestor| answer_of(&socket_of(ancestor)?, &request).filter(belongs);
    ancestors(pid).find_map(status)?["directory"].as_str().map(PathBuf::from)
}

fn ancestors(pid: i32) -> impl Iterator<Item = i32> {
    let parent =
        |pid: &i32| Proc::default().read_status(*pid, &mut Vec::new()).ok().map(|status| status.ppid);
    std::iter::successors(Some(pid), parent).take_while(|pid| *pid > 1).take(MOST_ANCESTORS)
}

/// `Some` when it was accepted.
fn request_of(socket: &Path, request: &str) -> Option<()> {
    (answer_of(socket, request)?["ok"] == true).then_some(())
}

fn answer_of(socket: &Path, request: &str) -> Option<Value> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    writeln!(&stream, "{request}").ok()?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).ok()?;
    serde_json::from_str(&answer).ok()
}

/// Either file tells that it is done.
fn wait_for(path: &Path) -> Option<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if path.exists() {
            return Some(());
        }
        if path.with_extension("error").exists() {
            return None;
        }
        std::thread::park_timeout(LOOK);
    }
    None
}
