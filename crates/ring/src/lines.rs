//! From an instruction's offset to its line, by the table that the code object carries.
//!
//! Three formats: `co_lnotab` (up to 3.9, CPython `Objects/lnotab_notes.txt`), `co_linetable` of 3.10, and the
//! location table since 3.11 (`Objects/locations.md`). Any bytes are survived.

use crate::definition::Code;

/// The line of the instruction at `offset` bytes; `None` if the table has none for it.
pub fn line_of(code: &Code<'_>, offset: u32) -> Option<u32> {
    let first = i64::from(code.first_line);
    let line = match code.python & 0xff {
        0..=9 => Some(by_increments(code.lines, first, offset)),
        10 => by_ranges(code.lines, first, offset),
        _ => by_locations(code.lines, first, offset),
    };
    line.and_then(|line| u32::try_from(line).ok())
}

fn by_increments(table: &[u8], first: i64, offset: u32) -> i64 {
    let (mut address, mut line) = (0_u32, first);
    for pair in table.chunks_exact(2) {
        address = address.saturating_add(u32::from(pair[0]));
        if address > offset {
            break;
        }
        line += i64::from(pair[1].cast_signed());
    }
    line
}

fn by_ranges(table: &[u8], first: i64, offset: u32) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let (mut end, mut line) = (0_u32, first);
    for pair in table.chunks_exact(2) {
        end = end.saturating_add(u32::from(pair[0]));
        let difference = pair[1].cast_signed();
        if difference != NO_LINE {
            line += i64::from(difference);
        }
        if offset < end {
            return (difference != NO_LINE).then_some(line);
        }
    }
    None
}

fn by_locations(table: &[u8], first: i64, offset: u32) -> Option<i64> {
    let (mut end, mut line) = (0_u32, first);
    let mut rest = table;
    while let Some((&head, tail)) = rest.split_first() {
        let (kind, units) = ((head >> 3) & 15, u32::from(head & 7) + 1);
        end = end.saturating_add(units * 2);
        let next = tail.iter().position(|byte| byte & 0x80 != 0).unwrap_or(tail.len());
        let (body, after) = tail.split_at(next);
        line = line.saturating_add(match kind {
            13 | 14 => signed(body)?,
            10..=12 => i64::from(kind) - 10,
            _ => 0,
        });
        if offset < end {
            return (kind != 15).then_some(line);
        }
        rest = after;
    }
    None
}

/// Six bits per byte, low bits first, the seventh bit set on all but the last; the sign is the lowest bit.
fn signed(bytes: &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x3f) << (6 * index as u32);
        if byte & 0x40 == 0 {
            let magnitude = (value >> 1) as i64;
            return Some(if value & 1 == 0 { magnitude } else { -magnitude });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(minor: u32, lines: &[u8]) -> Code<'_> {
        Code { file: b"", name: b"", first_line: 100, python: 0x300 + minor, lines }
    }

    #[test]
    fn increments_are_added_up_to_the_offset() {
        let code = code(8, &[0, 1, 6, 1, 8, 2]);
        assert_eq!(line_of(&code, 0), Some(101));
        assert_eq!(line_of(&code, 5), Some(101));
        assert_eq!(line_of(&code, 6), Some(102));
        assert_eq!(line_of(&code, 14), Some(104));
    }

    #[test]
    fn ranges_may_have_no_line() {
        let code = code(10, &[4, 1, 2, 0x80, 6, 0xff]);
        assert_eq!(line_of(&code, 0), Some(101));
        assert_eq!(line_of(&code, 4), None);
        assert_eq!(line_of(&code, 6), Some(100));
        assert_eq!(line_of(&code, 12), None);
    }

    #[test]
    fn locations_of_all_kinds_are_read() {
        // short form (same line), one line form +2, no-column form -3, long form +64, none
        let table = [0x80, 0x00, 0xe1, 0, 1, 0xe8, 7, 0xf0, 0x40, 2, 0, 0, 0, 0xf8];
        let code = code(12, &table);
        assert_eq!(line_of(&code, 0), Some(100));
        assert_eq!(line_of(&code, 2), Some(102));
        assert_eq!(line_of(&code, 5), Some(102));
        assert_eq!(line_of(&code, 6), Some(99));
        assert_eq!(line_of(&code, 8), Some(163));
        assert_eq!(line_of(&code, 10), None);
    }

    proptest! {
        #[test]
        fn any_table_is_survived(
            minor in 8_u32..16,
            lines in prop::collection::vec(any::<u8>(), 0..200),
            offset in any::<u32>(),
        ) {
            let _ = line_of(&code(minor, &lines), offset);
        }
    }
}
