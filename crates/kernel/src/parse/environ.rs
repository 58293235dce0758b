//! NUL-separated lists: `/proc/PID/cmdline` and `/proc/PID/environ`.

/// The entries; a missing last NUL (a process that rewrote its title) is tolerated.
pub fn entries(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    text.split(|b| *b == 0).filter(move |_| !text.is_empty())
}

/// Arguments as text; bytes that are no UTF-8 are replaced.
pub fn arguments(text: &[u8]) -> Vec<String> {
    // A title written over the arguments is padded with NULs.
    let end = text.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    entries(&text[..end]).map(|a| String::from_utf8_lossy(a).into_owned()).collect()
}

/// The value of one variable.
pub fn variable<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entries(text).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_may_be_empty_padded_or_not_utf8() {
        assert_eq!(arguments(b"python\0-c\0\0x\0"), ["python", "-c", "", "x"]);
        assert_eq!(arguments(b"title\0\0\0\0"), ["title"]);
        assert_eq!(arguments(b""), Vec::<String>::new());
        assert_eq!(arguments(b"\xff\0"), ["\u{fffd}"]);
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let text = b"MY_RANK=9\0RANK=3\0EMPTY=\0";
        assert_eq!(variable(text, "RANK"), Some(&b"3"[..]));
        assert_eq!(variable(text, "EMPTY"), Some(&b""[..]));
        assert_eq!(variable(text, "RAN"), None);
    }
}
