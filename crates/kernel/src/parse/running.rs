//! How many threads of the machine run or could: the number before the slash in `/proc/loadavg`.

use super::scan::{number, words};

/// The reader itself is among them.
pub fn parse(text: &[u8]) -> Option<u64> {
    let field = words(text).nth(3)?;
    number(field.split(|byte| *byte == b'/').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_word_begins_with_it() {
        assert_eq!(parse(b"0.52 0.58 0.59 2/345 9876\n"), Some(2));
        assert_eq!(parse(b"0.52 0.58\n"), None);
        assert_eq!(parse(b"0.52 0.58 0.59 x/3 1\n"), None);
    }
}
