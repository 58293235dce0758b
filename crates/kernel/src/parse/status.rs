//! `/proc/PID/status`: the memory counters of one process. Runs for each process at each tick.

use super::scan::{lines, number, padded_number, words};
use crate::Error;

/// What we use of it. Memory fields are absent for zombies and kernel threads, which have no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    pub state: u8,
    pub tgid: i32,
    pub pid: i32,
    pub ppid: i32,
    /// Effective user id.
    pub euid: u32,
    pub threads: u32,
    /// The process that traces it; 0 for none.
    pub tracer: i32,
    /// Seccomp filters it lives under (`Seccomp_filters`, since Linux 5.9).
    pub seccomp_filters: Option<u32>,
    /// 0 none, 1 strict, 2 filters.
    pub seccomp: u8,
    pub vm_hwm_kib: Option<u64>,
    pub vm_rss_kib: Option<u64>,
    /// `RssAnon`, `RssFile`, `RssShmem`: since Linux 4.5.
    pub rss_anon_kib: Option<u64>,
    pub rss_file_kib: Option<u64>,
    pub rss_shmem_kib: Option<u64>,
    pub vm_swap_kib: Option<u64>,
    /// Its pid in the innermost pid namespace (`NSpid`, since Linux 4.1).
    pub inner_pid: Option<i32>,
}

impl Status {
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    pub fn is_thread_leader(&self) -> bool {
        self.tgid == self.pid
    }
}

pub fn parse(text: &[u8]) -> Result<Status, Error> {
    let mut status = Status::default();
    for line in lines(text) {
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        take(&mut status, &line[..colon], &line[colon + 1..]);
    }
    if status.pid == 0 || status.tgid == 0 {
        return Err(Error::Malformed { file: "status", field: "Pid" });
    }
    Ok(status)
}

/// `Name:` is skipped like all unknown fields; a newline in it is escaped by the kernel (`fs/proc/array.c`).
fn take(status: &mut Status, name: &[u8], value: &[u8]) {
    let id = || padded_number(value).unwrap_or(0) as i32;
    match name {
        b"State" => status.state = value.trim_ascii_start().first().copied().unwrap_or(0),
        b"Tgid" => status.tgid = id(),
        b"Pid" => status.pid = id(),
        b"PPid" => status.ppid = id(),
        b"Uid" => status.euid = words(value).nth(1).and_then(number).unwrap_or(0) as u32,
        b"NSpid" => status.inner_pid = words(value).last().and_then(number).map(|n| n as i32),
        b"VmHWM" => status.vm_hwm_kib = padded_number(value),
        b"VmRSS" => status.vm_rss_kib = padded_number(value),
        b"RssAnon" => status.rss_anon_kib = padded_number(value),
        b"RssFile" => status.rss_file_kib = padded_number(value),
        b"RssShmem" => status.rss_shmem_kib = padded_number(value),
        b"VmSwap" => status.vm_swap_kib = padded_number(value),
        b"TracerPid" => status.tracer = id(),
        b"Seccomp" => status.seccomp = id() as u8,
        b"Seccomp_filters" => status.seccomp_filters = padded_number(value).map(|n| n as u32),
        b"Threads" => status.threads = id() as u32,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_has_its_memory() {
        let text = b"Name:\tpython3\nUmask:\t0022\nState:\tR (running)\nTgid:\t42\nNgid:\t0\nPid:\t42\nPPid:\t7\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t42\t3\nVmHWM:\t  9000 kB\nVmRSS:\t  8000 kB\nRssAnon:\t    5000 kB\nRssFile:\t    2500 kB\nRssShmem:\t     500 kB\nVmSwap:\t       4 kB\nThreads:\t9\nTracerPid:\t77\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let s = parse(text).unwrap();
        assert_eq!((s.tgid, s.pid, s.ppid, s.euid, s.threads), (42, 42, 7, 1001, 9));
        assert_eq!((s.vm_hwm_kib, s.vm_rss_kib, s.vm_swap_kib), (Some(9000), Some(8000), Some(4)));
        assert_eq!((s.rss_anon_kib, s.rss_file_kib, s.rss_shmem_kib), (Some(5000), Some(2500), Some(500)));
        assert_eq!((s.inner_pid, s.state, s.tracer), (Some(3), b'R', 77));
        assert_eq!((s.seccomp, s.seccomp_filters), (2, Some(1)));
    }

    #[test]
    fn a_zombie_has_none() {
        let s =
            parse(b"Name:\tsleep\nState:\tZ (zombie)\nTgid:\t5\nPid:\t5\nPPid:\t1\nThreads:\t1\n").unwrap();
        assert!(s.is_zombie());
        assert_eq!((s.vm_rss_kib, s.vm_hwm_kib), (None, None));
    }

    #[test]
    fn a_hostile_name_cannot_forge_a_field() {
        // The kernel writes a newline in a name as `\n` (two bytes), so no line of ours begins inside it.
        let s = parse(b"Name:\ta\\nVmRSS: 1 kB\nTgid:\t5\nPid:\t5\nVmRSS:\t 2 kB\n").unwrap();
        assert_eq!(s.vm_rss_kib, Some(2));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
