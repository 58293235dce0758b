//! Which format a file has, told from its first line, and why.

use std::fmt;

use crate::error::{Error, quoted};
use crate::free::{self, Head};

/// So much of a file is enough to tell.
pub const HEAD_BYTES: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Records of `microtime`, the whole of `/proc/meminfo`, `program_usage`.
    MeminfoLog,
    /// Outputs of `free`: with a time each, or before and after a list of times.
    FreeLog,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MeminfoLog => "meminfo-log",
            Self::FreeLog => "free-log",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    pub format: Format,
    pub why: String,
}

/// The format of a file that begins so.
pub fn detect(head: &[u8]) -> Result<Detected, Error> {
    let text = String::from_utf8_lossy(head);
    let found = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
    let Some((line, number)) = found.into_iter().find(|(line, _)| !line.is_empty()) else {
        return Err(unknown("the file is empty".into(), FORMATS));
    };
    let detected = |format, what: &str| Ok(Detected { format, why: format!("line {number} {what}") });
    match free::parse_head(line) {
        Some(Ok(Head { stamp: Some(_) })) => detected(Format::FreeLog, "is a time and the header of `free`"),
        Some(Ok(Head { stamp: None })) => detected(Format::FreeLog, "is the header of `free`"),
        Some(Err(fault)) => Err(Error::Line { line: number, what: fault.what, hint: fault.hint }),
        None if line.split_whitespace().next() == Some("microtime") => {
            detected(Format::MeminfoLog, "begins with `microtime`")
        }
        None => Err(foreign(head, line, number)),
    }
}

const FORMATS: &str = "known: meminfo-log (microtime, /proc/meminfo, program_usage) and free-log (outputs of \
                       `free`); see docs/import.md, or name it with --as";

fn foreign(head: &[u8], line: &str, number: u64) -> Error {
    if head.starts_with(&[0x1f, 0x8b]) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return unknown("the file is compressed".into(), "unpack it first:  zcat FILE > FILE.log");
    }
    if line.starts_with("seconds,") {
        return unknown(
            "this is the table made from a log, and it lacks the times".into(),
            "import the log it was made from (mem_info.log, get_memory_usage.log)",
        );
    }
    if line.starts_with("MemTotal:") {
        return unknown(
            "this is /proc/meminfo without a time".into(),
            "record the machine with times:  nilo record --interval 1s",
        );
    }
    unknown(format!("line {number} is not the start of a known log: {}", quoted(line)), FORMATS)
}

fn unknown(what: String, hint: &'static str) -> Error {
    Error::Unknown { what, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "             total       used       free     shared    buffers     cached";

    #[test]
    fn the_first_line_tells() {
        let found = detect(b"\nmicrotime 1462118400.1\nMemTotal: 1 kB\n").unwrap();
        assert_eq!(
            found,
            Detected { format: Format::MeminfoLog, why: "line 2 begins with `microtime`".into() }
        );
        let glued = detect(format!("1461693208.8298{HEADER}\nMem:").as_bytes()).unwrap();
        assert_eq!(
            (glued.format, glued.why.as_str()),
            (Format::FreeLog, "line 1 is a time and the header of `free`")
        );
        let plain = detect(HEADER.as_bytes()).unwrap();
        assert_eq!((plain.format, plain.why.as_str()), (Format::FreeLog, "line 1 is the header of `free`"));
    }

    #[test]
    fn what_is_not_known_has_words_and_a_hint() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "empty"),
            (b"\x1f\x8b\x08", "compressed"),
            (b"seconds,mem_used\n1,2\n", "table"),
            (b"MemTotal: 16421400 kB\n", "without a time"),
            (b"hello\x1b[2J\n", r#""hello\u{1b}[2J""#),
            (b"   total   used   free   shared  buff/cache   available\n", "newer"),
        ];
        for (head, words) in cases {
            let error = detect(head).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.hint().is_some_and(|hint| !hint.is_empty()));
        }
    }
}
