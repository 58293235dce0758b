//! The newest pid of this pid namespace: all of `/proc/sys/kernel/ns_last_pid`, the last field of `/proc/loadavg`.

use super::scan::{number, words};

/// If it did not move between two looks, no process and no thread was made in between.
pub fn parse(text: &[u8]) -> Option<i32> {
    words(text.trim_ascii_end()).last().and_then(number).map(|pid| pid as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_the_newest_pid() {
        assert_eq!(parse(b"0.52 0.58 0.59 2/345 9876\n"), Some(9876));
        assert_eq!(parse(b"9876\n"), Some(9876));
        assert_eq!(parse(b""), None);
    }
}
