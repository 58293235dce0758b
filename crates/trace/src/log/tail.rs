//! The growing end of a file: a write happens whole or leaves no trace.

use std::{fmt, fs::File, io, os::unix::fs::FileExt};

/// What the log needs of a file; tests give one that fails.
pub(super) trait Disk: fmt::Debug + Send {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}

impl Disk for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }
}

#[derive(Debug)]
pub(super) struct Tail {
    disk: Box<dyn Disk>,
    /// All before this is good; the next write goes here even if the last one left bytes behind it.
    end: u64,
}

impl Tail {
    pub(super) fn new(disk: Box<dyn Disk>) -> Self {
        Self { disk, end: 0 }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = self.disk.write_all_at(bytes, self.end);
        match &result {
            Ok(()) => self.end += bytes.len() as u64,
            // Best effort: if this fails too, the reader sees a torn frame and the next write covers it.
            Err(_) => drop(self.disk.set_len(self.end)),
        }
        result
    }
}
