//! Files with checksums and compressed parts, as bytes that a fuzzer can change: each frame is written open (its kind, its form,
//! its length, what it holds unpacked) and sealed before it is read. Otherwise all but one in four billion changes would end at a
//! checksum, and none would reach what is behind it.

use nilometer_trace::frame::{Frame, Parsed, parse};

const MAGIC: &[u8; 2] = b"NL";
/// Before what an open frame holds: kind, form, length (two bytes).
const OPEN_HEAD: usize = 4;
const LEVEL: i32 = 1;
/// What a part may become when it is unpacked for a seed.
const MOST_BYTES: usize = 1 << 20;

/// How what a frame holds is packed.
#[derive(Clone, Copy)]
enum Form {
    /// Not at all.
    Plain,
    /// Its length, then packed.
    Packed,
    /// The number of a column, rows, length, then packed.
    Column,
}

impl Form {
    fn of(byte: u8) -> Self {
        match byte % 3 {
            0 => Self::Plain,
            1 => Self::Packed,
            _ => Self::Column,
        }
    }
}

/// A file of the open frames in `bytes`; the last one may be cut.
pub fn seal(mut bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    while let Some((&[kind, form, low, high], rest)) = bytes.split_first_chunk::<OPEN_HEAD>() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (held, after) = rest.split_at(length);
        put_frame(&mut file, kind, &packed(Form::of(form), held));
        bytes = after;
    }
    file
}

/// The open frames of a file; what cannot be held open (it is too long) is left out.
pub fn unseal(mut file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Parsed::Whole { total } = parse(file) {
        if let Some(frame) = Frame::decode(file) {
            put_open(&mut bytes, &frame);
        }
        file = &file[total..];
    }
    bytes
}

fn put_open(bytes: &mut Vec<u8>, frame: &Frame<'_>) {
    let column = || Some((2, unpacked_column(frame.payload)?));
    let packed = || Some((1, unpacked(frame.payload)?));
    let (form, held) = column().or_else(packed).unwrap_or_else(|| (0, frame.payload.to_vec()));
    if let Ok(length) = u16::try_from(held.len()) {
        bytes.extend_from_slice(&[frame.kind, form]);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&held);
    }
}

fn put_frame(file: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let mut head = [kind, 0, 0, 0, 0, 0];
    head[2..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), payload);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&head);
    file.extend_from_slice(&checksum.to_le_bytes());
    file.extend_from_slice(payload);
}

fn packed(form: Form, held: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    match (form, held) {
        (Form::Plain, held) => payload.extend_from_slice(held),
        (Form::Packed, held) => pack(held, &mut payload),
        (Form::Column, [number, low, high, raw @ ..]) => {
            payload.push(*number);
            put_number(&mut payload, u64::from(u16::from_le_bytes([*low, *high])));
            pack(raw, &mut payload);
        }
        (Form::Column, _) => {}
    }
    payload
}

fn pack(raw: &[u8], payload: &mut Vec<u8>) {
    put_number(payload, raw.len() as u64);
    payload.extend(zstd::bulk::compress(raw, LEVEL).unwrap_or_default());
}

fn unpacked(mut payload: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take_number(&mut payload)?).ok().filter(|length| *length <= MOST_BYTES)?;
    zstd::bulk::decompress(payload, length).ok().filter(|raw| raw.len() == length)
}

fn unpacked_column(payload: &[u8]) -> Option<Vec<u8>> {
    let (number, mut rest) = payload.split_first()?;
    let rows = u16::try_from(take_number(&mut rest)?).ok()?;
    let mut held = vec![*number];
    held.extend_from_slice(&rows.to_le_bytes());
    held.extend(unpacked(rest)?);
    Some(held)
}

/// Seven bits a byte, the lowest first.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(number);
        }
    }
    None
}
