//! Frames to a recording. Every number is doubted; what does not fit is an error with its place in the file.

use std::io::Read;

use zstd::bulk::Decompressor;

use super::{
    ALLOCS_VERSION, CHUNK, END, Error, FREE_BYTES, HEADER, Header, MOST_BLOW_UP, MOST_CHUNK_BYTES, Table,
};
use crate::allocs::{About, Amount, Code, Frame, Module, Node, Recording, Series, Site, Source};
use crate::frame::{self, HEADER_BYTES, Parsed};
use crate::varint::Cursor;

pub(super) fn read_about(from: impl Read) -> Result<About, Error> {
    Ok(Frames::new(from).header()?.about)
}

pub(super) fn read(from: impl Read) -> Result<Recording, Error> {
    let mut frames = Frames::new(from);
    let header = frames.header()?;
    let mut tables = Tables { frames, decompressor: Decompressor::new()?, raw: Vec::new(), memory: 0 };
    let mut recording = Recording { about: header.about, ..Recording::default() };
    let mut state = State::default();
    for (table, rows) in Table::ALL.into_iter().zip(header.rows) {
        tables.table(table, rows, &mut recording, &mut state)?;
    }
    tables.frames.advance()?;
    if tables.frames.kind() != END {
        return Err(tables.frames.damaged("there are more rows than the header says"));
    }
    recording.check()?;
    Ok(recording)
}

/// One frame after the other.
struct Frames<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the frame in the buffer begins, and where the next one does.
    offset: u64,
    next: u64,
}

