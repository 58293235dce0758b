//! Holding the target: all its threads, or why not.

use std::io;
use std::time::Duration;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::inject::{Farewell, Footing, Frozen};
use nilometer_kernel::sys::stop::Stopped;

use crate::Error;

/// A thread in an uninterruptible sleep is waited for no longer than this; the rest is copied all the same.
const LONGEST_STOP: Duration = Duration::from_millis(250);
/// A busy machine may need so long to let all threads reach their stop, however short the pause should be.
const SHORTEST_STOP: Duration = Duration::from_millis(50);

/// Stops every thread of the target.
pub(super) fn stop(pid: i32, max_pause: Duration) -> Result<Stopped, Error> {
    let last_ns = monotonic_ns() + max_pause.max(SHORTEST_STOP).as_nanos() as u64;
    let mut stopped = Stopped::default();
    loop {
        let deadline_ns = monotonic_ns() + max_pause.clamp(SHORTEST_STOP, LONGEST_STOP).as_nanos() as u64;
        stopped.go_on(&[pid], threads_of, deadline_ns);
        if stopped.count() > 0 {
            return Ok(stopped);
        }
        // As long as no thread stands still, waiting costs the target nothing.
        let refused = stopped.refused.take();
        if refused.is_some() || monotonic_ns() >= last_ns {
            return Err(why_not_stopped(pid, refused));
        }
    }
}

pub(super) fn threads_of(pid: i32) -> Vec<i32> {
    Proc::default().list_threads(pid).unwrap_or_default()
}

fn why_not_stopped(pid: i32, refused: Option<io::Error>) -> Error {
    let read_status = |pid| Proc::default().read_status(pid, &mut Vec::new()).ok();
    let Some(status) = read_status(pid) else { return Error::Gone { pid } };
    if status.is_zombie() {
        return Error::Zombie { pid };
    }
    match refused {
        // What the kernel names is the thread that traces.
        Some(_) if status.tracer != 0 => Error::Traced {
            pid,
            tracer: read_status(status.tracer).map_or(status.tracer, |tracer| tracer.tgid),
        },
        Some(source) => Error::NotStopped { pid, source },
        None => Error::NotStopped { pid, source: io::ErrorKind::TimedOut.into() },
    }
}

/// Sentences for what is doubtful about a stop.
pub(super) fn doubts(stopped: &Stopped) -> Option<String> {
    let all = stopped.seized();
    let running = all - stopped.count();
    (running > 0).then(|| format!("{running} of {all} threads could not be stopped in time and ran on"))
}

/// Makes a frozen child of the stopped target.
pub(super) fn fork(stopped: &Stopped, pid: i32, footing: &Footing) -> Result<Frozen, Error> {
    Frozen::fork(stopped, pid, footing).map_err(|source| Error::NotForked { pid, reason: source.to_string() })
}

pub(super) fn farewell(frozen: Frozen) -> (u64, Option<String>) {
    let child = frozen.pid();
    match frozen.end(threads_of) {
        Farewell::Reaped { stopped_ns } => (stopped_ns, None),
        Farewell::TargetEnded => (0, None),
        Farewell::Zombie => {
            (0, Some(format!("the snapshot, process {child}, stays a zombie until the target ends")))
        }
    }
}

/// Where a target that runs may be led through system calls of ours; why not, in a sentence, before it is touched.
pub fn find_footing(pid: i32) -> Result<Footing, Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::NoInjection);
    }
    let refused = |reason: String| Error::NotForked { pid, reason };
    if has_own_filters(pid) {
        return Err(refused("it lives under seccomp filters that may end it for a call of ours".to_owned()));
    }
    Footing::find(pid).map_err(|error| refused(error.to_string()))
}

/// Filters that we do not live under ourselves; whether those forbid or kill cannot be seen from outside.
fn has_own_filters(pid: i32) -> bool {
    let own = std::process::id() as i32;
    let read = |pid| Proc::default().read_status(pid, &mut Vec::new()).ok();
    let Some((target, own)) = read(pid).zip(read(own)) else { return false };
    match (target.seccomp_filters, own.seccomp_filters) {
        (Some(theirs), Some(ours)) if target.seccomp != 1 => theirs > ours,
        _ => target.seccomp > own.seccomp,
    }
}
