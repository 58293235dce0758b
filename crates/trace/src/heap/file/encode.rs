//! A graph to frames.

use std::io::Write;

use serde::Serialize;

use super::{Column, Error, Header, SORT};
use crate::columns::{CHUNK_BYTES, Fault, Writer, put_bytes};
use crate::heap::{Backing, Extent, Graph, Holder, Kind, Label, Payload, Root, ThreadStack};
use crate::varint::{put, put_signed};

pub(super) fn write(graph: &Graph, out: impl Write) -> Result<(), Error> {
    write_columns(graph, out).map_err(|fault| Error::of(fault, None))
}

fn write_columns(graph: &Graph, out: impl Write) -> Result<(), Fault> {
    let header = Header::of(graph);
    let mut file = Writer::new(out, SORT, &header)?;
    tables(&mut file, graph)?;
    objects(&mut file, graph, header.address_shift)?;
    edges(&mut file, graph)?;
    rest(&mut file, graph)?;
    file.end()
}

fn tables<W: Write>(file: &mut Writer<W>, graph: &Graph) -> Result<(), Fault> {
    file.column(Column::Kinds as u8, &graph.kinds, put_kind)?;
    file.column(Column::Names as u8, &graph.names, |raw, name| put_text(raw, name))
}

fn objects<W: Write>(file: &mut Writer<W>, graph: &Graph, shift: u32) -> Result<(), Fault> {
    let objects = &graph.objects;
    let mut before = 0;
    file.column(Column::Addresses as u8, &objects.address, |raw, address| {
        let stored = address.checked_shr(shift).unwrap_or(0);
        put(raw, stored.wrapping_sub(before));
        before = stored;
    })?;
    file.column(Column::KindIds as u8, &objects.kind, |raw, kind| put(raw, (*kind).into()))?;
    file.column(Column::Bytes as u8, &objects.bytes, |raw, bytes| put(raw, *bytes))?;
    // Immortal objects are many: they get the shortest number.
    file.column(Column::Refcounts as u8, &objects.refcount, |raw, count| {
        put(raw, count.wrapping_add(1).into());
    })
}

fn edges<W: Write>(file: &mut Writer<W>, graph: &Graph) -> Result<(), Fault> {
    let edges = &graph.edges;
    let degrees: Vec<u32> = edges.start.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    file.column(Column::Degrees as u8, &degrees, |raw, degree| put(raw, (*degree).into()))?;
    let mut before = 0i64;
    file.column(Column::Targets as u8, &edges.to, |raw, to| {
        put_signed(raw, i64::from(*to) - before);
        before = i64::from(*to);
    })?;
    let mut last = Label::UNNAMED;
    file.column(Column::Labels as u8, &edges.label, |raw, label| {
        put(raw, label_step(last, *label));
        last = *label;
    })
}

/// Tag in the low three bits; the value as a difference to the one before where the tag is the same.
fn label_step(last: Label, label: Label) -> u64 {
    let (tag, value) = (label.to_bits() >> 29, i64::from(label.to_bits() & 0x1fff_ffff));
    let base = if last.to_bits() >> 29 == tag { i64::from(last.to_bits() & 0x1fff_ffff) } else { 0 };
    let step = value - base;
    (((step << 1) ^ (step >> 63)) as u64) << 3 | u64::from(tag)
}

fn rest<W: Write>(file: &mut Writer<W>, graph: &Graph) -> Result<(), Fault> {
    let mut owner = 0;
    file.column(Column::Payloads as u8, &graph.payloads, |raw, payload| {
        put_payload(raw, payload, owner);
        owner = payload.owner;
    })?;
    let mut object = 0;
    file.column(Column::Extents as u8, &graph.extents, |raw, extent| {
        put_extent(raw, extent, object);
        object = extent.object;
    })?;
    file.column(Column::Roots as u8, &graph.roots, put_root)?;
    file.column(Column::Threads as u8, &graph.threads, put_thread)
}

/// Bits of the flags of a payload, above the two of its backing.
pub(super) const RESIDENT: u8 = 1 << 2;
pub(super) const ALL_RESIDENT: u8 = 1 << 3;
pub(super) const ELEMENTS: u8 = 1 << 4;
pub(super) const ELEMENT: u8 = 1 << 5;

fn put_payload(raw: &mut Vec<u8>, payload: &Payload, owner: u32) {
    let all = payload.resident_bytes == Some(payload.bytes);
    let backing = match payload.backing {
        Backing::Memory => 0,
        Backing::File => 1,
        Backing::Shared => 2,
        Backing::Device => 3,
    };
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    raw.push(
        backing
            | flag(payload.resident_bytes.is_some() && !all, RESIDENT)
            | flag(all, ALL_RESIDENT)
            | flag(payload.elements.is_some(), ELEMENTS)
            | flag(payload.element.is_some(), ELEMENT),
    );
    put(raw, payload.owner.wrapping_sub(owner).into());
    put(raw, payload.address);
    put(raw, payload.bytes);
    let resident = payload.resident_bytes.filter(|_| !all);
    resident.into_iter().chain(payload.elements).for_each(|number| put(raw, number));
    payload.element.into_iter().for_each(|name| put(raw, name.into()));
}

fn put_extent(raw: &mut Vec<u8>, extent: &Extent, object: u32) {
    put(raw, extent.object.wrapping_sub(object).into());
    put(raw, extent.elements);
    put(raw, extent.bytes);
    put(raw, extent.element.map_or(0, |name| u64::from(name) + 1));
    put(raw, extent.shape.len() as u64);
    extent.shape.iter().for_each(|length| put(raw, *length));
}

fn put_root(raw: &mut Vec<u8>, root: &Root) {
    raw.push(match root.holder {
        Holder::Modules => 0,
        Holder::Sys => 1,
        Holder::Builtins => 2,
        Holder::Frame => 3,
        Holder::Interpreter => 4,
        Holder::StaticType => 5,
        Holder::Native => 6,
    });
    put(raw, root.object.into());
    put_text(raw, &root.name);
}

fn put_text(raw: &mut Vec<u8>, text: &str) {
    put_bytes(raw, text.as_bytes());
}

/// The nature by its name, so that an older reader meets a newer one as a word it does not know.
fn put_kind(raw: &mut Vec<u8>, kind: &Kind) {
    put_text(raw, &kind.name);
    put_text(raw, &kind.module);
    put_text(raw, &json(&kind.nature));
}

/// The outer frames of an absurdly deep stack are left out.
fn put_thread(raw: &mut Vec<u8>, thread: &ThreadStack) {
    let mut text = json(thread);
    let mut kept = thread.clone();
    while text.len() > CHUNK_BYTES && !kept.frames.is_empty() {
        kept.frames.truncate(kept.frames.len() / 2);
        kept.cut = Some(format!("a snapshot keeps {} of {} frames", kept.frames.len(), thread.frames.len()));
        text = json(&kept);
    }
    put_text(raw, &text);
}

/// Strings and numbers always have a form in JSON.
fn json(it: &impl Serialize) -> String {
    serde_json::to_string(it).unwrap_or_default()
}
