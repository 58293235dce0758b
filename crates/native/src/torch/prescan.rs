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
    let mut finder = Finder::new(vtables, peek.mappings());
    for range in heaps(peek) {
        let mut sweep = Sweep { peek, bytes: Vec::new(), start: 0, finder: &mut finder };
        sweep.heap(range);
    }
    finder.finish()
}

/// Picks the storages with a large buffer among blocks.
#[derive(Debug)]
pub struct Finder<'a> {
    vtables: &'a Vtables,
    mappings: &'a [Mapping],
    found: Vec<Range<u64>>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(vtables: &'a Vtables, mappings: &'a [Mapping]) -> Self {
        Self { vtables, mappings, found: Vec::new() }
    }

    /// Looks at the block at `address`; `bytes` are those from `start` on, the block among them.
    #[inline]
    pub fn block(&mut self, address: u64, start: u64, bytes: &[u8]) {
        let word = Run { start, bytes }.word(address);
        if word.is_some_and(|word| self.vtables.storages.contains(word)) {
            self.storage(address, &Runs::one(start, bytes));
        }
    }

    fn storage(&mut self, address: u64, runs: &Runs<'_>) {
        let buffer = LAYOUTS.into_iter().find_map(|layout| {
            let fields = storage_fields(runs, layout, address)?;
            let end = fields.data.checked_add(fields.bytes)?;
            let sound = fields.device.is_host()
                && fields.bytes >= LARGE
                && backing(self.mappings, fields.data, end).is_some();
            sound.then_some(fields.data..end)
        });
        self.found.extend(buffer);
    }

    /// The buffers, in order of address.
    pub fn finish(mut self) -> Vec<Range<u64>> {
        self.found.sort_unstable_by_key(|range| range.start);
        self.found.dedup();
        self.found
    }
}

/// The program break, and what looks like a heap of a thread.
fn heaps(peek: &Peek) -> Vec<Range<u64>> {
    let is_break = |mapping: &Mapping| mapping.path.as_os_str() == "[heap]";
    let names_arena = |mapping: &Mapping| {
        let may_be = mapping.write && mapping.start.is_multiple_of(HEAP);
        // Only those few are read.
        may_be && peek.u64(mapping.start).is_some_and(|arena| arena != 0 && arena.is_multiple_of(8))
    };
    let heaps = peek.mappings().iter().filter(|m| m.end < HIGHEST && (is_break(m) || names_arena(m)));
    heaps.map(Mapping::range).collect()
}

/// One heap under way.
struct Sweep<'a, 'f> {
    peek: &'a Peek,
    /// What was read last, from `start` on.
    bytes: Vec<u8>,
    start: u64,
    finder: &'a mut Finder<'f>,
}

impl Sweep<'_, '_> {
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
            self.finder.block(at + 16, self.start, &self.bytes);
        }
        at + size
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
