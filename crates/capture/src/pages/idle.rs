//! By idle page tracking: exact at a page, or at a folio where pages are parts of one.
//!
//! The bit is the frame's, and an untrackable page reads as touched: so frames are read back right after the mark, and
//! what is neither idle then nor on a list of the kernel's is untracked. A page whose frame changed counts as touched: it was copied or moved.

use std::ops::Range;
use std::path::Path;

use nilometer_kernel::read::idle::{Folio, FrameSet, IdleBitmap, PageFlags};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::pagemap::{Frame, Pagemap};
use nilometer_trace::pages::{Process, Span};

use super::backend::Backend;
use super::table::Table;
use super::{Error, Filters};

/// One process.
#[derive(Debug)]
pub(super) struct Idle {
    pid: i32,
    bitmap: IdleBitmap,
    flags: PageFlags,
    map: Pagemap,
    filters: Filters,
    /// Pages as of the mark, in order of address.
    marked: Vec<Marked>,
    heads: FrameSet,
}

#[derive(Debug, Clone, Copy)]
struct Marked {
    page: u64,
    frame: u64,
    /// The frame that has the bit; none where there is none.
    head: Option<u64>,
    huge: bool,
}

/// What became of a page in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Touched,
    Idle,
    Untracked,
}

impl Idle {
    pub fn open(pid: i32, filters: &Filters) -> std::io::Result<Self> {
        let root = Path::new("/");
        let (bitmap, flags, map) = (IdleBitmap::open(root)?, PageFlags::open(root)?, Pagemap::open(pid)?);
        let filters = filters.clone();
        Ok(Self { pid, bitmap, flags, map, filters, marked: Vec::new(), heads: FrameSet::default() })
    }

    fn ranges(&self) -> Result<Vec<(Range<u64>, bool)>, Error> {
        let mut ranges = Vec::new();
        let page = self.map.page_bytes();
        let read = Proc::default().read_maps(self.pid, |mapping| {
            let special = mapping.name.starts_with(b"[v");
            if !special {
                ranges.push((mapping.start..mapping.end, self.filters.keeps(mapping, page)));
            }
        });
        read.map_err(|error| Error::of(self.pid, error))?;
        Ok(ranges)
    }

    fn frames(&self, range: &Range<u64>) -> Result<Vec<Frame>, Error> {
        let mut frames = Vec::new();
        let read = self.map.read_frames(range, |frame| frames.push(frame));
        read.map_err(|error| Error::of_io(self.pid, error))?;
        Ok(frames)
    }

    fn marked(&mut self, frame: Frame) -> Result<Marked, Error> {
        let folio = if frame.frame == 0 { Ok(Folio::Untracked) } else { self.flags.folio(frame.frame) };
        let (head, huge) = match folio.map_err(|error| Error::of_io(self.pid, error))? {
            Folio::Single => (Some(frame.frame), false),
            Folio::Part { head, huge } => (Some(head), huge),
            Folio::Untracked => (None, false),
        };
        Ok(Marked { page: frame.page, frame: frame.frame, head, huge })
    }

    fn was(&self, page: u64) -> Option<&Marked> {
        let at = self.marked.binary_search_by_key(&page, |marked| marked.page).ok()?;
        self.marked.get(at)
    }

    fn fate(&self, frame: Frame, idle: &FrameSet) -> Fate {
        match self.was(frame.page) {
            Some(marked) if marked.frame == frame.frame => match marked.head {
                None => Fate::Untracked,
                Some(head) if idle.contains(head) => Fate::Idle,
                Some(_) => Fate::Touched,
            },
            // New, or in another frame: it was touched, copied or moved.
            _ => Fate::Touched,
        }
    }
}

impl Backend for Idle {
    fn mark(&mut self) -> Result<(), Error> {
        self.marked.clear();
        self.flags.refresh();
        let mut heads = FrameSet::default();
        for (range, keeps) in self.ranges()? {
            if !keeps {
                continue;
            }
            for frame in self.frames(&range)? {
                let marked = self.marked(frame)?;
                marked.head.into_iter().for_each(|head| heads.insert(head));
                self.marked.push(marked);
            }
        }
        self.bitmap.mark(&heads).map_err(|error| Error::of_io(self.pid, error))?;
        // Not idle at once: touched meanwhile, or never tracked.
        let (idle, known) = self.bitmap.read(&heads).map_err(|error| Error::of_io(self.pid, error))?;
        self.flags.refresh();
        for marked in &mut self.marked {
            marked.head = marked.head.filter(|head| {
                idle.contains(*head) || known.contains(*head) && self.flags.is_tracked(*head).unwrap_or(false)
            });
        }
        self.heads = heads;
        Ok(())
    }

    fn look(&mut self, table: &mut Table) -> Result<Process, Error> {
        let (pid, page) = (self.pid, self.map.page_bytes());
        let (idle, _) = self.bitmap.read(&self.heads).map_err(|error| Error::of_io(pid, error))?;
        let mut process = Process { pid, ..Process::default() };
        let mut again_bytes = 0;
        let mut mappings = Vec::new();
        let read = Proc::default().read_maps(pid, |mapping| {
            if !mapping.name.starts_with(b"[v") {
                let keeps = self.filters.keeps(mapping, page);
                mappings.push((mapping.start..mapping.end, keeps, table.number(pid, mapping)));
            }
        });
        read.map_err(|error| Error::of(pid, error))?;
        for (range, keeps, number) in mappings {
            for frame in self.frames(&range)? {
                process.rss_bytes += page;
                if !keeps {
                    process.skipped_bytes += page;
                    continue;
                }
                let fate = self.fate(frame, &idle);
                let huge = self.was(frame.page).is_some_and(|marked| marked.huge);
                process.untracked_bytes += if fate == Fate::Untracked { page } else { 0 };
                if fate == Fate::Touched {
                    process.shared_bytes += if frame.exclusive { 0 } else { page };
                    again_bytes += if !frame.exclusive && table.is_counted(frame.frame) { page } else { 0 };
                    process.huge_bytes += if huge { page } else { 0 };
                }
                push(&mut process.spans, frame.page, fate == Fate::Touched, number);
            }
        }
        Ok(Process { again_bytes: Some(again_bytes), ..process })
    }
}

/// Pages in a row with the same answer are one span.
fn push(spans: &mut Vec<Span>, page: u64, is_touched: bool, mapping: u32) {
    let touched = u64::from(is_touched);
    match spans.last_mut() {
        Some(last)
            if last.first + last.pages == page
                && last.mapping == mapping
                && (last.touched > 0) == is_touched =>
        {
            last.pages += 1;
            last.resident += 1;
            last.touched += touched;
        }
        _ => spans.push(Span { first: page, pages: 1, resident: 1, touched, mapping }),
    }
}
