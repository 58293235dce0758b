//! `manifest.json`: what the run was, readable without any tool.
//!
//! Written whole at the start (temporary file, then rename) and once more at the end. A run whose manifest
//! has no `end` was cut short: the log says where.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, FORMAT_VERSION,
    record::{Cost, Exit},
};

/// File names inside a run directory.
pub const MANIFEST_FILE: &str = "manifest.json";
pub const LOG_FILE: &str = "trace.nlog";
pub const OPEN_BLOCK_FILE: &str = "open.nlog";
/// Space that a run on a full disk gives back to itself, see [`crate::log`].
pub const RESERVE_FILE: &str = "reserve";
const TEMPORARY_FILE: &str = "manifest.json.new";
/// A manifest is a few kB; a directory from anywhere must not fill our memory.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format_version: u32,
    pub nilo_version: String,
    /// `run`, `attach`, `record` or `import`.
    pub verb: String,
    /// The command as typed, secrets masked.
    pub command: Vec<String>,
    pub name: String,
    pub directory: String,
    /// Start, RFC 3339 with offset.
    pub started: String,
    pub pid: i32,
    pub target_pid: i32,
    /// Allow-listed variables only.
    pub environment: Vec<(String, String)>,
    pub host: Host,
    pub limit: Option<Limit>,
    pub options: Options,
    /// What a reader should know about how the data was obtained (subreaper, fallbacks, missing counters).
    #[serde(default)]
    pub notes: Vec<String>,
    #[serde(default)]
    pub marks_file: Option<String>,
    #[serde(default)]
    pub control_socket: Option<String>,
    /// Which of several repeats into one directory this is (`--repeat`).
    #[serde(default)]
    pub repeat: Option<Repeat>,
    /// Allocations were asked for (`--allocs`): the tracker was injected, or why not.
    #[serde(default)]
    pub allocs: Option<Allocs>,
    /// Which of the ranks of a job this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
    #[serde(default)]
    pub end: Option<ManifestEnd>,
}

impl Manifest {
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(MANIFEST_FILE);
        let text = match read_bounded(&path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotARun { path: directory.to_owned() });
            }
            Err(source) => return Err(Error::Io { path, source }),
            Ok(text) => text,
        };
        let parse = || {
            // The version first: a newer manifest may not have the fields of this one.
            let Version { format_version } = serde_json::from_slice(&text)?;
            if format_version > FORMAT_VERSION {
                return Ok(Err(Error::Newer { found: format_version, supported: FORMAT_VERSION }));
            }
            serde_json::from_slice(&text).map(Ok)
        };
        parse().map_err(|source| Error::Manifest { path: path.clone(), source })?
    }

    /// Replaces the manifest whole: a reader, or a kill, finds the old one or the new one.
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let temporary = directory.join(TEMPORARY_FILE);
        let result = write_private(&temporary, &text)
            .and_then(|()| fs::rename(&temporary, directory.join(MANIFEST_FILE)));
        result.map_err(|source| {
            // What could not be written whole is worth nothing, and the disk may be full.
            drop(fs::remove_file(&temporary));
            Error::Io { path: directory.join(MANIFEST_FILE), source }
        })
    }
}

#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(path)?.take(MAX_MANIFEST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    // A writer that was killed may have left one.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text)
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub swap_bytes: u64,
    /// `always`, `madvise`, `never`; empty where unknown.
    pub transparent_hugepages: String,
    pub overcommit: String,
    /// How far a kernel RSS counter may lag, per process (per-CPU batching).
    pub counter_slack_bytes: u64,
    #[serde(default)]
    pub container: Option<String>,
    /// Graphics devices, in the order of the columns `device.N`.
    #[serde(default)]
    pub devices: Vec<String>,
}

/// The limit that binds at the start: the tightest cgroup ancestor, or the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub bytes: u64,
    /// For example `cgroup /user.slice/user-1000.slice` or `machine`.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    pub interval_ms: f64,
    pub budget_percent: f64,
    pub single: bool,
    pub exact_step_peaks: bool,
    pub cgroup: bool,
    pub before_s: f64,
    pub settle_s: f64,
    pub max_log_bytes: u64,
}

/// The recording of allocations; its result is in [`crate::allocs::ALLOCS_FILE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocs {
    /// As asked: `sampled`, `all`, `deep`, `later`.
    pub mode: String,
    pub mean_bytes: u64,
    pub exact_bytes: u64,
    pub depth: u32,
    /// The stream of events is kept.
    pub events: bool,
    /// A library was preloaded into the command.
    pub injected: bool,
    pub why_not: Option<String>,
    /// At the end: events that happened and were not recorded.
    pub lost_events: Option<u64>,
}

/// As the launcher told it; the directory is that of [`crate::job`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    pub launcher: String,
    pub job: String,
    pub rank: u64,
    pub restart: u64,
    #[serde(default)]
    pub local_rank: Option<u64>,
    #[serde(default)]
    pub world_size: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    pub number: u32,
    pub of: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestEnd {
    pub duration_s: f64,
    pub exit: Option<Exit>,
    pub cost: Cost,
    pub interval_achieved_ms: f64,
    pub ticks: u64,
    pub missed_ticks: u64,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            format_version: FORMAT_VERSION,
            nilo_version: "0.1.0".into(),
            verb: "run".into(),
            command: vec!["python".into(), "train.py".into()],
            name: "train".into(),
            directory: "/work".into(),
            started: "2026-01-02T03:04:05+00:00".into(),
            pid: 10,
            target_pid: 11,
            environment: vec![("OMP_NUM_THREADS".into(), "2".into())],
            host: Host::default(),
            limit: None,
            options: Options {
                interval_ms: 100.0,
                budget_percent: 1.0,
                single: false,
                exact_step_peaks: false,
                cgroup: false,
                before_s: 0.5,
                settle_s: 0.5,
                max_log_bytes: 256 << 20,
            },
            notes: Vec::new(),
            marks_file: None,
            control_socket: None,
            repeat: None,
            allocs: None,
            rank: None,
            end: None,
        }
    }

    #[test]
    fn a_manifest_comes_back_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        manifest().write(dir.path()).unwrap();
        fs::write(dir.path().join(TEMPORARY_FILE), "left by a kill").unwrap();
        manifest().write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), manifest());
        let mode = fs::metadata(dir.path().join(MANIFEST_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_newer_manifest_is_refused_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(MANIFEST_FILE), r#"{"format_version": 2, "all": "new"}"#).unwrap();
        let error = Manifest::read(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Newer { found: 2, supported: 1 }));
        assert!(error.to_string().contains("newer nilo") && error.hint().unwrap().contains("upgrade"));
    }

    #[test]
    fn a_directory_without_manifest_is_no_run() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Manifest::read(dir.path()), Err(Error::NotARun { .. })));
        fs::write(dir.path().join(MANIFEST_FILE), "{").unwrap();
        assert!(matches!(Manifest::read(dir.path()), Err(Error::Manifest { .. })));
    }
}
