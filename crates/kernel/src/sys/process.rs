//! Children: waiting for them with their usage, and adopting orphans.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

use super::check;
use super::limits::Usage;

/// What a child did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Exited(i32),
    Killed { signal: i32, core_dumped: bool },
    Stopped(i32),
    Continued,
}

/// One report of `wait4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub pid: i32,
    pub change: Change,
    pub usage: Usage,
}

/// The next child that changed state, without waiting.
pub fn wait_any() -> Option<Wait> {
    wait(-1, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED)
}

/// Waits until this child has ended.
pub fn wait_for(pid: i32) -> Option<Wait> {
    wait(pid, 0)
}

fn wait(pid: i32, options: i32) -> Option<Wait> {
    let (pid, status, usage) = wait4(pid, options)?;
    Some(Wait { pid, change: change(status), usage })
}

fn wait4(pid: i32, options: i32) -> Option<(i32, i32, Usage)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let reported = loop {
        // SAFETY: both out-pointers are valid for their types.
        let reported = unsafe { libc::wait4(pid, &raw mut status, options, usage.as_mut_ptr()) };
        let interrupted = std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if reported >= 0 || !interrupted {
            break reported;
        }
    };
    if reported <= 0 {
        return None;
    }
    // SAFETY: zeroed is a valid rusage, and wait4 filled it for a reported child.
    let usage = unsafe { usage.assume_init() }.into();
    Some((reported, status, usage))
}

fn change(status: i32) -> Change {
    if libc::WIFSTOPPED(status) {
        Change::Stopped(libc::WSTOPSIG(status))
    } else if libc::WIFCONTINUED(status) {
        Change::Continued
    } else if libc::WIFSIGNALED(status) {
        Change::Killed { signal: libc::WTERMSIG(status), core_dumped: libc::WCOREDUMP(status) }
    } else {
        Change::Exited(libc::WEXITSTATUS(status))
    }
}

/// Orphans of the tree become our children instead of init's: none is lost from sight.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// The session of a process, named after the process that began it.
pub fn session_of(pid: i32) -> Option<i32> {
    nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid))).ok().map(nix::unistd::Pid::as_raw)
}

pub fn own_pid() -> i32 {
    std::process::id() as i32
}

/// A descriptor that becomes readable when the process ends (Linux 5.3); immune to pid reuse.
pub fn pidfd(pid: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: the call takes two integers and returns a new descriptor.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int)?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
