use std::path::{Path, PathBuf};

/// Why a recording could not begin. After the start nothing here is fatal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run `{command}`: {source}")]
    Exec { command: String, source: std::io::Error },
    #[error("cannot create the run directory {}: {source}", path.display())]
    RunDirectory { path: PathBuf, source: std::io::Error },
    #[error("{} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot start: {what}: {source}")]
    System { what: &'static str, source: std::io::Error },
    #[error("no process {pid}")]
    NoProcess { pid: i32 },
    #[error("cannot give the run a cgroup of its own: {0}")]
    Cgroup(String),
    #[error(transparent)]
    Kernel(#[from] nilometer_kernel::Error),
    #[error(transparent)]
    Log(#[from] std::io::Error),
    #[error("cannot write the recording: {0}")]
    Store(String),
}

/// What to try where a program is not there. Debian and Ubuntu have no `python`.
pub fn not_found_hint(program: &str) -> String {
    if program == "python" {
        return "it may be called python3 here:  command -v python3".into();
    }
    format!("is `{program}` spelt right and on PATH?  command -v {program}")
}

impl Error {
    /// What to try next, if there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exec { command, source } if source.kind() == std::io::ErrorKind::NotFound => {
                Some(not_found_hint(command))
            }
            Self::Exec { command, .. } if command.contains('/') && Path::new(command).is_dir() => {
                Some(format!("it is a directory; name a program in it:  ls {command}"))
            }
            Self::Exec { command, source } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Some(format!("make it executable, or name its interpreter:  chmod +x {command}"))
            }
            Self::RunDirectory { .. } => Some("choose another place:  -o /tmp/my.nilo".into()),
            Self::Exists { .. } => Some("choose another name, or replace it:  --force".into()),
            Self::NoProcess { .. } => Some("see your Python processes by size:  nilo".into()),
            _ => None,
        }
    }
}
