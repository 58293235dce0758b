//! What the tracker may take for itself where a memory cgroup sets a limit.
//!
//! A target that just fits must still fit with us in it: the kernel's answer to one page too many is to kill it, not to
//! refuse the page. So growth is asked for here first; what is not granted means less is recorded. The files of the
//! cgroup are read when something grows, never on the way of an event.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use core::cell::UnsafeCell;

use nilometer_ring::layout::degraded;

use super::process::{self, control};
use super::sys;

const PATH: usize = 512;
/// What must be left to the target after we took something.
const LEFT: u64 = 8 << 20;
/// Together we take no more than this, and a part of the limit.
const BASE: u64 = 16 << 20;
const PART: u64 = 32;

/// The folder of the cgroup with the limit, without a zero at its end.
struct Folder(UnsafeCell<[u8; PATH]>, AtomicU32);

// SAFETY: written once, in the constructor, before its length is.
unsafe impl Sync for Folder {}

static FOLDER: Folder = Folder(UnsafeCell::new([0; PATH]), AtomicU32::new(0));
/// The limit found at the start; none if it is zero.
static LIMIT: AtomicU64 = AtomicU64::new(0);
static VERSION_2: AtomicU32 = AtomicU32::new(0);

/// Names of a cgroup's files.
struct Names {
    root: &'static [u8],
    limit: &'static [u8],
    used: &'static [u8],
    cache: &'static [u8],
}

const FIRST: Names = Names {
    root: b"/sys/fs/cgroup/memory",
    limit: b"/memory.limit_in_bytes\0",
    used: b"/memory.usage_in_bytes\0",
    cache: b"total_inactive_file ",
};
const SECOND: Names = Names {
    root: b"/sys/fs/cgroup",
    limit: b"/memory.max\0",
    used: b"/memory.current\0",
    cache: b"inactive_file ",
};
const STATISTICS: &[u8] = b"/memory.stat\0";

/// Looks for the nearest limit above this process. Once, in the constructor.
pub fn begin() {
    let mut text = [0; 2048];
    let text = sys::read_file(c"/proc/self/cgroup", &mut text);
    let lines = || text.split(|&byte| byte == b'\n');
    let of_first = lines().find_map(|line| path_of(line, b"memory"));
    let found = match of_first {
        Some(path) => search(&FIRST, path),
        None => lines().find_map(|line| path_of(line, b"")).and_then(|path| search(&SECOND, path)),
    };
    if let Some((length, limit)) = found {
        VERSION_2.store(u32::from(of_first.is_none()), Relaxed);
        LIMIT.store(limit, Relaxed);
        FOLDER.1.store(length as u32, Release);
    }
}

/// `9:memory:/a/b` gives `/a/b` for `memory`; `0::/a/b` for nothing.
fn path_of<'a>(line: &'a [u8], controller: &[u8]) -> Option<&'a [u8]> {
    let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
    let names = parts.next()?;
    names.split(|&byte| byte == b',').any(|name| name == controller).then(|| parts.next())?
}

/// From the process's own cgroup outwards: the first one with a limit. The length of its folder's name, and the limit.
fn search(names: &Names, path: &[u8]) -> Option<(usize, u64)> {
    // SAFETY: the constructor runs before the program; nobody reads this yet.
    let folder = unsafe { &mut *FOLDER.0.get() };
    let mut length = names.root.len() + path.len();
    folder.get_mut(..names.root.len())?.copy_from_slice(names.root);
    folder.get_mut(names.root.len()..length)?.copy_from_slice(path);
    loop {
        let start = folder.get(..length)?;
        if let Some(limit) = read_number(start, names.limit).filter(|&limit| limit < 1 << 50) {
            return Some((length, limit));
        }
        if length <= names.root.len() {
            return None;
        }
        length = start.iter().rposition(|&byte| byte == b'/')?.max(names.root.len());
    }
}

/// The number in a file of the cgroup; `None` for `max`.
fn read_number(folder: &[u8], name: &[u8]) -> Option<u64> {
    let mut text = [0; 32];
    parse_number(read(folder, name, &mut text)?)
}

fn read<'a>(folder: &[u8], name: &[u8], into: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0; PATH + 32];
    path.get_mut(..folder.len())?.copy_from_slice(folder);
    path.get_mut(folder.len()..folder.len() + name.len())?.copy_from_slice(name);
    let path = core::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    Some(sys::read_file(path, into)).filter(|text| !text.is_empty())
}

fn parse_number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let is_number = text.first().is_some_and(u8::is_ascii_digit);
    is_number.then(|| {
        digits.fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

/// Pages of files that the kernel would drop first.
fn read_cache(folder: &[u8], names: &Names) -> u64 {
    let mut text = [0; 4096];
    let Some(text) = read(folder, STATISTICS, &mut text) else { return 0 };
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(names.cache));
    line.and_then(parse_number).unwrap_or(0)
}

/// True if the tracker may take so many bytes more.
#[cold]
pub fn allows(bytes: u64) -> bool {
    let length = FOLDER.1.load(Acquire) as usize;
    if length == 0 {
        return true;
    }
    let taken = process::taken_bytes() + bytes;
    let allowed = taken <= BASE + LIMIT.load(Relaxed) / PART && fits(length, bytes);
    if !allowed {
        control().degraded.fetch_or(degraded::LITTLE_ROOM, Relaxed);
        control().counters.refused.fetch_add(1, Relaxed);
    }
    allowed
}

fn fits(length: usize, bytes: u64) -> bool {
    let names = if VERSION_2.load(Relaxed) == 0 { &FIRST } else { &SECOND };
    // SAFETY: written before its length was.
    let folder = unsafe { &*FOLDER.0.get() }.get(..length).unwrap_or(&[]);
    let (Some(limit), Some(used)) = (read_number(folder, names.limit), read_number(folder, names.used))
    else {
        return true; // the limit was lifted, or the files are out of sight
    };
    let wanted = bytes + LEFT;
    limit.saturating_sub(used) >= wanted
        || limit.saturating_sub(used.saturating_sub(read_cache(folder, names))) >= wanted
}

/// Private zeroed memory of our own; null if it is refused.
pub fn map_private(length: usize) -> *mut u8 {
    if allows(length as u64) { sys::map_private(length) } else { core::ptr::null_mut() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_found_in_both_versions() {
        assert_eq!(path_of(b"9:cpu,memory:/a/b", b"memory"), Some(&b"/a/b"[..]));
        assert_eq!(path_of(b"9:cpu:/a", b"memory"), None);
        assert_eq!(path_of(b"0::/user.slice", b""), Some(&b"/user.slice"[..]));
        assert_eq!(path_of(b"", b""), None);
    }

    #[test]
    fn numbers_are_read_and_max_is_none() {
        assert_eq!(parse_number(b"123\n"), Some(123));
        assert_eq!(parse_number(b"max\n"), None);
        assert_eq!(parse_number(b"99999999999999999999999"), Some(u64::MAX));
    }
}
