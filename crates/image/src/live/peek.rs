//! Reading a process while it runs.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::memory::{MOST_SPANS, Span};
use nilometer_kernel::sys::pagemap::{PageRun, PageState, Pagemap};

use super::source::Source;
use super::target::{check_access, from_io, read_mappings};
use crate::files::{Files, Place};
use crate::mapping::{Mapping, mapping_index};
use crate::residency::Residency;
use crate::{Error, Memory, Modules};

const PAGE_BYTES: u64 = 4096;
/// Pages that are remembered: a reading leads to one near it or to one of a few that all lead to. Of a thousand types, whose
/// pages nobody needs again, more would be kept than all else that a run's ledger needs.
const MOST_PAGES: usize = 256;

/// Larger readings are not kept.
const LARGE: usize = 4 * PAGE_BYTES as usize;

/// A process as it runs: two readings may be of two instants.
///
/// Small readings come from pages that were read once and are kept; [`Memory::forget`] drops them.
#[derive(Debug)]
pub struct Peek {
    pid: i32,
    mappings: Vec<Mapping>,
    pagemap: Pagemap,
    source: Source,
    place: Arc<Place>,
    files: Files,
    resident: Residency,
    pages: Mutex<HashMap<u64, Option<Box<Page>>>>,
}

type Page = [u8; PAGE_BYTES as usize];

impl Peek {
    /// `pid` as we see it, whatever namespace the process lives in.
    pub fn open(pid: i32) -> Result<Self, Error> {
        let mappings = read_mappings(pid)?;
        check_access(pid, &mappings)?;
        let path = format!("/proc/{pid}/pagemap");
        let pagemap = Pagemap::open(pid).map_err(|source| from_io(pid, Path::new(&path), source))?;
        let touched = read_touched(&mappings, &pagemap);
        let source = Source::of(pid, &touched, &pagemap);
        let place = Arc::new(Place::live(pid));
        let files = Files::new(&mappings, &place);
        let resident = residency(&mappings, touched);
        Ok(Self { pid, mappings, pagemap, source, place, files, resident, pages: Mutex::default() })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its own pid in its innermost pid namespace.
    pub fn inner_pid(&self) -> Option<i32> {
        Proc::default().read_status(self.pid, &mut Vec::new()).ok()?.inner_pid
    }

    /// As they were when it was opened.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    pub fn modules(&self) -> Modules {
        Modules::new(&self.mappings, &self.files)
    }

    /// Whether all of a range was in memory when the process was opened.
    pub fn is_resident(&self, range: &Range<u64>) -> bool {
        self.resident.holds(range)
    }

    /// What is in memory of a stretch, zeros elsewhere: nothing is brought back from swap or from a file.
    pub fn read_present(&self, start: u64, into: &mut [u8]) {
        let end = start.saturating_add(into.len() as u64);
        into.fill(0);
        for run in self.resident.runs_within(&(start..end)) {
            let part = (run.start - start) as usize..(run.end - start) as usize;
            let Some(part) = into.get_mut(part) else { return };
            let wanted = part.len();
            let read = self.source.read_bytes(run.start, part).unwrap_or(0);
            if let Some(rest) = part.get_mut(read.min(wanted)..) {
                rest.fill(0);
            }
        }
    }

    /// Many readings by few system calls. `into` gets all the bytes one after the other, zeros where a reading failed;
    /// the result tells which did, by index.
    pub fn read_many(&self, spans: &[(u64, usize)], into: &mut Vec<u8>) -> Vec<usize> {
        into.clear();
        into.resize(spans.iter().map(|(_, length)| length).sum(), 0);
        let mut failed = Vec::new();
        let mut rest = &mut into[..];
        for (batch, first) in spans.chunks(MOST_SPANS).zip((0..).step_by(MOST_SPANS)) {
            let (now, later) = rest.split_at_mut(batch.iter().map(|(_, length)| length).sum());
            self.read_batch(batch, now, first, &mut failed);
            rest = later;
        }
        failed
    }

    /// `first` is the index of the first span of the batch.
    fn read_batch(&self, batch: &[(u64, usize)], into: &mut [u8], first: usize, failed: &mut Vec<usize>) {
        let resident = &self.resident;
        let (mut spans, mut indices): (Vec<Span>, Vec<usize>) = (Vec::new(), Vec::new());
        let (mut expected, mut rest) = (0, into);
        for (index, (address, length)) in (first..).zip(batch) {
            let (now, later) = rest.split_at_mut(*length);
            rest = later;
            if resident.holds(&(*address..address.saturating_add(*length as u64))) {
                expected += length;
                spans.push(Span { address: *address, into: now });
                indices.push(index);
            } else if !self.read_or_zero(*address, now) {
                failed.push(index);
            }
        }
        if !self.source.read_spans(&mut spans).is_ok_and(|read| read == expected) {
            // Something went away meanwhile: each for itself.
            for (span, index) in spans.into_iter().zip(indices) {
                if !self.read_or_zero(span.address, span.into) {
                    failed.push(index);
                }
            }
            failed.sort_unstable();
        }
    }

