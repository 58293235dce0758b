//! Files that somebody waits for, who asked through the control socket: each appears whole, or a reason beside it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Makes a private file appear at `path`, whole or not at all. What `fill` writes through must keep nothing back.
pub(crate) fn publish(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let part = path.with_extension("part");
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    let published = fill(&file).and_then(|()| fs::rename(&part, path));
    if published.is_err() {
        let _ = fs::remove_file(&part); // of no use, and perhaps the disk is full
    }
    published
}

/// Tells whoever waits for `path` why it will not come.
pub(crate) fn refuse(path: &Path, reason: &str) {
    let _ = fs::write(path.with_extension("error"), reason);
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_answer_is_there_whole_and_private_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.json");
        let refused = publish(&path, |mut file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(refused.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of it");
        publish(&path, |mut file| file.write_all(b"whole")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
