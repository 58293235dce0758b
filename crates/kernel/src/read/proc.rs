//! `/proc/PID`: the files of one process, and the list of all.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::kept::{KeptFile, read_once};
use crate::Error;
use crate::parse::kind::{KindSums, Summary};
use crate::parse::maps::{Mapping, parse_header};
use crate::parse::smaps::{self, Rollup, Usage};
use crate::parse::stat::{self, Stat};
use crate::parse::statm::{self, Statm};
use crate::parse::status::{self, Status};
use crate::parse::{environ, last_pid, running, scan};

/// Longest command line or environment that is read; both may be megabytes.
const LONGEST_LIST: usize = 1 << 20;
/// smaps is handed out in pages whatever the buffer; a larger one only saves loop turns.
const SMAPS_CHUNK: usize = 64 << 10;

/// A proc file system, real or made up for a test.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
}

impl Default for Proc {
    fn default() -> Self {
        Self::new("/proc")
    }
}

impl Proc {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Are its process numbers those of our system calls? Not if it was mounted for another pid namespace.
    pub fn shows_our_namespace(&self) -> bool {
        let own = std::process::id().to_string();
        std::fs::read_link(self.root.join("self")).is_ok_and(|link| link.as_os_str() == own.as_str())
    }

    fn file(&self, pid: i32, name: &str) -> PathBuf {
        self.root.join(format!("{pid}/{name}"))
    }

    /// Opens the files that are read at each tick.
    pub fn process(&self, pid: i32) -> Result<ProcessFiles, Error> {
        let status = KeptFile::open(self.file(pid, "status"))?;
        let stat = KeptFile::open(self.file(pid, "stat"))?;
        let statm = KeptFile::open(self.file(pid, "statm"))?;
        Ok(ProcessFiles { pid, status, stat, statm })
    }

    /// Identity of a process that may not be worth keeping open.
    pub fn read_status(&self, pid: i32, buffer: &mut Vec<u8>) -> Result<Status, Error> {
        let length = read_once(&self.file(pid, "status"), buffer)?;
        status::parse(&buffer[..length])
    }

    pub fn read_stat(&self, pid: i32, buffer: &mut Vec<u8>) -> Result<Stat, Error> {
        let length = read_once(&self.file(pid, "stat"), buffer)?;
        stat::parse(&buffer[..length])
    }

    /// Its arguments, cut at a megabyte.
    pub fn read_arguments(&self, pid: i32) -> Result<Vec<String>, Error> {
        Ok(environ::arguments(&self.read_list(pid, "cmdline")?))
    }

    /// Its environment as it was at `exec`, cut at a megabyte.
    pub fn read_environment(&self, pid: i32) -> Result<Vec<u8>, Error> {
        self.read_list(pid, "environ")
    }

