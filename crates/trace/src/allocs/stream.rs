//! The stream of events (`--events`): what the rings held, run by run, compressed. `FORMAT.md` has the layout.
//!
//! The bytes of a run are records of the tracker (`crates/ring/FORMAT.md`); all runs of one lane, in order, are one stream.

use std::io::{self, Read};

use zstd::bulk::{Compressor, Decompressor};

use crate::frame::{self, Frame, HEADER_BYTES, Parsed};
use crate::varint::{Cursor, put};

/// Its name in a run directory.
pub const EVENTS_FILE: &str = "events.nev";
pub const EVENTS_VERSION: u32 = 1;

const HEADER: u8 = 56;
const CHUNK: u8 = 57;
const END: u8 = 58;
const MOST_CHUNK_BYTES: u64 = 16 << 20;
const LEVEL: i32 = 1;

/// Appends a run to a chunk.
pub fn put_run(chunk: &mut Vec<u8>, process: u32, lane: u32, bytes: &[u8]) {
    put(chunk, process.into());
    put(chunk, lane.into());
    put(chunk, bytes.len() as u64);
    chunk.extend_from_slice(bytes);
}

/// Chunks to frames.
#[allow(missing_debug_implementations)] // zstd's compressor has none
pub struct Encoder {
    compressor: Compressor<'static>,
    packed: Vec<u8>,
    frame: Vec<u8>,
}

impl Encoder {
    pub fn new() -> io::Result<Self> {
        Ok(Self { compressor: Compressor::new(LEVEL)?, packed: Vec::new(), frame: Vec::new() })
    }

    pub fn header(&mut self) -> Result<&[u8], crate::Error> {
        self.json(HEADER, &serde_json::json!({ "events_version": EVENTS_VERSION }))
    }

    pub fn end(&mut self) -> Result<&[u8], crate::Error> {
        self.json(END, &serde_json::json!({}))
    }

    fn json(&mut self, kind: u8, it: &serde_json::Value) -> Result<&[u8], crate::Error> {
        frame::encode_numbered(&mut self.frame, kind, |out| Ok(serde_json::to_writer(out, it)?))?;
        Ok(&self.frame)
    }

    pub fn chunk(&mut self, raw: &[u8]) -> Result<&[u8], crate::Error> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(raw.len()));
        let packed = self.compressor.compress_to_buffer(raw, &mut self.packed);
        packed.map_err(|_| crate::Error::TooLong { bytes: raw.len() })?;
        let packed = &self.packed;
        frame::encode_numbered(&mut self.frame, CHUNK, |out| {
            put(out, raw.len() as u64);
            out.extend_from_slice(packed);
            Ok(())
        })?;
        Ok(&self.frame)
    }
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// In order.
    Whole,
    /// The file ends inside, or the recording did.
    Cut { offset: u64 },
    /// Bytes that make no sense.
    Damaged { offset: u64 },
    /// Of another version, or no stream at all.
    NotOurs,
}

/// Hands over each run: process, lane, bytes. What comes before a cut or damage is handed over.
pub fn read(mut from: impl Read, mut run: impl FnMut(u32, u32, &[u8])) -> io::Result<StreamEnd> {
    let mut decompressor = Decompressor::new()?;
    let (mut buffer, mut raw, mut offset) = (Vec::new(), Vec::new(), 0_u64);
    loop {
        buffer.clear();
        fill(&mut from, &mut buffer, HEADER_BYTES)?;
        if let Parsed::Incomplete { total } = frame::parse(&buffer) {
            fill(&mut from, &mut buffer, total)?;
        }
        let frame = match frame::parse(&buffer) {
            Parsed::Whole { .. } => Frame::view(&buffer),
            _ if offset == 0 => return Ok(StreamEnd::NotOurs),
            Parsed::Incomplete { .. } => return Ok(StreamEnd::Cut { offset }),
            Parsed::Bad => return Ok(StreamEnd::Damaged { offset }),
        };
        match (offset == 0, frame.kind) {
            (true, HEADER) if is_known(frame.payload) => {}
            (true, _) => return Ok(StreamEnd::NotOurs),
            (false, END) => return Ok(StreamEnd::Whole),
            (false, CHUNK) if unpack(frame.payload, &mut decompressor, &mut raw, &mut run).is_none() => {
                return Ok(StreamEnd::Damaged { offset });
            }
            _ => {} // read, or of a later version
        }
        offset += buffer.len() as u64;
    }
}

fn is_known(header: &[u8]) -> bool {
    let header: serde_json::Value = serde_json::from_slice(header).unwrap_or_default();
    header["events_version"].as_u64().is_some_and(|version| version <= EVENTS_VERSION.into())
}

fn fill(from: &mut impl Read, buffer: &mut Vec<u8>, total: usize) -> io::Result<()> {
    let missing = total.saturating_sub(buffer.len()) as u64;
    from.by_ref().take(missing).read_to_end(buffer).map(drop)
}

fn unpack(
    payload: &[u8],
    decompressor: &mut Decompressor<'_>,
    raw: &mut Vec<u8>,
    run: &mut impl FnMut(u32, u32, &[u8]),
) -> Option<()> {
    let mut cursor = Cursor::new(payload);
    let length = cursor.varint().filter(|length| *length <= MOST_CHUNK_BYTES)?;
    let packed = payload.get(payload.len() - cursor.remaining()..)?;
    raw.clear();
    raw.reserve_exact(length as usize);
    let unpacked = decompressor.decompress_to_buffer(packed, raw).ok()?;
    (unpacked as u64 == length).then_some(())?;
    let mut cursor = Cursor::new(raw);
    while cursor.remaining() > 0 {
        let process = u32::try_from(cursor.varint()?).ok()?;
        let lane = u32::try_from(cursor.varint()?).ok()?;
        let length = usize::try_from(cursor.varint()?).ok()?;
        run(process, lane, cursor.bytes(length)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Vec<u8> {
        let mut encoder = Encoder::new().unwrap();
        let mut file = encoder.header().unwrap().to_vec();
        let mut chunk = Vec::new();
        put_run(&mut chunk, 0, 3, b"records");
        put_run(&mut chunk, 1, 0, &[7; 1000]);
        file.extend(encoder.chunk(&chunk).unwrap());
        file.extend(encoder.chunk(&chunk).unwrap());
        file.extend(encoder.end().unwrap());
        file
    }

    fn runs(bytes: &[u8]) -> (usize, StreamEnd) {
        let mut count = 0;
        let end = read(bytes, |process, lane, bytes| {
            assert!((process, lane, bytes) == (0, 3, &b"records"[..]) || bytes == [7; 1000]);
            count += 1;
        });
        (count, end.unwrap())
    }

    #[test]
    fn runs_come_back_up_to_a_cut() {
        let whole = stream();
        assert_eq!(runs(&whole), (4, StreamEnd::Whole));
        for cut in 0..whole.len() {
            let (count, end) = runs(&whole[..cut]);
            assert!(count % 2 == 0 && end != StreamEnd::Whole, "{cut}");
        }
        assert_eq!(runs(b"something else"), (0, StreamEnd::NotOurs));
    }

    #[test]
    fn damage_is_found() {
        let whole = stream();
        for bit in 0..whole.len() * 8 {
            let mut bad = whole.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(runs(&bad).1, StreamEnd::Whole, "bit {bit}");
        }
    }
}
