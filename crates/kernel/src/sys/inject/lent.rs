//! System calls that a stopped thread of the target makes for us: splitting mappings, opening a userfaultfd.
//!
//! As with a frozen copy, its registers and signal mask are saved and given back, by itself if we die; the other threads
//! run on. The one invariant: a call that fails leaves the target as it was before that call.

use std::io;
use std::ops::Range;

use super::super::stop::Stopped;
use super::Footing;

/// include/uapi/linux/userfaultfd.h
const UFFD_USER_MODE_ONLY: u64 = 1;

/// A thread that makes calls for us until this is dropped.
#[derive(Debug)]
pub struct Lent {
    #[cfg(target_arch = "x86_64")]
    thread: super::x86::Borrowed,
}

#[cfg(target_arch = "x86_64")]
impl Lent {
    /// `stopped` holds at least one thread of the target whose footing this is.
    pub fn new(stopped: &Stopped, footing: &Footing) -> io::Result<Self> {
        Ok(Self { thread: super::borrow(stopped, footing)? })
    }

    fn call(&self, number: libc::c_long, arguments: [u64; 6]) -> io::Result<u64> {
        let (result, _) = self.thread.call(number, arguments)?;
        if (-4095..0).contains(&result) {
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        Ok(result as u64)
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Lent {
    pub fn new(_: &Stopped, _: &Footing) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn call(&self, _: libc::c_long, _: [u64; 6]) -> io::Result<u64> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

impl Lent {
    /// Leaves `range` out of core dumps, or not: mappings of different answers are not joined by the kernel.
    pub fn set_dumped(&self, range: &Range<u64>, is_dumped: bool) -> io::Result<()> {
        let advice = if is_dumped { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
        let bytes = range.end.saturating_sub(range.start);
        self.call(libc::SYS_madvise, [range.start, bytes, advice as u64, 0, 0, 0]).map(drop)
    }

    /// A userfaultfd of the target; its number there. Only faults of its own code would be its business.
    pub fn open_userfaultfd(&self) -> io::Result<u64> {
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64 | UFFD_USER_MODE_ONLY;
        self.call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0])
    }

    pub fn close(&self, fd: u64) -> io::Result<()> {
        self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]).map(drop)
    }
}
