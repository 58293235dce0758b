//! The tracker's bytes, and their way back to a file that a command can preload.
//!
//! Not for: deciding when to preload. The one invariant: a file that [`unpack`] returns holds exactly
//! [`library`], belongs to this user, and cannot be written by anybody.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracker.so"));

/// The shared library; empty in builds that were only checked.
pub fn library() -> &'static [u8] {
    LIBRARY
}

/// True if this build has no tracker in it.
pub fn is_placeholder() -> bool {
    LIBRARY.is_empty()
}

/// Why the tracker cannot be put into a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("this build of nilo has no tracker in it")]
    Placeholder,
    #[error("{path}: the dynamic linker takes a space or a colon in a preloaded path for its end")]
    Separator { path: PathBuf },
    #[error("{path}: not a directory of this user that only the user can write to")]
    NotPrivate { path: PathBuf },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Writes the library below `folder` (made if needed) and returns its path. What is there already is used
/// again if it is the same.
pub fn unpack(folder: &Path) -> Result<PathBuf, Error> {
    if is_placeholder() {
        return Err(Error::Placeholder);
    }
    unpack_bytes(folder, LIBRARY)
}

fn unpack_bytes(folder: &Path, library: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(format!("nilo-tracker-{:016x}.so", fingerprint(library)));
    if path.to_string_lossy().contains([' ', ':', '$']) {
        return Err(Error::Separator { path });
    }
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at(folder))?;
    check_private(folder)?;
    if !is_ours(&path, library) {
        write_whole(&path, library).map_err(at(&path))?;
    }
    Ok(path)
}

/// Nobody but this user can put something else into the folder.
fn check_private(folder: &Path) -> Result<(), Error> {
    let facts =
        fs::symlink_metadata(folder).map_err(|source| Error::Io { path: folder.to_owned(), source })?;
    let own = own_id().is_none_or(|own| own == facts.uid());
    let sound = facts.is_dir() && facts.mode() & 0o022 == 0 && own;
    if sound { Ok(()) } else { Err(Error::NotPrivate { path: folder.to_owned() }) }
}

/// The user that this process is; the kernel says so through the owner of its own entry.
fn own_id() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|facts| facts.uid())
}

fn is_ours(path: &Path, library: &[u8]) -> bool {
    let right_kind = fs::symlink_metadata(path).is_ok_and(|facts| {
        facts.is_file() && facts.mode() & 0o222 == 0 && facts.len() == library.len() as u64
    });
    right_kind && fs::read(path).is_ok_and(|bytes| bytes == library)
}

/// The file appears whole or not at all, and is never writable under its name.
fn write_whole(path: &Path, library: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let result = (|| {
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(&temporary)?;
        file.write_all(library)?;
        file.set_permissions(Permissions::from_mode(0o555))?;
        File::sync_data(&file)?;
        fs::rename(&temporary, path)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// FNV-1a: names the content. The content itself is compared before a file is used again.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_is_whole_and_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = unpack_bytes(&folder.path().join("a/b"), b"bytes").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o555);
        let again = fs::metadata(unpack_bytes(&folder.path().join("a/b"), b"bytes").unwrap()).unwrap().ino();
        assert_eq!(again, fs::metadata(&path).unwrap().ino());
    }

    #[test]
    fn a_changed_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = unpack_bytes(folder.path(), b"bytes").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"other").unwrap();
        assert_eq!(unpack_bytes(folder.path(), b"bytes").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(unpack_bytes(folder.path(), b"x"), Err(Error::NotPrivate { .. })));
    }

    #[test]
    fn a_path_that_the_linker_would_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let spaced = folder.path().join("my folder");
        assert!(matches!(unpack_bytes(&spaced, b"x"), Err(Error::Separator { .. })));
    }

    #[test]
    fn the_library_is_an_elf_file_or_nothing() {
        assert!(is_placeholder() || library().starts_with(b"\x7fELF"));
    }
}
