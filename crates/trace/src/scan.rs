//! Frames out of a stream, however damaged.

use std::{fmt, io, io::Read};

use crate::frame::{self, Frame, HEADER_BYTES, Parsed};

const CHUNK_BYTES: usize = 256 << 10;
/// Hostile bytes could make every position look like the start of a long frame; this keeps the search from taking hours.
const SEARCH_BYTES: usize = 1 << 30;

/// How many bytes may still be checksummed in search of a frame after damage.
#[derive(Debug)]
pub(crate) struct Search(usize);

impl Default for Search {
    fn default() -> Self {
        Self(SEARCH_BYTES)
    }
}

impl Search {
    /// May what looks like a frame of this length be checked?
    pub(crate) fn allows(&mut self, total: usize) -> bool {
        let left = self.0.checked_sub(total);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Bytes that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Damage {
    pub first_offset: u64,
    pub bytes: u64,
}

pub(crate) struct Scanner {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Start of what is not yet consumed in `buffer`; its place in the file is `offset`.
    start: usize,
    offset: u64,
    /// Length of the frame given last.
    given: usize,
    at_eof: bool,
    search: Search,
    pub damage: Option<Damage>,
    /// End of the last whole frame.
    pub good_end: u64,
    /// Bytes after it that begin like a frame.
    pub torn_bytes: u64,
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("offset", &self.offset)
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}

impl Scanner {
    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            given: 0,
            at_eof: false,
            search: Search::default(),
            damage: None,
            good_end: 0,
            torn_bytes: 0,
        }
    }

    /// Where the frame given last starts, or where reading stopped.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Counts the frame given last as damaged: its checksum is right, its contents are not.
    pub(crate) fn reject(&mut self) {
        let damage = self.damage.get_or_insert(Damage { first_offset: self.offset, bytes: 0 });
        damage.bytes += self.given as u64;
    }

    /// The next valid frame, after skipping and counting what is none.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Frame<'_>>> {
        self.consume(self.given);
        self.given = 0;
        let (begin, first_look) = (self.offset, self.look(false)?);
        let mut look = first_look;
        while !matches!(look, Parsed::Whole { .. }) {
            if self.buffer.len() == self.start {
                self.note_tail(begin, first_look);
                return Ok(None);
            }
            self.consume(frame::next_magic(&self.buffer[self.start..]));
            look = self.look(true)?;
        }
        if self.offset > begin {
            self.note_damage(begin);
        }
        if let Parsed::Whole { total } = look {
            self.given = total;
        }
        self.good_end = self.offset + self.given as u64;
        Ok(Some(Frame::view(&self.buffer[self.start..self.start + self.given])))
    }

    /// What stands here, with as many bytes read as it takes to tell or as there are.
    fn look(&mut self, searching: bool) -> io::Result<Parsed> {
        self.fill(HEADER_BYTES)?;
        let rest = &self.buffer[self.start..];
        let header = frame::parse(&rest[..rest.len().min(HEADER_BYTES)]);
        let Parsed::Incomplete { total } = header else { return Ok(header) };
        if searching && !self.search.allows(total) {
            return Ok(Parsed::Bad);
        }
        self.fill(total)?;
        Ok(frame::parse(&self.buffer[self.start..]))
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Makes `want` bytes available if the file has them.
    fn fill(&mut self, want: usize) -> io::Result<()> {
        while self.buffer.len() - self.start < want && !self.at_eof {
            self.buffer.drain(..self.start);
            self.start = 0;
            let had = self.buffer.len();
            let read = want.max(CHUNK_BYTES) - had;
            self.at_eof = self.source.by_ref().take(read as u64).read_to_end(&mut self.buffer)? == 0;
        }
        Ok(())
    }

    fn note_damage(&mut self, begin: u64) {
        let damage = self.damage.get_or_insert(Damage { first_offset: begin, bytes: 0 });
        damage.bytes += self.offset - begin;
    }

    fn note_tail(&mut self, begin: u64, first_look: Parsed) {
        if matches!(first_look, Parsed::Incomplete { .. }) {
            self.torn_bytes = self.offset - begin;
        } else if self.offset > begin {
            self.note_damage(begin);
        }
    }
}
