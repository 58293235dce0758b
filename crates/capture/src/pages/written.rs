//! The written layer beside every way of looking: soft-dirty bits, or a userfaultfd of the target with asynchronous write
//! protection. Both are exact at a page.

use std::ops::Range;

use nilometer_kernel::parse::maps::Mapping;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::thread_cpu_ns;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_kernel::sys::pagemap::Pagemap;

use super::allowance::Cost;
use super::guards::{Refused, Shared};
use super::{Error, Filters};

/// How written pages are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    SoftDirty,
    /// Registered with a userfaultfd of the target.
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
    guards: Shared,
    /// What is looked at, as of the last mark.
    areas: Vec<Area>,
    /// Of a kind that cannot be registered: writes to them are not seen.
    refused: Vec<Range<u64>>,
    notes: Vec<String>,
    is_off: bool,
    /// Until the next mark.
    is_blind: bool,
    /// Since the mark.
    cost: Cost,
}

/// Mappings that can be written; side by side they are one.
#[derive(Debug)]
struct Area {
    range: Range<u64>,
    /// The stack of the first thread, which grows and must stay in one piece.
    is_stack: bool,
}

impl Written {
    pub fn open(pid: i32, how: How, filters: &Filters, guards: Shared) -> Option<Self> {
        let map = Pagemap::open(pid).ok()?;
        let (filters, areas, refused, notes) = (filters.clone(), Vec::new(), Vec::new(), Vec::new());
        let (is_off, is_blind, cost) = (false, false, Cost::default());
        Some(Self { pid, how, map, filters, guards, areas, refused, notes, is_off, is_blind, cost })
    }

    /// After the accessed bits were cleared, so that what is written is always part of what is accessed.
    pub fn mark(&mut self) -> Result<(), Error> {
        (self.is_blind, self.cost) = (self.is_off, Cost::default());
        if self.is_off {
            return Ok(());
        }
        let before_ns = thread_cpu_ns();
        let marked = self.mark_all();
        self.cost.cpu_ns += thread_cpu_ns().saturating_sub(before_ns);
        marked
    }

    /// Instead of a mark: what is written until the next one is not known.
    pub fn rest(&mut self) {
        (self.is_blind, self.cost) = (true, Cost::default());
    }

    fn mark_all(&mut self) -> Result<(), Error> {
        // Opened anew: it belongs to the memory that a process had when it was opened, and a new program has its own.
        self.map = Pagemap::open(self.pid).map_err(|error| Error::of_io(self.pid, error))?;
        self.areas = self.read_areas()?;
        match self.how {
            How::SoftDirty => {
                Proc::default().clear_soft_dirty(self.pid).map_err(|error| Error::of(self.pid, error))
            }
            How::Protect => {
                self.register();
                let mut written = Vec::new();
                for area in &self.areas {
                    let _ = self.map.scan_written(&area.range, true, &mut written);
                    written.clear();
                }
                Ok(())
            }
        }
    }

    /// First page and number of each run; none where it is not seen.
    pub fn look(&mut self) -> Option<Vec<(u64, u64)>> {
        if self.is_off || self.is_blind {
            return None;
        }
        let before_ns = thread_cpu_ns();
        let written = self.read_written();
        self.cost.cpu_ns += thread_cpu_ns().saturating_sub(before_ns);
        written
    }

    fn read_written(&mut self) -> Option<Vec<(u64, u64)>> {
        let (page, mut written) = (page_bytes(), Vec::new());
        for Area { range, .. } in &self.areas {
            match self.how {
                How::SoftDirty => self.map.read_soft_dirty(range, &mut written).ok()?,
                // A mapping that is gone is no failure.
                How::Protect => self.map.scan_written(range, false, &mut written).unwrap_or(()),
            }
        }
        self.cost.faults = written.iter().map(|run: &Range<u64>| (run.end - run.start) / page).sum();
        if self.how == How::Protect {
            self.find_born(&mut written);
        }
        Some(written.iter().map(|run| (run.start / page, (run.end - run.start) / page)).collect())
    }

