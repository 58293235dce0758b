//! Rare records as JSON payloads.

use serde::Serialize;

use crate::{
    Error,
    frame::{self, Kind},
    record::Record,
};

/// Replaces `out` by the frame of a record.
///
/// A tick is stored in a block ([`crate::tick`]), never so; it gives [`crate::tick::Error::Alone`].
pub(crate) fn encode(out: &mut Vec<u8>, record: &Record) -> Result<(), Error> {
    match record {
        Record::Header(it) => json(out, Kind::Header, it),
        Record::Columns(it) => json(out, Kind::Columns, it),
        Record::Process(it) => json(out, Kind::Process, it),
        Record::ProcessUpdate(it) => json(out, Kind::ProcessUpdate, it),
        Record::ProcessEnd(it) => json(out, Kind::ProcessEnd, it),
        Record::Tick(_) => Err(crate::tick::Error::Alone.into()),
        Record::Shares(it) => json(out, Kind::Shares, it),
        Record::Kinds(it) => json(out, Kind::Kinds, it),
        Record::Mark(it) => json(out, Kind::Mark, it),
        Record::Event(it) => json(out, Kind::Event, it),
        Record::End(it) => json(out, Kind::End, it),
    }
}

fn json(out: &mut Vec<u8>, kind: Kind, it: &impl Serialize) -> Result<(), Error> {
    frame::encode(out, kind, |out| Ok(serde_json::to_writer(out, it)?))
}

/// The record of a payload; `None` if this version cannot read it (an event that a newer nilo knows).
pub(crate) fn decode(kind: Kind, payload: &[u8]) -> Option<Record> {
    match kind {
        Kind::Header => serde_json::from_slice(payload).map(Record::Header),
        Kind::Columns => serde_json::from_slice(payload).map(Record::Columns),
        Kind::Process => serde_json::from_slice(payload).map(Record::Process),
        Kind::ProcessUpdate => serde_json::from_slice(payload).map(Record::ProcessUpdate),
        Kind::ProcessEnd => serde_json::from_slice(payload).map(Record::ProcessEnd),
        Kind::Ticks => return None,
        Kind::Shares => serde_json::from_slice(payload).map(Record::Shares),
        Kind::Kinds => serde_json::from_slice(payload).map(Record::Kinds),
        Kind::Mark => serde_json::from_slice(payload).map(Record::Mark),
        Kind::Event => serde_json::from_slice(payload).map(Record::Event),
        Kind::End => serde_json::from_slice(payload).map(Record::End),
    }
    .ok()
}
