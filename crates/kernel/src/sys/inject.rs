//! A frozen copy of a process, made by a system call that we put into one of its stopped threads. x86-64 only.
//!
//! The thread's registers and signal mask are saved, it is led through one `clone` (a fork without a signal at its
//! end), and both are given back while it stands at a stop from which the kernel still restarts the call that was
//! interrupted. The child is traced from its first moment and never runs; it is killed if we die. Between the first
//! and the last of these steps our own death would leave the thread with wrong registers: that is the price, and why
//! whatever does this says so first and can be told not to.

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
    /// Where the target has a `syscall` instruction.
    instruction: u64,
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
    /// Makes the child. `instruction` is the address of a `syscall` instruction in `target`.
    ///
    /// The calling thread is the tracer of `stopped`, and of the child from then on.
    pub fn fork(stopped: &Stopped, target: i32, instruction: u64) -> io::Result<Self> {
        let thread = choose(stopped)?;
        let borrowed = x86::Borrowed::new(thread, instruction)?;
        for _ in 0..ATTEMPTS {
            let (result, child) = borrowed.call(libc::SYS_clone, [0; 6])?;
            match child {
                Some(pid) => {
                    drop(borrowed);
                    let frozen = Self { pid, target, inner_pid: result, instruction };
                    return match frozen.guard() {
                        Ok(()) => Ok(frozen),
                        Err(error) => {
                            x86::kill_and_wait(pid);
                            frozen.reap(thread);
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
        let reaped = choose(&stopped).is_ok_and(|thread| self.reap(thread));
        let began_ns = stopped.began_ns();
        drop(stopped);
        reaped.then(|| monotonic_ns() - began_ns)
    }

    /// `wait4(child, NULL, __WALL | WNOHANG, NULL)` in the target: a child without an exit signal is seen by no other
    /// wait, and the target must not wait for anything because of us.
    fn reap(&self, thread: i32) -> bool {
        let Ok(borrowed) = x86::Borrowed::new(thread, self.instruction) else { return false };
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
    pub fn fork(_: &Stopped, _: i32, _: u64) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub fn end(self, _: impl Fn(i32) -> Vec<i32>) -> Farewell {
        Farewell::Zombie
    }
}

/// A thread that may be borrowed: best one inside a system call, which is in no restartable sequence.
#[cfg(target_arch = "x86_64")]
fn choose(stopped: &Stopped) -> io::Result<i32> {
    let quiet = || stopped.quiet_ids();
    let in_call = quiet().find(|thread| x86::is_in_call(*thread));
    let chosen = in_call.or_else(|| quiet().find(|thread| !x86::is_in_sequence(*thread)));
    chosen.ok_or_else(|| io::Error::other("no thread can be borrowed at this moment"))
}

mod lent;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use lent::Lent;
