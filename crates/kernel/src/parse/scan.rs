//! The few byte-level moves that all parsers share.

use memchr::memchr;

/// Lines without their newline, but for empty ones.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    let next = move || {
        (!rest.is_empty()).then(|| {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            line
        })
    };
    std::iter::from_fn(next).filter(|line| !line.is_empty())
}

/// Words separated by blanks or tabs.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// The decimal number at the start of `text`; saturates, and `None` without a digit.
pub fn number(text: &[u8]) -> Option<u64> {
    let mut value: u64 = 0;
    let mut seen = false;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
        seen = true;
    }
    seen.then_some(value)
}

/// The number after leading blanks (`Name:` has been cut off): "   123 kB" gives 123.
pub fn padded_number(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii_start())
}

/// The hexadecimal number that is all of `text`.
pub fn hex(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = (*byte as char).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_newline_and_empty_ones_are_left_out() {
        assert_eq!(lines(b"\na b\n\nc\n").collect::<Vec<_>>(), [&b"a b"[..], b"c"]);
        assert_eq!(lines(b"no end").collect::<Vec<_>>(), [&b"no end"[..]]);
        assert_eq!(lines(b"").count() + lines(b"\n\n").count(), 0);
    }

    #[test]
    fn numbers_stop_at_the_first_other_byte_and_saturate() {
        assert_eq!(number(b"42 kB"), Some(42));
        assert_eq!(number(b"kB"), None);
        assert_eq!(number(b"99999999999999999999999"), Some(u64::MAX));
        assert_eq!(padded_number(b"\t   7 kB"), Some(7));
        assert_eq!(hex(b"7ffe"), Some(0x7ffe));
        assert_eq!(hex(b"12345678901234567"), None);
    }
}
