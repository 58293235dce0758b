//! The book, read: stacks by number, definitions.

use std::fs::File;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::Error;
use super::map::Map;
use crate::book::{Frame, special};
use crate::definition::{self, Raw};
use crate::layout::{
    BOOK_FILE, BOOK_MAGIC, BookHeader, DEFINITION_DIRECTORY, DEFINITION_SEGMENTS, NODE_BITS, NODE_DIRECTORY,
    NODE_SEGMENTS, Node, PAGE, SEGMENT, VERSION,
};

/// The book of a family of processes.
#[derive(Debug)]
pub struct Book {
    map: Map,
}

/// A stack, innermost frame first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stack {
    pub frames: Vec<Frame>,
    /// Frames outside the outermost one were cut off.
    pub cut: bool,
    /// The tracker had no room for this stack.
    pub dropped: bool,
    /// Frames inside the innermost one were not kept: the book was nearly full.
    pub folded: bool,
}

impl Book {
    pub fn open(file: &File) -> Result<Self, Error> {
        let map = Map::new(file, BOOK_FILE)?;
        let book = Self { map };
        let header = book.header()?;
        if header.magic.load(Acquire) != BOOK_MAGIC || header.version.load(Relaxed) != VERSION {
            return Err(Error::NotOurs);
        }
        Ok(book)
    }

    fn header(&self) -> Result<&BookHeader, Error> {
        self.map.at::<BookHeader>(0).ok_or(Error::NotOurs)
    }

    pub fn inode(&self) -> u64 {
        self.map.inode()
    }

    /// Nodes written so far, and bytes of the file in use.
    pub fn size(&self) -> Result<(u64, u64), Error> {
        let header = self.header()?;
        Ok((header.nodes.load(Relaxed), header.used_bytes.load(Relaxed)))
    }

    /// Forked children that could not connect to the recorder.
    pub fn unheard(&self) -> u64 {
        self.header().map_or(0, |header| header.unheard.load(Relaxed))
    }

    /// One node: its frame and the number of its caller.
    pub fn node(&self, number: u32) -> Option<(Frame, u32)> {
        let segment = (number >> NODE_BITS) as usize;
        let start = self.segment(NODE_DIRECTORY, NODE_SEGMENTS, segment)?;
        let index = u64::from(number & ((1 << NODE_BITS) - 1));
        let node = self.map.at::<Node>(start + index * size_of::<Node>() as u64)?;
        let parent = node.parent.load(Acquire);
        let parent = u32::try_from(parent.checked_sub(1)?).ok()?;
        Some((Frame::from_place(node.place.load(Relaxed)), parent))
    }

    /// The whole stack of a node. Parents have smaller numbers, so this ends.
    pub fn stack(&self, number: u32) -> Stack {
        let mut stack = Stack::default();
        let mut next = number;
        while let Some((frame, parent)) = self.node(next).filter(|_| next >= special::FIRST) {
            if frame == Frame::FOLDED {
                stack.folded = true;
            } else {
                stack.frames.push(frame);
            }
            if parent >= next {
                break;
            }
            next = parent;
        }
        stack.cut = next == special::CUT;
        stack.dropped = next == special::DROPPED;
        stack
    }

    /// Hands each definition written so far to `sink`.
    pub fn definitions(&self, sink: impl FnMut(&Raw<'_>)) {
        self.definitions_from(&mut 0, sink);
    }

    /// Hands over the definitions from a place on, and moves it on. Those that somebody is still writing are passed.
    pub fn definitions_from(&self, place: &mut u64, mut sink: impl FnMut(&Raw<'_>)) {
        let written = self.header().map_or(0, |header| header.definitions.load(Acquire));
        let end = written.min(DEFINITION_SEGMENTS as u64 * SEGMENT); // a target may have written anything
        let mut buffer = Vec::new();
        while *place < end {
            let index = (*place / SEGMENT) as usize;
            let upto = end.min((*place / SEGMENT + 1) * SEGMENT);
            if let Some(start) = self.segment(DEFINITION_DIRECTORY, DEFINITION_SEGMENTS, index) {
                buffer.clear();
                self.map.copy(start + *place % SEGMENT, upto - *place, &mut buffer);
                definition::all(&buffer).for_each(|raw| sink(&raw));
            }
            *place = upto;
        }
    }

    /// Where a segment starts in the file; `None` if it was not published.
    fn segment(&self, directory: u64, count: usize, index: usize) -> Option<u64> {
        let entry = (index < count).then_some(directory + index as u64 * 4)?;
        let start = u64::from(self.map.at::<AtomicU32>(entry)?.load(Acquire)) * PAGE;
        (start != 0 && start + SEGMENT <= BOOK_FILE).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{c_char, c_int, c_uint};
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    use std::os::unix::fs::FileExt as _;

    use super::*;

    unsafe extern "C" {
        fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
        fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    }

    /// A sealed file of a book's size whose header says so many bytes of definitions.
    fn book(definitions: u64, segment: u64, bytes: &[u8]) -> Book {
        const ALLOW_SEALING: c_uint = 2;
        const ADD_SEALS: c_int = 1033;
        const SHRINK: c_int = 2;
        // SAFETY: a fresh descriptor, owned by the file from here on.
        let file = unsafe { File::from_raw_fd(memfd_create(c"book".as_ptr(), ALLOW_SEALING)) };
        file.set_len(BOOK_FILE).unwrap();
        let put = |at: usize, bytes: &[u8]| file.write_all_at(bytes, at as u64).unwrap();
        put(std::mem::offset_of!(BookHeader, magic), &BOOK_MAGIC.to_le_bytes());
        put(std::mem::offset_of!(BookHeader, version), &VERSION.to_le_bytes());
        put(std::mem::offset_of!(BookHeader, definitions), &definitions.to_le_bytes());
        put(DEFINITION_DIRECTORY as usize, &((segment / PAGE) as u32).to_le_bytes());
        put(segment as usize, bytes);
        // SAFETY: a call on an open descriptor.
        assert_eq!(unsafe { fcntl(file.as_raw_fd(), ADD_SEALS, SHRINK) }, 0);
        Book::open(&file).unwrap()
    }

    #[test]
    fn a_place_beyond_all_segments_is_not_believed() {
        let parts: [&[u8]; 1] = [b"one"];
        let mut bytes = [0_u64; 8];
        // SAFETY: aligned, and longer than the definition.
        unsafe { definition::write(bytes.as_mut_ptr().cast(), definition::Kind::Module, 7, &parts) };
        let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
        for definitions in [definition::length(&parts) as u64, SEGMENT, u64::MAX - 1, u64::MAX] {
            let book = book(definitions, 1 << 20, &bytes);
            let (mut place, mut found) = (0, Vec::new());
            book.definitions_from(&mut place, |raw| found.push(raw.id));
            assert_eq!((found, place), (vec![7], definitions.min(DEFINITION_SEGMENTS as u64 * SEGMENT)));
        }
    }
}