    fn read_list(&self, pid: i32, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.file(pid, name);
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|f| f.take(LONGEST_LIST as u64).read_to_end(&mut text));
        read.map(|_| text).map_err(|e| Error::from_io(&path, e))
    }

    /// The program it runs.
    pub fn read_exe(&self, pid: i32) -> Result<PathBuf, Error> {
        let path = self.file(pid, "exe");
        std::fs::read_link(&path).map_err(|e| Error::from_io(&path, e))
    }

    /// PSS and USS: a page-table walk, 20–30 ms of CPU per GB at 4 KiB pages.
    pub fn read_rollup(&self, pid: i32, buffer: &mut Vec<u8>) -> Result<Rollup, Error> {
        let length = read_once(&self.file(pid, "smaps_rollup"), buffer)?;
        // A process without memory (zombie) gives an empty file.
        let path = || self.file(pid, "smaps_rollup");
        smaps::parse_rollup(&buffer[..length]).ok_or_else(|| Error::Gone { path: path() })
    }

    /// All mappings summed by kind: the same walk, and some µs per mapping.
    pub fn read_kinds(&self, pid: i32, buffer: &mut Vec<u8>) -> Result<Summary, Error> {
        let mut sums = KindSums::default();
        self.read_smaps(pid, buffer, |mapping, usage| sums.add(mapping, usage))?;
        Ok(sums.finish())
    }

    /// Shows each mapping with what it uses: the same walk.
    pub fn read_smaps(
        &self,
        pid: i32,
        buffer: &mut Vec<u8>,
        mut visit: impl FnMut(&Mapping<'_>, &Usage),
    ) -> Result<(), Error> {
        let path = self.file(pid, "smaps");
        let mut scanner = smaps::Scanner::default();
        let mut file = File::open(&path).map_err(|e| Error::from_io(&path, e))?;
        buffer.resize(buffer.len().max(SMAPS_CHUNK), 0);
        let mut count = 0;
        let mut visit = |mapping: &Mapping<'_>, usage: &Usage| {
            count += 1;
            visit(mapping, usage);
        };
        loop {
            match file.read(buffer) {
                Ok(0) => break,
                Ok(n) => scanner.feed(&buffer[..n], &mut visit),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::from_io(&path, e)),
            }
        }
        scanner.finish(&mut visit);
        if count == 0 { Err(Error::Gone { path }) } else { Ok(()) }
    }

    /// Resets VmHWM to the present RSS (`clear_refs` 5, since Linux 4.0).
    pub fn reset_high_water(&self, pid: i32) -> Result<(), Error> {
        self.clear(pid, b"5")
    }

    /// Forgets which pages were touched (`clear_refs` 1, `CONFIG_PROC_PAGE_MONITOR`): `Referenced` of smaps counts anew.
    /// Reclaim uses the same bits.
    pub fn clear_referenced(&self, pid: i32) -> Result<(), Error> {
        self.clear(pid, b"1")
    }

    /// Forgets which pages were written (`clear_refs` 4, `CONFIG_MEM_SOFT_DIRTY`).
    pub fn clear_soft_dirty(&self, pid: i32) -> Result<(), Error> {
        self.clear(pid, b"4")
    }

    fn clear(&self, pid: i32, what: &[u8]) -> Result<(), Error> {
        let path = self.file(pid, "clear_refs");
        std::fs::write(&path, what).map_err(|e| Error::from_io(&path, e))
    }

    /// Shows each mapping, without what it uses: no page table is walked.
    pub fn read_maps(&self, pid: i32, mut visit: impl FnMut(&Mapping<'_>)) -> Result<(), Error> {
        let path = self.file(pid, "maps");
        let text = std::fs::read(&path).map_err(|e| Error::from_io(&path, e))?;
        if text.is_empty() {
            return Err(Error::Gone { path });
        }
        scan::lines(&text).filter_map(parse_header).for_each(|mapping| visit(&mapping));
        Ok(())
    }

    /// All process ids that are visible here.
    pub fn list_pids(&self) -> Result<Vec<i32>, Error> {
        let entries = std::fs::read_dir(&self.root).map_err(|e| Error::from_io(&self.root, e))?;
        Ok(entries.flatten().filter_map(|e| whole_number(e.file_name().as_bytes())).collect())
    }

    /// Is a thread of the kernel there whose name begins so? A container shows none of them.
    pub fn has_kernel_thread(&self, name: &str) -> bool {
        let is_named = |pid: i32| {
            std::fs::read(self.file(pid, "comm")).is_ok_and(|comm| comm.starts_with(name.as_bytes()))
        };
        // Programs may call themselves anything, but they have arguments.
        let is_of_kernel = |pid: i32| self.read_arguments(pid).is_ok_and(|arguments| arguments.is_empty());
        self.list_pids().unwrap_or_default().into_iter().any(|pid| is_named(pid) && is_of_kernel(pid))
    }

    /// What all processes that are visible here have in swap (`VmSwap`, since Linux 2.6.34). Pages that two of them
    /// share are counted twice; shared memory is none of it.
    pub fn read_swap_kib(&self, buffer: &mut Vec<u8>) -> u64 {
        let pids = self.list_pids().unwrap_or_default();
        let of = |pid| self.read_status(pid, buffer).ok()?.vm_swap_kib;
        pids.into_iter().filter_map(of).fold(0, u64::saturating_add)
    }

    /// The threads of a process.
    pub fn list_threads(&self, pid: i32) -> Result<Vec<i32>, Error> {
        let path = self.file(pid, "task");
        let entries = std::fs::read_dir(&path).map_err(|e| Error::from_io(&path, e))?;
        Ok(entries.flatten().filter_map(|e| whole_number(e.file_name().as_bytes())).collect())
    }

    /// The newest pid; `None` where the files are hidden (some sandboxes).
    pub fn open_last_pid(&self) -> Option<LastPid> {
        // The first (with `CONFIG_CHECKPOINT_RESTORE`) is cheaper: the other adds up the queues of all processors.
        let open = |name| KeptFile::open(self.root.join(name)).ok();
        open("sys/kernel/ns_last_pid").or_else(|| open("loadavg")).map(LastPid)
    }

    /// How many threads want to run; `None` where the file is hidden.
    pub fn open_running(&self) -> Option<Running> {
        KeptFile::open(self.root.join("loadavg")).ok().map(Running)
    }
}

