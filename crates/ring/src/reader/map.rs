//! A whole file of the tracker, mapped. Only published bytes are touched: the rest are holes.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use super::Error;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        at: i64,
    ) -> *mut c_void;
    fn munmap(address: *mut c_void, length: usize) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
}

const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const F_GET_SEALS: c_int = 1034;
const F_SEAL_SHRINK: c_int = 2;

/// A mapping of a sealed file; unmapped on drop.
#[derive(Debug)]
pub struct Map {
    start: *mut u8,
    length: u64,
    inode: u64,
}

// SAFETY: the mapping belongs to the value, and what is in it is only reached through atomics or copied out
// of ranges that the producer has published and will not touch.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps a file that must have exactly `length` bytes.
    pub fn new(file: &File, length: u64) -> Result<Self, Error> {
        let facts = file.metadata()?;
        if facts.len() != length {
            return Err(Error::NotOurs);
        }
        // SAFETY: a query on a descriptor that is open.
        let seals = unsafe { fcntl(file.as_raw_fd(), F_GET_SEALS) };
        if seals < 0 || seals & F_SEAL_SHRINK == 0 {
            return Err(Error::NotSealed);
        }
        // SAFETY: a new shared mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length as usize, PROT_READ_WRITE, MAP_SHARED, file.as_raw_fd(), 0)
        };
        if start as isize == -1 {
            return Err(io::Error::last_os_error().into());
        }
        Ok(Self { start: start.cast(), length, inode: facts.ino() })
    }

    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// A structure of atomics at an offset, if it lies within the file and is aligned.
    pub fn at<T>(&self, offset: u64) -> Option<&T> {
        let end = offset.checked_add(size_of::<T>() as u64)?;
        let fits = end <= self.length && offset.is_multiple_of(align_of::<T>() as u64);
        // SAFETY: in bounds of a page-aligned mapping that lives as long as `self`. `T` is one of the
        // layout's structures, all atomics, for which any bits are valid.
        fits.then(|| unsafe { &*self.start.add(offset as usize).cast::<T>() })
    }

    /// Copies published bytes to the end of `into`. False if they lie outside the file.
    pub fn copy(&self, offset: u64, length: u64, into: &mut Vec<u8>) -> bool {
        let Some(end) = offset.checked_add(length) else { return false };
        if end > self.length {
            return false;
        }
        into.reserve(length as usize);
        // SAFETY: in bounds on both sides. The producer does not write bytes it has published before they
        // are taken; one that does anyway gives us garbage, which the decoder survives.
        unsafe {
            let target = into.as_mut_ptr().add(into.len());
            target.copy_from_nonoverlapping(self.start.add(offset as usize), length as usize);
            into.set_len(into.len() + length as usize);
        }
        true
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and no reference into it outlives `self`.
        unsafe { munmap(self.start.cast(), self.length as usize) };
    }
}
