//! Looking at processes from outside: their state, their children, their turns.

use std::time::{Duration, Instant};

use nilometer_kernel::sys::signals;

/// Longer than anything takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at something that gives no sign of its own.
const LOOK: Duration = Duration::from_millis(2);

/// The signals that a test sends. Real-time signals are delivered after all others that are pending, so one
/// of them tells that everything sent before has arrived.
pub const HUP: i32 = 1;
pub const INT: i32 = 2;
pub const QUIT: i32 = 3;
pub const KILL: i32 = 9;
pub const USR1: i32 = 10;
pub const USR2: i32 = 12;
pub const ALRM: i32 = 14;
pub const TERM: i32 = 15;
pub const CONT: i32 = 18;
pub const STOP: i32 = 19;
pub const TSTP: i32 = 20;
pub const WINCH: i32 = 28;
pub const REALTIME: i32 = 36;
pub const MARKER: i32 = 44;

/// Sends a signal to a process, or to a group if `pid` is negative.
#[track_caller]
pub fn send(pid: i32, signal: i32) {
    signals::send(pid, signal).unwrap_or_else(|e| panic!("kill({pid}, {signal}): {e}"));
}

/// Waits until `condition` holds; the kernel offers no way to wait for most of what tests look at.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(LOOK);
    }
}

/// The state letter of a process (`R`, `S`, `T`, `Z`…), its parent and its short name.
pub struct Stat {
    pub state: char,
    pub parent: i32,
    pub name: String,
}

pub fn stat(pid: i32) -> Option<Stat> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (before, after) = text.rsplit_once(") ")?;
    let (_, name) = before.split_once(" (")?;
    let mut fields = after.split(' ');
    let state = fields.next()?.chars().next()?;
    Some(Stat { state, parent: fields.next()?.parse().ok()?, name: name.to_owned() })
}

/// Neither running nor waiting: ended, perhaps not yet waited for.
pub fn has_ended(pid: i32) -> bool {
    stat(pid).is_none_or(|s| matches!(s.state, 'Z' | 'X'))
}

pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|s| s.state == 'T')
}

pub fn children(parent: i32) -> Vec<(i32, Stat)> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).filter(|(_, s)| s.parent == parent).collect()
}

/// The helper of a running `nilo`.
#[track_caller]
pub fn sentinel_of(nilo: i32) -> i32 {
    let found = children(nilo).into_iter().find(|(_, s)| s.name == "nilo-sentinel");
    found.expect("a running nilo has a sentinel").0
}

/// Waits until `nilo` went to sleep a few times more: then it has ticked since this was called.
#[track_caller]
pub fn after_some_ticks(nilo: i32) {
    let begin = sleeps(nilo);
    until("nilo ticks", || sleeps(nilo) >= begin + 10);
}

fn sleeps(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|l| l.trim().parse().ok()).unwrap_or(u64::MAX / 2)
}
