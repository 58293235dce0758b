//! Stopping processes so that the kernel itself lets them go if we die.
//!
//! `PTRACE_SEIZE` + `PTRACE_INTERRUPT` stops a thread without a signal; when the tracer ends, for whatever
//! reason, the kernel detaches and the thread runs on. SIGSTOP would outlive us. The price is that a
//! blocking call that is not restarted by the kernel returns EINTR, as under a debugger.

use super::clock::monotonic_ns;
use super::poll::PollSet;
use super::process::{Wait, poll_thread};

/// Between two looks at threads that have not stopped yet.
const STEP_NS: u64 = 200_000;

/// Threads that are stopped by us; released when this is dropped.
#[derive(Debug, Default)]
pub struct Stopped {
    threads: Vec<Thread>,
    /// Threads that could not be seized (gone, or another tracer, or not permitted), with the last error.
    pub refused: Option<std::io::Error>,
    /// Children of ours that ended while we waited for them to stop; nobody else will report them.
    pub ended: Vec<Wait>,
}

#[derive(Debug)]
struct Thread {
    id: i32,
    stopped: bool,
    /// A signal that was being delivered when it stopped; given back at the release.
    pending: i32,
}

impl Stopped {
    /// Stops every thread of `pids`; `threads_of` lists them. New threads are caught by looking again.
    pub fn stop(pids: &[i32], threads_of: impl Fn(i32) -> Vec<i32>, deadline_ns: u64) -> Self {
        let mut stopped = Self::default();
        loop {
            let news = pids.iter().flat_map(|pid| threads_of(*pid)).filter(|id| stopped.seize(*id)).count();
            stopped.await_stops(deadline_ns);
            if news == 0 || monotonic_ns() >= deadline_ns {
                return stopped;
            }
        }
    }

    /// How many threads stand still.
    pub fn count(&self) -> usize {
        self.threads.iter().filter(|t| t.stopped).count()
    }

    /// True when it was not ours before and is now.
    fn seize(&mut self, id: i32) -> bool {
        if self.threads.iter().any(|t| t.id == id) {
            return false;
        }
        let seized = ptrace(libc::PTRACE_SEIZE, id, 0).and_then(|()| ptrace(libc::PTRACE_INTERRUPT, id, 0));
        match seized {
            Ok(()) => self.threads.push(Thread { id, stopped: false, pending: 0 }),
            Err(error) => self.refused = Some(error),
        }
        self.threads.last().is_some_and(|t| t.id == id)
    }

    fn await_stops(&mut self, deadline_ns: u64) {
        let mut nothing = PollSet::default();
        while self.threads.iter().any(|t| !t.stopped) && monotonic_ns() < deadline_ns {
            self.collect();
            nothing.wait_until(monotonic_ns() + STEP_NS).for_each(drop);
        }
    }

    fn collect(&mut self) {
        let ended = &mut self.ended;
        self.threads.retain_mut(|thread| {
            if thread.stopped {
                return true;
            }
            match poll_thread(thread.id) {
                None => true,
                Some(Ok(pending)) => {
                    thread.stopped = true;
                    thread.pending = pending;
                    true
                }
                Some(Err(wait)) => {
                    ended.push(wait);
                    false
                }
            }
        });
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in &self.threads {
            if !thread.stopped {
                // Detaching needs a stopped thread; an unresponsive one (uninterruptible sleep) is let go
                // by the kernel when we end, and its INTERRUPT is consumed by then.
                let _ = poll_thread(thread.id);
            }
            let _ = ptrace(libc::PTRACE_DETACH, thread.id, thread.pending);
        }
    }
}

fn ptrace(request: libc::c_uint, thread: i32, data: i32) -> std::io::Result<()> {
    // SAFETY: these requests read no memory through `addr` and `data`; both are plain numbers here.
    let result = unsafe {
        libc::ptrace(
            request,
            thread,
            std::ptr::null_mut::<libc::c_void>(),
            data as usize as *mut libc::c_void,
        )
    };
    if result < 0 { Err(super::last_error()) } else { Ok(()) }
}
