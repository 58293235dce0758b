//! The list of mappings of a process.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nilometer_kernel::parse::maps;
use nilometer_kernel::sys::pagemap::Backing;

/// What the kernel appends to the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// A line of the target's list of mappings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    pub shared: bool,
    pub offset: u64,
    pub inode: u64,
    /// As the target sees it; `[heap]`, `[stack]`, … and empty for anonymous memory.
    pub path: PathBuf,
    pub deleted: bool,
}

impl Mapping {
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Has a path, so that it may have a file.
    pub fn is_file(&self) -> bool {
        self.path.as_os_str().as_encoded_bytes().starts_with(b"/")
    }

    /// Has a path, but memory behind it and no file on a disk.
    pub fn is_named_memory(&self) -> bool {
        let path = self.path.as_os_str().as_encoded_bytes();
        let names = [&b"/dev/shm/"[..], b"/memfd:", b"/dev/zero", b"/SYSV", b"/dev/hugepages/"];
        names.iter().any(|name| path.starts_with(name))
    }

    /// Memory of the process alone: no file is behind it, and nobody shares it but by a fork.
    pub fn is_private_memory(&self) -> bool {
        !self.shared && !self.is_file() && !self.is_device() && !self.is_of_kernel()
    }

    /// What a look at its pages has to ask for.
    pub(crate) fn backing(&self) -> Backing {
        if self.is_private_memory() { Backing::Private } else { Backing::Any }
    }

    /// A device other than those that are plain memory: reading it may do things.
    pub fn is_device(&self) -> bool {
        let path = self.path.as_os_str().as_encoded_bytes();
        (path.starts_with(b"/dev/") && !self.is_named_memory()) || path.starts_with(b"anon_inode:")
    }

    /// `[vdso]`, `[vvar]`, …: pages of the kernel.
    pub fn is_of_kernel(&self) -> bool {
        let path = self.path.as_os_str().as_encoded_bytes();
        path.starts_with(b"[v")
    }
}

/// Parses `/proc/PID/maps`, sorted by address; lines that are none are left out.
pub fn parse_mappings(text: &[u8]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = text.split(|byte| *byte == b'\n').filter_map(parse_line).collect();
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let header = maps::parse_header(line)?;
    let (path, deleted) = parse_name(header.name);
    Some(Mapping {
        start: header.start,
        end: header.end,
        read: header.perms[0] == b'r',
        write: header.is_write(),
        execute: header.is_exec(),
        shared: header.is_shared(),
        offset: header.offset,
        inode: header.inode,
        path,
        deleted,
    })
    .filter(|mapping| mapping.start < mapping.end)
}

/// A path as the kernel prints it, and whether its file has lost its name.
pub(crate) fn parse_name(name: &[u8]) -> (PathBuf, bool) {
    let kept = name.strip_suffix(DELETED);
    (OsString::from_vec(unescape(kept.unwrap_or(name))).into(), kept.is_some())
}

/// Only a newline is escaped in this list (`seq_path(…, "\n")`).
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        let newline = rest.strip_prefix(b"\\012");
        plain.push(if newline.is_some() { b'\n' } else { *first });
        rest = newline.unwrap_or(tail);
    }
    plain
}

/// Which mapping holds `address`; `mappings` sorted.
pub(crate) fn mapping_index(mappings: &[Mapping], address: u64) -> Option<usize> {
    let index = mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
    mappings.get(index).filter(|mapping| address < mapping.end).map(|_| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_the_target_sees_them() {
        let text =
            b"7f00-7f10 rw-p 00000100 fe:00 9    /a b\\012c (deleted)\n5000-6000 r--s 0 0:0 0 \nnonsense\n";
        let mappings = parse_mappings(text);
        assert_eq!(mappings.len(), 2);
        assert_eq!((mappings[0].start, mappings[0].shared, mappings[0].is_file()), (0x5000, true, false));
        let file = &mappings[1];
        assert_eq!(
            (file.path.to_str(), file.deleted, file.offset, file.inode),
            (Some("/a b\nc"), true, 0x100, 9)
        );
        assert_eq!(mapping_index(&mappings, 0x7f0f), Some(1));
        assert_eq!(mapping_index(&mappings, 0x7f10), None);
        assert_eq!(mapping_index(&mappings, 0x10), None);
    }

    #[test]
    fn devices_are_not_memory() {
        let named = |path: &str| Mapping { path: path.into(), ..Mapping::default() };
        for path in ["/dev/nvidia0", "/dev/nvidia-uvm", "/dev/dri/card0", "anon_inode:i915.gem"] {
            assert!(named(path).is_device(), "{path}");
        }
        for path in ["/dev/shm/torch_1", "/dev/zero", "/devices/x", "[heap]", ""] {
            assert!(!named(path).is_device(), "{path}");
        }
        assert!(named("[vvar]").is_of_kernel() && !named("[heap]").is_of_kernel());
    }
}
