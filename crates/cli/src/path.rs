//! Files that somebody named: what is said when one cannot be read or written, and what to try then.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::anyhow;

use crate::cmd::exit;
use crate::talk::Failure;

/// What went wrong with a path becomes a failure that names it, and a next step.
pub trait AtPath<T> {
    fn reading(self, path: &Path) -> Result<T, Failure>;
    fn writing(self, path: &Path) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> AtPath<T> for Result<T, E> {
    fn reading(self, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| failure(error.into(), "read", path, to_read))
    }

    fn writing(self, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| failure(error.into(), "write", path, to_write))
    }
}

fn failure(error: anyhow::Error, verb: &str, path: &Path, hint: fn(ErrorKind, &Path) -> String) -> Failure {
    let own = error.chain().find_map(|cause| cause.downcast_ref::<nilometer_trace::Error>()?.hint());
    let hint = own.map_or_else(|| hint(kind(&error), path), str::to_owned);
    Failure::from(error.context(format!("cannot {verb} {}", path.display()))).hint(hint)
}

fn kind(error: &anyhow::Error) -> ErrorKind {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    cause.map_or(ErrorKind::Other, io::Error::kind)
}

/// What to try where this could not be read.
pub fn to_read(kind: ErrorKind, path: &Path) -> String {
    match kind {
        ErrorKind::NotFound => format!("see what is there:  ls {}", first_that_exists(path).display()),
        ErrorKind::IsADirectory => format!("name a file of it:  ls {}", path.display()),
        ErrorKind::PermissionDenied => format!("see who may:  ls -ld {}", path.display()),
        _ if path.is_dir() => format!("see what is in it:  ls -l {}", path.display()),
        _ => format!("see what it is:  file {}", path.display()),
    }
}

/// What to try where this could not be written.
pub fn to_write(kind: ErrorKind, path: &Path) -> String {
    let folder = folder_of(path).display();
    match kind {
        ErrorKind::NotFound => format!("make its directory:  mkdir -p {folder}"),
        ErrorKind::IsADirectory => format!("name a file, not a directory:  ls -d {}", path.display()),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("see what is full:  df -h {folder}"),
        _ => format!("choose another place, or see who may write there:  ls -ld {folder}"),
    }
}

/// Whether it is somebody else's and closed to us, which looks as if nothing were there: said with whose it is.
pub fn closed_to_us(path: &Path) -> Option<Failure> {
    let inside = path.join("manifest.json"); // any name would do: to look for it needs the right to go in
    let error = std::fs::metadata(&inside).err()?;
    if error.kind() != ErrorKind::PermissionDenied {
        return None;
    }
    let closed = inside.ancestors().skip(1).find(|place| std::fs::metadata(place).is_ok())?;
    let uid = std::fs::metadata(closed).ok()?.uid();
    let name = user_name(uid);
    let owner = name.clone().unwrap_or_else(|| format!("user {uid}"));
    let (path, closed) = (path.display(), closed.display());
    let what = anyhow!("cannot read {path}: permission denied; {closed} belongs to {owner}");
    let is_ours = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == uid);
    let hint = if is_ours {
        format!("open it:  chmod u+rwx {closed}")
    } else {
        let login = name.unwrap_or_else(|| format!("'#{uid}'"));
        format!("ask {owner} for a copy, or read it as {owner}:  sudo -u {login} nilo …")
    };
    Some(Failure::from(what).exiting(exit::NOT_AVAILABLE).hint(hint))
}

/// As this machine calls a user, if it does.
fn user_name(uid: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let uid = uid.to_string();
    let found = users.find(|user| user.get(2) == Some(&uid.as_str()))?;
    found.first().map(|name| (*name).to_owned())
}

/// `.` for a name alone.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn first_that_exists(path: &Path) -> &Path {
    let mut above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    above.find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(failure: Result<(), Failure>) -> (String, String) {
        let failure = failure.unwrap_err();
        (format!("{:#}", failure.error), failure.hint.unwrap())
    }

    #[test]
    fn the_path_is_named_and_so_is_a_next_step() {
        let missing = || Err::<(), _>(io::Error::from(ErrorKind::NotFound));
        let path = Path::new("/proc/self/no/such.heap");
        assert_eq!(
            told(missing().reading(path)),
            (
                "cannot read /proc/self/no/such.heap: entity not found".into(),
                "see what is there:  ls /proc/self".into()
            )
        );
        assert_eq!(told(missing().writing(path)).1, "make its directory:  mkdir -p /proc/self/no");
        assert_eq!(told(missing().reading(Path::new("such.heap"))).1, "see what is there:  ls .");
    }

    #[test]
    fn a_cause_within_is_found() {
        let error = anyhow::Error::from(io::Error::from(ErrorKind::StorageFull)).context("the log");
        assert_eq!(told(Err(error).writing(Path::new("run/log"))).1, "see what is full:  df -h run");
    }
}
