//! The header lines of `/proc/PID/maps` and `smaps`: one mapping each.

use super::scan::{hex, number};

/// One mapping; `name` is what the kernel prints, escapes and ` (deleted)` included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    pub start: u64,
    pub end: u64,
    /// `rwxp` or `rwxs`, a dash for what is not allowed.
    pub perms: [u8; 4],
    pub offset: u64,
    /// Major and minor number of the device.
    pub dev: (u32, u32),
    pub inode: u64,
    pub name: &'a [u8],
}

impl Mapping<'_> {
    pub fn is_write(&self) -> bool {
        self.perms[1] == b'w'
    }

    pub fn is_exec(&self) -> bool {
        self.perms[2] == b'x'
    }

    pub fn is_shared(&self) -> bool {
        self.perms[3] == b's'
    }

    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Parses `start-end perms offset major:minor inode   name`.
///
/// The name is the rest of the line: it may contain blanks and even end with one, but a newline in it is
/// printed as `\012` (`seq_path(…, "\n")` in `show_map_vma`, `fs/proc/task_mmu.c`), so a line is one mapping.
pub fn parse_header(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, rest) = split_at(line, b'-')?;
    let (end, rest) = split_at(rest, b' ')?;
    let (perms, rest) = split_at(rest, b' ')?;
    let (offset, rest) = split_at(rest, b' ')?;
    let (major, rest) = split_at(rest, b':')?;
    let (minor, rest) = split_at(rest, b' ')?;
    let inode_length = rest.iter().position(|b| *b == b' ').unwrap_or(rest.len());
    let (inode, name) = rest.split_at(inode_length);
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        perms: perms.try_into().ok()?,
        offset: hex(offset)?,
        dev: (hex(major)? as u32, hex(minor)? as u32),
        inode: number(inode)?,
        name: without_padding(name),
    })
}

/// Only blanks pad; no name begins with one (paths with `/`, the others with `[` or a letter).
fn without_padding(name: &[u8]) -> &[u8] {
    let start = name.iter().position(|b| *b != b' ').unwrap_or(name.len());
    &name[start..]
}

fn split_at(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let position = text.iter().position(|b| *b == separator)?;
    Some((&text[..position], &text[position + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_read_whole() {
        let line =
            b"7f2c8a028000-7f2c8a1bd000 r-xp 00028000 fe:00 1049                       /usr/lib/libc.so.6";
        let m = parse_header(line).unwrap();
        assert_eq!((m.start, m.end, m.offset), (0x7f2c_8a02_8000, 0x7f2c_8a1b_d000, 0x28000));
        assert_eq!((m.dev, m.inode, m.name), ((0xfe, 0), 1049, &b"/usr/lib/libc.so.6"[..]));
        assert_eq!((m.is_exec(), m.is_write(), m.is_shared(), m.bytes()), (true, false, false, 0x19_5000));
    }

    #[test]
    fn names_may_be_missing_or_strange() {
        let name = |rest: &str| {
            let line = format!("00400000-00401000 rw-s 00000000 00:01 7{rest}");
            parse_header(line.as_bytes()).map(|m| String::from_utf8(m.name.to_owned()).unwrap())
        };
        for rest in ["", " ", "                       "] {
            assert_eq!(name(rest).as_deref(), Some(""));
        }
        assert_eq!(name("    /a b (deleted)").as_deref(), Some("/a b (deleted)"));
        assert_eq!(name("    /new\\012line ").as_deref(), Some("/new\\012line "));
        assert_eq!(name("    [anon: x]").as_deref(), Some("[anon: x]"));
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            &b"Rss:                   4 kB"[..],
            b"VmFlags: rd wr",
            b"",
            b"1-2 rw 0 0:0 0",
            b"1-2 rwxp 0 0:0 ",
        ] {
            assert_eq!(parse_header(line), None, "{}", line.escape_ascii());
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            let _ = parse_header(&text);
        }

        #[test]
        fn what_is_printed_is_parsed(
            start: u64, end: u64, offset: u64, major: u32, minor: u32, inode: u64, name in "(/[ -~]{0,40})?",
        ) {
            let line = format!("{start:08x}-{end:08x} r--p {offset:08x} {major:02x}:{minor:02x} {inode}      {name}");
            let m = parse_header(line.as_bytes()).unwrap();
            let expected = Mapping { start, end, perms: *b"r--p", offset, dev: (major, minor), inode, name: name.as_bytes() };
            proptest::prop_assert_eq!(m, expected);
        }
    }
}
