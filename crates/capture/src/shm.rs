//! Shared memory that outlives a run: files in `/dev/shm`, System V segments, other tmpfs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nilometer_kernel::read::system::{SharedFile, list_shared_files, read_sysv_segments, read_tmpfs_usage};
use nilometer_trace::record::Remains;

/// Less than this is not worth a line.
const WORTH_BYTES: u64 = 64 << 10;
/// At most so many names; the rest is summed.
const MOST_NAMES: usize = 8;
/// Files of one family whose times are kept.
const MOST_BIRTHS: usize = 256;

/// What is there at one moment.
#[derive(Debug, Clone, Default)]
pub struct SharedMemory {
    files: BTreeMap<PathBuf, SharedFile>,
    segments: BTreeMap<u64, u64>,
    tmpfs: BTreeMap<PathBuf, u64>,
}

/// Files with like names: `psm_4a5b6c7d`, `batch-1`, `batch-2`.
#[derive(Debug, Default)]
struct Family {
    /// The first of them.
    name: String,
    files: u64,
    bytes: u64,
    births: Vec<(u64, u64)>,
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

    /// What `later` has more than this, by name, largest first. `clock_ns`: the realtime clock minus the log's.
    pub fn growth(&self, later: &Self, clock_ns: i64) -> Vec<Remains> {
        let mut grown = self.families(later, clock_ns);
        // /dev/shm itself is told file by file.
        let in_shm: u64 = grown.iter().map(|remains| remains.bytes).sum();
        grown.retain(|remains| remains.bytes >= WORTH_BYTES);
        collect(&self.segments, &later.segments, |id| format!("System V segment {id}"), &mut grown);
        let others = grown.len();
        collect(&self.tmpfs, &later.tmpfs, |path| format!("tmpfs {}", path.display()), &mut grown);
        let told =
            |remains: &Remains| remains.what == "tmpfs /dev/shm" && remains.bytes <= in_shm + WORTH_BYTES;
        let mut place = 0;
        grown.retain(|remains| {
            place += 1;
            place <= others || !told(remains)
        });
        grown.sort_by_key(|remains| std::cmp::Reverse(remains.bytes));
        summarise(grown)
    }

    fn families(&self, later: &Self, clock_ns: i64) -> Vec<Remains> {
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        for (path, file) in &later.files {
            let more = file.bytes.saturating_sub(self.files.get(path).map_or(0, |before| before.bytes));
            if more > 0 {
                let name = path.display().to_string();
                let family = families.entry(family_name(&name)).or_default();
                family.add(name, more, file.written_ns.saturating_add_signed(clock_ns.saturating_neg()));
            }
        }
        families.into_iter().map(|(name, family)| family.remains(&name)).collect()
    }
}

impl Family {
    fn add(&mut self, name: String, bytes: u64, at_ns: u64) {
        if self.files == 0 {
            self.name = name;
        }
        self.files += 1;
        self.bytes += bytes;
        self.births.push((at_ns, bytes));
    }

    /// Of many births as many as are needed to see a trend: neighbours are put together.
    fn remains(mut self, name: &str) -> Remains {
        self.births.sort_unstable();
        let together = self.births.len().div_ceil(MOST_BIRTHS).max(1);
        let sum = |births: &[(u64, u64)]| (births[0].0, births.iter().map(|birth| birth.1).sum());
        let births = self.births.chunks(together).map(sum).collect();
        let what = if self.files == 1 { self.name } else { format!("{name} ({} files)", self.files) };
        Remains { what, bytes: self.bytes, births }
    }
}

/// Numbers and the like are what differs within a family.
fn family_name(name: &str) -> String {
    let mut family = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
        let numbers = rest.as_bytes().iter().take(run).any(u8::is_ascii_digit);
        if run > 0 && numbers {
            family.push('#');
            rest = &rest[run..];
        } else {
            family.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    family
}

fn collect<K: Ord>(
    before: &BTreeMap<K, u64>,
    after: &BTreeMap<K, u64>,
    name: impl Fn(&K) -> String,
    grown: &mut Vec<Remains>,
) {
    for (key, bytes) in after {
        let more = bytes.saturating_sub(before.get(key).copied().unwrap_or(0));
        if more >= WORTH_BYTES {
            grown.push(Remains { what: name(key), bytes: more, births: Vec::new() });
        }
    }
}

fn summarise(mut grown: Vec<Remains>) -> Vec<Remains> {
    let rest = grown.split_off(grown.len().min(MOST_NAMES));
    if !rest.is_empty() {
        let bytes = rest.iter().map(|remains| remains.bytes).sum();
        grown.push(Remains { what: format!("{} more", rest.len()), bytes, births: Vec::new() });
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64, written_ns: u64) -> SharedFile {
        SharedFile { bytes, written_ns }
    }

    #[test]
    fn only_growth_counts_and_shm_is_told_once() {
        let mut before = SharedMemory::default();
        before.files.insert("/dev/shm/old".into(), file(1 << 20, 0));
        before.tmpfs.insert("/dev/shm".into(), 1 << 20);
        let mut after = SharedMemory::default();
        after.files.insert("/dev/shm/old".into(), file(1 << 20, 0));
        after.files.insert("/dev/shm/new".into(), file(3 << 20, 700));
        after.segments.insert(7, 1 << 20);
        after.tmpfs.insert("/dev/shm".into(), 4 << 20);
        after.tmpfs.insert("/run".into(), 100);
        let expected = [
            Remains { what: "/dev/shm/new".into(), bytes: 3 << 20, births: vec![(200, 3 << 20)] },
            Remains { what: "System V segment 7".into(), bytes: 1 << 20, births: Vec::new() },
        ];
        assert_eq!(before.growth(&after, 500), expected);
    }

    #[test]
    fn small_files_with_like_names_are_one_family() {
        let mut after = SharedMemory::default();
        for n in 0..10_u64 {
            after.files.insert(format!("/dev/shm/psm_{n}a3f").into(), file(10_000, n));
        }
        let found = SharedMemory::default().growth(&after, 0);
        assert_eq!((found.len(), found[0].bytes, found[0].births.len()), (1, 100_000, 10));
        assert_eq!(found[0].what, "/dev/shm/psm_# (10 files)");
        assert_eq!(family_name("/dev/shm/nilo-leaks-412-7"), "/dev/shm/nilo-leaks-#-#");
    }
}
