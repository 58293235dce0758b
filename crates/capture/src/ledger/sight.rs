//! What is looked at while the target stands: its mappings with what each uses, its pages, its stack pointers.

use std::collections::HashSet;
use std::sync::Mutex;

use super::unshared::{Fork, forked_from};
use nilometer_kernel::parse::kind::{Kind, kind_of};
use nilometer_kernel::parse::maps;
use nilometer_kernel::parse::smaps::Usage;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::pagemap::{PageRun, PageState, Pagemap};

/// A walk by `smaps` takes 20 to 30 ms a GB at small pages (measured); where that is too long for the stop, it is
/// done after it.
const WALK_NS_PER_KIB: u64 = 30;

/// One mapping with what it uses.
#[derive(Debug, Clone)]
pub(super) struct Vma {
    pub start: u64,
    pub end: u64,
    pub kind: Kind,
    pub write: bool,
    /// As the kernel prints it.
    pub name: Vec<u8>,
    pub usage: Usage,
}

/// The target at one instant, as the kernel sees it.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub vmas: Vec<Vma>,
    pub pages: Vec<PageRun>,
    pub stack_pointers: Vec<u64>,
    pub kernel_rss_bytes: Option<u64>,
    /// Of a process that was forked and runs the program of its parent.
    pub fork: Option<Fork>,
    /// Mappings and pages were seen while the target stood.
    pub together: bool,
    /// The page map could be read.
    pub has_pages: bool,
}

/// Looks when it is told to, from whatever thread.
pub(super) struct Looker {
    pid: i32,
    pagemap: Option<Pagemap>,
    parent: Option<i32>,
    seen: Mutex<Sight>,
}

impl Looker {
    pub fn new(pid: i32) -> Self {
        Self { pid, pagemap: Pagemap::open(pid).ok(), parent: forked_from(pid), seen: Mutex::default() }
    }

    /// `deadline_ns`: the target should run again by then.
    pub fn look(&self, deadline_ns: u64) {
        let mut sight = Sight { kernel_rss_bytes: rss(self.pid), ..Sight::default() };
        sight.stack_pointers = stack_pointers(self.pid);
        let walk_ns = sight.kernel_rss_bytes.unwrap_or(0) / 1024 * WALK_NS_PER_KIB;
        if monotonic_ns().saturating_add(walk_ns) < deadline_ns {
            sight.vmas = read_vmas(self.pid).unwrap_or_default();
            sight.together = true;
        }
        sight.has_pages = self.read_pages(&mut sight);
        sight.fork =
            self.parent.zip(self.pagemap.as_ref()).map(|(parent, map)| Fork::read(parent, map, &sight));
        *self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = sight;
    }

    fn read_pages(&self, sight: &mut Sight) -> bool {
        let Some(pagemap) = &self.pagemap else { return false };
        if !sight.together {
            return pagemap.read_runs(0..LAST_ADDRESS, &mut sight.pages).is_ok();
        }
        // `[vsyscall]` has no pages of its own, and the page map ends before it.
        let mut users = sight.vmas.iter().filter(|vma| vma.end <= LAST_ADDRESS + 4096);
        users.all(|vma| pagemap.read_runs(vma.start..vma.end, &mut sight.pages).is_ok())
    }

    /// What was seen; what there was no time for is read now.
    pub fn finish(self) -> Sight {
        let mut sight = self.seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !sight.together {
            sight.vmas = read_vmas(self.pid).unwrap_or_default();
        }
        sight.pages.retain(|run| matches!(run.state, PageState::Own | PageState::File));
        sight
    }
}

/// Of user space on x86-64 with four levels; mappings above are asked for by name only.
const LAST_ADDRESS: u64 = 0x7fff_ffff_f000;

fn rss(pid: i32) -> Option<u64> {
    let status = Proc::default().read_status(pid, &mut Vec::new()).ok()?;
    status.vm_rss_kib.map(|kib| kib << 10)
}

/// The mappings of a process, each with its kind; none where they may not be seen.
pub(super) fn read_vmas(pid: i32) -> Option<Vec<Vma>> {
    let mut vmas = Vec::new();
    let mut executable: HashSet<Vec<u8>> = HashSet::new();
    let visit = |mapping: &maps::Mapping<'_>, usage: &Usage| {
        if mapping.is_exec() && mapping.name.starts_with(b"/") && !executable.contains(mapping.name) {
            executable.insert(mapping.name.to_vec());
        }
        vmas.push((mapping.perms, vma(mapping, usage)));
    };
    Proc::default().read_smaps(pid, &mut Vec::new(), visit).ok()?;
    Some(vmas.into_iter().map(|(perms, vma)| with_kind(perms, vma, &executable)).collect())
}

fn vma(mapping: &maps::Mapping<'_>, usage: &Usage) -> Vma {
    Vma {
        start: mapping.start,
        end: mapping.end,
        kind: Kind::Anonymous,
        write: mapping.is_write(),
        name: mapping.name.to_vec(),
        usage: *usage,
    }
}

fn with_kind(perms: [u8; 4], mut vma: Vma, executable: &HashSet<Vec<u8>>) -> Vma {
    let mapping = maps::Mapping {
        start: vma.start,
        end: vma.end,
        perms,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: &vma.name,
    };
    vma.kind = kind_of(&mapping, |name| executable.contains(name));
    vma
}

/// Where each thread's stack ends now; a thread that runs does not tell.
fn stack_pointers(pid: i32) -> Vec<u64> {
    let threads = Proc::default().list_threads(pid).unwrap_or_default();
    let texts =
        threads.iter().filter_map(|tid| std::fs::read(format!("/proc/{pid}/task/{tid}/syscall")).ok());
    texts.filter_map(|text| parse_stack_pointer(&text)).collect()
}

/// The last but one word (`proc_pid_syscall`, fs/proc/base.c): number, six arguments, stack pointer, program counter;
/// outside of a call `-1`, stack pointer, program counter.
fn parse_stack_pointer(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let word = text.split_ascii_whitespace().rev().nth(1)?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_pointer_is_the_last_but_one_word() {
        let blocked = b"0 0x0 0x7ffc0 0x400 0x0 0x0 0x0 0x7ffc3a40b6d8 0x7f2c8a0fc1ad\n";
        assert_eq!(parse_stack_pointer(blocked), Some(0x7ffc_3a40_b6d8));
        assert_eq!(parse_stack_pointer(b"-1 0x7ffc3a40b6d8 0x7f2c8a0fc1ad\n"), Some(0x7ffc_3a40_b6d8));
        assert_eq!(parse_stack_pointer(b"running\n"), None);
        assert_eq!(parse_stack_pointer(b""), None);
    }

    #[test]
    fn this_process_has_code_and_a_stack() {
        let vmas = read_vmas(std::process::id() as i32).unwrap();
        let rss = |kind| vmas.iter().filter(|vma| vma.kind == kind).map(|vma| vma.usage.rss).sum::<u64>();
        assert!(rss(Kind::Code) > 0 && rss(Kind::Stack) > 0);
        assert!(vmas.is_sorted_by_key(|vma| vma.start));
    }
}
