//! Frames to a graph. Every number is doubted; what does not fit is an error with its place in the file.

use std::io::Read;

use serde::de::DeserializeOwned;
use zstd::bulk::Decompressor;

use super::encode::{ALL_RESIDENT, ELEMENT, ELEMENTS, RESIDENT};
use super::{
    CHUNK, Column, END, Error, FREE_BYTES, HEADER, HEAP_VERSION, Header, MOST_BLOW_UP, MOST_CHUNK_BYTES,
};
use crate::frame::{self, Frame, HEADER_BYTES, Parsed};
use crate::heap::{Backing, Extent, Graph, Holder, Kind, Label, Payload, Root};
use crate::varint::Cursor;

pub(super) fn read_header(from: impl Read) -> Result<Header, Error> {
    Frames::new(from).header()
}

pub(super) fn read(from: impl Read) -> Result<Graph, Error> {
    let mut frames = Frames::new(from);
    let header = frames.header()?;
    frames.known = Some(Box::new(header.clone()));
    let graph =
        Columns { frames: &mut frames, decompressor: Decompressor::new()?, raw: Vec::new(), memory: 0 }
            .graph(&header)?;
    graph.check()?;
    Ok(graph)
}

/// One frame after the other.
struct Frames<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the frame in the buffer begins, and where the next one does.
    offset: u64,
    next: u64,
    known: Option<Box<Header>>,
}

impl<R: Read> Frames<R> {
    fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), offset: 0, next: 0, known: None }
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { offset: self.offset, what, header: self.known.clone() }
    }

    fn header(&mut self) -> Result<Header, Error> {
        match self.advance() {
            Err(Error::Damaged { .. }) => return Err(Error::NotHeap),
            // What is too short to tell by its first bytes was never begun.
            Err(Error::Cut { .. }) if !super::is_heap(&self.buffer) => return Err(Error::NotHeap),
            advanced => advanced?,
        }
        let frame = self.frame();
        if frame.kind != HEADER {
            return Err(Error::NotHeap);
        }
        let version: serde_json::Result<Version> = serde_json::from_slice(frame.payload);
        if let Ok(Version { heap_version: found }) = version
            && found > HEAP_VERSION
        {
            return Err(Error::Newer { found, supported: HEAP_VERSION });
        }
        let header = serde_json::from_slice(frame.payload);
        header.map_err(|_| self.damaged("the header makes no sense"))
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
            Parsed::Incomplete { .. } => Err(Error::Cut { offset: self.next, header: self.known.clone() }),
            Parsed::Bad => Err(self.damaged("the bytes are not what was written")),
        }
    }

    /// The frame that [`Self::advance`] read.
    fn frame(&self) -> Frame<'_> {
        Frame::view(&self.buffer)
    }

    fn fill(&mut self, total: usize) -> Result<(), Error> {
        let missing = total.saturating_sub(self.buffer.len()) as u64;
        self.from.by_ref().take(missing).read_to_end(&mut self.buffer)?;
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct Version {
    heap_version: u32,
}

struct Columns<'f, R> {
    frames: &'f mut Frames<R>,
    decompressor: Decompressor<'static>,
    raw: Vec<u8>,
    /// Memory that the rows so far take.
    memory: u64,
}

impl<R: Read> Columns<'_, R> {
    fn graph(mut self, header: &Header) -> Result<Graph, Error> {
        let mut graph =
            Graph { origin: header.origin.clone(), quality: header.quality.clone(), ..Graph::default() };
        let mut state = State::default();
        for column in Column::ALL {
            self.column(column, header, &mut graph, &mut state)?;
        }
        self.frames.advance()?;
        match self.frames.frame().kind {
            END => Ok(graph),
            _ => Err(self.frames.damaged("there are more rows than the header says")),
        }
    }

    fn column(
        &mut self,
        column: Column,
        header: &Header,
        graph: &mut Graph,
        state: &mut State,
    ) -> Result<(), Error> {
        if column == Column::Degrees {
            graph.edges.start.push(0);
        }
        let mut left = header.rows(column);
        while left > 0 {
            let rows = self.chunk(column, left)?;
            let mut cursor = Cursor::new(&self.raw);
            let read = state.rows(column, rows, header, graph, &mut cursor);
            read.ok_or_else(|| self.frames.damaged("a row cannot be read"))?;
            if cursor.remaining() > 0 {
                return Err(self.frames.damaged("bytes are left over"));
            }
            left -= rows;
        }
        Ok(())
    }

    /// Unpacks the next chunk into `raw` and gives its number of rows, at most `left` and one for each byte.
    fn chunk(&mut self, column: Column, left: u64) -> Result<u64, Error> {
        self.frames.advance()?;
        let frame = self.frames.frame();
        let mut cursor = Cursor::new(frame.payload);
        let head = (frame.kind == CHUNK && frame.flags == 0)
            .then(|| Some((cursor.byte()?, cursor.varint()?, cursor.varint()?)))
            .flatten();
        let packed = &frame.payload[frame.payload.len() - cursor.remaining()..];
        let Some((_, rows, length)) = head.filter(|head| head.0 == column as u8) else {
            return Err(self.frames.damaged("another part of the snapshot was expected"));
        };
        if length > MOST_CHUNK_BYTES as u64 || rows == 0 || rows > left || rows > length {
            return Err(self.frames.damaged("a part has impossible sizes"));
        }
        self.memory += length + rows * column.row_bytes() as u64;
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
    address: u64,
    to: i64,
    label: u32,
    owner: u32,
    object: u32,
}

