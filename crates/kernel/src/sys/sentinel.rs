//! A tiny process in our process group whose only job is to notice signals that went to the whole group.
//!
//! A signal sent to us alone must be forwarded to the target; one sent to the group has reached the target
//! already and forwarding it would deliver it twice (PyTorch Lightning takes a second SIGINT as a hard
//! kill). Nothing in `siginfo` tells the two apart, but a third member of the group does: if it got the
//! signal as well, the group got it. It holds none of the user's descriptors and dies with us.
//!
//! It has a second duty: when the target is stopped as a job we stop too, and somebody may continue or end the target
//! alone. Then it continues us ([`Sentinel::guard`]).

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::launch::close_from;
use super::limits::Usage;
use super::poll::PollSet;
use super::process::wait_for;
use super::signals::{Mask, SignalFd, is_queued, send};
use super::{check, clock::monotonic_ns};
use crate::parse::stat;

#[derive(Debug)]
pub struct Sentinel {
    pub pid: i32,
    line: UnixStream,
    asked: u8,
}

/// A sentinel that does not answer for so long is stopped or starved. A signal is rare and one that arrives
/// twice does harm, so this is patient.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks at a stopped target.
const LOOK_NS: u64 = 50_000_000;
/// Questions that are no signal numbers.
const GUARD: u8 = 128;
const RELIEVE: u8 = 129;

impl Sentinel {
    /// Forks the sentinel. Must be called while this process has one thread, with `mask` blocked.
    pub fn start(mask: &Mask) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let parent = std::process::id();
        // SAFETY: single-threaded by contract; the child never returns into the caller.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            drop(ours);
            watch(mask, &theirs.into(), parent);
            // SAFETY: leaves at once, without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        ours.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { pid, line: ours, asked: 0 })
    }

    /// Ends the sentinel and tells what it used.
    pub fn retire(self) -> Usage {
        // Closing the line is not enough: it may be stopped.
        let _ = send(self.pid, libc::SIGKILL);
        wait_for(self.pid).map(|wait| wait.usage).unwrap_or_default()
    }

    /// From now on we are continued when we are stopped and our child `target` is not, whether it runs or has ended.
    pub fn guard(&mut self, target: i32) {
        self.asked = self.asked.wrapping_add(1);
        let [a, b, c, d] = target.to_ne_bytes();
        let _ = self.line.write_all(&[self.asked, GUARD, a, b, c, d]);
    }

    /// No more.
    pub fn relieve(&mut self) {
        self.asked = self.asked.wrapping_add(1);
        let _ = self.line.write_all(&[self.asked, RELIEVE]);
    }

    /// Did the sentinel get `signal` since it was last asked? `None` when it does not answer.
    pub fn saw(&mut self, signal: i32) -> Option<bool> {
        self.asked = self.asked.wrapping_add(1);
        self.line.write_all(&[self.asked, signal as u8]).ok()?;
        let mut answer = [0u8; 2];
        loop {
            self.line.read_exact(&mut answer).ok()?;
            // An older number is the late answer to a question that was given up.
            if answer[0] == self.asked {
                return Some(answer[1] == 1);
            }
        }
    }
}

/// The sentinel's life: wait for a question, look at what arrived, answer.
fn watch(mask: &Mask, line: &OwnedFd, parent: u32) {
    let Ok(signals) = SignalFd::new(mask) else { return };
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let _ = nix::sys::prctl::set_name(c"nilo-sentinel");
    if nix::unistd::getppid().as_raw() != parent as i32 {
        return; // the parent died before the death signal was set
    }
    let Ok((mut line, signals)) = keep_only(line, signals) else { return };
    let mut seen = [0u32; 65];
    let mut question = [0u8; 2];
    while line.read_exact(&mut question).is_ok() {
        match question[1] {
            GUARD => {
                let mut target = [0u8; 4];
                if line.read_exact(&mut target).is_err() {
                    return;
                }
                watch_over(parent as i32, i32::from_ne_bytes(target), &line);
                continue;
            }
            RELIEVE => continue,
            _ => {}
        }
        while let Some(signal) = signals.next() {
            note(&mut seen, signal.number);
        }
        let answer = u8::from(take(&mut seen, i32::from(question[1])));
        if line.write_all(&[question[0], answer]).is_err() {
            return;
        }
    }
}

/// Until something is said on the line.
fn watch_over(parent: i32, target: i32, line: &UnixStream) {
    loop {
        let mut poll = PollSet::default();
        poll.add(line.as_raw_fd());
        if poll.wait_until(monotonic_ns() + LOOK_NS).next().is_some() {
            return;
        }
        if !is_stopped(target) && is_stopped(parent) {
            let _ = send(parent, libc::SIGCONT);
        }
    }
}

fn is_stopped(pid: i32) -> bool {
    let text = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat::parse(&text).is_ok_and(|stat| stat.state == b'T')
}

fn note(seen: &mut [u32; 65], signal: i32) {
    if let Some(count) = seen.get_mut(signal as usize) {
        *count = if is_queued(signal) { *count + 1 } else { 1 };
    }
}

/// Was it seen since it was last asked for? Queued signals are counted one by one.
fn take(seen: &mut [u32; 65], signal: i32) -> bool {
    let Some(count) = seen.get_mut(signal as usize).filter(|count| **count > 0) else { return false };
    *count -= 1;
    true
}

/// Moves the socket to descriptor 0 and the signals to 1, and closes everything else: a sentinel that
/// kept the user's pipes open would keep their readers waiting.
fn keep_only(line: &OwnedFd, signals: SignalFd) -> std::io::Result<(UnixStream, SignalFd)> {
    place(line.as_raw_fd(), 0)?;
    place(super::signals::raw(&signals), 1)?;
    std::mem::forget(signals); // its number is closed with the rest
    close_from(2);
    // SAFETY: descriptors 0 and 1 were made just now and nobody else owns them.
    Ok(unsafe { (UnixStream::from_raw_fd(0), SignalFd::from_raw(1)) })
}

/// Makes `number` of this (just forked) process a duplicate of `fd`.
fn place(fd: i32, number: i32) -> std::io::Result<()> {
    // SAFETY: both descriptors belong to this process, which uses `number` for nothing else.
    check(unsafe { libc::dup2(fd, number) }).map(drop)
}
