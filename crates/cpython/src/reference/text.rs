//! The characters of a `str` object.

use nilometer_image::Image;

use crate::layout::{Bits, Str};

/// What the state word of a str says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub interned: bool,
    /// Bytes per character: 1, 2 or 4; 0 in strs of old extensions that are not ready.
    pub width: u64,
    pub compact: bool,
    pub ascii: bool,
}

impl State {
    #[inline]
    pub fn parse(word: u32, layout: &Str) -> Self {
        Self {
            interned: take(word, layout.interned) != 0,
            width: u64::from(take(word, layout.kind)),
            compact: take(word, layout.compact) != 0,
            ascii: take(word, layout.ascii) != 0,
        }
    }
}

#[inline]
fn take(word: u32, bits: Bits) -> u32 {
    word.checked_shr(bits.shift).unwrap_or(0) & (1u32.checked_shl(bits.width).map_or(u32::MAX, |top| top - 1))
}

/// The state word, as it stands in the first half of a word of memory.
#[inline]
pub(crate) fn state(image: &Image, layout: &Str, address: u64) -> Option<State> {
    let word = image.slice(address.checked_add(layout.state)?, 4)?;
    Some(State::parse(u32::from_le_bytes(word.try_into().ok()?), layout))
}

/// The text of a str of at most `longest` characters; the caller knows that it is one.
pub(crate) fn read(image: &Image, layout: &Str, address: u64, longest: u64) -> Option<String> {
    let length = image.word(address.checked_add(layout.length)?)?;
    let state = state(image, layout, address)?;
    if length > longest {
        return None;
    }
    let at = match (state.compact, state.ascii) {
        (true, true) => address.checked_add(layout.ascii_size)?,
        (true, false) => address.checked_add(layout.compact_size)?,
        (false, _) => image.word(address.checked_add(layout.data)?)?,
    };
    decode(image.slice(at, (length * state.width) as usize)?, state.width)
}

fn decode(bytes: &[u8], width: u64) -> Option<String> {
    match width {
        1 => Some(bytes.iter().copied().map(char::from).collect()),
        2 => bytes
            .chunks_exact(2)
            .map(|c| char::from_u32(u32::from(u16::from_le_bytes([c[0], c[1]]))))
            .collect(),
        4 => bytes
            .chunks_exact(4)
            .map(|c| char::from_u32(u32::from_le_bytes([c[0], c[1], c[2], c[3]])))
            .collect(),
        _ => None,
    }
}

/// Whether a text is a name: an identifier, or several with dots between (a module's).
pub(crate) fn is_name(text: &str) -> bool {
    let starts = |part: &str| part.chars().next().is_some_and(|c| c == '_' || c.is_alphabetic());
    let goes_on = |part: &str| part.chars().all(|c| c == '_' || c.is_alphanumeric());
    text.split('.').all(|part| starts(part) && goes_on(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_and_dotted_ones() {
        for name in ["x", "_", "__init__", "numpy.core", "größe"] {
            assert!(is_name(name), "{name}");
        }
        for text in ["", "a b", "7up", "a..b", ".a", "x-y", "pass word"] {
            assert!(!is_name(text), "{text}");
        }
    }

    #[test]
    fn characters_come_in_three_widths() {
        assert_eq!(decode(b"a\xe9", 1).as_deref(), Some("aé"));
        assert_eq!(decode(&[0x20, 0x20], 2).as_deref(), Some("\u{2020}"));
        assert_eq!(decode(&[0, 0xf6, 1, 0], 4).as_deref(), Some("\u{1f600}"));
        assert_eq!(decode(&[0, 0xd8], 2), None);
        assert_eq!(decode(b"a", 3), None);
    }
}
