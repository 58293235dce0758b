//! Files of columns: a frame with a header in JSON, columns of packed rows in chunks, each compressed by zstd, an end.
//!
//! Heap snapshots and recordings of allocations are such files. One is whole or refused, and what is wrong says where.
//! Nothing is allocated by a number that was only read: vectors grow with what was really decoded.

use std::io::{self, Read, Write};

use serde::Serialize;
use zstd::bulk::{Compressor, Decompressor};

use crate::frame::{self, Frame, HEADER_BYTES, Parsed};
use crate::varint::{Cursor, put};

/// Unpacked bytes after which a chunk is closed, and the most that one may have: a row is shorter than the rest.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
pub(crate) const MOST_CHUNK_BYTES: usize = 8 << 20;
/// A file may become this much memory, whatever its size.
const FREE_BYTES: u64 = 256 << 20;

/// What makes a file one of its sort.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sort {
    /// Kinds of its frames; the numbers follow those of the log and are never used again.
    pub header: u8,
    pub chunk: u8,
    pub end: u8,
    /// Of the compressor.
    pub level: i32,
    /// Beyond what is free, a file may become this many times its size in memory.
    pub most_blow_up: u64,
}

impl Sort {
    /// Do these first bytes of a file (three are enough) begin one of this sort?
    pub(crate) fn begins(self, start: &[u8]) -> bool {
        start.len() >= 3 && start[..2] == frame::MAGIC && start[2] == self.header
    }
}

/// Why a file is refused.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is no file of this sort.
    Foreign,
    Cut {
        offset: u64,
    },
    Damaged {
        offset: u64,
        what: &'static str,
    },
    Io(io::Error),
    Frame(crate::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<crate::Error> for Fault {
    fn from(error: crate::Error) -> Self {
        Self::Frame(error)
    }
}

/// Writes a file; small writes are gathered into frames, so what it writes to needs no buffer.
pub(crate) struct Writer<W> {
    out: W,
    sort: Sort,
    frame: Vec<u8>,
    packed: Vec<u8>,
    compressor: Compressor<'static>,
    /// The chunk in the making, and its rows.
    raw: Vec<u8>,
    rows: u64,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, sort: Sort, header: &impl Serialize) -> Result<Self, Fault> {
        let compressor = Compressor::new(sort.level)?;
        let raw = Vec::with_capacity(CHUNK_BYTES + 64);
        let mut file = Self { out, sort, frame: Vec::new(), packed: Vec::new(), compressor, raw, rows: 0 };
        file.json(sort.header, header)?;
        Ok(file)
    }

    fn json(&mut self, kind: u8, it: &impl Serialize) -> Result<(), Fault> {
        frame::encode_numbered(&mut self.frame, kind, |out| Ok(serde_json::to_writer(out, it)?))?;
        Ok(self.out.write_all(&self.frame)?)
    }

    /// `put` appends a row.
    pub(crate) fn column<T>(
        &mut self,
        number: u8,
        rows: &[T],
        mut put: impl FnMut(&mut Vec<u8>, &T),
    ) -> Result<(), Fault> {
        for row in rows {
            put(&mut self.raw, row);
            self.rows += 1;
            if self.raw.len() >= CHUNK_BYTES {
                self.chunk(number)?;
            }
        }
        if self.rows > 0 { self.chunk(number) } else { Ok(()) }
    }

    fn chunk(&mut self, number: u8) -> Result<(), Fault> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        self.compressor.compress_to_buffer(&self.raw, &mut self.packed)?;
        let (rows, length, packed) = (self.rows, self.raw.len() as u64, &self.packed);
        frame::encode_numbered(&mut self.frame, self.sort.chunk, |out| {
            out.push(number);
            put(out, rows);
            put(out, length);
            out.extend_from_slice(packed);
            Ok(())
        })?;
        self.raw.clear();
        self.rows = 0;
        Ok(self.out.write_all(&self.frame)?)
    }

    pub(crate) fn end(mut self) -> Result<(), Fault> {
        self.json(self.sort.end, &serde_json::json!({}))
    }
}

/// Reads a file, column by column in the order in which they were written.
pub(crate) struct Reader<R> {
    from: R,
    sort: Sort,
    /// One frame, where it begins, and where the next one does.
    buffer: Vec<u8>,
    offset: u64,
    next: u64,
    decompressor: Decompressor<'static>,
    raw: Vec<u8>,
    /// Memory that the rows so far take.
    memory: u64,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(from: R, sort: Sort) -> Result<Self, Fault> {
        let (decompressor, buffer, raw) = (Decompressor::new()?, Vec::new(), Vec::new());
        Ok(Self { from, sort, buffer, offset: 0, next: 0, decompressor, raw, memory: 0 })
    }

    pub(crate) fn damaged(&self, what: &'static str) -> Fault {
        Fault::Damaged { offset: self.offset, what }
    }

    /// The JSON of the first frame.
    pub(crate) fn header(&mut self) -> Result<&[u8], Fault> {
        let advanced = self.advance();
        if !self.sort.begins(&self.buffer) {
            return Err(Fault::Foreign);
        }
        advanced?;
        Ok(Frame::view(&self.buffer).payload)
    }

