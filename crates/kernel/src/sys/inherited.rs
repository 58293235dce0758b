//! What this process was started with and its own runtime changes before or in `main`: a target must get it
//! back unchanged.
//!
//! Rust's runtime ignores SIGPIPE and opens `/dev/null` for closed standard descriptors; both are noted
//! before it runs.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static SIGCHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// One bit for each of the descriptors 0, 1, 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn remember() {
    SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    SIGCHLD_WAS_IGNORED.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
    let closed = (0..3).filter(|fd| !is_open(*fd)).fold(0, |bits, fd| bits | 1 << fd);
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: `.init_array` holds pointers to `extern "C"` functions that the loader calls once before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

fn is_ignored(signal: libc::c_int) -> bool {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null `act` only queries; zeroed is a valid sigaction if the call should fail.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr());
        old.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn is_open(fd: libc::c_int) -> bool {
    // SAFETY: reading the flags of a descriptor has no memory effects.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

fn set_disposition(signal: libc::c_int, ignored: bool) {
    let disposition = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: SIG_IGN and SIG_DFL are valid dispositions for the signals used here.
    unsafe { libc::signal(signal, disposition) };
}

/// Gives SIGPIPE back the disposition this process was started with: a reading verb should end quietly when
/// its output is closed (`nilo report | head`).
pub(super) fn restore_sigpipe() {
    set_disposition(libc::SIGPIPE, SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed));
}

/// With SIGCHLD ignored the kernel keeps no exit status and tells nobody that a child has ended.
pub fn listen_for_children() {
    set_disposition(libc::SIGCHLD, false);
}

/// For a child that is about to become the target.
pub(super) fn restore_for_target() {
    restore_sigpipe();
    set_disposition(libc::SIGCHLD, SIGCHLD_WAS_IGNORED.load(Ordering::Relaxed));
}

/// Closes the standard descriptors that were closed when this process was started.
pub(super) fn close_for_target() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed & (1 << fd) != 0) {
        // SAFETY: the runtime's `/dev/null`, which nothing of this (just forked) process uses.
        unsafe { libc::close(fd) };
    }
}
