//! Helper processes of ours: forked, never returning into the caller.

use std::os::fd::{AsRawFd, OwnedFd};

use super::check;
use super::launch::close_from;

/// Forks a process that runs `body` and exits. It holds `kept` (renumbered from 0 on) and no other descriptor.
///
/// The body may allocate, which the C library keeps possible after a fork. It must not wait for a lock that another thread of
/// ours may hold: that thread is not there to let go of it.
pub fn fork_companion(kept: Vec<OwnedFd>, body: impl FnOnce(Vec<OwnedFd>)) -> std::io::Result<i32> {
    // SAFETY: the child runs the body, which waits for no thread that it does not have, and never returns into the caller.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        if let Ok(kept) = keep_only(kept) {
            body(kept);
        }
        // SAFETY: leaves at once, without the parent's exit handlers.
        unsafe { libc::_exit(0) }
    }
    Ok(pid)
}

/// Moves the kept descriptors to 0, 1, 2 … and closes everything else.
fn keep_only(kept: Vec<OwnedFd>) -> std::io::Result<Vec<OwnedFd>> {
    let count = kept.len() as i32;
    // First above all targets, so that no move overwrites one still to be moved.
    let safe: Vec<i32> = kept.iter().map(|fd| duplicate_above(fd, count)).collect::<Result<_, _>>()?;
    for fd in kept {
        std::mem::forget(fd); // its number is overwritten or closed below
    }
    for (number, fd) in safe.iter().enumerate() {
        place(*fd, number as i32)?;
    }
    close_from(count);
    // SAFETY: numbers 0..count were made just now and nobody else owns them.
    Ok((0..count).map(|fd| unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }).collect())
}

fn duplicate_above(fd: &OwnedFd, least: i32) -> std::io::Result<i32> {
    // SAFETY: F_DUPFD takes a descriptor and a number.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least.max(16)) })
}

/// Makes `number` of this (just forked) process a duplicate of `fd`.
fn place(fd: i32, number: i32) -> std::io::Result<()> {
    // SAFETY: both descriptors belong to this process, which uses `number` for nothing else.
    check(unsafe { libc::dup2(fd, number) }).map(drop)
}
