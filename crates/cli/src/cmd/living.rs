//! Whether a run is still being recorded.

use std::path::Path;

use nilometer_trace::Manifest;

/// The process that records into this directory at this moment: the one that began it, if it has a file of it open. None
/// where that cannot be seen, as of a run on another machine.
pub fn recorder(directory: &Path) -> Option<i32> {
    let manifest = Manifest::read(directory).ok().filter(|manifest| manifest.end.is_none())?;
    let directory = directory.canonicalize().ok()?;
    let open = std::fs::read_dir(format!("/proc/{}/fd", manifest.pid)).ok()?;
    let mut files = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    files.any(|file| file.starts_with(&directory)).then_some(manifest.pid)
}
