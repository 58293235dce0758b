//! `/proc/PID/stat`: faults, CPU time, identity. Runs for each process at each tick.

use super::scan::{number, words};
use crate::Error;

/// `TASK_COMM_LEN` is 16 with the NUL; kernel threads may show longer names (`fs/proc/array.c`).
const LONGEST_COMM: usize = 64;
/// The last field that must be there,
const RSS: usize = 24;
/// and the last that we use, of 52.
const START_STACK: usize = 28;

/// A process's short name as raw bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Comm {
    bytes: [u8; LONGEST_COMM],
    length: u8,
}

impl Comm {
    pub fn new(name: &[u8]) -> Self {
        let length = name.len().min(LONGEST_COMM);
        let mut bytes = [0; LONGEST_COMM];
        bytes[..length].copy_from_slice(&name[..length]);
        Self { bytes, length: length as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl Default for Comm {
    fn default() -> Self {
        Self::new(b"")
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_text().fmt(f)
    }
}

/// What we use of it; names as in `proc_pid_stat(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    pub pid: i32,
    pub comm: Comm,
    pub state: u8,
    pub ppid: i32,
    pub pgrp: i32,
    pub session: i32,
    pub tty_nr: i32,
    pub minflt: u64,
    pub cminflt: u64,
    pub majflt: u64,
    pub cmajflt: u64,
    pub utime: u64,
    pub stime: u64,
    pub cutime: u64,
    pub cstime: u64,
    pub num_threads: u32,
    pub starttime: u64,
    pub vsize: u64,
    pub rss_pages: u64,
    /// Where the stack began at `exec`: another address for each program, where addresses are random. 0 where we may not
    /// know it.
    pub start_stack: u64,
}

impl Stat {
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// The name may contain anything, blanks and parentheses included: the last `)` ends it.
pub fn parse(text: &[u8]) -> Result<Stat, Error> {
    let malformed = |field| Error::Malformed { file: "stat", field };
    let open = text.iter().position(|b| *b == b'(').ok_or(malformed("comm"))?;
    let close = text.iter().rposition(|b| *b == b')').filter(|c| *c > open).ok_or(malformed("comm"))?;
    let mut stat = Stat {
        pid: number(text).ok_or(malformed("pid"))? as i32,
        comm: Comm::new(&text[open + 1..close]),
        ..Stat::default()
    };
    // Fields are counted from 1; pid and comm were the first two.
    let mut last = 2;
    for (field, word) in (3..=START_STACK).zip(words(text[close + 1..].trim_ascii_end())) {
        take(&mut stat, field, word);
        last = field;
    }
    if last < RSS { Err(malformed("rss")) } else { Ok(stat) }
}

fn take(stat: &mut Stat, field: usize, word: &[u8]) {
    let value = number(word).unwrap_or(0); // the negative ones (priority, tpgid) are not used
    match field {
        3 => stat.state = word.first().copied().unwrap_or(0),
        4 => stat.ppid = value as i32,
        5 => stat.pgrp = value as i32,
        6 => stat.session = value as i32,
        7 => stat.tty_nr = value as i32,
        10 => stat.minflt = value,
        11 => stat.cminflt = value,
        12 => stat.majflt = value,
        13 => stat.cmajflt = value,
        14 => stat.utime = value,
        15 => stat.stime = value,
        16 => stat.cutime = value,
        17 => stat.cstime = value,
        20 => stat.num_threads = value as u32,
        22 => stat.starttime = value,
        23 => stat.vsize = value,
        RSS => stat.rss_pages = value,
        START_STACK => stat.start_stack = value,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "S 1 42 40 34816 -1 4194560 1001 1002 1003 1004 11 12 13 14 20 0 5 0 7777 123456 99 18446744073709551615 1 2 140731 0";

    #[test]
    fn fields_are_found_behind_any_name() {
        for name in ["python", "a) S 9 (b", "with space", "line\nbreak", ")", "((("] {
            let text = format!("42 ({name}) {REST}\n");
            let s = parse(text.as_bytes()).unwrap();
            assert_eq!(s.comm.to_text(), name);
            assert_eq!((s.pid, s.state, s.ppid, s.pgrp, s.session), (42, b'S', 1, 42, 40));
            assert_eq!((s.minflt, s.cminflt, s.majflt, s.cmajflt), (1001, 1002, 1003, 1004));
            assert_eq!((s.utime, s.stime, s.cutime, s.cstime), (11, 12, 13, 14));
            assert_eq!((s.num_threads, s.starttime, s.vsize, s.rss_pages), (5, 7777, 123_456, 99));
            assert_eq!(s.start_stack, 140_731);
        }
    }

    #[test]
    fn a_cut_line_is_an_error() {
        assert!(parse(b"42 (a) S 1 2").is_err());
        assert!(parse(b"").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
