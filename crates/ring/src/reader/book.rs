//! The book, read: stacks by number, definitions.

use std::fs::File;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::Error;
use super::map::Map;
use crate::book::{Frame, special};
use crate::definition::{self, Raw};
use crate::layout::{
    BOOK_FILE, BOOK_MAGIC, BookHeader, DEFINITION_SEGMENTS, NODE_BITS, NODE_SEGMENTS, Node, PAGE, SEGMENT,
    VERSION,
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

    /// Forked children that could not report to anybody.
    pub fn unheard(&self) -> u64 {
        self.header().map_or(0, |header| header.unheard.load(Relaxed))
    }

    /// One node: its frame and the number of its caller.
    pub fn node(&self, number: u32) -> Option<(Frame, u32)> {
        let segment = (number >> NODE_BITS) as usize;
        let start = self.segment(PAGE, NODE_SEGMENTS, segment)?;
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
    pub fn definitions(&self, mut sink: impl FnMut(&Raw<'_>)) {
        let mut buffer = Vec::new();
        for index in 0..DEFINITION_SEGMENTS {
            let directory = PAGE + (NODE_SEGMENTS * 4) as u64;
            let Some(start) = self.segment(directory, DEFINITION_SEGMENTS, index) else { continue };
            buffer.clear();
            self.map.copy(start, SEGMENT, &mut buffer);
            definition::all(&buffer).for_each(|raw| sink(&raw));
        }
    }

    /// Hands over the definitions from a place on, and moves it on. Those that somebody is still writing are passed.
    pub fn definitions_from(&self, place: &mut u64, mut sink: impl FnMut(&Raw<'_>)) {
        let end = self.header().map_or(0, |header| header.definitions.load(Acquire));
        let directory = PAGE + (NODE_SEGMENTS * 4) as u64;
        let mut buffer = Vec::new();
        while *place < end {
            let index = (*place / SEGMENT) as usize;
            let upto = end.min((*place / SEGMENT + 1) * SEGMENT);
            if let Some(start) = self.segment(directory, DEFINITION_SEGMENTS, index) {
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
