//! A frozen copy of a process, made by a system call that we put into one of its stopped threads. x86-64 only.
//!
//! The thread's registers and signal mask are saved, it is led through one `clone` (a fork without a signal at its
//! end), and both are given back while it stands at a stop from which the kernel still restarts the call that was
//! interrupted. The child is traced from its first moment and never runs; it is killed if we die.
//!
//! If we die between any two of these steps, the thread goes back by itself: a frame on its stack leads it through
//! `rt_sigreturn` (see `frame`), and the child, should it be let go before it is guarded, ends itself. What cannot be
//! given back that way is the rest of a sleep: that call returns EINTR, as it would under a debugger.

use std::io;

use super::clock::monotonic_ns;
use super::stop::Stopped;
use super::traced::{is_dead, ptrace, rest};

/// How long the single thread that takes leave of the child is waited for.
const REAP_NS: u64 = 1_000_000_000;
/// A fork that is interrupted is tried again, so often.
const ATTEMPTS: usize = 4;
/// `ERESTARTNOINTR`, include/linux/errno.h: something was pending, try again.
const ERESTARTNOINTR: i64 = 513;

/// A child of the target that stands still before its first instruction.
#[derive(Debug)]
pub struct Frozen {
    pid: i32,
    target: i32,
    /// The child as the target knows it.
    inner_pid: i64,
    footing: Footing,
}

/// How a frozen child was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// The target has taken leave of it: nothing is left. One thread stood still for so long.
    Reaped { stopped_ns: u64 },
    /// The target ended before; whoever inherits the child takes leave of it.
    TargetEnded,
    /// It stays a zombie until the target ends.
    Zombie,
}

impl Frozen {
    /// The child's pid: its memory is the target's as it was.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

#[cfg(target_arch = "x86_64")]
impl Frozen {
    /// Makes the child. The calling thread is the tracer of `stopped`, and of the child from then on.
    pub fn fork(stopped: &Stopped, target: i32, footing: &Footing) -> io::Result<Self> {
        let borrowed = borrow(stopped, footing)?;
        for _ in 0..ATTEMPTS {
            let (result, child) = borrowed.call(libc::SYS_clone, [0, borrowed.childs_stack(), 0, 0, 0, 0])?;
            match child {
                Some(pid) => {
                    let cleared = borrowed.clear(pid);
                    drop(borrowed);
                    let frozen = Self { pid, target, inner_pid: result, footing: footing.clone() };
                    return match frozen.guard().and(cleared) {
                        Ok(()) => Ok(frozen),
                        Err(error) => {
                            x86::kill_and_wait(pid);
                            frozen.reap(stopped);
                            Err(error)
                        }
                    };
                }
                None if result == -ERESTARTNOINTR => {}
                None if result < 0 => return Err(io::Error::from_raw_os_error(-result as i32)),
                None => return Err(io::Error::other("the kernel did not report the child")),
            }
        }
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Waits for its first stop; from then on it dies with us.
    fn guard(&self) -> io::Result<()> {
        x86::wait_for_stop(self.pid)?;
        ptrace(libc::PTRACE_SETOPTIONS, self.pid, libc::PTRACE_O_EXITKILL as usize)
    }

    /// Kills the child and lets the target take leave of it: one of its threads stops for a moment.
    pub fn end(self, threads_of: impl Fn(i32) -> Vec<i32>) -> Farewell {
        x86::kill_and_wait(self.pid);
        let deadline_ns = monotonic_ns() + REAP_NS;
        loop {
            let mut living = threads_of(self.target);
            living.retain(|thread| !is_dead(*thread));
            if living.is_empty() {
                return Farewell::TargetEnded;
            }
            if let Some(stopped_ns) = living.into_iter().find_map(|thread| self.reap_in(thread, deadline_ns))
            {
                return Farewell::Reaped { stopped_ns };
            }
            if monotonic_ns() >= deadline_ns {
                return Farewell::Zombie;
            }
            rest();
        }
    }

    /// For how long the thread stood still for it.
    fn reap_in(&self, thread: i32, deadline_ns: u64) -> Option<u64> {
        let stopped = Stopped::stop(&[self.target], |_| vec![thread], deadline_ns);
        let reaped = self.reap(&stopped);
        let began_ns = stopped.began_ns();
        drop(stopped);
        reaped.then(|| monotonic_ns() - began_ns)
    }

    /// `wait4(child, NULL, __WALL | WNOHANG, NULL)` in the target: a child without an exit signal is seen by no other
    /// wait, and the target must not wait for anything because of us.
    fn reap(&self, stopped: &Stopped) -> bool {
        let Ok(borrowed) = borrow(stopped, &self.footing) else { return false };
        let arguments = [self.inner_pid as u64, 0, (libc::__WALL | libc::WNOHANG) as u64, 0, 0, 0];
        for _ in 0..ATTEMPTS {
            match borrowed.call(libc::SYS_wait4, arguments) {
                Ok((result, _)) if result == self.inner_pid => return true,
                Ok((0, _)) => rest(),
                _ => return false,
            }
        }
        false
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Frozen {
    pub fn fork(_: &Stopped, _: i32, _: &Footing) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub fn end(self, _: impl Fn(i32) -> Vec<i32>) -> Farewell {
        Farewell::Zombie
    }
}

/// Borrows a thread: best one inside a system call, which is in no restartable sequence; one that finds back.
#[cfg(target_arch = "x86_64")]
fn borrow(stopped: &Stopped, footing: &Footing) -> io::Result<x86::Borrowed> {
    let (in_call, others): (Vec<i32>, Vec<i32>) =
        stopped.quiet_ids().partition(|thread| x86::is_in_call(*thread));
    let others = others.into_iter().filter(|thread| !x86::is_in_sequence(*thread));
    let mut refused = io::Error::other("no thread can be borrowed at this moment");
    for thread in in_call.into_iter().chain(others) {
        match x86::Borrowed::new(thread, footing) {
            Ok(borrowed) => return Ok(borrowed),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

mod footing;
#[cfg(target_arch = "x86_64")]
mod frame;
mod lent;
#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use footing::Footing;
pub use lent::Lent;
