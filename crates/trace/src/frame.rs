//! The frame: the unit that exists whole or not at all.
//!
//! ```text
//!  0      2      3       4        8         12
//!  | "NL" | kind | flags | length | crc32c  | payload … |
//!           \______________________/ checked  \_________/
//! ```
//!
//! Numbers are little-endian; the checksum covers kind, flags, length and payload. No rare record can hold
//! a frame inside its payload by accident: JSON escapes the zero byte that every header has as its flags.

use crate::Error;

pub const MAGIC: [u8; 2] = *b"NL";
pub const HEADER_BYTES: usize = 12;
/// A damaged length must not make a reader allocate.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// What a payload is. Numbers are never reused; readers skip those they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Since format 1. JSON [`crate::record::Header`].
    Header = 1,
    /// Since format 1. JSON [`crate::record::Columns`].
    Columns = 2,
    /// Since format 1. JSON [`crate::record::Process`].
    Process = 3,
    /// Since format 1. JSON [`crate::record::ProcessUpdate`].
    ProcessUpdate = 4,
    /// Since format 1. JSON [`crate::record::ProcessEnd`].
    ProcessEnd = 5,
    /// Since format 1. A block of ticks, see [`crate::tick`].
    Ticks = 6,
    /// Since format 1. JSON [`crate::record::Shares`].
    Shares = 7,
    /// Since format 1. JSON [`crate::record::Kinds`].
    Kinds = 8,
    /// Since format 1. JSON [`crate::record::Mark`].
    Mark = 9,
    /// Since format 1. JSON [`crate::record::Event`].
    Event = 10,
    /// Since format 1. JSON [`crate::record::End`].
    End = 11,
    /// Since format 1. JSON [`crate::record::HeapTable`].
    HeapTable = 12,
    /// Since format 1. JSON [`crate::record::LedgerTaken`].
    Ledger = 13,
}

impl Kind {
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Header,
            2 => Self::Columns,
            3 => Self::Process,
            4 => Self::ProcessUpdate,
            5 => Self::ProcessEnd,
            6 => Self::Ticks,
            7 => Self::Shares,
            8 => Self::Kinds,
            9 => Self::Mark,
            10 => Self::Event,
            11 => Self::End,
            12 => Self::HeapTable,
            13 => Self::Ledger,
            _ => return None,
        })
    }
}

/// Replaces `out` by a frame whose payload `fill` appends. `out` keeps its capacity.
pub fn encode(
    out: &mut Vec<u8>,
    kind: Kind,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    encode_numbered(out, kind as u8, fill)
}

/// The same for a kind of another file than the log; see `columns`.
pub(crate) fn encode_numbered(
    out: &mut Vec<u8>,
    kind: u8,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    out.clear();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    fill(out)?;
    let bytes = out.len() - HEADER_BYTES;
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(Error::TooLong { bytes });
    }
    seal(out, kind);
    Ok(())
}

/// Fills in the header of a frame: the first [`HEADER_BYTES`] of `frame`, before a payload that is not too long.
#[inline]
pub(crate) fn seal(frame: &mut [u8], kind: u8) {
    let bytes = frame.len() - HEADER_BYTES;
    frame[..2].copy_from_slice(&MAGIC);
    frame[2] = kind;
    frame[3] = 0;
    frame[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
    let crc = checksum(frame);
    frame[8..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Over a whole frame of at least a header.
#[inline]
fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[2..8]), &frame[HEADER_BYTES..])
}

/// One valid frame in somebody's buffer. `kind` may be unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: u8,
    /// 0 in format 1; a frame with other flags cannot be understood and is skipped.
    pub flags: u8,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The valid frame at the start of `bytes`, if there is one.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let Parsed::Whole { total } = parse(bytes) else { return None };
        Some(Self::view(&bytes[..total]))
    }

    /// Bytes that [`parse`] called whole.
    pub(crate) fn view(whole: &'a [u8]) -> Self {
        Self { kind: whole[2], flags: whole[3], payload: &whole[HEADER_BYTES..] }
    }

    /// The kind, if this reader can understand the payload.
    pub fn known_kind(&self) -> Option<Kind> {
        Kind::from_byte(self.kind).filter(|_| self.flags == 0)
    }
}

/// What stands at the start of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A valid frame of `total` bytes.
    Whole { total: usize },
    /// So far a frame, but `total` bytes are needed to tell.
    Incomplete { total: usize },
    /// Not a frame: no magic, an absurd length or a wrong checksum.
    Bad,
}

pub fn parse(bytes: &[u8]) -> Parsed {
    let magic = bytes.len().min(MAGIC.len());
    if bytes[..magic] != MAGIC[..magic] {
        return Parsed::Bad;
    }
    if bytes.len() < HEADER_BYTES {
        return Parsed::Incomplete { total: HEADER_BYTES };
    }
    let length = number(bytes, 4) as usize;
    if length > MAX_PAYLOAD_BYTES {
        return Parsed::Bad;
    }
    let total = HEADER_BYTES + length;
    if bytes.len() < total {
        Parsed::Incomplete { total }
    } else if checksum(&bytes[..total]) == number(bytes, 8) {
        Parsed::Whole { total }
    } else {
        Parsed::Bad
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Where the next frame could start after a bad one at 0: at least 1, the length of `bytes` if nowhere.
pub fn next_magic(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|&b| b == MAGIC[0])) {
        at += found;
        // A magic cut in half by the end of the buffer is still a candidate.
        if bytes.get(at + 1).is_none_or(|&b| b == MAGIC[1]) {
            return at;
        }
        at += 1;
    }
    bytes.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![9; 3];
        encode(&mut out, kind, |out| {
            out.extend_from_slice(payload);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn a_frame_comes_back() {
        let bytes = frame(Kind::Mark, b"{}");
        assert_eq!(bytes.len(), 14);
        assert_eq!(&bytes[..8], b"NL\x09\x00\x02\x00\x00\x00");
        let back = Frame::decode(&bytes).unwrap();
        assert_eq!((back.known_kind(), back.payload), (Some(Kind::Mark), &b"{}"[..]));
    }

    #[test]
    fn every_bit_is_covered() {
        let bytes = frame(Kind::Event, b"payload");
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn every_prefix_is_incomplete() {
        let bytes = frame(Kind::Event, b"payload");
        for cut in 0..bytes.len() {
            assert!(matches!(parse(&bytes[..cut]), Parsed::Incomplete { total } if total > cut));
        }
    }

    #[test]
    fn absurd_lengths_are_bad_not_incomplete() {
        let mut bytes = frame(Kind::Event, b"");
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parse(&bytes), Parsed::Bad);
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for byte in 0..=u8::MAX {
            assert_eq!(
                Kind::from_byte(byte).map(|kind| kind as u8),
                (1..=13).contains(&byte).then_some(byte)
            );
        }
    }

    #[test]
    fn the_next_magic_is_found_also_when_cut_in_half() {
        assert_eq!(next_magic(b"NLxxNLyy"), 4);
        assert_eq!(next_magic(b"NLxNxNN"), 6);
        assert_eq!(next_magic(b"NLxx"), 4);
        assert_eq!(next_magic(b"N"), 1);
    }
}
