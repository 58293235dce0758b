//! The book: nodes of stacks and definitions, written by a family of forked processes without locks.
//!
//! Nodes have consecutive numbers, so that an event can name a stack by a short difference. The table that
//! finds a node by its content is private to each process: two processes, or two threads in a race, may write
//! the same node twice, which costs 16 bytes and nothing else.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use crate::definition::{self, Kind};
use crate::layout::{
    BOOK_FILE, BOOK_FIXED, BOOK_MAGIC, BookHeader, DEFINITION_DIRECTORY, DEFINITION_SEGMENTS, NODE_BITS,
    NODE_DIRECTORY, NODE_SEGMENTS, Node, PAGE, SEGMENT, VERSION,
};

/// Numbers that are no nodes of their own.
pub mod special {
    /// There is no stack.
    pub const NONE: u32 = 0;
    /// The stack was not kept: the book is full.
    pub const DROPPED: u32 = 1;
    /// What lies above the outermost frame kept: the stack was cut at the depth limit.
    pub const CUT: u32 = 2;
    /// An answer of the writer, never in an event: there is room for marks only.
    pub const FOLD: u32 = 3;
    /// The first real node.
    pub const FIRST: u32 = 16;
}

/// The place of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frame {
    /// A return address; `epoch` counts how often its address range got another library.
    Native { address: u64, epoch: u16 },
    /// An instruction of a code object; `entry`: the first Python frame of its native evaluation frame.
    Python { code: u32, offset: u32, entry: bool },
}

const PYTHON: u64 = 1 << 63;
const ENTRY: u64 = 1 << 62;
const ADDRESS_BITS: u32 = 47;
const OFFSET_BITS: u32 = 24;
/// The place of a mark that stands for all frames inwards. No code lies there.
pub const FOLDED: u64 = 1;
/// The part of the book, as a power of two, that is kept for such marks and for definitions.
const RESERVE_SHIFT: u32 = 3;

impl Frame {
    /// Not a frame: the frames inwards of its parent were not kept, because the book was nearly full.
    pub const FOLDED: Self = Self::from_place(FOLDED);

    #[inline(always)]
    pub const fn native(address: u64, epoch: u16) -> u64 {
        (address & ((1 << ADDRESS_BITS) - 1)) | ((epoch as u64 & 0x7fff) << ADDRESS_BITS)
    }

    #[inline(always)]
    pub const fn python(code: u32, offset: u32, entry: bool) -> u64 {
        let offset = offset as u64 & ((1 << OFFSET_BITS) - 1);
        PYTHON | (entry as u64 * ENTRY) | ((code as u64 & 0x3fff_ffff) << OFFSET_BITS) | offset
    }

    pub const fn from_place(place: u64) -> Self {
        if place & PYTHON == 0 {
            let epoch = (place >> ADDRESS_BITS) as u16 & 0x7fff;
            return Self::Native { address: place & ((1 << ADDRESS_BITS) - 1), epoch };
        }
        Self::Python {
            code: (place >> OFFSET_BITS) as u32 & 0x3fff_ffff,
            offset: place as u32 & ((1 << OFFSET_BITS) - 1),
            entry: place & ENTRY != 0,
        }
    }
}

/// How a process gets pages of the book's file.
pub trait Backing {
    /// Backs these bytes so that touching them cannot fail. False: refused.
    fn back(&self, offset: u64, length: u64) -> bool;
    /// Gives them back.
    fn release(&self, offset: u64, length: u64);
    /// Maps them; null if that fails.
    fn map(&self, offset: u64, length: u64) -> *mut u8;
}

/// A process's view of the book. All empty until [`Book::open`].
#[derive(Debug)]
pub struct Book {
    fixed: AtomicPtr<u8>,
    nodes: [AtomicPtr<u8>; NODE_SEGMENTS],
    definitions: [AtomicPtr<u8>; DEFINITION_SEGMENTS],
}

impl Book {
    #[allow(clippy::new_without_default, reason = "only made as a static")]
    pub const fn new() -> Self {
        Self {
            fixed: AtomicPtr::new(null_mut()),
            nodes: [const { AtomicPtr::new(null_mut()) }; NODE_SEGMENTS],
            definitions: [const { AtomicPtr::new(null_mut()) }; DEFINITION_SEGMENTS],
        }
    }

    /// Starts an empty book in the backed and mapped first bytes of its file.
    ///
    /// # Safety
    /// `fixed` is the mapping of the file's first [`BOOK_FIXED`] bytes, zeroed, and stays mapped for ever.
    pub unsafe fn open(&self, fixed: *mut u8, limit_bytes: u64) {
        self.fixed.store(fixed, Release);
        let Some(header) = self.header() else { return };
        header.version.store(VERSION, Relaxed);
        header.used_bytes.store(BOOK_FIXED, Relaxed);
        header.limit_bytes.store(limit_bytes.min(BOOK_FILE), Relaxed);
        header.nodes.store(u64::from(special::FIRST), Relaxed);
        header.next_id.store(1, Relaxed);
        header.magic.store(BOOK_MAGIC, Release);
    }

    pub fn header(&self) -> Option<&BookHeader> {
        let fixed = self.fixed.load(Acquire);
        // SAFETY: not null means `open` was given a live mapping; all fields are atomics.
        (!fixed.is_null()).then(|| unsafe { &*fixed.cast::<BookHeader>() })
    }

    fn directory(&self, at: u64, index: usize) -> Option<&AtomicU32> {
        let fixed = self.fixed.load(Acquire);
        let offset = at as usize + index * 4;
        // SAFETY: callers bound `index` by the directory's length, so this lies in the fixed bytes.
        (!fixed.is_null()).then(|| unsafe { &*fixed.add(offset).cast::<AtomicU32>() })
    }

