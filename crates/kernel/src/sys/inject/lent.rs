//! System calls that a stopped thread of the target makes for us: splitting mappings, protecting pages.
//!
//! As with a frozen copy, its registers and signal mask are saved and given back; the other threads run on. The one
//! invariant: a call that fails leaves the target as it was before that call.

use std::io;
use std::ops::Range;

use super::super::memory::write_bytes;
use super::super::stop::Stopped;

/// include/uapi/linux/userfaultfd.h
const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: u64 = 1;
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_WP: u64 = 2;
const UFFD_FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const PAGE: u64 = 4096;

/// A thread that makes calls for us until this is dropped.
#[derive(Debug)]
pub struct Lent {
    target: i32,
    #[cfg(target_arch = "x86_64")]
    thread: super::x86::Borrowed,
}

#[cfg(target_arch = "x86_64")]
impl Lent {
    /// `instruction` is the address of a `syscall` instruction in `target`; `stopped` holds at least one of its threads.
    pub fn new(stopped: &Stopped, target: i32, instruction: u64) -> io::Result<Self> {
        let thread = super::x86::Borrowed::new(super::choose(stopped)?, instruction)?;
        Ok(Self { target, thread })
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
    pub fn new(_: &Stopped, _: i32, _: u64) -> io::Result<Self> {
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

    /// A page of the target's own for the arguments of [`Lent::open_protector`].
    pub fn map_scratch(&self) -> io::Result<u64> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        self.call(libc::SYS_mmap, [0, PAGE, protection, flags, u64::MAX, 0])
    }

    pub fn unmap_scratch(&self, scratch: u64) -> io::Result<()> {
        self.call(libc::SYS_munmap, [scratch, PAGE, 0, 0, 0, 0]).map(drop)
    }

    /// A userfaultfd of the target with asynchronous write protection; its number there.
    pub fn open_protector(&self, scratch: u64) -> io::Result<u64> {
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64 | UFFD_USER_MODE_ONLY;
        let fd = self.call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0])?;
        let features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED;
        match self.control(fd, UFFDIO_API, scratch, &[UFFD_API, features, 0]) {
            Ok(()) => Ok(fd),
            Err(error) => {
                let _ = self.close(fd);
                Err(error)
            }
        }
    }

    /// Writes to `range` are noted from now on, once it is protected.
    pub fn register(&self, fd: u64, scratch: u64, range: &Range<u64>) -> io::Result<()> {
        let bytes = range.end.saturating_sub(range.start);
        self.control(fd, UFFDIO_REGISTER, scratch, &[range.start, bytes, UFFDIO_REGISTER_MODE_WP, 0])
    }

    /// Ends every protection of this descriptor.
    pub fn close(&self, fd: u64) -> io::Result<()> {
        self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]).map(drop)
    }

    fn control(&self, fd: u64, request: u64, scratch: u64, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        write_bytes(self.target, scratch, &bytes)?;
        self.call(libc::SYS_ioctl, [fd, request, scratch, 0, 0, 0]).map(drop)
    }
}
