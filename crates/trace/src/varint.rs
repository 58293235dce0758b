//! LEB128 numbers and the zigzag mapping of signed differences.

/// Appends `value`, seven bits per byte, lowest first.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed difference: 0, -1, 1, -2, … become 0, 1, 2, 3, …
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads from the front of a slice. `None`: the bytes end, or the number has more than 64 bits.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        // Most numbers are one or two bytes long; the rest is kept out of line.
        match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                Some(u64::from(a))
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.rest = rest;
                Some(u64::from(a & 0x7f) | u64::from(b) << 7)
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            put_signed(&mut out, value as i64);
            let mut cursor = Cursor::new(&out);
            assert_eq!(cursor.varint(), Some(value));
            assert_eq!(cursor.signed(), Some(value as i64));
            assert_eq!(cursor.remaining(), 0);
        }
    }

    #[test]
    fn small_differences_are_one_byte() {
        for value in [-64, -1, 0, 1, 63] {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            assert_eq!(out.len(), 1, "{value}");
        }
    }

    #[test]
    fn endless_and_oversized_numbers_are_refused() {
        assert_eq!(Cursor::new(&[0x80; 3]).varint(), None);
        assert_eq!(Cursor::new(&[0xff; 20]).varint(), None);
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint(), None);
    }
}
