//! A userfaultfd of another process with asynchronous write protection, held by us alone.
//!
//! It is opened by a thread of the target, taken over and closed there: from then on everything is done from outside, and
//! when we end, for whatever reason, the kernel takes back all of it. Memory of different descriptors is not joined by
//! the kernel, so that two of them split mappings into chunks. Since Linux 6.7.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::check;
use super::process::pidfd;

/// include/uapi/linux/userfaultfd.h
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const REGISTER_MODE_WP: u64 = 2;
const FEATURES: u64 = WP_UNPOPULATED | WP_ASYNC;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const PAGE: u64 = 4096;

/// One descriptor.
#[derive(Debug)]
pub struct Protector {
    file: OwnedFd,
}

impl Protector {
    /// Takes over what `pid` has opened as `number`; needs what ptrace needs (`pidfd_getfd`, since Linux 5.6).
    pub fn take(pid: i32, number: u64) -> io::Result<Self> {
        let process = pidfd(pid)?;
        // SAFETY: the call takes three numbers and returns a new descriptor.
        let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
        let taken = check(taken as libc::c_int)?;
        // SAFETY: the descriptor is new and owned by nobody else.
        let protector = Self { file: unsafe { OwnedFd::from_raw_fd(taken) } };
        protector.control(UFFDIO_API, [UFFD_API, FEATURES, 0])?;
        Ok(protector)
    }

    /// Writes to `range` are noted from now on, once it is protected; it is split from what is not registered here.
    pub fn register(&self, range: &Range<u64>) -> io::Result<()> {
        let bytes = range.end.saturating_sub(range.start);
        self.control(UFFDIO_REGISTER, [range.start, bytes, REGISTER_MODE_WP, 0])
    }

    /// Whether the memory it was opened for is still there: a new program (`exec`) has memory of its own.
    pub fn lives(&self) -> bool {
        // Nothing is mapped there, which is told only of memory that is there at all.
        let told = self.control(UFFDIO_WRITEPROTECT, [PAGE, PAGE, 0]);
        !told.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
    }

    fn control<const N: usize>(&self, request: libc::c_ulong, mut words: [u64; N]) -> io::Result<()> {
        // SAFETY: each request is made with as many words as its structure has, readable and writable.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), request, words.as_mut_ptr()) }).map(drop)
    }
}