    /// Rows of a column, chunk by chunk: `read` takes so many from the cursor, or finds that they make no sense.
    /// `row_bytes` is what a row takes in memory, `spread` what a byte of it may become besides.
    pub(crate) fn column(
        &mut self,
        number: u8,
        rows: u64,
        (row_bytes, spread): (usize, u64),
        mut read: impl FnMut(u64, &mut Cursor<'_>) -> Option<()>,
    ) -> Result<(), Fault> {
        let mut left = rows;
        while left > 0 {
            let rows = self.chunk(number, left, (row_bytes, spread))?;
            let mut cursor = Cursor::new(&self.raw);
            read(rows, &mut cursor).ok_or_else(|| self.damaged("a row cannot be read"))?;
            if cursor.remaining() > 0 {
                return Err(self.damaged("bytes are left over"));
            }
            left -= rows;
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        self.advance()?;
        if Frame::view(&self.buffer).kind == self.sort.end {
            return Ok(());
        }
        Err(self.damaged("there are more rows than the header says"))
    }

    /// Reads the next whole frame.
    fn advance(&mut self) -> Result<(), Fault> {
        self.offset = self.next;
        self.buffer.clear();
        self.fill(HEADER_BYTES)?;
        if let Parsed::Incomplete { total } = frame::parse(&self.buffer) {
            self.fill(total)?;
        }
        self.next = self.offset + self.buffer.len() as u64;
        match frame::parse(&self.buffer) {
            Parsed::Whole { .. } => Ok(()),
            Parsed::Incomplete { .. } => Err(Fault::Cut { offset: self.next }),
            Parsed::Bad => Err(self.damaged("the bytes are not what was written")),
        }
    }

    fn fill(&mut self, total: usize) -> Result<(), Fault> {
        let missing = total.saturating_sub(self.buffer.len()) as u64;
        self.from.by_ref().take(missing).read_to_end(&mut self.buffer)?;
        Ok(())
    }

    /// Unpacks the next chunk into `raw` and gives its number of rows, at most `left` and one for each byte.
    fn chunk(&mut self, number: u8, left: u64, (row_bytes, spread): (usize, u64)) -> Result<u64, Fault> {
        self.advance()?;
        let frame = Frame::view(&self.buffer);
        let mut cursor = Cursor::new(frame.payload);
        let head = (frame.kind == self.sort.chunk && frame.flags == 0)
            .then(|| Some((cursor.byte()?, cursor.varint()?, cursor.varint()?)))
            .flatten();
        let packed = &frame.payload[frame.payload.len() - cursor.remaining()..];
        let Some((_, rows, length)) = head.filter(|head| head.0 == number) else {
            return Err(self.damaged("another part was expected"));
        };
        if length > MOST_CHUNK_BYTES as u64 || rows == 0 || rows > left || rows > length {
            return Err(self.damaged("a part has impossible sizes"));
        }
        self.memory += length * spread + rows * row_bytes as u64;
        if self.memory > FREE_BYTES + self.sort.most_blow_up * self.next {
            return Err(self.damaged("it would become too large"));
        }
        self.raw.clear();
        self.raw.reserve_exact(length as usize);
        let unpacked = self.decompressor.decompress_to_buffer(packed, &mut self.raw);
        if unpacked.is_ok_and(|bytes| bytes as u64 == length) {
            Ok(rows)
        } else {
            Err(self.damaged("a part cannot be decompressed"))
        }
    }
}

/// Rows are not more than the bytes that were unpacked, so this much may be reserved.
pub(crate) fn each<T>(rows: u64, into: &mut Vec<T>, mut next: impl FnMut() -> Option<T>) -> Option<()> {
    into.reserve(rows as usize);
    for _ in 0..rows {
        into.push(next()?);
    }
    Some(())
}

pub(crate) fn short(from: &mut Cursor<'_>) -> Option<u32> {
    u32::try_from(from.varint()?).ok()
}

/// What [`put_bytes`] wrote.
pub(crate) fn bytes<'a>(from: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(from.varint()?).ok()?;
    from.bytes(length)
}

/// A name that was cut inside a character loses only that.
pub(crate) fn text(from: &mut Cursor<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(bytes(from)?).into_owned())
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(from: &mut Cursor<'_>) -> Option<T> {
    serde_json::from_slice(bytes(from)?).ok()
}

/// What is longer than a chunk is cut: nobody reads such a name.
pub(crate) fn put_bytes(raw: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(CHUNK_BYTES)];
    put(raw, bytes.len() as u64);
    raw.extend_from_slice(bytes);
}

pub(crate) fn put_json(raw: &mut Vec<u8>, it: &impl Serialize) {
    // Strings and numbers always have a form in JSON.
    put_bytes(raw, &serde_json::to_vec(it).unwrap_or_default());
}

/// What tests of such files take them apart with.
#[cfg(test)]
pub(crate) mod tests {
    use crate::frame::{self, Frame};

    /// Kind and payload of each frame.
    pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut frames = Vec::new();
        while let Some(frame) = Frame::decode(bytes) {
            frames.push((frame.kind, frame.payload.to_vec()));
            bytes = &bytes[frame::HEADER_BYTES + frame.payload.len()..];
        }
        frames
    }

    /// Column and number of rows, then the rows themselves.
    pub(crate) fn unpacked(payload: &[u8]) -> Vec<u8> {
        if payload.first() == Some(&b'{') {
            return payload.to_vec();
        }
        let mut cursor = crate::varint::Cursor::new(payload);
        let (column, rows, length) =
            (cursor.byte().unwrap(), cursor.varint().unwrap(), cursor.varint().unwrap());
        let raw =
            zstd::bulk::decompress(&payload[payload.len() - cursor.remaining()..], length as usize).unwrap();
        let mut out = vec![column, rows as u8];
        out.extend(raw);
        out
    }
}