impl<R: Read> Frames<R> {
    fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), offset: 0, next: 0 }
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { offset: self.offset, what }
    }

    fn kind(&self) -> u8 {
        self.buffer.get(2).copied().unwrap_or(0)
    }

    fn payload(&self) -> &[u8] {
        self.buffer.get(HEADER_BYTES..).unwrap_or_default()
    }

    fn header(&mut self) -> Result<Header, Error> {
        match self.advance() {
            Err(Error::Damaged { .. } | Error::Cut { .. }) if self.kind() != HEADER => {
                return Err(Error::NotAllocs);
            }
            advanced => advanced?,
        }
        if self.kind() != HEADER {
            return Err(Error::NotAllocs);
        }
        let version = serde_json::from_slice::<Version>(self.payload()).map_or(0, |v| v.allocs_version);
        if version > ALLOCS_VERSION {
            return Err(Error::Newer { found: version, supported: ALLOCS_VERSION });
        }
        serde_json::from_slice(self.payload()).map_err(|_| self.damaged("the header makes no sense"))
    }

    /// Reads the next whole frame.
    fn advance(&mut self) -> Result<(), Error> {
        self.offset = self.next;
        self.buffer.clear();
        self.fill(HEADER_BYTES)?;
        if let Parsed::Incomplete { total } = frame::parse(&self.buffer) {
            self.fill(total)?;
        }
        self.next = self.offset + self.buffer.len() as u64;
        match frame::parse(&self.buffer) {
            Parsed::Whole { .. } => Ok(()),
            Parsed::Incomplete { .. } => Err(Error::Cut { offset: self.next }),
            Parsed::Bad => Err(self.damaged("the bytes are not what was written")),
        }
    }

    fn fill(&mut self, total: usize) -> Result<(), Error> {
        let missing = total.saturating_sub(self.buffer.len()) as u64;
        self.from.by_ref().take(missing).read_to_end(&mut self.buffer)?;
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Version {
    allocs_version: u32,
}

struct Tables<R> {
    frames: Frames<R>,
    decompressor: Decompressor<'static>,
    raw: Vec<u8>,
    /// Memory that the rows so far take.
    memory: u64,
}

impl<R: Read> Tables<R> {
    fn table(
        &mut self,
        table: Table,
        mut left: u64,
        recording: &mut Recording,
        state: &mut State,
    ) -> Result<(), Error> {
        while left > 0 {
            let rows = self.chunk(table, left)?;
            let mut cursor = Cursor::new(&self.raw);
            state
                .rows(table, rows, recording, &mut cursor)
                .ok_or_else(|| self.frames.damaged("a row cannot be read"))?;
            if cursor.remaining() > 0 {
                return Err(self.frames.damaged("bytes are left over"));
            }
            left -= rows;
        }
        Ok(())
    }

    /// Unpacks the next chunk into `raw` and gives its number of rows, at most `left` and one for each byte.
    fn chunk(&mut self, table: Table, left: u64) -> Result<u64, Error> {
        self.frames.advance()?;
        let payload = self.frames.payload();
        let mut cursor = Cursor::new(payload);
        let head = (self.frames.kind() == CHUNK)
            .then(|| Some((cursor.byte()?, cursor.varint()?, cursor.varint()?)))
            .flatten();
        let packed = &payload[payload.len() - cursor.remaining()..];
        let Some((_, rows, length)) = head.filter(|head| head.0 == table as u8) else {
            return Err(self.frames.damaged("another table was expected"));
        };
        if length > MOST_CHUNK_BYTES as u64 || rows == 0 || rows > left || rows > length {
            return Err(self.frames.damaged("a part has impossible sizes"));
        }
        self.memory += length * table.spread() + rows * table.row_bytes() as u64;
        if self.memory > FREE_BYTES + MOST_BLOW_UP * self.frames.next {
            return Err(self.frames.damaged("it would become too large"));
        }
        self.raw.clear();
        self.raw.reserve_exact(length as usize);
        let unpacked = self.decompressor.decompress_to_buffer(packed, &mut self.raw);
        if unpacked.is_ok_and(|bytes| bytes as u64 == length) {
            Ok(rows)
        } else {
            Err(self.frames.damaged("a part cannot be decompressed"))
        }
    }
}

/// What differences are to.
#[derive(Default)]
struct State {
    number: i64,
    address: u64,
    line: i64,
    site: Site,
}

impl State {
    /// Appends so many rows; `None` where the bytes make none.
    fn rows(
        &mut self,
        table: Table,
        rows: u64,
        recording: &mut Recording,
        from: &mut Cursor<'_>,
    ) -> Option<()> {
        match table {
            Table::Processes => each(rows, &mut recording.processes, || json(from)),
            Table::Modules => each(rows, &mut recording.modules, || module(from)),
            Table::Codes => each(rows, &mut recording.codes, || code(from)),
            Table::Nodes => each(rows, &mut recording.nodes, || self.node(from)),
            Table::Sites => each(rows, &mut recording.sites, || self.site(from)),
            Table::Series => each(rows, &mut recording.series, || series(from)),
        }
    }

    fn node(&mut self, from: &mut Cursor<'_>) -> Option<Node> {
        let frame = match from.varint()? {
            tag @ (1 | 2) => {
                let code = short(from)?;
                self.line = self.line.checked_add(from.signed()?)?;
                Frame::Python { code, line: u32::try_from(self.line).ok()?, entry: tag == 2 }
            }
            tag => {
                self.address = self.address.wrapping_add(from.signed()? as u64);
                let module = match tag {
                    0 => None,
                    tag => Some(u32::try_from(tag - 3).ok()?),
                };
                Frame::Native { module, address: self.address }
            }
        };
        let parent = u32::try_from(self.number.checked_sub(from.signed()?)?).ok()?;
        self.number += 1;
        Some(Node { frame, parent })
    }

    fn site(&mut self, from: &mut Cursor<'_>) -> Option<Site> {
        let last = self.site;
        let mut moved = |before: u32| u32::try_from(i64::from(before).checked_add(from.signed()?)?).ok();
        let (process, python, native) = (moved(last.process)?, moved(last.python)?, moved(last.native)?);
        let source = match from.byte()? {
            0 => Source::Heap,
            1 => Source::Python,
            2 => Source::Mapping,
            _ => return None,
        };
        let (total, live, peak) = (amount(from)?, amount(from)?, amount(from)?);
        self.site = Site {
            process,
            python,
            native,
            source,
            live,
            peak,
            total,
            own_peak_bytes: from.varint()?,
            highest_bytes: from.varint()?,
            temporary_bytes: from.varint()?,
            temporary_count: from.varint()?,
            freed_in_step_bytes: from.varint()?,
            lifetime_ns: from.varint()?,
        };
        Some(self.site)
    }
}

/// Rows are not more than the bytes that were unpacked, so this much may be reserved.
fn each<T>(rows: u64, into: &mut Vec<T>, mut next: impl FnMut() -> Option<T>) -> Option<()> {
    into.reserve(rows as usize);
    for _ in 0..rows {
        into.push(next()?);
    }
    Some(())
}

fn short(from: &mut Cursor<'_>) -> Option<u32> {
    u32::try_from(from.varint()?).ok()
}

fn bytes<'a>(from: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(from.varint()?).ok()?;
    from.bytes(length)
}

/// A name that was cut inside a character loses only that.
fn text(from: &mut Cursor<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(bytes(from)?).into_owned())
}

fn json<T: serde::de::DeserializeOwned>(from: &mut Cursor<'_>) -> Option<T> {
    serde_json::from_slice(bytes(from)?).ok()
}

fn module(from: &mut Cursor<'_>) -> Option<Module> {
    let (path, build_id) = (text(from)?, bytes(from)?.to_vec());
    let mut eval = Vec::new();
    for _ in 0..from.varint()? {
        let start = from.varint()?;
        eval.push((start, start.wrapping_add(from.varint()?)));
    }
    Some(Module { path, build_id, eval })
}

fn code(from: &mut Cursor<'_>) -> Option<Code> {
    Some(Code { file: text(from)?, name: text(from)?, first_line: short(from)? })
}

fn amount(from: &mut Cursor<'_>) -> Option<Amount> {
    Some(Amount { bytes: from.varint()?, count: from.varint()?, variance: from.varint()? })
}

fn series(from: &mut Cursor<'_>) -> Option<Series> {
    let site = short(from)?;
    let count = from.varint()?;
    let (mut values, mut value) = (Vec::new(), 0_u64);
    for _ in 0..count {
        value = value.wrapping_add(from.signed()? as u64);
        values.push(value);
    }
    Some(Series { site, bytes: values })
}
