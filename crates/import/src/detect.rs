//! Which format a file has, told from its first line, and why.

use std::fmt;

use crate::error::{Error, quoted};
use crate::free::{self, Head};
use crate::{mxnet, pprof, smaps};

/// So much of a file is enough to tell: a log that holds another program's output may begin with that.
pub const HEAD_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Records of `microtime`, the whole of `/proc/meminfo`, `program_usage`.
    MeminfoLog,
    /// Outputs of `free`: with a time each, or before and after a list of times.
    FreeLog,
    /// The memory profiler of a patched MXNet: logs, analyses of them, and the table of MXNet's own later profiler.
    MxnetLog,
    /// A pickle of `torch.cuda.memory._dump_snapshot`.
    Torch,
    /// A device memory profile (pprof).
    Jax,
    /// Another memory profile of pprof: our own, Go's.
    Pprof,
    /// Dumps and tables of Heapy.
    Heapy,
    /// Tables of Pympler.
    Muppy,
    /// `/proc/PID/smaps` again and again.
    Smaps,
}

impl Format {
    /// Does it tell allocations and their stacks, rather than readings?
    pub fn has_sites(self) -> bool {
        matches!(self, Self::MxnetLog | Self::Torch | Self::Jax | Self::Pprof)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MeminfoLog => "meminfo-log",
            Self::FreeLog => "free-log",
            Self::MxnetLog => "mxnet-log",
            Self::Torch => "torch snapshot",
            Self::Jax => "jax profile",
            Self::Pprof => "pprof profile",
            Self::Heapy => "heapy table",
            Self::Muppy => "muppy table",
            Self::Smaps => "smaps series",
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
    if let Some(detected) = by_bytes(head) {
        return Ok(detected);
    }
    let text = String::from_utf8_lossy(head);
    let mut lines =
        text.lines().zip(1..).map(|(line, number)| (line.trim(), number)).filter(|line| !line.0.is_empty());
    let Some((line, number)) = lines.next() else {
        return Err(unknown("the file is empty".into(), FORMATS));
    };
    let second = lines.next().map(|(line, _)| line);
    let detected = |format, what: &str| Ok(Detected { format, why: format!("line {number} {what}") });
    match free::parse_head(line) {
        Some(Ok(Head { stamp: Some(_) })) => detected(Format::FreeLog, "is a time and the header of `free`"),
        Some(Ok(Head { stamp: None })) => detected(Format::FreeLog, "is the header of `free`"),
        Some(Err(fault)) => Err(Error::Line { line: number, what: fault.what, hint: fault.hint }),
        None => match by_line(line, second) {
            Some((format, what)) => detected(format, what),
            None => by_any_line(&text).ok_or_else(|| foreign(head, line, number)),
        },
    }
}

fn by_bytes(head: &[u8]) -> Option<Detected> {
    let detected = |format, why: &str| Some(Detected { format, why: why.to_owned() });
    match (head, pprof::profile_of(head)) {
        ([0x80, 2..=5, ..], _) => detected(Format::Torch, "it is a pickle"),
        (_, Some(Format::Jax)) => detected(Format::Jax, "it is a profile of pprof"),
        (_, Some(format)) => detected(format, "it has more than the two sample types of JAX"),
        (_, None) => None,
    }
}

fn by_line(line: &str, second: Option<&str>) -> Option<(Format, &'static str)> {
    let first = line.split_whitespace().next().unwrap_or_default();
    Some(match first {
        "microtime" => (Format::MeminfoLog, "begins with `microtime`"),
        ".loader:" => (Format::Heapy, "begins a dump of Heapy"),
        "Partition" => (Format::Heapy, "begins a table of Heapy"),
        "types" if line.contains("# objects") => (Format::Muppy, "begins a table of Pympler"),
        _ if mxnet::is_table(line) => (Format::MxnetLog, "is the header of MXNet's memory profile"),
        "{" | "{}" => (Format::MxnetLog, "begins an analysis of an MXNet log"),
        _ => (Format::Smaps, smaps::is_series(line, second)?),
    })
}

/// The output of a whole training has the profiler's lines somewhere.
fn by_any_line(text: &str) -> Option<Detected> {
    let (_, number) = text.lines().zip(1..).find(|(line, _)| line.contains("[mem] "))?;
    let why = format!("line {number} is one of MXNet's memory profiler");
    Some(Detected { format: Format::MxnetLog, why })
}

const FORMATS: &str = "known: mxnet-log, torch (snapshot pickle), jax, pprof, heapy, muppy, smaps, meminfo-log, free-log, damon, \
                       lackey; see docs/import.md, or name it with --as";

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
