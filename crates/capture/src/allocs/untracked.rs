//! Why a process of the tree does not introduce itself: what the dynamic linker does not preload into.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nilometer_trace::allocs::Untracked;
use rustc_hash::FxHashMap;

const MOST: usize = 64;
/// `PT_INTERP`.
const INTERPRETER: u32 = 3;
/// Of a file that is only looked at.
const MOST_HEADER: usize = 16 << 10;
const MOST_ENVIRONMENT: u64 = 1 << 20;

/// Processes that were seen and not heard.
#[derive(Debug)]
pub struct Silent {
    library: PathBuf,
    /// Those that introduced themselves, and which program they were then.
    heard: FxHashMap<i32, PathBuf>,
    reasons: FxHashMap<i32, Option<Untracked>>,
}

impl Silent {
    pub fn new(library: &Path) -> Self {
        Self { library: library.to_owned(), heard: FxHashMap::default(), reasons: FxHashMap::default() }
    }

    pub fn heard(&mut self, processes: impl Iterator<Item = (i32, PathBuf)>) {
        self.heard.extend(processes);
    }

    /// Looks at those that have not been heard, or are another program now. The heard ones that became programs that will never
    /// introduce themselves are returned.
    pub fn look(&mut self, pids: &[i32]) -> Vec<i32> {
        let mut replaced = Vec::new();
        for &pid in pids {
            let program = self.heard.get(&pid);
            if program.is_some_and(|program| *program == program_of(pid)) {
                continue;
            }
            if self.reasons.len() >= MOST && !self.reasons.contains_key(&pid) {
                continue;
            }
            let was_heard = program.is_some();
            let reason = reason(Path::new("/proc"), pid, &self.library);
            if was_heard && reason.is_some() {
                self.heard.remove(&pid);
                replaced.push(pid);
            }
            let known = self.reasons.entry(pid).or_default();
            *known = reason.or(known.take());
        }
        replaced
    }

    pub fn reasons(&self) -> Vec<Untracked> {
        let silent = self.reasons.iter().filter(|(pid, _)| !self.heard.contains_key(pid));
        let mut reasons: Vec<Untracked> = silent.filter_map(|(_, reason)| reason.clone()).collect();
        reasons.sort_by_key(|reason| reason.pid);
        reasons
    }
}

/// The program that a process is now.
pub fn program_of(pid: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

fn reason(proc: &Path, pid: i32, library: &Path) -> Option<Untracked> {
    let folder = proc.join(pid.to_string());
    // A kernel thread has none, and neither has a process that is ending.
    File::open(folder.join("exe")).ok()?;
    let why = of_file(&folder.join("exe")).or_else(|| of_environment(&folder.join("environ"), library))?;
    let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default().trim_end().to_owned();
    Some(Untracked { pid, name, why: why.to_owned() })
}

/// Why the linker would not preload into this program.
pub fn of_file(path: &Path) -> Option<&'static str> {
    let file = File::open(path).ok()?;
    let mut header = vec![0; MOST_HEADER];
    let length = file.read_at(&mut header, 0).ok()?;
    header.truncate(length);
    let facts = file.metadata().ok()?;
    of_header(&header).or_else(|| {
        (facts.mode() & 0o6000 != 0).then_some("set-user-ID program: the linker preloads nothing into it")
    })
}

/// By the first bytes of an ELF file.
fn of_header(bytes: &[u8]) -> Option<&'static str> {
    let short = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    if bytes.get(4) != Some(&2) {
        return Some("32-bit program");
    }
    let (start, size, count) = (long(32)?, short(54)?, short(56)?);
    for index in 0..u64::from(count) {
        let at = usize::try_from(start.checked_add(index * u64::from(size))?).ok()?;
        let kind = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        if kind == INTERPRETER {
            let (from, length) = (long(at + 8)? as usize, long(at + 32)? as usize);
            let name = bytes.get(from..from.checked_add(length)?)?;
            let is_musl = name.windows(7).any(|part| part == b"ld-musl");
            return is_musl.then_some("linked with musl: the tracker is for glibc");
        }
    }
    Some("statically linked: there is no dynamic linker to preload")
}

fn of_environment(path: &Path, library: &Path) -> Option<&'static str> {
    let mut environment = Vec::new();
    File::open(path).ok()?.take(MOST_ENVIRONMENT).read_to_end(&mut environment).ok()?;
    let ours = library.as_os_str().as_bytes();
    let preloads = environment.split(|byte| *byte == 0).filter(|text| text.starts_with(b"LD_PRELOAD="));
    let kept = preloads.into_iter().any(|text| text.windows(ours.len()).any(|part| part == ours));
    (!kept).then_some("started with another environment: LD_PRELOAD was removed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_could_be_preloaded() {
        assert_eq!(of_file(Path::new("/proc/self/exe")), None);
        assert_eq!(of_file(Path::new("/etc/hostname")), None);
    }

    #[test]
    fn headers_tell_what_the_linker_would_do() {
        let mut bytes = vec![0_u8; 300];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[32] = 64; // program headers
        (bytes[54], bytes[56]) = (56, 1);
        assert!(of_header(&bytes).unwrap().starts_with("statically"));
        bytes[64] = 3;
        (bytes[72], bytes[96]) = (200, 20);
        bytes[200..220].copy_from_slice(b"/lib/ld-musl-x86.so\0");
        assert!(of_header(&bytes).unwrap().contains("musl"));
        bytes[200..220].copy_from_slice(b"/lib64/ld-linux.so.2");
        assert_eq!(of_header(&bytes), None);
        bytes[4] = 1;
        assert_eq!(of_header(&bytes), Some("32-bit program"));
        bytes[4] = 2;
        bytes[32..40].fill(0xff); // beyond all addresses
        assert_eq!(of_header(&bytes), None);
        for length in 0..100 {
            let _ = of_header(&bytes[..length]);
        }
    }

    #[test]
    fn a_changed_environment_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("environ");
        let library = Path::new("/x/tracker.so");
        std::fs::write(&path, b"A=1\0LD_PRELOAD=/x/tracker.so:/y.so\0").unwrap();
        assert_eq!(of_environment(&path, library), None);
        std::fs::write(&path, b"A=1\0LD_PRELOAD=/y.so\0").unwrap();
        assert!(of_environment(&path, library).is_some());
        std::fs::write(&path, b"").unwrap();
        assert!(of_environment(&path, library).is_some());
    }
}
