//! The tracker's library as a file that a target's dynamic linker can load, and the hook that its Pythons import.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nilometer_capture::control::private_directory;
use nilometer_capture::relay::Steps;
use nilometer_embed::Unpacked;

use crate::talk::Failure;

/// Puts it into the first place where programs may be loaded from and no separator is in the path, else into memory.
pub fn unpack() -> Result<Unpacked, Failure> {
    let folders: Vec<PathBuf> = candidates().collect();
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    nilometer_embed::unpack_somewhere(&folders).map_err(|error| {
        Failure::from(anyhow!("the tracker cannot be unpacked: {error}"))
            .hint("set XDG_CACHE_HOME to a directory of yours, or leave --allocs out")
    })
}

/// The hook of `--steps torch` and its like, in a folder; `None` where steps are told otherwise.
pub fn unpack_hook(steps: Option<&Steps>) -> Result<Option<PathBuf>, Failure> {
    if steps.and_then(Steps::hook).is_none() {
        return Ok(None);
    }
    let folders: Vec<PathBuf> = candidates().collect();
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    nilometer_embed::unpack_hook(&folders).map(Some).map_err(|error| {
        Failure::from(anyhow!("the hook for Python cannot be unpacked: {error}"))
            .hint("set XDG_CACHE_HOME to a directory of yours, or read steps from the output: --steps 'step (\\d+)'")
    })
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.filter(|path| path.is_absolute()).map(|path| path.join("nilometer/tracker"));
    cache.into_iter().chain(private_directory().ok())
}
