//! `job.json` and the directories below it: many ranks of one job, each an ordinary run directory.
//!
//! ```text
//! JOB.nilo/job.json
//! JOB.nilo/node=HOST/rank=3/restart=0/manifest.json, trace.nlog, …
//! ```
//! The one invariant: `job.json` appears whole or not at all, and is never written again. What happened is in the runs.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, FORMAT_VERSION};

pub const JOB_FILE: &str = "job.json";
/// In a run directory that is recorded elsewhere first: on which host, and where.
pub const SPOOLED_FILE: &str = "spooled.json";
const MAX_JOB_BYTES: u64 = 1 << 20;

/// What all ranks of a job have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub format_version: u32,
    pub nilo_version: String,
    /// For example `torchrun`, `slurm`, `openmpi`.
    pub launcher: String,
    /// As the launcher calls the job; empty where it has no name.
    pub id: String,
    pub name: String,
    /// The command of the rank that came first, secrets masked.
    pub command: Vec<String>,
    /// Start of the launcher where the first rank ran, RFC 3339.
    pub started: String,
    #[serde(default)]
    pub world_size: Option<u64>,
}

/// Where one recording of a rank is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankDirectory {
    pub rank: u64,
    pub restart: u64,
    pub node: String,
    pub path: PathBuf,
}

impl Job {
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(JOB_FILE);
        let mut text = Vec::new();
        let read = fs::File::open(&path).and_then(|file| file.take(MAX_JOB_BYTES).read_to_end(&mut text));
        read.map_err(|source| Error::Io { path: path.clone(), source })?;
        let job: Self = serde_json::from_slice(&text).map_err(|source| Error::Manifest { path, source })?;
        if job.format_version > FORMAT_VERSION {
            return Err(Error::Newer { found: job.format_version, supported: FORMAT_VERSION });
        }
        Ok(job)
    }

    /// Writes it unless somebody did: whole, by a link, which is atomic on network file systems too.
    pub fn write_first(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(JOB_FILE);
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        publish(&path, &text).map(drop).map_err(|source| Error::Io { path, source })
    }
}

pub fn is_job(directory: &Path) -> bool {
    directory.join(JOB_FILE).exists()
}

/// Makes a file with this text appear at `path`; false where there was one.
pub fn publish(path: &Path, text: &[u8]) -> io::Result<bool> {
    let mut temporary = path.as_os_str().to_owned();
    let _ = write!(temporary, ".{}.{}", host_name(), std::process::id());
    let temporary = PathBuf::from(temporary);
    drop(fs::remove_file(&temporary)); // of a process of our number that was killed
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text))
        .and_then(|()| match fs::hard_link(&temporary, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // No links here (some FUSE, exFAT): first come all the same, but a reader may see it half.
            Err(_) => match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(mut file) => file.write_all(text).map(|()| true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            },
        });
    drop(fs::remove_file(&temporary));
    written
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map(|name| escape(name.trim())).unwrap_or_default()
}

/// `node=HOST/rank=3/restart=0`, as engines that know Hive partitions read it.
pub fn place(node: &str, rank: u64, restart: u64) -> PathBuf {
    [format!("node={}", escape(node)), format!("rank={rank}"), format!("restart={restart}")].iter().collect()
}

/// All but plain letters is %-escaped.
pub fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *byte == b'%');
        out.push(value.unwrap_or(*byte));
        at += if value.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// All recordings of a job, in the order of rank and restart.
pub fn list(directory: &Path) -> Vec<RankDirectory> {
    let mut found = Vec::new();
    for (node, path) in entries(directory, "node=") {
        for (rank, path) in entries(&path, "rank=") {
            for (restart, path) in entries(&path, "restart=") {
                if let (Ok(rank), Ok(restart)) = (rank.parse(), restart.parse()) {
                    found.push(RankDirectory { rank, restart, node: unescape(&node), path });
                }
            }
        }
    }
    found.sort();
    found
}

fn entries(directory: &Path, prefix: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| {
        let name = entry.file_name();
        Some((name.to_str()?.strip_prefix(prefix)?.to_owned(), entry.path()))
    };
    entries.filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            format_version: FORMAT_VERSION,
            nilo_version: "0.1.0".into(),
            launcher: "slurm".into(),
            id: "17.0".into(),
            name: "train".into(),
            command: vec!["python".into(), "train.py".into()],
            started: "2026-01-02T03:04:05+00:00".into(),
            world_size: Some(8),
        }
    }

    #[test]
    fn the_first_job_file_stays() {
        let root = tempfile::tempdir().unwrap();
        job().write_first(root.path()).unwrap();
        Job { id: "18.0".into(), ..job() }.write_first(root.path()).unwrap();
        assert_eq!(Job::read(root.path()).unwrap(), job());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing temporary is left");
        assert!(is_job(root.path()) && !is_job(Path::new("/nonexistent")));
    }

    #[test]
    fn ranks_are_found_by_their_places_in_the_order_of_numbers() {
        let root = tempfile::tempdir().unwrap();
        for (node, rank, restart) in [("b/ü", 10, 0), ("a", 9, 1), ("a", 9, 0)] {
            fs::create_dir_all(root.path().join(place(node, rank, restart))).unwrap();
        }
        fs::create_dir_all(root.path().join("node=a/rank=x/restart=0")).unwrap();
        let found = list(root.path());
        let told: Vec<_> = found.iter().map(|it| (it.rank, it.restart, it.node.as_str())).collect();
        assert_eq!(told, [(9, 0, "a"), (9, 1, "a"), (10, 0, "b/ü")]);
    }
}
