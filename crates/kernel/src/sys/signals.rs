//! Receiving signals through a descriptor, and the dispositions a target must inherit unchanged.

use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use super::{check, inherited};

/// Signals left alone: they cannot be caught, or report a fault of ours.
const NOT_TAKEN: [libc::c_int; 11] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPIPE,
    libc::SIGPROF,
];

/// Gives SIGPIPE back the disposition this process was started with: a reading verb should end quietly when
/// its output is closed (`nilo report | head`).
pub fn restore_sigpipe() {
    inherited::restore_sigpipe();
}

/// A signal mask.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

impl Mask {
    /// Everything that a launcher must notice and pass on, and SIGCHLD.
    pub fn taken() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises `set`; sigdelset gets valid signal numbers.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for signal in NOT_TAKEN {
                libc::sigdelset(set.as_mut_ptr(), signal);
            }
            Self(set.assume_init())
        }
    }

    /// These signals and no others.
    pub fn of(numbers: &[i32]) -> Self {
        let mut set = set_of(0);
        for number in numbers {
            // SAFETY: the set is initialised; a bad number leaves it as it is.
            unsafe { libc::sigaddset(&raw mut set, *number) };
        }
        Self(set)
    }

    /// Blocks these signals in this thread and returns the mask of before.
    pub fn block(&self) -> std::io::Result<Self> {
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are valid; on success `old` is initialised.
        unsafe {
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, old.as_mut_ptr());
            if error != 0 {
                return Err(std::io::Error::from_raw_os_error(error));
            }
            Ok(Self(old.assume_init()))
        }
    }

    /// Makes this the thread's mask.
    pub fn restore(&self) {
        // SAFETY: `self.0` is an initialised set, and a null old set is allowed.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// One received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    pub number: i32,
    /// True when the kernel itself sent it: the terminal's Ctrl-C, Ctrl-Z, hang-up, window change.
    pub from_kernel: bool,
    pub sender: i32,
}

/// A non-blocking descriptor that yields the blocked signals.
#[derive(Debug)]
pub struct SignalFd(File);

impl SignalFd {
    pub fn new(mask: &Mask) -> std::io::Result<Self> {
        // SAFETY: -1 asks for a new descriptor; the mask is initialised.
        let fd =
            check(unsafe { libc::signalfd(-1, &raw const mask.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Takes over an existing signal descriptor.
    ///
    /// # Safety
    /// `fd` must be an open signalfd that nobody else owns.
    pub(super) unsafe fn from_raw(fd: i32) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { File::from_raw_fd(fd) })
    }

    /// The next pending signal, if any.
    pub fn next(&self) -> Option<Received> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut bytes = [0u8; SIZE];
        match (&self.0).read(&mut bytes) {
            Ok(SIZE) => {}
            _ => return None,
        }
        // SAFETY: the kernel filled all SIZE bytes of this plain-data structure; reading unaligned is allowed here.
        let info: libc::signalfd_siginfo = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
        Some(Received {
            number: info.ssi_signo as i32,
            from_kernel: info.ssi_code == libc::SI_KERNEL,
            sender: info.ssi_pid as i32,
        })
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends `signal` to one process.
pub fn send(pid: i32, signal: i32) -> std::io::Result<()> {
    // SAFETY: kill has no memory effects.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Stops this process by a job-control signal that it blocks, as its default action would; returns when it is
/// continued.
pub fn stop_by(signal: i32) {
    let only = set_of(signal);
    // SAFETY: the set is initialised; sending ourselves a signal and unblocking it touch no memory of ours.
    unsafe {
        // Sent while it is blocked: if the terminal's own is still pending, the two are one, and we stop once.
        libc::kill(libc::getpid(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only, std::ptr::null_mut());
    }
}

/// Takes away a blocked signal that is pending; false when none is.
pub fn discard(signal: i32) -> bool {
    let only = set_of(signal);
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: set and time are initialised; no information about the signal is asked for.
    unsafe { libc::sigtimedwait(&raw const only, std::ptr::null_mut(), &raw const at_once) == signal }
}

/// Drops whatever is pending of the signals we take: whoever wanted us to end gets that anyway, and unblocking
/// them would cut off our last words.
pub fn forget_pending() {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let taken = Mask::taken();
    // SAFETY: as in `discard`.
    while unsafe { libc::sigtimedwait(&raw const taken.0, std::ptr::null_mut(), &raw const at_once) } > 0 {}
}

fn set_of(signal: i32) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises `set`; a bad number leaves it empty.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        set.assume_init()
    }
}

/// Real-time signals are queued; of the others at most one of a kind is pending.
pub fn is_queued(signal: i32) -> bool {
    signal >= 32 // SIGRTMIN of the kernel (include/uapi/asm-generic/signal.h); glibc's own begins later
}

/// A closed standard error must not end us while a target runs.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN is a valid disposition for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// The raw descriptor, for poll sets that are built once.
pub fn raw(fd: &impl AsFd) -> i32 {
    fd.as_fd().as_raw_fd()
}
