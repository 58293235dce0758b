//! The written layer beside every way of looking: soft-dirty bits, or a userfaultfd of the target with asynchronous write
//! protection. Both are exact at a page.

use std::io;
use std::ops::Range;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::inject::Lent;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_kernel::sys::pagemap::Pagemap;

use super::errand;
use super::{Error, Filters};

/// Numbers of errors, as in errno(3).
const EBADF: i32 = 9;
const EFAULT: i32 = 14;
const ENOTTY: i32 = 25;

/// How written pages are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    SoftDirty,
    /// Registered by a thread of the target.
    Protect,
}

impl How {
    pub fn words(self) -> &'static str {
        match self {
            Self::SoftDirty => "soft-dirty bits (clear_refs 4), exact at 4 KiB",
            Self::Protect => {
                "userfaultfd with asynchronous write protection and PAGEMAP_SCAN, exact at 4 KiB, private memory"
            }
        }
    }
}

/// The layer of one process.
#[derive(Debug)]
pub(super) struct Written {
    pid: i32,
    how: How,
    map: Pagemap,
    filters: Filters,
    /// What is looked at, as of the last mark.
    ranges: Vec<Range<u64>>,
    protector: Option<Protector>,
    /// Of a kind that cannot be protected: writes to them are not seen.
    refused: Vec<Range<u64>>,
    stopped_ns: u64,
    notes: Vec<String>,
    is_off: bool,
}

/// Numbers within the target.
#[derive(Debug, Clone, Copy)]
struct Protector {
    fd: u64,
    scratch: u64,
}

impl Protector {
    /// Whether the number is still what we opened: a new program (`exec`) has closed it, and may have given the number
    /// and the address of the page to something of its own.
    fn is_open(self, pid: i32) -> bool {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{}", self.fd));
        target.is_ok_and(|target| target.as_os_str() == "anon_inode:[userfaultfd]")
    }
}

/// Opens a protector where there is none (any more: a new program closes it) and registers ranges; those that are of a
/// kind that cannot be protected come back.
fn protect(
    pid: i32,
    lent: &Lent,
    known: Option<Protector>,
    news: &[Range<u64>],
) -> io::Result<(Protector, Vec<Range<u64>>)> {
    let register =
        |protector: Protector, range: &Range<u64>| lent.register(protector.fd, protector.scratch, range);
    let lives = |protector: &Protector| {
        let first = news.first().map_or(Ok(()), |range| register(*protector, range));
        !first.is_err_and(|error| matches!(error.raw_os_error(), Some(EBADF | EFAULT | ENOTTY)))
    };
    let protector = match known.filter(|protector| protector.is_open(pid)).filter(lives) {
        Some(protector) => protector,
        None => open_protector(lent)?,
    };
    let refused = news.iter().filter(|range| register(protector, range).is_err()).cloned().collect();
    Ok((protector, refused))
}

fn open_protector(lent: &Lent) -> io::Result<Protector> {
    let scratch = lent.map_scratch()?;
    lent.open_protector(scratch).map(|fd| Protector { fd, scratch }).inspect_err(|_| {
        let _ = lent.unmap_scratch(scratch);
    })
}

impl Written {
    pub fn open(pid: i32, how: How, filters: &Filters) -> Option<Self> {
        let map = Pagemap::open(pid).ok()?;
        let filters = filters.clone();
        Some(Self {
            pid,
            how,
            map,
            filters,
            ranges: Vec::new(),
            protector: None,
            refused: Vec::new(),
            stopped_ns: 0,
            notes: Vec::new(),
            is_off: false,
        })
    }

    /// After the accessed bits were cleared, so that what is written is always part of what is accessed.
    pub fn mark(&mut self) -> Result<(), Error> {
        if self.is_off {
            return Ok(());
        }
        self.ranges = self.read_ranges()?;
        match self.how {
            How::SoftDirty => {
                Proc::default().clear_soft_dirty(self.pid).map_err(|error| Error::of(self.pid, error))
            }
            How::Protect => {
                self.register();
                let mut written = Vec::new();
                for range in &self.ranges {
                    let _ = self.map.scan_written(range, true, &mut written);
                    written.clear();
                }
                Ok(())
            }
        }
    }

    /// First page and number of each run; none where it is not seen.
    pub fn look(&mut self) -> Option<Vec<(u64, u64)>> {
        if self.is_off {
            return None;
        }
        let mut written = Vec::new();
        for range in &self.ranges {
            match self.how {
                How::SoftDirty => self.map.read_soft_dirty(range, &mut written).ok()?,
                // A mapping that is gone is no failure.
                How::Protect => self.map.scan_written(range, false, &mut written).unwrap_or(()),
            }
        }
        let page = page_bytes();
        Some(written.iter().map(|run| (run.start / page, (run.end - run.start) / page)).collect())
    }

    /// Mappings that can be written; side by side they are one.
    fn read_ranges(&self) -> Result<Vec<Range<u64>>, Error> {
        let (mut ranges, page): (Vec<Range<u64>>, u64) = (Vec::new(), page_bytes());
        let read = Proc::default().read_maps(self.pid, |mapping| {
            let private = !mapping.is_shared() && (mapping.inode == 0 || self.how == How::SoftDirty);
            let special = mapping.name.starts_with(b"[v");
            if !mapping.is_write() || special || !private || !self.filters.keeps(mapping, page) {
                return;
            }
            match ranges.last_mut() {
                Some(last) if last.end == mapping.start => last.end = mapping.end,
                _ => ranges.push(mapping.start..mapping.end),
            }
        });
        read.map_err(|error| Error::of(self.pid, error))?;
        Ok(ranges)
    }

    /// Registers mappings that came since the last mark.
    fn register(&mut self) {
        let is_new = |range: &&Range<u64>| {
            !self.refused.contains(range) && self.map.has_unregistered(range).unwrap_or(false)
        };
        let news: Vec<Range<u64>> = self.ranges.iter().filter(is_new).cloned().collect();
        if news.is_empty() && self.protector.is_some() {
            return;
        }
        let (pid, known) = (self.pid, self.protector);
        let done = errand::run(pid, |lent| protect(pid, lent, known, &news));
        self.stopped_ns += done.stopped_ns;
        match done.result.and_then(|result| result.map_err(|error| error.to_string())) {
            Ok((protector, mut refused)) => {
                self.protector = Some(protector);
                self.refused.append(&mut refused);
            }
            Err(why) => {
                self.is_off = true;
                self.notes.push(format!("written pages of {} are not seen: {why}", self.pid));
            }
        }
    }

    pub fn take_stopped_ns(&mut self) -> u64 {
        std::mem::take(&mut self.stopped_ns)
    }

    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Closing the descriptor ends the protection.
    pub fn finish(&mut self) {
        let pid = self.pid;
        let Some(protector) = self.protector.take().filter(|protector| protector.is_open(pid)) else {
            return;
        };
        let done = errand::run(pid, |lent| {
            if protector.is_open(pid) {
                let _ = lent.close(protector.fd);
                let _ = lent.unmap_scratch(protector.scratch);
            }
        });
        self.stopped_ns += done.stopped_ns;
    }
}