    fn read_or_zero(&self, address: u64, into: &mut [u8]) -> bool {
        let read = self.read(address, into).is_some();
        if !read {
            into.fill(0);
        }
        read
    }

    pub(super) fn pagemap(&self) -> &Pagemap {
        &self.pagemap
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    pub(super) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Whether the content of a mapping can be had from its file.
    pub(super) fn has_file(&self, mapping: &Mapping) -> bool {
        let known = mapping_index(&self.mappings, mapping.start);
        let same =
            known.filter(|index| self.mappings.get(*index).is_some_and(|known| known.inode == mapping.inode));
        same.and_then(|index| self.files.of(index)).is_some_and(|file| file.bytes().is_some())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Option<Box<Page>>>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies what one page holds of the asked range.
    fn read_in_page(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let start = address - address % PAGE_BYTES;
        let from = (address - start) as usize;
        let mut pages = self.lock();
        if pages.len() >= MOST_PAGES {
            pages.clear();
        }
        let page = pages.entry(start).or_insert_with(|| self.read_page(start)).as_ref()?;
        into.copy_from_slice(page.get(from..from + into.len())?);
        Some(())
    }

    /// From memory if it is there, from the file or as zeros if it was never touched.
    fn read_page(&self, start: u64) -> Option<Box<Page>> {
        let mut page = Box::new([0; PAGE_BYTES as usize]);
        let mut runs = Vec::new();
        let end = start.checked_add(PAGE_BYTES)?; // the last page of all addresses is nobody's
        self.pagemap.read_runs(start..end, &mut runs).ok()?;
        match runs.first().map(|run| run.state) {
            Some(PageState::Zero) => {}
            Some(_) => {
                let read = self.source.read_bytes(start, &mut page[..]).ok()?;
                (read == page.len()).then_some(())?;
            }
            None => self.read_untouched(start, &mut page)?,
        }
        Some(page)
    }

    fn read_untouched(&self, start: u64, page: &mut Page) -> Option<()> {
        let index = mapping_index(&self.mappings, start)?;
        let mapping = self.mappings.get(index)?;
        if !mapping.read || mapping.is_device() || mapping.is_of_kernel() {
            return None;
        }
        let Some(file) = self.files.of(index) else { return Some(()) };
        let from = usize::try_from(mapping.offset.checked_add(start - mapping.start)?).ok()?;
        let bytes = file.bytes()?.get(from..)?;
        let length = bytes.len().min(page.len());
        page[..length].copy_from_slice(&bytes[..length]);
        Some(())
    }
}

/// What was touched of all that can be read, with one look at each page.
fn read_touched(mappings: &[Mapping], pagemap: &Pagemap) -> Vec<PageRun> {
    let mut runs = Vec::new();
    for mapping in mappings.iter().filter(|m| m.read && !m.is_device() && !m.is_of_kernel()) {
        let _ = pagemap.read_runs_of(mapping.range(), mapping.backing(), &mut runs);
    }
    runs
}

fn residency(mappings: &[Mapping], touched: Vec<PageRun>) -> Residency {
    let there = touched.into_iter().filter(|run| run.state != PageState::Swapped);
    let runs = there.map(|run| run.start..run.end);
    Residency::new(runs.collect(), mappings.iter().map(Mapping::range).collect())
}

/// The parts of a range by page.
fn by_page(address: u64, length: usize) -> impl Iterator<Item = Range<u64>> {
    let end = address.saturating_add(length as u64);
    let next = move |start: u64| start.saturating_add(PAGE_BYTES - start % PAGE_BYTES).min(end);
    std::iter::successors(Some(address..next(address)), move |last| {
        (last.end < end).then(|| last.end..next(last.end))
    })
}

impl Memory for Peek {
    fn is_still(&self) -> bool {
        false
    }

    fn forget(&self) {
        self.lock().clear();
    }

    fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let end = address.checked_add(into.len() as u64)?;
        if into.len() > LARGE && self.resident.holds(&(address..end)) {
            return self.source.read_bytes(address, into).ok().filter(|read| *read == into.len()).map(drop);
        }
        let mut rest = into;
        for part in by_page(address, rest.len()) {
            let (now, later) = rest.split_at_mut((part.end - part.start) as usize);
            self.read_in_page(part.start, now)?;
            rest = later;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_target_that_are_no_addresses_lead_nowhere() {
        let peek = Peek::open(std::process::id() as i32).unwrap();
        for address in [0, 8, 1 << 47, u64::MAX - 4095, u64::MAX - 16, u64::MAX] {
            assert_eq!(peek.u64(address), None, "{address:x}");
            assert_eq!(peek.name(address), None, "{address:x}");
        }
        let word = 0x1234_5678_9abc_def0_u64;
        assert_eq!(peek.u64(&raw const word as u64), Some(word));
    }
}
