//! Which pages of a process are there: `/proc/PID/pagemap`, by `PAGEMAP_SCAN` (since Linux 6.7) or entry by entry.
//!
//! Looking changes nothing: no page is faulted in.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::page_bytes;

mod access;
pub use access::Frame;

/// The page map of one process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    page_bytes: u64,
    /// Cleared when the kernel does not know the call.
    can_scan: AtomicBool,
}

/// Pages in a row that are in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    pub start: u64,
    pub end: u64,
    pub state: PageState,
}

/// Where the content of a page is; a page that was never touched is in no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// Anonymous memory of the process itself, also where a private file mapping was written to.
    Own,
    /// The page cache, or memory shared with others.
    File,
    /// The kernel's page of zeros: read, never written. Told by `PAGEMAP_SCAN` only.
    Zero,
    Swapped,
}

/// What may be behind the pages of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    Any,
    /// No file, and nothing shared: what is present is [`PageState::Own`]. Faster, because the kernel need not
    /// look at each page to know (`pagemap_page_category`, `fs/proc/task_mmu.c`).
    Private,
}

// include/uapi/linux/fs.h
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610; // _IOWR('f', 16, struct pm_scan_arg), 96 bytes
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const REGIONS: usize = 1024;

// Documentation/admin-guide/mm/pagemap.rst
const PM_FRAME: u64 = (1 << 55) - 1;
const PM_EXCLUSIVE: u64 = 1 << 56;
const PM_FILE: u64 = 1 << 61;
const PM_SWAP: u64 = 1 << 62;
const PM_PRESENT: u64 = 1 << 63;
const ENTRIES: usize = 4096;

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

impl Pagemap {
    /// Needs what reading its mappings needs (`PTRACE_MODE_READ`).
    pub fn open(pid: i32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Self { file, page_bytes: page_bytes(), can_scan: AtomicBool::new(true) })
    }

    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Whether this kernel tells pages of zeros from others: then what is present and no zero is what RSS counts.
    pub fn tells_zeros(&self) -> bool {
        // Asking about nothing tells whether the call is known.
        let _ = self.read_runs(self.page_bytes..2 * self.page_bytes, &mut Vec::new());
        self.can_scan.load(Ordering::Relaxed)
    }

    /// Appends the runs of touched pages within `range`, in order of address.
    pub fn read_runs(&self, range: Range<u64>, runs: &mut Vec<PageRun>) -> io::Result<()> {
        self.read_runs_of(range, Backing::Any, runs)
    }

    /// The same, asking no more than what may be behind the pages.
    pub fn read_runs_of(
        &self,
        range: Range<u64>,
        backing: Backing,
        runs: &mut Vec<PageRun>,
    ) -> io::Result<()> {
        if self.can_scan.load(Ordering::Relaxed) {
            match self.scan(&range, backing, runs) {
                // ENOTTY: an older kernel. EINVAL: one that knows fewer categories.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                    self.can_scan.store(false, Ordering::Relaxed);
                }
                outcome => return outcome,
            }
        }
        self.read_entries(&range, runs)
    }

    /// Appends what of `range` is memory of the process itself that no other process has mapped
    /// (`PM_MMAP_EXCLUSIVE`, since Linux 4.2).
    pub fn read_exclusive(&self, range: &Range<u64>, into: &mut Vec<Range<u64>>) -> io::Result<()> {
        self.each_entry(range, |page, entry| {
            if entry & PM_EXCLUSIVE == 0 || entry_state(entry) != Some(PageState::Own) {
                return;
            }
            match into.last_mut() {
                Some(last) if last.end == page.start => last.end = page.end,
                _ => into.push(page),
            }
        })
    }

    /// Appends how many times each present page of `range` is mapped, in all processes; pages in a row with the same
    /// number are one. Nothing where frames are not told (`CAP_SYS_ADMIN`).
    pub fn read_sharers(
        &self,
        range: &Range<u64>,
        counts: &PageCounts,
        into: &mut Vec<(Range<u64>, u64)>,
    ) -> io::Result<()> {
        self.each_entry(range, |page, entry| {
            let frame = entry & PM_FRAME;
            if entry & PM_PRESENT == 0 || frame == 0 {
                return;
            }
            let count = counts.read(frame).unwrap_or(1).max(1);
            match into.last_mut() {
                Some((last, known)) if last.end == page.start && *known == count => last.end = page.end,
                _ => into.push((page, count)),
            }
        })
    }

    /// Whether the page at an address is the process's own, and another process has it, too, as after a fork.
    pub fn is_shared(&self, address: u64) -> bool {
        let mut entry = [0; 8];
        let read = self.file.read_exact_at(&mut entry, address / self.page_bytes * 8);
        let entry = u64::from_ne_bytes(entry);
        read.is_ok() && entry_state(entry) == Some(PageState::Own) && entry & PM_EXCLUSIVE == 0
    }

    /// Whether another process has a page of `run`, as after a fork; all of it is the process's own memory.
    pub fn has_shared(&self, run: &Range<u64>) -> io::Result<bool> {
        let mut exclusive = Vec::new();
        self.read_exclusive(run, &mut exclusive)?;
        Ok(!matches!(&exclusive[..], [whole] if whole == run))
    }

    fn scan(&self, range: &Range<u64>, backing: Backing, runs: &mut Vec<PageRun>) -> io::Result<()> {
        let of_file = if backing == Backing::Any { PAGE_IS_FILE } else { 0 };
        let pages = range.end.saturating_sub(range.start).div_ceil(self.page_bytes);
        let room = (pages as usize).clamp(1, REGIONS); // most questions are about one page
        let mut regions = vec![Region::default(); room];
        let mut from = range.start;
        while from < range.end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: from,
                end: range.end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: room as u64,
                category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO | of_file,
                ..Scan::default()
            };
            // SAFETY: `scan` has the layout and the size it states; `vec` is writable for `vec_len` regions.
            let found = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let found = super::check(found)? as usize;
            for region in regions.iter().take(found) {
                push(runs, PageRun { start: region.start, end: region.end, state: state(region.categories) });
            }
            match next(&regions, found) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(())
    }

    fn read_entries(&self, range: &Range<u64>, runs: &mut Vec<PageRun>) -> io::Result<()> {
        self.each_entry(range, |page, entry| {
            if let Some(state) = entry_state(entry) {
                push(runs, PageRun { start: page.start, end: page.end, state });
            }
        })
    }

    fn each_entry(&self, range: &Range<u64>, mut visit: impl FnMut(Range<u64>, u64)) -> io::Result<()> {
        let mut bytes = vec![0; ENTRIES * 8];
        let (mut page, end) = (range.start / self.page_bytes, range.end.div_ceil(self.page_bytes));
        while page < end {
            let wanted = ((end - page) as usize).min(ENTRIES) * 8;
            let read = self.file.read_at(&mut bytes[..wanted], page * 8)? / 8;
            if read == 0 {
                break;
            }
            for (entry, page) in bytes.chunks_exact(8).take(read).zip(page..) {
                let start = page * self.page_bytes;
                visit(start..start + self.page_bytes, entry.try_into().map_or(0, u64::from_ne_bytes));
            }
            page += read as u64;
        }
        Ok(())
    }
}

