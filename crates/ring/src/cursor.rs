//! Writing and reading the variable-length numbers that events are made of.

/// No record is longer than this, so a producer checks for room once per record.
pub const MAX_RECORD: usize = 64;

/// Where the next byte of a record goes.
///
/// Invariant: at least [`MAX_RECORD`] bytes from the starting point are writable, and one record is written.
#[derive(Debug)]
pub struct Cursor {
    at: *mut u8,
}

impl Cursor {
    /// # Safety
    /// `start` points to at least [`MAX_RECORD`] writable bytes that nobody else reads or writes until the
    /// record is published, and not more than one record is written through this cursor.
    #[inline(always)]
    pub unsafe fn new(start: *mut u8) -> Self {
        Self { at: start }
    }

    /// The address behind the last byte written.
    #[inline(always)]
    pub fn position(&self) -> *mut u8 {
        self.at
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, value: u8) {
        // SAFETY: a record is at most MAX_RECORD bytes, and that many are writable (see `new`).
        unsafe {
            self.at.write(value);
            self.at = self.at.add(1);
        }
    }

    /// Seven bits per byte, low bits first, the top bit set on all bytes but the last.
    #[inline(always)]
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A difference that may be negative: zigzag, then [`Self::number`].
    #[inline(always)]
    pub(crate) fn difference(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }
}

/// The bytes ended inside a number, or a number has more than 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadNumber;

/// Bytes not yet read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn byte(&mut self) -> Result<u8, BadNumber> {
        let (&first, rest) = self.rest.split_first().ok_or(BadNumber)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub fn number(&mut self) -> Result<u64, BadNumber> {
        // Most numbers are one to three bytes long; the rest is kept out of line.
        match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                Ok(u64::from(a))
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.rest = rest;
                Ok(u64::from(a & 0x7f) | u64::from(b) << 7)
            }
            [a, b, c, ref rest @ ..] if c < 0x80 => {
                self.rest = rest;
                Ok(u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(c) << 14)
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, BadNumber> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(BadNumber);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(BadNumber)
    }

    #[inline]
    pub fn difference(&mut self) -> Result<i64, BadNumber> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Cursor)) -> Vec<u8> {
        let mut bytes = [0_u8; MAX_RECORD];
        // SAFETY: the array is MAX_RECORD bytes long and lives on.
        let mut cursor = unsafe { Cursor::new(bytes.as_mut_ptr()) };
        write(&mut cursor);
        let length = cursor.position() as usize - bytes.as_ptr() as usize;
        bytes[..length].to_vec()
    }

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let bytes = written(|c| c.number(value));
            assert_eq!(Source::new(&bytes).number(), Ok(value));
        }
        assert_eq!(written(|c| c.number(300)), [0xac, 0x02]);
    }

    #[test]
    fn differences_come_back() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let bytes = written(|c| c.difference(value));
            assert_eq!(Source::new(&bytes).difference(), Ok(value));
        }
        assert_eq!(written(|c| c.difference(-64)), [0x7f]);
    }

    #[test]
    fn a_cut_or_overlong_number_is_an_error() {
        assert_eq!(Source::new(&[0x80]).number(), Err(BadNumber));
        assert_eq!(Source::new(&[0xff; 10]).number(), Err(BadNumber));
        assert_eq!(Source::new(&[0xff; 11]).number(), Err(BadNumber));
    }
}
