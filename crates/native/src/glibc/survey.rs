//! The malloc of a process that runs, walked window by window: of a heap of gigabytes half a mebibyte is kept at a time.
//!
//! The process goes on meanwhile, so a chain may break; it is taken up again further on, and what lies between is
//! [`State::Unknown`]. Threads' caches and fastbins are not followed: their chunks look used and are told as such.
//! The one invariant: what is visited does not overlap and goes forward within one stretch.

use std::ops::Range;

use nilometer_image::live::Peek;

use super::arena::{program_break, rest_of, trimmable, unclaimed};
use super::heap::{end_of, heaps};
use super::index::{HEADER, State, Stretch};
use super::locate::{Located, in_data, through_heap};
use super::mapped::Counting;
use super::parameters::{self, Break, Parameters};
use super::walk::{self, PREVIOUS_IN_USE, Step, resume, step};
use super::{Error, writable_files};
use crate::runs::{Run, Runs};

/// What is read at once.
const WINDOW: u64 = 512 << 10;
const PAGE: u64 = 4096;
/// Blocks of the sizes that libraries' objects have are shown with their content.
const SHOWN: std::ops::RangeInclusive<u64> = 0x60..=0x110;
/// So much behind a header is in the window as well.
const SMALL: u64 = 0x110 + HEADER;
/// Starts of pages that are looked at in one go, where the last ones were no chunks.
const MOST_PAGES: usize = 256;
/// Two words tell a mapped chunk.
const HEAD: usize = 16;

/// Sums of what was seen, resident or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Survey {
    pub arenas: u64,
    pub in_use_bytes: u64,
    /// In bins and at the ends of arenas.
    pub free_bytes: u64,
    pub metadata_bytes: u64,
    pub unknown_bytes: u64,
    pub mapped_chunks: u64,
    pub mapped_bytes: u64,
}

/// Who is told of what is met.
pub trait Visitor {
    /// A stretch with its state.
    fn stretch(&mut self, state: State, range: Range<u64>);

    /// Whole pages of free memory that `malloc_trim(0)` could give back.
    fn trimmable(&mut self, range: Range<u64>);

    /// A small chunk in use or not, with its content: `bytes` are those from `start` on.
    fn block(&mut self, address: u64, start: u64, bytes: &[u8]) {
        let _ = (address, start, bytes);
    }
}

/// Walks all arenas, then what has a mapping of its own. `known`: ranges that are something else, for sure.
pub fn survey(peek: &Peek, known: &[Range<u64>], visitor: &mut dyn Visitor) -> Result<Survey, Error> {
    let mut bytes = Vec::new();
    let mut places = writable_files(peek.mappings()).into_iter();
    let found = places.find_map(|place| {
        let located = windows(&place).find_map(|window| {
            read_place(peek, &window, &mut bytes);
            // An arena that reaches out of the window is read beyond it.
            in_data(&Runs::beside(window.start, &bytes, peek), std::slice::from_ref(&window))
        })?;
        read_place(peek, &place, &mut bytes); // the parameters may be anywhere in it
        Some((place, located))
    });
    let (place, located) = match found {
        Some(found) => found,
        None => (0..0, through_heap(&Runs::beside(0, &[], peek), peek.mappings()).ok_or(Error::NoArena)?),
    };
    let runs = Runs::beside(place.start, if place.is_empty() { &[] } else { &bytes }, peek);
    let walker = Walker { peek, runs: &runs, window: Window::new(peek), visitor, sums: Survey::default() };
    Ok(walker.all(&located, &place, known))
}

/// Libraries have megabytes of variables, and mostly the first place has the arena: they are not worth keeping.
fn windows(place: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = place.end;
    (place.start..end).step_by(WINDOW as usize).map(move |start| start..end.min(start + WINDOW))
}

fn read_place(peek: &Peek, place: &Range<u64>, bytes: &mut Vec<u8>) {
    bytes.resize((place.end - place.start) as usize, 0);
    peek.read_present(place.start, bytes);
}

struct Walker<'a> {
    peek: &'a Peek,
    runs: &'a Runs<'a>,
    window: Window<'a>,
    visitor: &'a mut dyn Visitor,
    sums: Survey,
}