/// `/proc/kpagecount`: how often each frame of the machine is mapped (root).
#[derive(Debug)]
pub struct PageCounts(File);

impl PageCounts {
    pub fn open() -> io::Result<Self> {
        File::open("/proc/kpagecount").map(Self)
    }

    fn read(&self, frame: u64) -> Option<u64> {
        let mut count = [0; 8];
        self.0.read_exact_at(&mut count, frame.checked_mul(8)?).ok()?;
        Some(u64::from_ne_bytes(count))
    }
}

/// Where a scan goes on: behind the last region, if there was no room for more. `walk_end` does not tell: where the kernel
/// empties its own buffer of 512 regions on the way, it stays at that place though the walk went on to its end
/// (`do_pagemap_scan`, `fs/proc/task_mmu.c`, seen in 6.18).
fn next(regions: &[Region], found: usize) -> Option<u64> {
    if found < regions.len() { None } else { regions.last().map(|region| region.end) }
}

fn state(categories: u64) -> PageState {
    if categories & PAGE_IS_PRESENT == 0 {
        PageState::Swapped
    } else if categories & PAGE_IS_PFNZERO != 0 {
        PageState::Zero
    } else if categories & PAGE_IS_FILE != 0 {
        PageState::File
    } else {
        PageState::Own
    }
}

fn entry_state(entry: u64) -> Option<PageState> {
    match (entry & PM_PRESENT != 0, entry & PM_SWAP != 0) {
        (true, _) if entry & PM_FILE != 0 => Some(PageState::File),
        (true, _) => Some(PageState::Own),
        (false, true) => Some(PageState::Swapped),
        (false, false) => None,
    }
}

/// Neighbours in the same state become one.
fn push(runs: &mut Vec<PageRun>, run: PageRun) {
    match runs.last_mut() {
        Some(last) if last.end == run.start && last.state == run.state => last.end = run.end,
        _ => runs.push(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::trial::Page;

    #[test]
    fn a_touched_page_is_our_own_by_either_way() {
        let page = Page::touched().unwrap();
        let map = Pagemap::open(std::process::id() as i32).unwrap();
        let start = page.number() * map.page_bytes();
        let expected = PageRun { start, end: start + map.page_bytes(), state: PageState::Own };
        for (can_scan, backing) in
            [(true, Backing::Any), (true, Backing::Private), (false, Backing::Any), (false, Backing::Private)]
        {
            map.can_scan.store(can_scan, Ordering::Relaxed);
            let mut runs = Vec::new();
            map.read_runs_of(start..start + map.page_bytes(), backing, &mut runs).unwrap();
            assert_eq!(runs, [expected], "can_scan {can_scan} {backing:?}");
        }
    }

    #[test]
    fn more_regions_than_one_call_tells_are_told_once() {
        let page = page_bytes() as usize;
        let mut memory = vec![0_u8; 3001 * page];
        memory.iter_mut().step_by(2 * page).for_each(|byte| *byte = 1);
        let start = (memory.as_ptr() as u64).next_multiple_of(page as u64);
        let map = Pagemap::open(std::process::id() as i32).unwrap();
        let mut runs = Vec::new();
        map.read_runs(start..start + 3000 * page as u64, &mut runs).unwrap();
        assert!(runs.is_sorted_by(|one, other| one.end <= other.start), "a run was told twice");
        assert!(memory[0] == 1 && runs.len() > 1);
    }

    #[test]
    fn nothing_is_found_where_nothing_is_mapped() {
        let map = Pagemap::open(std::process::id() as i32).unwrap();
        for can_scan in [true, false] {
            map.can_scan.store(can_scan, Ordering::Relaxed);
            let mut runs = Vec::new();
            map.read_runs(0..map.page_bytes() * 4, &mut runs).unwrap();
            assert_eq!(runs, []);
        }
    }
}
