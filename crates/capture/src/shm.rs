//! Shared memory that outlives a run: files in `/dev/shm`, System V segments, other tmpfs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nilometer_kernel::read::system::{list_shared_files, read_sysv_segments, read_tmpfs_usage};
use nilometer_trace::record::EventKind;

/// Less than this is not worth a line.
const WORTH_BYTES: u64 = 64 << 10;
/// At most so many names; the rest is summed.
const MOST_NAMES: usize = 8;

/// What is there at one moment.
#[derive(Debug, Default)]
pub struct SharedMemory {
    files: BTreeMap<PathBuf, u64>,
    segments: BTreeMap<u64, u64>,
    tmpfs: BTreeMap<PathBuf, u64>,
}

impl SharedMemory {
    pub fn read() -> Self {
        let proc = Path::new("/proc");
        Self {
            files: list_shared_files(Path::new("/dev/shm")),
            segments: read_sysv_segments(proc),
            tmpfs: read_tmpfs_usage(proc),
        }
    }

    /// What `later` has more than this, by name, largest first.
    pub fn growth(&self, later: &Self) -> Vec<EventKind> {
        let mut grown: Vec<(String, u64)> = Vec::new();
        collect(&self.files, &later.files, |path| path.display().to_string(), &mut grown);
        collect(&self.segments, &later.segments, |id| format!("System V segment {id}"), &mut grown);
        // /dev/shm itself is told file by file.
        let in_shm: u64 = grown.iter().filter(|(name, _)| name.starts_with("/dev/shm")).map(|(_, b)| b).sum();
        collect(&self.tmpfs, &later.tmpfs, |path| format!("tmpfs {}", path.display()), &mut grown);
        grown.retain(|(name, bytes)| name != "tmpfs /dev/shm" || *bytes > in_shm + WORTH_BYTES);
        grown.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        summarise(grown)
    }
}

fn collect<K: Ord>(
    before: &BTreeMap<K, u64>,
    after: &BTreeMap<K, u64>,
    name: impl Fn(&K) -> String,
    grown: &mut Vec<(String, u64)>,
) {
    for (key, bytes) in after {
        let more = bytes.saturating_sub(before.get(key).copied().unwrap_or(0));
        if more >= WORTH_BYTES {
            grown.push((name(key), more));
        }
    }
}

fn summarise(mut grown: Vec<(String, u64)>) -> Vec<EventKind> {
    let rest = grown.split_off(grown.len().min(MOST_NAMES));
    if !rest.is_empty() {
        grown.push((format!("{} more", rest.len()), rest.iter().map(|(_, bytes)| bytes).sum()));
    }
    grown.into_iter().map(|(what, bytes)| EventKind::Remains { what, bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_counts_and_shm_is_told_once() {
        let mut before = SharedMemory::default();
        before.files.insert("/dev/shm/old".into(), 1 << 20);
        before.tmpfs.insert("/dev/shm".into(), 1 << 20);
        let mut after = SharedMemory::default();
        after.files.insert("/dev/shm/old".into(), 1 << 20);
        after.files.insert("/dev/shm/new".into(), 3 << 20);
        after.segments.insert(7, 1 << 20);
        after.tmpfs.insert("/dev/shm".into(), 4 << 20);
        after.tmpfs.insert("/run".into(), 100);
        let expected = [
            EventKind::Remains { what: "/dev/shm/new".into(), bytes: 3 << 20 },
            EventKind::Remains { what: "System V segment 7".into(), bytes: 1 << 20 },
        ];
        assert_eq!(before.growth(&after), expected);
    }
}
