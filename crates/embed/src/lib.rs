//! The tracker's bytes and the hook for Pythons, and their way back to files that a command can load.
//!
//! Not for: deciding when to preload. The one invariant: a file that [`unpack`] leaves holds exactly
//! the shared library, belongs to this user, and cannot be written by anybody.

mod hook;
mod memory;
mod obstacle;
mod stub;

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use hook::unpack_hook;
pub use obstacle::{Obstacle, read_obstacle};

/// The shared library; empty in builds that were only checked.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracker.so"));

/// True if this build has no tracker in it.
fn is_placeholder() -> bool {
    LIBRARY.is_empty()
}

/// Why the tracker cannot be put into a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("this build of nilo has no tracker in it")]
    Placeholder,
    #[error(
        "{path}: the dynamic linker or Python takes a space, a colon or a dollar in this path for its own sign"
    )]
    Separator { path: PathBuf },
    #[error("{path}: not a directory of this user that only the user can write to")]
    NotPrivate { path: PathBuf },
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// What glibc puts for `$PLATFORM`, by the folder that is meant: 64-bit programs find the tracker, 32-bit ones a
/// library that does nothing. Other C libraries do not know the sign: they find nothing and say nothing.
const PLATFORMS: [(&str, &[&str]); 2] =
    [("x86_64", &["haswell", "xeon_phi"]), ("i386", &["i486", "i586", "i686"])];
const SIGN: &str = "$PLATFORM";
const NAME: &str = "nilo-tracker.so";

/// The tracker where a command can load it.
#[derive(Debug)]
pub struct Unpacked {
    /// What belongs into `LD_PRELOAD`.
    pub preload: PathBuf,
    /// The library when no folder could hold it: it is there as long as this is open. 32-bit programs then complain.
    pub held: Option<File>,
}

/// Puts the library below the first of `folders` where it may be loaded, else into memory.
pub fn unpack_somewhere(folders: &[&Path]) -> Result<Unpacked, Error> {
    let mut problem = Error::Placeholder;
    for folder in folders {
        match unpack(folder) {
            Ok(_) if memory::is_noexec(folder) => {}
            Ok(preload) => return Ok(Unpacked { preload, held: None }),
            Err(error) => problem = error,
        }
    }
    if is_placeholder() {
        return Err(problem);
    }
    let (file, preload) = memory::write_nameless(LIBRARY)
        .map_err(|source| Error::Io { path: PathBuf::from("memfd"), source })?;
    Ok(Unpacked { preload, held: Some(file) })
}

/// Writes the library below `folder` (made if needed) and returns what belongs into `LD_PRELOAD`: a path with a sign
/// in it that the dynamic linker of each program replaces. What is there already is used again if it is the same.
pub fn unpack(folder: &Path) -> Result<PathBuf, Error> {
    if is_placeholder() {
        return Err(Error::Placeholder);
    }
    unpack_bytes(folder, LIBRARY)
}

/// The file that a 64-bit program loads for what [`unpack`] returned.
pub fn file_of(preload: &Path) -> PathBuf {
    PathBuf::from(preload.to_string_lossy().replace(SIGN, PLATFORMS[0].0))
}

fn unpack_bytes(folder: &Path, library: &[u8]) -> Result<PathBuf, Error> {
    let own = folder.join(format!("nilo-tracker-{:016x}", fingerprint(library)));
    if own.to_string_lossy().contains([' ', ':', '$']) {
        return Err(Error::Separator { path: own });
    }
    let stub = stub::render_stub();
    for ((platform, others), bytes) in PLATFORMS.into_iter().zip([library, &stub]) {
        let place = own.join(platform);
        make_private(folder, &own, &place)?;
        let path = place.join(NAME);
        if !is_ours(&path, bytes) {
            write_whole(&path, bytes).map_err(at(&path))?;
        }
        for other in others {
            link(platform, &own.join(other))?;
        }
    }
    let known = fs::read("/proc/self/auxv").map_or(true, |vector| tells_platform(&vector));
    Ok(own.join(if known { SIGN } else { PLATFORMS[0].0 }).join(NAME))
}

/// Whether the kernel tells programs their platform (`AT_PLATFORM`), as all but some sandboxes do. Without it the dynamic
/// linker cannot replace the sign, and would complain.
fn tells_platform(vector: &[u8]) -> bool {
    const AT_PLATFORM: [u8; 8] = 15_u64.to_le_bytes();
    vector.chunks_exact(16).any(|entry| entry.starts_with(&AT_PLATFORM) && entry.get(8..) != Some(&[0; 8]))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

fn make_private(folder: &Path, own: &Path, place: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(at(place))?;
    [folder, own, place].into_iter().try_for_each(check_private)
}

/// Another name of a platform. Somebody else's unpacking may make it at the same time.
fn link(platform: &str, path: &Path) -> Result<(), Error> {
    let is_there = || fs::read_link(path).is_ok_and(|target| target == Path::new(platform));
    if is_there() {
        return Ok(());
    }
    let made = std::os::unix::fs::symlink(platform, path);
    if is_there() { Ok(()) } else { made.map_err(at(path)) }
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
        let preload = unpack_bytes(&folder.path().join("a/b"), b"bytes").unwrap();
        let path = file_of(&preload);
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o555);
        assert_eq!(unpack_bytes(&folder.path().join("a/b"), b"bytes").unwrap(), preload);
        let again = fs::metadata(file_of(&preload)).unwrap().ino();
        assert_eq!(again, fs::metadata(&path).unwrap().ino());
    }

    #[test]
    fn every_platform_finds_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let preload = unpack_bytes(folder.path(), b"bytes").unwrap();
        for (names, bytes) in [
            (["x86_64", "haswell", "xeon_phi"], &b"bytes"[..]),
            (["i386", "i586", "i686"], &stub::render_stub()),
        ] {
            for name in names {
                let path = preload.to_str().unwrap().replace("$PLATFORM", name);
                assert_eq!(fs::read(path).unwrap(), bytes, "{name}");
            }
        }
    }

    #[test]
    fn a_kernel_that_tells_no_platform_is_noticed() {
        let entry = |kind: u64, value: u64| [kind.to_le_bytes(), value.to_le_bytes()].concat();
        assert!(tells_platform(&[entry(6, 4096), entry(15, 0x7ffd_0000_1234), entry(0, 0)].concat()));
        assert!(!tells_platform(&[entry(6, 15), entry(15, 0), entry(0, 0)].concat()));
        assert!(!tells_platform(b"short"));
    }

    #[test]
    fn a_library_in_memory_cannot_be_changed() {
        let (file, path) = memory::write_nameless(b"bytes").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes");
        assert!((&file).write_all(b"x").is_err());
        assert!(OpenOptions::new().write(true).open(&path).and_then(|mut f| f.write_all(b"x")).is_err());
    }

    #[test]
    fn a_changed_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let preload = unpack_bytes(folder.path(), b"bytes").unwrap();
        let path = file_of(&preload);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"other").unwrap();
        assert_eq!(unpack_bytes(folder.path(), b"bytes").unwrap(), preload);
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
        assert!(is_placeholder() || LIBRARY.starts_with(b"\x7fELF"));
    }
}
