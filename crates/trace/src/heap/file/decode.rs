//! Frames to a graph. Every number is doubted; what does not fit is an error with its place in the file.

use std::io::Read;

use super::encode::{ALL_RESIDENT, ELEMENT, ELEMENTS, RESIDENT};
use super::{Column, Error, HEAP_VERSION, Header, SORT};
use crate::columns::{Fault, Reader, each, json, short, text};
use crate::heap::{Backing, Extent, Graph, Holder, Kind, Label, Payload, Root};
use crate::varint::Cursor;

pub(super) fn read_header(from: impl Read) -> Result<Header, Error> {
    let file = Reader::new(from, SORT);
    header(&mut file.map_err(|fault| Error::of(fault, None))?)
}

pub(super) fn read(from: impl Read) -> Result<Graph, Error> {
    let file = Reader::new(from, SORT);
    let mut file = file.map_err(|fault| Error::of(fault, None))?;
    let header = header(&mut file)?;
    let graph = columns(&mut file, &header).map_err(|fault| Error::of(fault, Some(&header)))?;
    graph.check()?;
    Ok(graph)
}

fn header<R: Read>(file: &mut Reader<R>) -> Result<Header, Error> {
    let json = match file.header() {
        Err(Fault::Damaged { .. }) => return Err(Error::NotHeap),
        read => read.map_err(|fault| Error::of(fault, None))?,
    };
    let version: serde_json::Result<Version> = serde_json::from_slice(json);
    if let Ok(Version { heap_version: found }) = version
        && found > HEAP_VERSION
    {
        return Err(Error::Newer { found, supported: HEAP_VERSION });
    }
    let header = serde_json::from_slice(json).ok();
    header.ok_or_else(|| Error::of(file.damaged("the header makes no sense"), None))
}

#[derive(serde::Deserialize)]
struct Version {
    heap_version: u32,
}

fn columns<R: Read>(file: &mut Reader<R>, header: &Header) -> Result<Graph, Fault> {
    let mut graph =
        Graph { origin: header.origin.clone(), quality: header.quality.clone(), ..Graph::default() };
    graph.edges.start.push(0);
    let mut state = State::default();
    for column in Column::ALL {
        file.column(column as u8, header.rows(column), (column.row_bytes(), 1), |rows, from| {
            state.rows(column, rows, header, &mut graph, from)
        })?;
    }
    file.end()?;
    Ok(graph)
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

fn kind(from: &mut Cursor<'_>) -> Option<Kind> {
    let (name, module, nature) = (text(from)?, text(from)?, text(from)?);
    Some(Kind { name, module, nature: serde_json::from_str(&nature).unwrap_or_default() })
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
