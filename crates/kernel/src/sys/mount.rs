//! How the file system below a path was mounted.

use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

/// True if no program or library can be loaded from there (`noexec`).
pub fn forbids_programs(path: &Path) -> bool {
    statvfs(path).is_ok_and(|facts| facts.flags().contains(FsFlags::ST_NOEXEC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_was_loaded_from_somewhere() {
        assert!(!forbids_programs(&std::env::current_exe().unwrap()));
        assert!(forbids_programs(Path::new("/proc")), "mounted noexec everywhere");
    }
}
