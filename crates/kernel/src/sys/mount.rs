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
    }

    #[test]
    fn what_the_list_of_mounts_says_of_proc_and_sys_is_seen() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        for place in ["/proc", "/sys"] {
            // The last one mounted there is the one that is seen.
            let of_place = |line: &&str| line.split(' ').nth(1) == Some(place);
            let Some(line) = mounts.lines().rfind(of_place) else { continue };
            let options = line.split(' ').nth(3).unwrap_or("");
            let expected = options.split(',').any(|option| option == "noexec");
            assert_eq!(forbids_programs(Path::new(place)), expected, "{line}");
        }
    }
}
