//! Threads that we trace: what they do, and what we ask of them.
//!
//! Only stops are taken from the kernel's queue. The end of a child of ours is left there: whoever started it waits
//! for it, and would wait in vain.

use std::io;
use std::mem::MaybeUninit;

use super::clock::monotonic_ns;
use super::poll::PollSet;
use super::process::own_pid;
use super::{check, last_error};
use crate::read::proc::Proc;

/// How long we look without sleeping: a thread on a processor stops within microseconds, and a sleep of ours costs
/// the target more than it saves us. A blocking wait would be held for ever by a thread in an uninterruptible sleep.
pub(super) const EAGER_NS: u64 = 3_000_000;
/// Between two looks after that.
const STEP_NS: u64 = 50_000;

/// What a traced thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Running,
    Stopped {
        /// `PTRACE_EVENT_…`, 0 for a stop at a signal or at a system call.
        event: i32,
        /// The signal that it is about to get; 0 at a stop that we asked for.
        signal: i32,
    },
    Ended,
}

/// Looks without waiting. A stop is reported once.
pub(super) fn look(thread: i32) -> Seen {
    // Looked at first and taken then: a call that asks for ends only would report stops of traced threads too.
    match waitid(thread, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT) {
        Ok(None) => Seen::Running,
        Ok(Some(Report::Stop(code))) => {
            let _ = waitid(thread, libc::WSTOPPED);
            let event = code >> 8;
            let signal = if event == libc::PTRACE_EVENT_STOP { 0 } else { code & 0xff };
            Seen::Stopped { event, signal }
        }
        Ok(Some(Report::End)) => {
            if !is_own_child(thread) {
                let _ = waitid(thread, libc::WEXITED);
            }
            Seen::Ended
        }
        Err(_) => Seen::Ended, // no thread of ours any more
    }
}

/// Waits until it has stopped or ended; never [`Seen::Running`].
///
/// It looks again and again instead of sleeping in the kernel: the end of a first thread is reported only after that of
/// all others, which are perhaps ours to take too, so that both sides would wait for ever.
pub(super) fn wait(thread: i32) -> Seen {
    let eager_until_ns = monotonic_ns() + EAGER_NS;
    loop {
        match look(thread) {
            Seen::Running if monotonic_ns() < eager_until_ns => std::thread::yield_now(),
            Seen::Running if !is_dead(thread) => rest(),
            Seen::Running => {
                // It may have ended between the two looks; only if its end is still not reported, others hold it back.
                return Some(look(thread)).filter(|seen| *seen != Seen::Running).unwrap_or(Seen::Ended);
            }
            seen => return seen,
        }
    }
}

/// Between two looks.
pub(super) fn rest() {
    PollSet::default().wait_until(monotonic_ns() + STEP_NS).for_each(drop);
}

/// Gone, or only waiting for somebody to take its end.
pub(super) fn is_dead(thread: i32) -> bool {
    Proc::default().read_stat(thread, &mut Vec::new()).map_or(true, |stat| stat.is_zombie())
}

enum Report {
    /// With `PTRACE_EVENT_…` in the second byte.
    Stop(i32),
    End,
}

/// What `waitid` tells; `None` if there is nothing to tell.
fn waitid(thread: i32, options: i32) -> io::Result<Option<Report>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let id = thread as libc::id_t;
    // SAFETY: `info` is writable; zeroed is a valid value, which is left as it is where there is nothing to tell.
    let (outcome, info) = unsafe {
        let options = options | libc::WNOHANG | libc::__WALL;
        (libc::waitid(libc::P_PID, id, info.as_mut_ptr(), options), info.assume_init())
    };
    check(outcome)?;
    // SAFETY: these fields are those of SIGCHLD, which `waitid` fills, or zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(match info.si_code {
        _ if pid == 0 => None,
        libc::CLD_TRAPPED | libc::CLD_STOPPED => Some(Report::Stop(status)),
        _ => Some(Report::End),
    })
}

/// The first thread of a process that we started: its end is somebody's to take.
fn is_own_child(thread: i32) -> bool {
    let status = Proc::default().read_status(thread, &mut Vec::new());
    status.is_ok_and(|status| status.ppid == own_pid() && status.is_thread_leader())
}

/// A request that takes a number.
pub(super) fn ptrace(request: libc::c_uint, thread: i32, number: usize) -> io::Result<()> {
    step();
    let (address, number) = (std::ptr::null_mut::<libc::c_void>(), number as *mut libc::c_void);
    // SAFETY: the requests made this way read no memory through either; both are plain numbers here.
    let result = unsafe { libc::ptrace(request, thread, address, number) };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

/// Before each request.
#[cfg(not(test))]
pub(super) fn step() {}

/// Before each request: the tests of what our death does have us killed before any one of them.
#[cfg(test)]
pub(super) fn step() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static STEPS: AtomicU64 = AtomicU64::new(0);
    let number = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    if std::env::var("NILO_TEST_KILLED_AT").is_ok_and(|at| at.parse() == Ok(number)) {
        // SAFETY: sends a signal by number to this process.
        unsafe { libc::kill(own_pid(), libc::SIGKILL) };
    }
}
