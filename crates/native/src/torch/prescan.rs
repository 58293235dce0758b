//! The large buffers of a running process, so that the copy of it can leave them out.
//!
//! A storage is a small block of malloc's; buffers are the large ones. So the heaps are walked header by header, small
//! blocks are read and large ones stepped over. The process runs meanwhile: a chain that breaks is taken up again
//! further on, and what is missed is merely copied. What was found may be freed before the copy: whoever leaves it out
//! looks again in the copy.

use std::ops::Range;

use nilometer_image::live::Peek;
use nilometer_image::{Mapping, Memory};

use super::layout::LAYOUTS;
use super::read::{backing, storage_fields};
use super::vtable::Vtables;
use crate::glibc::HIGHEST;
use crate::runs::{Run, Runs};

/// Buffers that are worth leaving out.
const LARGE: u64 = 1 << 20;
/// What is read at once.
const WINDOW: u64 = 512 << 10;
const PAGE: u64 = 4096;
/// Chunks that a storage has.
const CHUNKS: std::ops::RangeInclusive<u64> = 0x60..=0x110;
/// So many headers in a row are no accident.
const CHAIN: usize = 8;
/// Heaps of threads are aligned to it.
const HEAP: u64 = 64 << 20;
/// Where the first chunk of a thread's heap may be, by release: behind the arena, or behind the header alone.
const FIRST_CHUNKS: [u64; 5] = [0x8d0, 0x8c0, 0x870, 0x30, 0x20];

pub(super) fn prescan(peek: &Peek, vtables: &Vtables) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    for range in heaps(peek) {
        let mut sweep = Sweep { peek, vtables, bytes: Vec::new(), start: 0, found: &mut found };
        sweep.heap(range);
    }
    found.sort_unstable_by_key(|range| range.start);
    found.dedup();
    found
}

/// The program break, and what looks like a heap of a thread.
fn heaps(peek: &Peek) -> Vec<Range<u64>> {
    let is_break = |mapping: &Mapping| mapping.path.as_os_str() == "[heap]";
    let names_arena = |mapping: &Mapping| {
        let arena = peek.u64(mapping.start).unwrap_or(0);
        mapping.write && mapping.start.is_multiple_of(HEAP) && arena != 0 && arena.is_multiple_of(8)
    };
    let heaps = peek.mappings().iter().filter(|m| m.end < HIGHEST && (is_break(m) || names_arena(m)));
    heaps.map(Mapping::range).collect()
}

/// One heap under way.
struct Sweep<'a> {
    peek: &'a Peek,
    vtables: &'a Vtables,
    /// What was read last, from `start` on.
    bytes: Vec<u8>,
    start: u64,
    found: &'a mut Vec<Range<u64>>,
}

impl Sweep<'_> {
    fn heap(&mut self, range: Range<u64>) {
        let firsts = FIRST_CHUNKS.into_iter().map(|offset| range.start + offset);
        let at_start = [range.start.next_multiple_of(16)].into_iter().chain(firsts);
        self.load(range.start, range.end);
        let mut at = at_start.into_iter().find(|at| self.leads_on(*at, range.end)).unwrap_or(range.start);
        while at + 16 < range.end {
            if !self.holds(at) {
                self.load(at, range.end);
            }
            at = self.chunk(at, range.end);
        }
    }

    /// Looks at one chunk; says where the next is.
    fn chunk(&mut self, at: u64, end: u64) -> u64 {
        let Some(size) = self.size(at, end) else { return self.resume(at + 16, end) };
        if CHUNKS.contains(&size) {
            self.block(at + 16);
        }
        at + size
    }

    fn block(&mut self, address: u64) {
        if self.word(address).is_none_or(|word| !self.vtables.storages.contains(word)) {
            return;
        }
        let runs = Runs::one(self.start, &self.bytes);
        let mappings = self.peek.mappings();
        let buffer = LAYOUTS.into_iter().find_map(|layout| {
            let fields = storage_fields(&runs, layout, address)?;
            let end = fields.data.checked_add(fields.bytes)?;
            let sound = fields.device.is_host()
                && fields.bytes >= LARGE
                && backing(mappings, fields.data, end).is_some();
            sound.then_some(fields.data..end)
        });
        self.found.extend(buffer);
    }

    /// The size that a header says, if it can be one.
    fn size(&self, at: u64, end: u64) -> Option<u64> {
        let head = self.word(at.checked_add(8)?)?;
        let size = head & !7;
        (size >= 32 && size.is_multiple_of(16) && head & 2 == 0 && size <= end.checked_sub(at)?)
            .then_some(size)
    }

    #[inline]
    fn word(&self, address: u64) -> Option<u64> {
        Run { start: self.start, bytes: &self.bytes }.word(address)
    }

    /// The next place in the window from where a chain leads on; behind the window if there is none.
    fn resume(&self, from: u64, end: u64) -> u64 {
        let behind = (self.start + self.bytes.len() as u64).max(from);
        let mut places = (from..behind).step_by(16);
        places.find(|at| self.leads_on(*at, end)).unwrap_or(behind)
    }

    fn leads_on(&self, from: u64, end: u64) -> bool {
        let mut at = from;
        for step in 0..CHAIN {
            match self.size(at, end) {
                Some(size) => at += size,
                // What lies behind the window cannot be asked; a few steps must do.
                None => return step > 2 && !self.holds(at),
            }
        }
        true
    }

    /// The whole of a small block is in the window.
    fn holds(&self, at: u64) -> bool {
        let end = self.start + self.bytes.len() as u64;
        at >= self.start && at + CHUNKS.end() + 16 <= end
    }

    /// Reads the window that begins with the page of `at`; what cannot be read is zeros.
    fn load(&mut self, at: u64, end: u64) {
        self.start = at - at % PAGE;
        self.bytes.resize((end - self.start).min(WINDOW) as usize, 0);
        if self.peek.read(self.start, &mut self.bytes).is_some() {
            return;
        }
        for (index, page) in self.bytes.chunks_mut(PAGE as usize).enumerate() {
            if self.peek.read(self.start + PAGE * index as u64, page).is_none() {
                page.fill(0);
            }
        }
    }
}