    /// Memory that had nothing when the mark was made is not registered: what it has of its own by now was written.
    fn find_born(&self, written: &mut Vec<Range<u64>>) {
        let known = written.len();
        for area in self.read_areas().unwrap_or_default() {
            let _ = self.map.scan_born(&area.range, written);
        }
        let is_refused =
            |run: &Range<u64>| self.refused.iter().any(|r| r.start < run.end && run.start < r.end);
        let born: Vec<Range<u64>> = written.drain(known..).filter(|run| !is_refused(run)).collect();
        if !born.is_empty() {
            written.extend(born);
            written.sort_unstable_by_key(|run| run.start);
        }
    }

    fn read_areas(&self) -> Result<Vec<Area>, Error> {
        let mut areas: Vec<Area> = Vec::new();
        let read = Proc::default().read_maps(self.pid, |mapping| {
            if !self.is_looked_at(mapping) {
                return;
            }
            let is_stack = mapping.name == b"[stack]";
            match areas.last_mut() {
                Some(last) if last.range.end == mapping.start && last.is_stack == is_stack => {
                    last.range.end = mapping.end;
                }
                _ => areas.push(Area { range: mapping.start..mapping.end, is_stack }),
            }
        });
        read.map_err(|error| Error::of(self.pid, error))?;
        Ok(areas)
    }

    fn is_looked_at(&self, mapping: &Mapping<'_>) -> bool {
        let is_private = !mapping.is_shared() && (mapping.inode == 0 || self.how == How::SoftDirty);
        let is_special = mapping.name.starts_with(b"[v");
        mapping.is_write() && !is_special && is_private && self.filters.keeps(mapping, page_bytes())
    }

    /// Registers what came since the last mark.
    fn register(&mut self) {
        let opened = self.guards.borrow_mut().open();
        self.is_blind = opened.is_err();
        if let Err(Refused::Forever(why)) = &opened {
            self.is_off = true;
            self.notes.push(format!("written pages of {} are not seen: {why}", self.pid));
        }
        if self.is_blind {
            return;
        }
        let guards = self.guards.borrow();
        let mut news = Vec::new();
        for area in &self.areas {
            news.clear();
            if self.map.scan_unregistered(&area.range, &mut news).is_err() {
                continue;
            }
            let chunk_bytes = guards.chunk_bytes.filter(|_| !area.is_stack);
            for new in whole_chunks(&news, &area.range, chunk_bytes) {
                if !self.refused.contains(&new) && !guards.register(&new, area.is_stack) {
                    self.refused.push(new);
                }
            }
        }
    }

    /// What this layer took since the mark.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// The chunks that hold something new, within the area; all of it where there are no chunks.
fn whole_chunks(news: &[Range<u64>], area: &Range<u64>, chunk_bytes: Option<u64>) -> Vec<Range<u64>> {
    let Some(chunk) = chunk_bytes else {
        return if news.is_empty() { Vec::new() } else { vec![area.clone()] };
    };
    let mut whole: Vec<Range<u64>> = Vec::new();
    for new in news {
        let start = (new.start - new.start % chunk).max(area.start);
        let end = new.end.next_multiple_of(chunk).min(area.end);
        match whole.last_mut() {
            Some(last) if last.end >= start => last.end = last.end.max(end),
            _ => whole.push(start..end),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_chunks_around_what_is_new_are_registered_within_the_area() {
        let area = 150..1000;
        let around = |news: &[Range<u64>]| whole_chunks(news, &area, Some(100));
        assert_eq!(around(&[160..170, 199..201, 950..1000]), [150..300, 900..1000]);
        assert_eq!(whole_chunks(std::slice::from_ref(&(160..170)), &area, None), std::slice::from_ref(&area));
        assert_eq!((around(&[]), whole_chunks(&[], &area, None)), (vec![], vec![]));
    }
}