impl State {
    /// Appends so many rows; `None` where the bytes make none.
    fn rows(
        &mut self,
        column: Column,
        rows: u64,
        header: &Header,
        graph: &mut Graph,
        from: &mut Cursor<'_>,
    ) -> Option<()> {
        let (objects, edges) = (&mut graph.objects, &mut graph.edges);
        match column {
            Column::Kinds => each(rows, &mut graph.kinds, || kind(from)),
            Column::Names => each(rows, &mut graph.names, || text(from)),
            Column::Addresses => {
                let unit = 1u64.checked_shl(header.address_shift)?;
                each(rows, &mut objects.address, || {
                    self.address = self.address.wrapping_add(from.varint()?);
                    self.address.checked_mul(unit)
                })
            }
            Column::KindIds => each(rows, &mut objects.kind, || short(from)),
            Column::Bytes => each(rows, &mut objects.bytes, || from.varint()),
            Column::Refcounts => each(rows, &mut objects.refcount, || Some(short(from)?.wrapping_sub(1))),
            Column::Degrees => {
                let mut end = *edges.start.last()?;
                each(rows, &mut edges.start, || {
                    end = end.checked_add(short(from)?)?;
                    Some(end)
                })
            }
            Column::Targets => each(rows, &mut edges.to, || {
                self.to = self.to.checked_add(from.signed()?)?;
                u32::try_from(self.to).ok()
            }),
            Column::Labels => each(rows, &mut edges.label, || self.label(from)),
            Column::Payloads => each(rows, &mut graph.payloads, || self.payload(from)),
            Column::Extents => each(rows, &mut graph.extents, || self.extent(from)),
            Column::Roots => each(rows, &mut graph.roots, || root(from)),
            Column::Threads => each(rows, &mut graph.threads, || json(from)),
        }
    }

    fn label(&mut self, from: &mut Cursor<'_>) -> Option<Label> {
        let number = from.varint()?;
        let (tag, zigzag) = ((number & 7) as u32, number >> 3);
        let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let base = if self.label >> 29 == tag { i64::from(self.label & 0x1fff_ffff) } else { 0 };
        let value = u32::try_from(base.checked_add(step)?).ok().filter(|value| *value < 1 << 29)?;
        self.label = tag << 29 | value;
        Some(Label::from_bits(self.label))
    }

    fn payload(&mut self, from: &mut Cursor<'_>) -> Option<Payload> {
        let flags = from.byte()?;
        self.owner = self.owner.checked_add(short(from)?)?;
        let (address, bytes) = (from.varint()?, from.varint()?);
        let backing = match flags & 3 {
            0 => Backing::Memory,
            1 => Backing::File,
            2 => Backing::Shared,
            _ => Backing::Device,
        };
        let resident_bytes = match flags & (RESIDENT | ALL_RESIDENT) {
            0 => None,
            RESIDENT => Some(from.varint()?),
            _ => Some(bytes),
        };
        let elements = if flags & ELEMENTS == 0 { None } else { Some(from.varint()?) };
        let element = if flags & ELEMENT == 0 { None } else { Some(short(from)?) };
        Some(Payload { owner: self.owner, address, bytes, resident_bytes, backing, elements, element })
    }

    fn extent(&mut self, from: &mut Cursor<'_>) -> Option<Extent> {
        self.object = self.object.checked_add(short(from)?)?;
        let (elements, bytes) = (from.varint()?, from.varint()?);
        let element = match from.varint()? {
            0 => None,
            name => Some(u32::try_from(name - 1).ok()?),
        };
        let dimensions = from.varint()?;
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(from.varint()?);
        }
        Some(Extent { object: self.object, elements, bytes, element, shape })
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

fn text(from: &mut Cursor<'_>) -> Option<String> {
    let length = usize::try_from(from.varint()?).ok()?;
    std::str::from_utf8(from.bytes(length)?).ok().map(str::to_owned)
}

fn kind(from: &mut Cursor<'_>) -> Option<Kind> {
    let (name, module, nature) = (text(from)?, text(from)?, text(from)?);
    Some(Kind { name, module, nature: serde_json::from_str(&nature).unwrap_or_default() })
}

fn json<T: DeserializeOwned>(from: &mut Cursor<'_>) -> Option<T> {
    let length = usize::try_from(from.varint()?).ok()?;
    serde_json::from_slice(from.bytes(length)?).ok()
}

fn root(from: &mut Cursor<'_>) -> Option<Root> {
    let holder = match from.byte()? {
        0 => Holder::Modules,
        1 => Holder::Sys,
        2 => Holder::Builtins,
        3 => Holder::Frame,
        4 => Holder::Interpreter,
        5 => Holder::StaticType,
        6 => Holder::Native,
        _ => return None,
    };
    Some(Root { object: short(from)?, holder, name: text(from)? })
}