impl Walker<'_> {
    fn all(mut self, located: &Located, place: &Range<u64>, known: &[Range<u64>]) -> Survey {
        let mappings = self.peek.mappings();
        let heap = program_break(mappings);
        let parameters = parameters::find(self.runs, std::slice::from_ref(place), &heap);
        let named = if let Break::At(start) = heap { Some(start) } else { None };
        let start = parameters.and_then(|p| p.heap_start).or(named);
        let mut taken: Vec<Range<u64>> = Vec::new();
        for (index, arena) in located.arenas.iter().enumerate() {
            let Some(fields) = located.layout.state(self.runs, *arena) else { continue };
            self.sums.arenas += 1;
            if index == 0 {
                let range = start.and_then(|start| rest_of(mappings, start));
                taken.extend(range.map(|range| self.program_break(range, fields.top)));
                continue;
            }
            for heap in heaps(self.runs, &fields) {
                self.tell(State::Metadata, heap.start..heap.first);
                self.chain(
                    walk::Stretch { first: heap.first, end: heap.end, top: fields.top, strict: false },
                    None,
                );
                taken.push(heap.start..heap.end);
            }
        }
        taken.extend(known.iter().cloned());
        self.mapped(&unclaimed(mappings, taken), parameters);
        self.sums
    }

    fn program_break(&mut self, range: Range<u64>, top: u64) -> Range<u64> {
        let end = end_of(self.runs, range.clone(), top);
        let first = range.start.next_multiple_of(HEADER);
        self.tell(State::Metadata, range.start..first);
        self.chain(walk::Stretch { first, end, top, strict: false }, Some(top));
        range.start..end
    }

    fn tell(&mut self, state: State, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        let bytes = range.end - range.start;
        *match state {
            State::InUse | State::Cached | State::Mapped => &mut self.sums.in_use_bytes,
            State::Free | State::Fastbin | State::Top => &mut self.sums.free_bytes,
            State::Metadata => &mut self.sums.metadata_bytes,
            State::Unknown | State::Outside => &mut self.sums.unknown_bytes,
        } += bytes;
        self.visitor.stretch(state, range);
    }

    /// A chunk whose successor tells whether it is in use.
    fn settle(&mut self, range: Range<u64>, in_use: bool, main_top: Option<u64>) {
        let state = if in_use { State::InUse } else { State::Free };
        if !in_use {
            let stretch = Stretch { start: range.start, end: range.end, state };
            if let Some(range) = trimmable(stretch, main_top) {
                self.visitor.trimmable(range);
            }
        }
        self.tell(state, range);
    }

    /// From chunk to chunk through one stretch.
    fn chain(&mut self, stretch: walk::Stretch, main_top: Option<u64>) {
        let (mut at, mut last): (u64, Option<Range<u64>>) = (stretch.first, None);
        while at < stretch.end {
            let head = self.window.word(at + 8, stretch.end);
            if let Some(last) = last.take() {
                self.settle(last, head & PREVIOUS_IN_USE != 0, main_top);
            }
            if at == stretch.top {
                return self.top(at, head & !7, stretch, main_top);
            }
            at = match step(head, at, stretch.end) {
                Step::To(next) => {
                    // A chunk that reaches over the top is being cut off it at this moment.
                    let next = if at < stretch.top && stretch.top < next { stretch.top } else { next };
                    if SHOWN.contains(&(next - at)) {
                        self.visitor.block(at + HEADER, self.window.start, &self.window.bytes);
                    }
                    last = Some(at..next);
                    next
                }
                Step::Fence => {
                    self.tell(State::Metadata, at..at + HEADER);
                    at + HEADER
                }
                Step::Last => {
                    self.tell(State::Metadata, at..stretch.end);
                    stretch.end
                }
                Step::Broken => self.skip(at, stretch),
            };
        }
        if let Some(last) = last {
            self.settle(last, true, main_top);
        }
    }

    fn top(&mut self, at: u64, bytes: u64, stretch: walk::Stretch, main_top: Option<u64>) {
        let end = at.saturating_add(bytes).min(stretch.end).max(at);
        if let Some(range) = trimmable(Stretch { start: at, end, state: State::Top }, main_top) {
            self.visitor.trimmable(range);
        }
        self.tell(State::Top, at..end);
        self.tell(State::Metadata, end..stretch.end);
    }

    /// The chain is taken up again within the window, else behind it.
    fn skip(&mut self, at: u64, stretch: walk::Stretch) -> u64 {
        let end = self.window.end().min(stretch.end).max(at + HEADER);
        let runs = Runs::one(self.window.start, &self.window.bytes);
        let next = resume(&runs, walk::Stretch { end, ..stretch }, at + HEADER).min(stretch.end);
        self.tell(State::Unknown, at..next);
        next
    }

    /// Chunks with a mapping of their own, in memory that nobody has claimed.
    fn mapped(&mut self, unclaimed: &[Range<u64>], parameters: Option<Parameters>) {
        if parameters.is_some_and(|parameters| parameters.mapped_count == 0) {
            return;
        }
        for counting in [Counting::Whole, Counting::WithoutHeader] {
            for range in unclaimed {
                self.mapped_in(range, counting);
            }
            if self.sums.mapped_chunks > 0 {
                return;
            }
        }
    }

    fn mapped_in(&mut self, range: &Range<u64>, counting: Counting) {
        let (mut at, mut pages) = (range.start.next_multiple_of(PAGE), 1);
        let mut bytes = Vec::new();
        while at < range.end {
            let starts = (at..range.end).step_by(PAGE as usize).take(pages);
            let spans: Vec<(u64, usize)> = starts
                .filter(|at| self.peek.is_resident(&(*at..at + HEAD as u64)))
                .map(|at| (at, HEAD))
                .collect();
            self.peek.read_many(&spans, &mut bytes);
            let found = spans.iter().zip(bytes.chunks_exact(HEAD)).find_map(|((start, _), head)| {
                let length = counting.length(&Runs::one(*start, head), *start, 0)?;
                (start + length <= range.end).then_some((*start, length))
            });
            let Some((start, length)) = found else {
                at += pages as u64 * PAGE;
                pages = (pages * 4).min(MOST_PAGES);
                continue;
            };
            self.sums.mapped_chunks += 1;
            self.sums.mapped_bytes += length;
            self.visitor.stretch(State::Mapped, start..start + length);
            (at, pages) = (start + length, 1);
        }
    }
}

/// The bytes that were read last.
struct Window<'a> {
    peek: &'a Peek,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    fn new(peek: &'a Peek) -> Self {
        Self { peek, start: 0, bytes: Vec::new() }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// A word of a stretch that ends at `end`; 0 where nothing is there. Behind it a small block is in the window too.
    #[inline]
    fn word(&mut self, address: u64, end: u64) -> u64 {
        if address < self.start || address + SMALL > self.end() && self.end() < end {
            self.load(address, end);
        }
        Run { start: self.start, bytes: &self.bytes }.word(address).unwrap_or(0)
    }

    fn load(&mut self, address: u64, end: u64) {
        self.start = address - address % PAGE;
        self.bytes.resize(end.saturating_sub(self.start).min(WINDOW) as usize, 0);
        self.peek.read_present(self.start, &mut self.bytes);
    }
}
