//! Code objects: described once, then a number.

use core::sync::atomic::Ordering::Relaxed;

use nilometer_ring::definition::Kind;

use super::layout::{Layout, TextLayout};
use super::{CODE_TYPE, VERSION, word};
use crate::tracker::process::{BOOK, BOOK_FD};
use crate::tracker::table::{Table, hash};

/// Line tables beyond this are not kept: the reader then knows the function's first line only.
const MAX_LINES: usize = 64 << 10;
const MAX_TEXT: usize = 1024;
/// The number of what is no code object: it is never defined.
const FOREIGN: u32 = 0;

static CODES: Table = Table::new();

pub fn forked() {
    CODES.forked();
}

/// The number of a code object. A freed one's address may come back as another: its parts tell.
#[inline(always)]
pub fn id(layout: &Layout, code: usize) -> u32 {
    let fields = &layout.code;
    // SAFETY: an object of a live frame has its type at 8.
    if !fields.is_certain && unsafe { word(code, 8) } != CODE_TYPE.load(Relaxed) as usize {
        return FOREIGN;
    }
    // SAFETY: a code object of a live frame.
    let print = unsafe {
        word(code, fields.file)
            ^ word(code, fields.name).rotate_left(21)
            ^ word(code, fields.lines).rotate_left(43)
    };
    let print = (print >> 32) as u32 ^ print as u32;
    match CODES.find(code as u64, hash(code as u64, print), |value| (value >> 32) as u32 == print) {
        Some(value) => value as u32,
        None => define(layout, code, print),
    }
}

#[cold]
#[inline(never)]
fn define(layout: &Layout, code: usize, print: u32) -> u32 {
    let fields = &layout.code;
    let (mut file, mut name) = ([0; MAX_TEXT], [0; MAX_TEXT]);
    // SAFETY: a code object of a live frame: its strings and its line table live as long.
    let (file, name, first_line, lines) = unsafe {
        (
            text(word(code, fields.file), layout.text, &mut file),
            text(word(code, fields.name), layout.text, &mut name),
            ((code + fields.first_line as usize) as *const u32).read(),
            bytes(word(code, fields.lines)),
        )
    };
    let version = u64::from(VERSION.load(Relaxed));
    let numbers = (u64::from(first_line) | (version << 32)).to_le_bytes();
    let id = BOOK.next_id();
    BOOK.define(&BOOK_FD, Kind::Code, id, &[file, name, &numbers, lines]);
    CODES.insert(code as u64, hash(code as u64, print), (u64::from(print) << 32) | u64::from(id));
    id
}

/// # Safety
/// `object` is null or a live `bytes` object.
unsafe fn bytes<'a>(object: usize) -> &'a [u8] {
    if object == 0 {
        return &[];
    }
    // SAFETY: the length is at 16, the bytes at 32, since long before 3.8.
    unsafe {
        let length = word(object, 16);
        if length > MAX_LINES { &[] } else { core::slice::from_raw_parts((object + 32) as *const u8, length) }
    }
}

/// The characters of a string as UTF-8, cut to the room there is.
///
/// # Safety
/// `object` is null or a live string.
unsafe fn text(object: usize, layout: TextLayout, into: &mut [u8; MAX_TEXT]) -> &[u8] {
    if object == 0 {
        return b"?";
    }
    // SAFETY: the length is at 16 and the state word at 32; the characters follow the fixed part.
    unsafe {
        let length = word(object, 16);
        let state = ((object + 32) as *const u32).read();
        let (width, compact, ascii) = ((state >> 2) & 7, (state >> 5) & 1, (state >> 6) & 1);
        if compact == 0 {
            return b"?";
        }
        if ascii == 1 {
            let characters = (object + layout.ascii as usize) as *const u8;
            let kept = length.min(MAX_TEXT);
            into.as_mut_ptr().copy_from_nonoverlapping(characters, kept);
            return into.get(..kept).unwrap_or(b"?");
        }
        let start = object + layout.wide as usize;
        let characters = (0..length).map(|n| match width {
            1 => u32::from(((start + n) as *const u8).read()),
            2 => u32::from(((start + n * 2) as *const u16).read()),
            _ => ((start + n * 4) as *const u32).read(),
        });
        encode(characters, into)
    }
}

fn encode(characters: impl Iterator<Item = u32>, into: &mut [u8; MAX_TEXT]) -> &[u8] {
    let mut length = 0;
    for character in characters {
        let character = char::from_u32(character).unwrap_or(char::REPLACEMENT_CHARACTER);
        let Some(room) = into.get_mut(length..length + character.len_utf8()) else { break };
        character.encode_utf8(room);
        length += character.len_utf8();
    }
    into.get(..length).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character() {
        let mut room = [0; MAX_TEXT];
        assert_eq!(encode("häß∂".chars().map(u32::from), &mut room), "häß∂".as_bytes());
        let long = core::iter::repeat_n(0x2202_u32, 1000);
        let cut = encode(long, &mut room);
        assert_eq!(cut.len(), MAX_TEXT / 3 * 3);
        assert!(core::str::from_utf8(cut).is_ok());
        assert_eq!(encode([0xd800].into_iter(), &mut room), "\u{fffd}".as_bytes());
    }
}
