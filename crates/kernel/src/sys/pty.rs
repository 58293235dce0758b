//! Streams that stand in for a target's own: a pipe for a pipe or file, a pseudo-terminal for a terminal.

use std::io::IsTerminal;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::launch::pipe;
use super::{check, last_error};

/// A stand-in: the target writes to `target_end`, we read from `our_end`.
#[derive(Debug)]
pub struct StandIn {
    pub our_end: OwnedFd,
    pub target_end: OwnedFd,
    pub is_terminal: bool,
}

impl StandIn {
    /// Of the same kind as `original`. A pseudo-terminal passes bytes as they are (raw): the real
    /// terminal does the rest.
    pub fn like(original: BorrowedFd<'_>) -> std::io::Result<Self> {
        if !original.is_terminal() {
            let (our_end, target_end) = pipe()?;
            return Ok(Self { our_end, target_end, is_terminal: false });
        }
        let pair = nix::pty::openpty(None, None)?;
        let mut modes = nix::sys::termios::tcgetattr(&pair.slave)?;
        nix::sys::termios::cfmakeraw(&mut modes);
        nix::sys::termios::tcsetattr(&pair.slave, nix::sys::termios::SetArg::TCSANOW, &modes)?;
        close_on_exec(&pair.master)?;
        close_on_exec(&pair.slave)?;
        copy_window_size(original, pair.master.as_fd());
        Ok(Self { our_end: pair.master, target_end: pair.slave, is_terminal: true })
    }
}

fn close_on_exec(fd: &OwnedFd) -> std::io::Result<()> {
    // SAFETY: F_SETFD takes a descriptor and a number.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// Gives `to` the window size of `from`, and tells whether it had another; what is no terminal has none.
pub fn copy_window_size(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    let (Some(new), Some(old)) = (window_size(from), window_size(to)) else { return false };
    // SAFETY: TIOCSWINSZ reads a winsize; the descriptor is open.
    let set = unsafe { libc::ioctl(to.as_raw_fd(), libc::TIOCSWINSZ, &raw const new) == 0 };
    set && (new.ws_row, new.ws_col) != (old.ws_row, old.ws_col)
}

fn window_size(fd: BorrowedFd<'_>) -> Option<libc::winsize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ fills a winsize; the descriptor is open.
    let known = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) == 0 };
    known.then_some(size)
}

/// Do two descriptors lead to the same file, pipe or terminal?
pub fn are_same(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> bool {
    let identity = |fd: BorrowedFd<'_>| nix::sys::stat::fstat(fd).ok().map(|s| (s.st_dev, s.st_ino));
    identity(a).is_some() && identity(a) == identity(b)
}

/// A duplicate that is closed by `exec`.
pub fn duplicate(fd: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    fd.try_clone_to_owned()
}

/// Writes all of `bytes`; waits where the reader is slow, as the target itself would.
pub fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the slice is valid for its length.
        let written = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) => bytes = &bytes[written..],
            Err(_) => wait_or_fail(fd)?,
        }
    }
    Ok(())
}

/// A descriptor that the user made non-blocking is waited for; an interruption is tried again.
fn wait_or_fail(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    let error = last_error();
    match error.kind() {
        std::io::ErrorKind::Interrupted => Ok(()),
        std::io::ErrorKind::WouldBlock => {
            let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: one valid pollfd.
            check(unsafe { libc::poll(&raw mut poll, 1, -1) }).map(drop)
        }
        _ => Err(error),
    }
}

/// One read; 0 at the end. A pseudo-terminal whose last writer is gone says EIO.
pub fn read_some(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> usize {
    loop {
        // SAFETY: the slice is valid for its length.
        let read = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(read) {
            Ok(read) => return read,
            Err(_) if last_error().kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}