fn whole_number(name: &[u8]) -> Option<i32> {
    name.iter()
        .all(u8::is_ascii_digit)
        .then(|| scan::number(name))
        .flatten()
        .and_then(|n| i32::try_from(n).ok())
}

/// `/proc/sys/kernel/ns_last_pid` or `/proc/loadavg`, kept open.
#[derive(Debug)]
pub struct LastPid(KeptFile);

impl LastPid {
    pub fn read(&self) -> Option<i32> {
        self.0.read_start(&mut [0; 64]).ok().and_then(last_pid::parse)
    }
}

/// `/proc/loadavg`, kept open.
#[derive(Debug)]
pub struct Running(KeptFile);

impl Running {
    pub fn read(&self) -> Option<u64> {
        self.0.read_start(&mut [0; 64]).ok().and_then(running::parse)
    }
}

/// The files of one process that are read at each tick.
#[derive(Debug)]
pub struct ProcessFiles {
    pid: i32,
    status: KeptFile,
    stat: KeptFile,
    statm: KeptFile,
}

impl ProcessFiles {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn read_status(&self, buffer: &mut Vec<u8>) -> Result<Status, Error> {
        status::parse(self.status.read(buffer)?)
    }

    pub fn read_stat(&self, buffer: &mut Vec<u8>) -> Result<Stat, Error> {
        stat::parse(self.stat.read(buffer)?)
    }

    #[inline]
    pub fn read_statm(&self) -> Result<StatmLine, Error> {
        let mut line = StatmLine::default();
        self.statm.read_start(&mut line.0)?;
        Ok(line)
    }
}

/// What `statm` says, unread: one that is to the letter the last one tells nothing new. The four numbers that are used fit
/// (an address has 57 bits at the most, so a number of pages 14 digits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatmLine([u8; 64]);

impl Default for StatmLine {
    #[inline]
    fn default() -> Self {
        Self([0; 64])
    }
}

impl StatmLine {
    pub fn parse(&self) -> Result<Statm, Error> {
        statm::parse(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_reads_itself() {
        let proc = Proc::default();
        let pid = std::process::id() as i32;
        let files = proc.process(pid).unwrap();
        let mut buffer = Vec::new();
        let status = files.read_status(&mut buffer).unwrap();
        assert_eq!(status.pid, pid);
        let rss = status.vm_rss_kib.unwrap();
        let parts =
            status.rss_anon_kib.unwrap() + status.rss_file_kib.unwrap() + status.rss_shmem_kib.unwrap();
        assert_eq!(rss, parts, "VmRSS is the sum of its kinds");
        assert_eq!(files.read_stat(&mut buffer).unwrap().pid, pid);
        let statm = files.read_statm().unwrap().parse().unwrap();
        assert!(statm.anon() > 0 && statm.text > 0 && statm.size > statm.resident);
        assert!(proc.list_pids().unwrap().contains(&pid));
        assert!(proc.shows_our_namespace());
        assert!(!proc.read_arguments(pid).unwrap().is_empty());
    }

    #[test]
    fn a_process_that_ended_is_gone_though_its_files_are_kept() {
        let proc = Proc::default();
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let files = proc.process(child.id() as i32).unwrap();
        let mut buffer = Vec::new();
        assert!(files.read_status(&mut buffer).is_ok());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(files.read_status(&mut buffer).unwrap_err().is_gone());
        assert!(files.read_stat(&mut buffer).unwrap_err().is_gone());
        assert!(files.read_statm().unwrap_err().is_gone());
    }

    #[test]
    fn a_thread_of_the_kernel_has_no_arguments() {
        let root = tempfile::tempdir().unwrap();
        let put = |pid: i32, comm: &str, arguments: &str| {
            let folder = root.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("comm"), comm).unwrap();
            std::fs::write(folder.join("cmdline"), arguments).unwrap();
        };
        let has = || Proc::new(root.path()).has_kernel_thread("kdamond");
        put(76, "kdamond.0\n", "./kdamond.0\0--pretend\0");
        put(77, "kswapd0\n", "");
        assert!(!has(), "a program that calls itself so, and another thread");
        put(78, "kdamond.0\n", "");
        assert!(has());
    }

    #[test]
    fn no_such_process_is_gone() {
        assert!(Proc::default().process(i32::MAX).unwrap_err().is_gone());
    }

    #[test]
    fn the_newest_pid_moves_when_a_process_is_made() {
        let last = Proc::default().open_last_pid().unwrap();
        let before = last.read().unwrap();
        std::process::Command::new("true").status().unwrap();
        assert_ne!(last.read().unwrap(), before);
    }
}
