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
        Record::HeapTable(it) => json(out, Kind::HeapTable, it),
        Record::Ledger(it) => json(out, Kind::Ledger, it),
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
        Kind::HeapTable => serde_json::from_slice(payload).map(Record::HeapTable),
        Kind::Ledger => serde_json::from_slice(payload).map(Record::Ledger),
    }
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Badge, Ledger, Line, Method, Named, Part};
    use crate::record::{HeapRow, HeapTable, LedgerTaken};

    /// The bytes are kept for ever: a later field is added with a default.
    #[test]
    fn a_heap_table_keeps_its_shape() {
        let row = HeapRow { kind: "numpy.ndarray".into(), count: 3, bytes: 336, payload_bytes: 2400 };
        let other = HeapRow { count: 7, bytes: 400, ..HeapRow::default() };
        let table = HeapTable {
            at_ns: 12,
            pid: 4711,
            rows: vec![row],
            other,
            other_kinds: 2,
            pause_ns: 48,
            cost_ns: 90,
            partial: false,
        };
        let mut out = Vec::new();
        encode(&mut out, &Record::HeapTable(table.clone())).unwrap();
        let text = "{\"at_ns\":12,\"pid\":4711,\"rows\":[{\"kind\":\"numpy.ndarray\",\"count\":3,\"bytes\":336,\
                    \"payload_bytes\":2400}],\"other\":{\"count\":7,\"bytes\":400},\"other_kinds\":2,\
                    \"pause_ns\":48,\"cost_ns\":90,\"partial\":false}";
        assert_eq!(std::str::from_utf8(&out[frame::HEADER_BYTES..]), Ok(text));
        assert_eq!(decode(Kind::HeapTable, text.as_bytes()), Some(Record::HeapTable(table)));
        let least = b"{\"at_ns\":1,\"pid\":2,\"rows\":[]}";
        assert!(decode(Kind::HeapTable, least).is_some());
    }

    #[test]
    fn a_ledger_comes_back_and_an_older_one_lacks_fields() {
        let part = Part {
            name: Line::MallocHeld,
            bytes: 90,
            pss_bytes: Some(90),
            uss_bytes: None,
            detail: vec![Named { name: "trimmable".into(), bytes: 80 }],
            method: Method::Exact,
        };
        let mut ledger = Ledger {
            pid: 4711,
            rss_bytes: 100,
            badge: Badge::Estimated,
            parts: vec![part],
            ..Ledger::default()
        };
        ledger.close();
        let record = Record::Ledger(Box::new(LedgerTaken { at_ns: 12, index: 3, cost_ns: 5, ledger }));
        let mut out = Vec::new();
        encode(&mut out, &record).unwrap();
        assert_eq!(decode(Kind::Ledger, &out[frame::HEADER_BYTES..]), Some(record));
        let least = b"{\"at_ns\":1,\"index\":2,\"ledger\":{\"rss_bytes\":7}}";
        assert!(decode(Kind::Ledger, least).is_some());
    }
}
