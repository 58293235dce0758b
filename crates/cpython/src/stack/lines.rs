//! From an instruction to a line: the three encodings that code objects have had.
//!
//! Pure: a table's bytes, the first line, the instruction's offset in bytes. A damaged table gives no line.

/// `co_lnotab` (3.8, 3.9): steps of bytes and of lines, in turn. See `Objects/lnotab_notes.txt`.
pub fn parse_lnotab(table: &[u8], first_line: i32, offset: i64) -> Option<u32> {
    let mut line = i64::from(first_line);
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        end += i64::from(pair[0]);
        if end > offset {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    u32::try_from(line).ok()
}

/// In a 3.10 table: these bytes belong to no line.
const NO_LINE: i8 = -128;

/// `co_linetable` of 3.10: length of a range in bytes, step of lines. See `Objects/lnotab_notes.txt`.
pub fn parse_line_table(table: &[u8], first_line: i32, offset: i64) -> Option<u32> {
    if offset < 0 {
        return u32::try_from(first_line).ok();
    }
    let mut line = i64::from(first_line);
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        end += i64::from(pair[0]);
        let step = pair[1] as i8;
        if step != NO_LINE {
            line += i64::from(step);
        }
        if offset < end {
            return u32::try_from(line).ok().filter(|_| step != NO_LINE);
        }
    }
    None
}

/// Two bytes per code unit.
const UNIT: i64 = 2;

/// The location table (3.11 on): entries whose first byte has the top bit. See `Objects/locations.md`.
pub fn parse_locations(table: &[u8], first_line: i32, offset: i64) -> Option<u32> {
    if offset < 0 {
        return u32::try_from(first_line).ok();
    }
    let mut line = i64::from(first_line);
    let mut end = 0;
    let mut rest = table;
    while let [head, tail @ ..] = rest {
        end += (i64::from(head & 7) + 1) * UNIT;
        let code = head >> 3 & 15;
        line += match code {
            13 | 14 => parse_signed(tail)?,
            10..=12 => i64::from(code - 10),
            _ => 0,
        };
        if offset < end {
            return u32::try_from(line).ok().filter(|_| code != 15);
        }
        let length = tail.iter().position(|byte| byte & 0x80 != 0).unwrap_or(tail.len());
        rest = &tail[length..];
    }
    None
}

/// Six bits per byte, lowest first, the sign in the lowest bit.
fn parse_signed(bytes: &[u8]) -> Option<i64> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(6).enumerate() {
        value |= i64::from(byte & 63) << (6 * index);
        if byte & 64 == 0 {
            return Some(if value & 1 == 0 { value >> 1 } else { -(value >> 1) });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lnotab_counts_bytes_and_lines() {
        // Line 10 up to byte 6, line 12 up to byte 56, line 11 from there.
        let table = [6, 2, 50, 0xff];
        let line = |offset| parse_lnotab(&table, 10, offset);
        assert_eq!([-1, 0, 5, 6, 55, 56, 999].map(line), [10, 10, 10, 12, 12, 11, 11].map(Some));
    }

    #[test]
    fn a_line_table_has_ranges_without_a_line() {
        // Line 10: bytes 0 to 3, none: 4 and 5, line 12: 6 and 7.
        let table = [4, 0, 2, 0x80, 2, 2];
        let line = |offset| parse_line_table(&table, 10, offset);
        assert_eq!([-2, 0, 3].map(line), [Some(10); 3]);
        assert_eq!([4, 5, 6, 7, 8].map(line), [None, None, Some(12), Some(12), None]);
    }

    #[test]
    fn locations_of_every_form_are_read() {
        let table = [
            0x80 | 1,
            0x12, // short form, two units on the first line
            0x80 | 11 << 3,
            3,
            4, // one unit, the next line, columns
            0x80 | 13 << 3,
            5, // one unit, two lines back
            0x80 | 14 << 3 | 2,
            0x40 | 4,
            1,
            0,
            1,
            1,              // three units, 34 lines on, end and columns
            0x80 | 15 << 3, // one unit without a line
        ];
        let line = |offset| parse_locations(&table, 100, offset);
        assert_eq!([-2, 0, 2].map(line), [Some(100); 3]);
        assert_eq!([4, 6].map(line), [Some(101), Some(99)]);
        assert_eq!([8, 12].map(line), [Some(133); 2]);
        assert_eq!([14, 16].map(line), [None, None]);
    }

    #[test]
    fn a_cut_table_gives_no_line() {
        assert_eq!(parse_locations(&[0x80 | 14 << 3, 0x7f, 0x7f], 1, 0), None);
        assert_eq!(parse_locations(&[], 1, 0), None);
        assert_eq!(parse_line_table(&[3], 1, 0), None);
        assert_eq!(parse_lnotab(&[1, 0x80], 1, 5), None, "lines below zero");
    }
}
