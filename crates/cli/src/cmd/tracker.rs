//! The tracker's library, as a file that a target's dynamic linker can load.

use std::path::PathBuf;

use anyhow::anyhow;
use nilometer_capture::control::private_directory;
use nilometer_kernel::sys::mount::forbids_programs;

use super::exit;
use crate::talk::Failure;

/// Puts it into the first place where programs may be loaded from and no separator is in the path.
pub fn unpack() -> Result<PathBuf, Failure> {
    let mut reasons = Vec::new();
    for folder in candidates() {
        match nilometer_embed::unpack(&folder) {
            Err(error) => reasons.push(error.to_string()),
            Ok(path) if forbids_programs(&path) => {
                reasons.push(format!("{}: mounted so that no program can be loaded", folder.display()));
            }
            Ok(path) => return Ok(path),
        }
    }
    let failure = Failure::from(anyhow!("the tracker cannot be unpacked: {}", reasons.join("; ")));
    Err(Failure {
        code: exit::OURS,
        ..failure.hint("set XDG_CACHE_HOME to a directory of yours, or leave --allocs out")
    })
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.filter(|path| path.is_absolute()).map(|path| path.join("nilometer/tracker"));
    cache.into_iter().chain(private_directory().ok())
}