    /// Writes a node; its number, [`special::FOLD`] if there is only room for marks ([`FOLDED`]), or
    /// [`special::DROPPED`] if there is none.
    pub fn append(&self, backing: &impl Backing, parent: u32, place: u64) -> u32 {
        let Some(header) = self.header() else { return special::DROPPED };
        if header.full.load(Relaxed) != 0 {
            return special::DROPPED;
        }
        if place != FOLDED && header.folding.load(Relaxed) != 0 {
            return special::FOLD;
        }
        let number = header.nodes.fetch_add(1, Relaxed);
        let segment = (number >> NODE_BITS) as usize;
        let Some(map) = self.nodes.get(segment) else { return self.give_up() };
        let Some(start) = self.segment(backing, map, NODE_DIRECTORY, segment) else { return self.give_up() };
        let index = (number & ((1 << NODE_BITS) - 1)) as usize;
        // SAFETY: `start` maps a backed segment, and `index` is below its number of nodes.
        let node = unsafe { &*start.cast::<Node>().add(index) };
        node.place.store(place, Relaxed);
        node.parent.store(u64::from(parent) + 1, Release);
        number as u32
    }

    /// The frame of a node that this process has written or met.
    pub fn place_of(&self, number: u32) -> u64 {
        let start =
            self.nodes.get((number >> NODE_BITS) as usize).map_or(null_mut(), |map| map.load(Acquire));
        let index = (number & ((1 << NODE_BITS) - 1)) as usize;
        if start.is_null() {
            return 0;
        }
        // SAFETY: `start` maps a backed segment, and `index` is below its number of nodes.
        unsafe { (*start.cast::<Node>().add(index)).place.load(Relaxed) }
    }

    /// From now on only marks get nodes.
    pub fn fold(&self) {
        if let Some(header) = self.header() {
            header.folding.store(1, Relaxed);
        }
    }

    fn give_up(&self) -> u32 {
        if let Some(header) = self.header() {
            header.full.store(1, Relaxed);
        }
        special::DROPPED
    }

    /// The segment's mapping here; backs and publishes it if nobody has yet.
    #[inline(always)]
    fn segment(
        &self,
        backing: &impl Backing,
        map: &AtomicPtr<u8>,
        directory: u64,
        index: usize,
    ) -> Option<*mut u8> {
        let start = map.load(Acquire);
        if start.is_null() { self.new_segment(backing, map, directory, index) } else { Some(start) }
    }

    #[cold]
    fn new_segment(
        &self,
        backing: &impl Backing,
        map: &AtomicPtr<u8>,
        directory: u64,
        index: usize,
    ) -> Option<*mut u8> {
        let entry = self.directory(directory, index)?;
        let mut page = u64::from(entry.load(Acquire));
        if page == 0 {
            page = self.back_segment(backing, entry)?;
        }
        let start = backing.map(page * PAGE, SEGMENT);
        if start.is_null() {
            return None;
        }
        // Two threads may have mapped it: both mappings show the same pages, one is kept for the next time.
        map.store(start, Release);
        Some(start)
    }

    fn back_segment(&self, backing: &impl Backing, entry: &AtomicU32) -> Option<u64> {
        let header = self.header()?;
        if header.full.load(Relaxed) != 0 {
            return None;
        }
        let offset = header.used_bytes.fetch_add(SEGMENT, Relaxed);
        if offset + SEGMENT > header.limit_bytes.load(Relaxed) || !backing.back(offset, SEGMENT) {
            header.used_bytes.fetch_sub(SEGMENT, Relaxed);
            return None;
        }
        let limit = header.limit_bytes.load(Relaxed);
        if offset + SEGMENT > limit - (limit >> RESERVE_SHIFT) {
            self.fold();
        }
        match entry.compare_exchange(0, (offset / PAGE) as u32, AcqRel, Acquire) {
            Ok(_) => Some(offset / PAGE),
            Err(winner) => {
                backing.release(offset, SEGMENT);
                Some(u64::from(winner))
            }
        }
    }

    /// A number for a definition that is about to be written.
    pub fn next_id(&self) -> u32 {
        self.header().map_or(0, |header| header.next_id.fetch_add(1, Relaxed))
    }

    /// Writes a definition. False if there is no room or it is too long.
    pub fn define(&self, backing: &impl Backing, kind: Kind, id: u32, parts: &[&[u8]]) -> bool {
        let length = definition::length(parts) as u64;
        if length > SEGMENT {
            return false;
        }
        let Some(place) = self.definition_place(length) else { return false };
        let index = (place / SEGMENT) as usize;
        let Some(map) = self.definitions.get(index) else { return false };
        let Some(start) = self.segment(backing, map, DEFINITION_DIRECTORY, index) else {
            self.give_up();
            return false;
        };
        // SAFETY: `definition_place` keeps `length` bytes from here within one backed segment, for us alone.
        unsafe { definition::write(start.add((place % SEGMENT) as usize), kind, id, parts) };
        true
    }

    /// Reserves bytes that lie in one segment.
    fn definition_place(&self, length: u64) -> Option<u64> {
        let header = self.header()?;
        let mut place = header.definitions.load(Relaxed);
        loop {
            let room = SEGMENT - place % SEGMENT;
            let start = if length <= room { place } else { place + room };
            match header.definitions.compare_exchange_weak(place, start + length, AcqRel, Relaxed) {
                Ok(_) => return Some(start),
                Err(now) => place = now,
            }
        }
    }
}

/// The word of a definition that is written last.
pub(crate) fn publish(at: *mut u8, word: u64) {
    // SAFETY: definitions start at multiples of eight inside a mapped segment (see `definition_place`).
    unsafe { (*at.cast::<AtomicU64>()).store(word, Release) };
}
