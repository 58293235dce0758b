//! Memory mapped for us: pages that are there before they are needed, or a file.
//!
//! What can be written ([`Populated`]) and what can only be read ([`Mapped`]) are two types: a store into a mapped
//! file would end us.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A mapping of our own that is only read; unmapped when dropped.
#[derive(Debug)]
pub struct Mapped {
    /// Dangling when `length` is 0.
    start: NonNull<u8>,
    length: usize,
    /// Never written to: its pages are the file's.
    is_file: bool,
}

/// Zeroed memory of our own whose pages are already there: writing to it faults no more.
#[derive(Debug)]
pub struct Populated(Mapped);

/// Pages are asked for in pieces of this size, so that several threads can share the work.
const PIECE_BYTES: usize = 32 << 20;

// SAFETY: the mapping is owned by this value alone; nothing of it is bound to a thread.
unsafe impl Send for Mapped {}
// SAFETY: shared access only reads.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A whole file, read-only. Whoever truncates it while we read ends us with SIGBUS, as with any mapped file.
    pub fn file(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let mut mapped = Self::map(length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd())?;
        mapped.is_file = true;
        Ok(mapped)
    }

    /// The whole pages of a part that nobody needs soon are ours no more; whoever reads them again has them from the file
    /// again. What is of no file stays.
    pub fn give_back(&self, part: &Range<usize>) {
        let page = super::limits::page_bytes() as usize;
        let (first, end) = (part.start.next_multiple_of(page), part.end.min(self.length) / page * page);
        if self.is_file && first < end {
            // SAFETY: the range lies in this mapping, which nobody can write to (`PROT_READ`): pages that are dropped read
            // the same when the kernel brings them back.
            unsafe { libc::madvise(self.start.as_ptr().add(first).cast(), end - first, libc::MADV_DONTNEED) };
        }
    }

    fn map(length: usize, protection: i32, flags: i32, descriptor: i32) -> io::Result<Self> {
        if length == 0 {
            return Ok(Self { start: NonNull::dangling(), length, is_file: false });
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(super::last_error());
        }
        NonNull::new(start.cast())
            .map(|start| Self { start, length, is_file: false })
            .ok_or_else(|| io::Error::other("mapped at 0"))
    }
}

impl Populated {
    /// `length` bytes, huge pages where the kernel has them, faulted in by `threads` threads.
    pub fn new(length: usize, threads: usize) -> io::Result<Self> {
        Self::with_reserve(length, length, threads)
    }

    /// As [`Populated::new`], and beyond it up to `reserved` bytes whose pages come when they are written.
    pub fn with_reserve(length: usize, reserved: usize, threads: usize) -> io::Result<Self> {
        let length = length.min(reserved);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mut populated = Self(Mapped::map(reserved, protection, flags, -1)?);
        advise(&mut populated, libc::MADV_HUGEPAGE);
        let pieces = std::sync::Mutex::new(populated[..length].chunks_mut(PIECE_BYTES));
        let next = || pieces.lock().ok().and_then(|mut pieces| pieces.next());
        std::thread::scope(|scope| {
            for _ in 1..threads.min(length.div_ceil(PIECE_BYTES)) {
                scope.spawn(|| std::iter::from_fn(next).for_each(populate));
            }
            std::iter::from_fn(next).for_each(populate);
        });
        Ok(populated)
    }

    /// Nobody writes to it any more.
    pub fn freeze(self) -> Mapped {
        self.0
    }
}

/// The pages of `piece` are made now; on kernels before 5.14 they come one by one when written.
fn populate(piece: &mut [u8]) {
    advise(piece, libc::MADV_POPULATE_WRITE);
}

/// Advice only: older kernels refuse some of it, and nothing is lost but time.
fn advise(piece: &mut [u8], advice: libc::c_int) {
    if !piece.is_empty() {
        // SAFETY: the range is borrowed for writing, and neither kind of advice used here changes what it holds.
        unsafe { libc::madvise(piece.as_mut_ptr().cast(), piece.len(), advice) };
    }
}

impl From<&[u8]> for Mapped {
    /// A copy; an empty mapping where memory is refused.
    fn from(bytes: &[u8]) -> Self {
        let Ok(mut populated) = Populated::new(bytes.len(), 1) else {
            return Self { start: NonNull::dangling(), length: 0, is_file: false };
        };
        populated.copy_from_slice(bytes);
        populated.freeze()
    }
}

impl Deref for Mapped {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` bytes as long as `self` lives; anonymous pages are zeroed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Deref for Populated {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Populated {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped writable in `new`, valid for `length` bytes, and `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range is exactly the mapping made in `map`, and nobody else holds it.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn bytes_are_kept_and_nothing_is_a_mapping_too() {
        assert_eq!(&*Mapped::from(&b"abc"[..]), b"abc");
        assert!(Mapped::from(&b""[..]).is_empty());
        let own = File::open("/proc/self/exe").unwrap();
        assert_eq!(&Mapped::file(&own).unwrap()[1..4], b"ELF");
    }

    /// How many bytes of it are in our memory.
    fn resident_bytes(mapped: &Mapped) -> u64 {
        let start = mapped.as_ptr() as u64;
        let mut runs = Vec::new();
        let own = super::super::pagemap::Pagemap::open(std::process::id() as i32).unwrap();
        own.read_runs(start..start + mapped.len() as u64, &mut runs).unwrap();
        runs.iter().map(|run| run.end - run.start).sum()
    }

    #[test]
    fn pages_of_a_file_are_given_back_and_come_again() {
        let bytes: Vec<u8> = (0..64 << 10).map(|at: usize| (at >> 8) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mapped = Mapped::file(&file).unwrap();
        assert_eq!(*mapped, *bytes);
        assert_eq!(resident_bytes(&mapped), 64 << 10);
        mapped.give_back(&(100..30_000));
        assert_eq!(resident_bytes(&mapped), (64 - 24) << 10, "whole pages only");
        mapped.give_back(&(0..usize::MAX));
        assert_eq!(resident_bytes(&mapped), 0);
        assert_eq!(*mapped, *bytes);
        let copy = Mapped::from(&bytes[..]);
        copy.give_back(&(0..bytes.len()));
        assert_eq!(*copy, *bytes, "what is of no file stays");
    }

    #[test]
    fn populated_pages_are_zero_and_resident() {
        let bytes = PIECE_BYTES + 5000; // two threads, the second with a piece that ends within a page
        let mut populated = Populated::new(bytes, 2).unwrap();
        assert!(populated.iter().all(|byte| *byte == 0));
        populated[bytes - 1] = 7;
        assert_eq!(populated.freeze()[bytes - 1], 7);
        let reserved = Populated::with_reserve(10, 1 << 40, 1).unwrap();
        assert_eq!((reserved.len(), reserved[(1 << 40) - 1]), (1 << 40, 0), "more than this machine has");
    }
}
