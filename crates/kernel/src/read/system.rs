//! The whole machine: `/proc/meminfo`, `/proc/vmstat`, `/proc/pressure/memory`, tmpfs and shared memory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::kept::{KeptFile, read_once};
use crate::Error;
use crate::parse::fields::FieldTable;
use crate::parse::pressure::{self, Pressure};
use crate::parse::{mountinfo, scan};

/// The files that are read at each tick.
#[derive(Debug)]
pub struct SystemFiles {
    meminfo: KeptFile,
    vmstat: Option<KeptFile>,
    pressure: Option<KeptFile>,
}

impl SystemFiles {
    /// meminfo must be there; vmstat and pressure may be missing (sandboxes, kernels without PSI).
    pub fn open(proc_root: &Path) -> Result<Self, Error> {
        Ok(Self {
            meminfo: KeptFile::open(proc_root.join("meminfo"))?,
            vmstat: KeptFile::open(proc_root.join("vmstat")).ok(),
            pressure: KeptFile::open(proc_root.join("pressure/memory")).ok(),
        })
    }

    /// True when the set of fields changed.
    pub fn read_meminfo(&self, table: &mut FieldTable, buffer: &mut Vec<u8>) -> Result<bool, Error> {
        Ok(table.parse(self.meminfo.read(buffer)?))
    }

    pub fn read_vmstat(&self, table: &mut FieldTable, buffer: &mut Vec<u8>) -> bool {
        let text = self.vmstat.as_ref().and_then(|file| file.read(buffer).ok());
        text.is_some_and(|text| table.parse(text))
    }

    pub fn read_pressure(&self, buffer: &mut Vec<u8>) -> Option<Pressure> {
        pressure::parse(self.pressure.as_ref()?.read(buffer).ok()?)
    }
}

/// What is left, in bytes, and how many there are to share it: one system call, a tenth of `/proc/meminfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    pub total: u64,
    /// `MemFree`.
    pub free: u64,
    /// `SwapFree`.
    pub swap: u64,
    /// Threads on the machine, those of the kernel and the dead that nobody waited for included; the lowest 16 bits of
    /// their number (`nr_threads`, kernel/fork.c).
    pub threads: u16,
}

#[inline]
pub fn read_left() -> Option<Left> {
    let info = nix::sys::sysinfo::sysinfo().ok()?;
    Some(Left {
        total: info.ram_total(),
        free: info.ram_unused(),
        swap: info.swap_free(),
        threads: info.process_count(),
    })
}

/// Are there processors that run without a tick (`nohz_full=`, since Linux 3.10)? CPU time that is used on them is
/// told up to a second late (`sched_tick_remote`, kernel/sched/core.c).
pub fn has_tickless_processors(sys_root: &Path) -> bool {
    let list = std::fs::read(sys_root.join("devices/system/cpu/nohz_full")).unwrap_or_default();
    list.iter().any(u8::is_ascii_digit) // `(null)` or nothing where there are none
}

/// Bytes in use of each mounted tmpfs, by mount point; each file system once.
pub fn read_tmpfs_usage(proc_root: &Path) -> BTreeMap<PathBuf, u64> {
    let mut buffer = Vec::new();
    let Ok(length) = read_once(&proc_root.join("self/mountinfo"), &mut buffer) else {
        return BTreeMap::new();
    };
    let mut seen = Vec::new();
    let mut usage = BTreeMap::new();
    for mount in mountinfo::parse(&buffer[..length]) {
        if mount.fs_type != "tmpfs" || seen.contains(&mount.device) {
            continue;
        }
        if let Ok(stat) = nix::sys::statvfs::statvfs(Path::new(&mount.mount_point)) {
            let used = stat.blocks().saturating_sub(stat.blocks_free()).saturating_mul(stat.fragment_size());
            usage.insert(PathBuf::from(&mount.mount_point), used);
        }
        seen.push(mount.device);
    }
    usage
}

/// A file in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedFile {
    /// What it holds, not its nominal size.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub written_ns: u64,
}

/// Files in a shared-memory directory.
pub fn list_shared_files(directory: &Path) -> BTreeMap<PathBuf, SharedFile> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            let written_ns = metadata.mtime().max(0).unsigned_abs() * 1_000_000_000
                + metadata.mtime_nsec().max(0).unsigned_abs();
            let file = SharedFile { bytes: metadata.blocks() * 512, written_ns };
            metadata.is_file().then(|| (entry.path(), file))
        })
        .collect()
}

/// System V segments by id, with their bytes in memory and in swap (`/proc/sysvipc/shm`, since Linux 2.6.36).
pub fn read_sysv_segments(proc_root: &Path) -> BTreeMap<u64, u64> {
    let mut buffer = Vec::new();
    let Ok(length) = read_once(&proc_root.join("sysvipc/shm"), &mut buffer) else { return BTreeMap::new() };
    scan::lines(&buffer[..length])
        .skip(1)
        .filter_map(|line| {
            let words: Vec<_> = scan::words(line).collect();
            let swapped = words.get(15).and_then(|word| scan::number(word)).unwrap_or(0);
            Some((scan::number(words.get(1)?)?, scan::number(words.get(14)?)?.saturating_add(swapped)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_without_a_tick_are_listed() {
        let root = tempfile::tempdir().unwrap();
        assert!(!has_tickless_processors(root.path()), "an older kernel");
        let cpu = root.path().join("devices/system/cpu");
        std::fs::create_dir_all(&cpu).unwrap();
        for (text, expected) in [("(null)\n", false), ("\n", false), ("2-63\n", true)] {
            std::fs::write(cpu.join("nohz_full"), text).unwrap();
            assert_eq!(has_tickless_processors(root.path()), expected);
        }
    }

    #[test]
    fn the_machine_has_memory() {
        let files = SystemFiles::open(Path::new("/proc")).unwrap();
        let (mut table, mut buffer) = (FieldTable::all(), Vec::new());
        assert!(files.read_meminfo(&mut table, &mut buffer).unwrap());
        let total = table.get("MemTotal").unwrap();
        let left = read_left().unwrap();
        assert_eq!(left.total, total * 1024);
        assert!(left.free < left.total);
        assert!(table.get("MemFree").unwrap() < total);
        assert!(!files.read_meminfo(&mut table, &mut buffer).unwrap(), "same layout the second time");
        let mut vmstat = FieldTable::only(crate::parse::fields::tells_of_pressure);
        files.read_vmstat(&mut vmstat, &mut buffer);
        assert!(vmstat.get("oom_kill").is_some(), "the whole of vmstat is read, not its first page");
    }

    #[test]
    fn a_shared_file_counts_what_it_holds() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = std::fs::File::create(directory.path().join("sparse")).unwrap();
        file.set_len(1 << 30).unwrap();
        std::os::unix::fs::FileExt::write_at(&file, &[1; 4096], 0).unwrap();
        let files = list_shared_files(directory.path());
        assert_eq!(files.values().map(|file| file.bytes).collect::<Vec<_>>(), [4096]);
    }
}
