//! Stopping processes so that the kernel itself lets them go if we die.
//!
//! `PTRACE_SEIZE` + `PTRACE_INTERRUPT` stops a thread without a signal; when the tracer ends, for whatever
//! reason, the kernel detaches and the thread runs on. SIGSTOP would outlive us. The price is that a
//! blocking call that is not restarted by the kernel returns EINTR, as under a debugger.
//!
//! The tracer is the *thread* that calls [`Stopped::stop`]: only it may let go, and what it could not let go (a thread
//! that was in an uninterruptible sleep and stops later) is freed when it ends. Whoever goes on for long afterwards
//! stops from a thread of its own.

use std::collections::HashSet;
use std::io;

use super::clock::monotonic_ns;
use super::traced::{EAGER_NS, Seen, look, ptrace, rest};

/// Threads that are stopped by us; released when this is dropped.
#[derive(Debug, Default)]
pub struct Stopped {
    threads: Vec<Thread>,
    known: HashSet<i32>,
    /// When the first thread was asked to stop; 0 if none was.
    began_ns: u64,
    /// Threads that could not be seized (gone, or another tracer, or not permitted), with the last error.
    pub refused: Option<io::Error>,
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
        stopped.go_on(pids, threads_of, deadline_ns);
        stopped
    }

    /// Waits on for threads that did not stop in time. They stay ours meanwhile: one that runs cannot be let go, and
    /// cannot be seized a second time either.
    pub fn go_on(&mut self, pids: &[i32], threads_of: impl Fn(i32) -> Vec<i32>, deadline_ns: u64) {
        if self.seized() > 0 && self.count() == 0 {
            self.began_ns = monotonic_ns(); // nothing stands still yet
        }
        loop {
            let news: Vec<i32> =
                pids.iter().flat_map(|pid| threads_of(*pid)).filter(|id| self.seize(*id)).collect();
            self.interrupt(&news);
            self.await_stops(deadline_ns);
            if news.is_empty() || monotonic_ns() >= deadline_ns {
                return;
            }
        }
    }

    /// How many threads stand still.
    pub fn count(&self) -> usize {
        self.ids().count()
    }

    /// How many threads are ours, whether they stand still or not yet.
    pub fn seized(&self) -> usize {
        self.threads.len()
    }

    /// The threads that stand still.
    pub fn ids(&self) -> impl Iterator<Item = i32> {
        self.threads.iter().filter(|t| t.stopped).map(|t| t.id)
    }

    /// Those that stand still and are not about to get a signal.
    pub fn quiet_ids(&self) -> impl Iterator<Item = i32> {
        self.threads.iter().filter(|t| t.stopped && t.pending == 0).map(|t| t.id)
    }

    /// True when all that were seized stand still.
    pub fn is_complete(&self) -> bool {
        self.threads.iter().all(|t| t.stopped)
    }

    /// When the first thread was asked to stop, on the monotonic clock.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// True when it was not ours before and is now. It runs on until it is interrupted: seizing many threads takes a
    /// while, and they should not stand still for it.
    fn seize(&mut self, id: i32) -> bool {
        if self.known.contains(&id) {
            return false;
        }
        match ptrace(libc::PTRACE_SEIZE, id, 0) {
            Ok(()) => {
                self.threads.push(Thread { id, stopped: false, pending: 0 });
                self.known.insert(id)
            }
            Err(error) => {
                self.refused = Some(error);
                false
            }
        }
    }

    fn interrupt(&mut self, ids: &[i32]) {
        if self.began_ns == 0 && !ids.is_empty() {
            self.began_ns = monotonic_ns();
        }
        for id in ids {
            // One that fails has ended; waiting for it tells so.
            let _ = ptrace(libc::PTRACE_INTERRUPT, *id, 0);
        }
    }

    fn await_stops(&mut self, deadline_ns: u64) {
        let eager_until_ns = monotonic_ns() + EAGER_NS;
        loop {
            self.collect();
            let now_ns = monotonic_ns();
            if self.is_complete() || now_ns >= deadline_ns {
                return;
            }
            if now_ns < eager_until_ns {
                std::thread::yield_now();
            } else {
                rest();
            }
        }
    }

    fn collect(&mut self) {
        self.threads.retain_mut(|thread| {
            if thread.stopped {
                return true;
            }
            match look(thread.id) {
                Seen::Running => true,
                Seen::Stopped { signal, .. } => {
                    thread.stopped = true;
                    thread.pending = signal;
                    true
                }
                Seen::Ended => false,
            }
        });
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in &self.threads {
            if !thread.stopped {
                // Detaching needs a stopped thread; an unresponsive one (uninterruptible sleep) is let go
                // by the kernel when this thread ends, and its INTERRUPT is consumed by then.
                look(thread.id);
            }
            let _ = ptrace(libc::PTRACE_DETACH, thread.id, thread.pending as usize);
        }
    }
}
