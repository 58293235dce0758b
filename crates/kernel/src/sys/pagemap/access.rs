//! Which pages were written, and in which frames they are.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use super::{
    PAGE_IS_FILE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGEMAP_SCAN, PM_EXCLUSIVE, PM_FRAME, PM_PRESENT,
    Pagemap, REGIONS, Region, Scan, next,
};

const PAGE_IS_WPALLOWED: u64 = 1 << 0;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_HUGE: u64 = 1 << 6;
const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
/// Documentation/admin-guide/mm/soft-dirty.rst
const PM_SOFT_DIRTY: u64 = 1 << 55;

/// A page that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The address, in pages.
    pub page: u64,
    /// 0 for those who may not see it.
    pub frame: u64,
    /// No other process has it.
    pub exclusive: bool,
}

impl Pagemap {
    /// Shows the pages of `range` that are there.
    pub fn read_frames(&self, range: &Range<u64>, mut visit: impl FnMut(Frame)) -> io::Result<()> {
        self.each_entry(range, |page, entry| {
            if entry & PM_PRESENT != 0 {
                let exclusive = entry & PM_EXCLUSIVE != 0;
                visit(Frame { page: page.start / self.page_bytes, frame: entry & PM_FRAME, exclusive });
            }
        })
    }

    /// Appends what of `range` was written since soft-dirty bits were cleared.
    pub fn read_soft_dirty(&self, range: &Range<u64>, into: &mut Vec<Range<u64>>) -> io::Result<()> {
        self.each_entry(range, |page, entry| {
            if entry & PM_SOFT_DIRTY != 0 && entry & PM_PRESENT != 0 {
                extend(into, page);
            }
        })
    }

    /// Appends what of `range` is there and registered with no userfaultfd that protects asynchronously. Since Linux 6.7.
    pub fn scan_unregistered(&self, range: &Range<u64>, into: &mut Vec<Range<u64>>) -> io::Result<()> {
        let template = Scan {
            category_inverted: PAGE_IS_WPALLOWED,
            category_mask: PAGE_IS_WPALLOWED | PAGE_IS_PRESENT,
            return_mask: PAGE_IS_PRESENT,
            ..Scan::default()
        };
        self.scan_matching(range, &template, into)
    }

    /// The same, without pages of files and without the zero page: memory that only a write has made.
    pub fn scan_born(&self, range: &Range<u64>, into: &mut Vec<Range<u64>>) -> io::Result<()> {
        let absent = PAGE_IS_WPALLOWED | PAGE_IS_PFNZERO | PAGE_IS_FILE;
        let template = Scan {
            category_inverted: absent,
            category_mask: absent | PAGE_IS_PRESENT,
            return_mask: PAGE_IS_PRESENT,
            ..Scan::default()
        };
        self.scan_matching(range, &template, into)
    }

    /// Appends what of `range` lies in pages that one entry of a higher table maps (2 MiB). Since Linux 6.7.
    pub fn scan_huge(&self, range: &Range<u64>, into: &mut Vec<Range<u64>>) -> io::Result<()> {
        let template = Scan { category_mask: PAGE_IS_HUGE, return_mask: PAGE_IS_HUGE, ..Scan::default() };
        self.scan_matching(range, &template, into)
    }

    /// Appends what of `range` was written since it was protected, where a userfaultfd with asynchronous write
    /// protection is registered; `protect` does that anew. Since Linux 6.7.
    pub fn scan_written(
        &self,
        range: &Range<u64>,
        protect: bool,
        into: &mut Vec<Range<u64>>,
    ) -> io::Result<()> {
        let template = Scan {
            flags: if protect { PM_SCAN_WP_MATCHING } else { 0 },
            category_mask: PAGE_IS_WPALLOWED | PAGE_IS_WRITTEN,
            return_mask: PAGE_IS_WRITTEN,
            ..Scan::default()
        };
        self.scan_matching(range, &template, into)
    }

    /// `template` tells which pages; where they are told is filled in here.
    fn scan_matching(
        &self,
        range: &Range<u64>,
        template: &Scan,
        into: &mut Vec<Range<u64>>,
    ) -> io::Result<()> {
        let mut regions = vec![Region::default(); REGIONS];
        let mut from = range.start;
        while from < range.end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start: from,
                end: range.end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: REGIONS as u64,
                ..*template
            };
            // SAFETY: `scan` has the layout and the size it states; `vec` is writable for `vec_len` regions.
            let found = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let found = super::super::check(found)? as usize;
            for region in regions.iter().take(found) {
                extend(into, region.start..region.end);
            }
            match next(&regions, found) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(())
    }
}

fn extend(into: &mut Vec<Range<u64>>, piece: Range<u64>) {
    match into.last_mut() {
        Some(last) if last.end == piece.start => last.end = piece.end,
        _ => into.push(piece),
    }
}
