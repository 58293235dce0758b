//! What is looked at while the target stands: its mappings, its pages, its stack pointers.
//!
//! Where the kernel tells pages of zeros from others, the pages are the page walk: their sum is RSS, and what each
//! mapping shares (`smaps`, 20 to 30 ms a GB) is asked for after the stop. Elsewhere `smaps` is read during it.

use std::collections::HashSet;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Mutex;

use super::unshared::{Fork, forked_from};
use nilometer_kernel::parse::kind::{Kind, kind_of};
use nilometer_kernel::parse::maps;
use nilometer_kernel::parse::smaps::Usage;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::pagemap::{PageCounts, PageRun, PageState, Pagemap};

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
    /// What it shares was seen at another instant, when it had other pages.
    pub scaled: bool,
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
    /// The pages are the page walk; what mappings share is read later.
    pub walked: bool,
    /// The page map could be read.
    pub has_pages: bool,
    /// How often pages are mapped in all processes, where that may be known; in order of address.
    pub sharers: Vec<(Range<u64>, u64)>,
}

/// Looks when it is told to, from whatever thread.
pub(super) struct Looker {
    pid: i32,
    pagemap: Option<Pagemap>,
    tells_zeros: bool,
    parent: Option<i32>,
    seen: Mutex<Sight>,
}

impl Looker {
    pub fn new(pid: i32) -> Self {
        let pagemap = Pagemap::open(pid).ok();
        let tells_zeros = pagemap.as_ref().is_some_and(Pagemap::tells_zeros);
        Self { pid, pagemap, tells_zeros, parent: forked_from(pid), seen: Mutex::default() }
    }

    /// `deadline_ns`: the target should run again by then.
    pub fn look(&self, deadline_ns: u64) {
        let mut sight = Sight { kernel_rss_bytes: rss(self.pid), ..Sight::default() };
        sight.stack_pointers = stack_pointers(self.pid);
        if self.tells_zeros {
            sight.vmas = read_mapped(self.pid).unwrap_or_default();
            (sight.together, sight.walked) = (true, true);
        }
        let walk_ns = sight.kernel_rss_bytes.unwrap_or(0) / 1024 * WALK_NS_PER_KIB;
        if !sight.walked && monotonic_ns().saturating_add(walk_ns) < deadline_ns {
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
        sight.pages.retain(|run| matches!(run.state, PageState::Own | PageState::File));
        if sight.walked {
            read_usages(self.pid, &mut sight.vmas);
            sight.vmas.iter_mut().for_each(|vma| settle(vma, &sight.pages));
            sight.sharers =
                self.pagemap.as_ref().map(|map| sharers(map, &sight.vmas, &sight.pages)).unwrap_or_default();
        } else if !sight.together {
            sight.vmas = read_vmas(self.pid).unwrap_or_default();
        }
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

/// The mappings without what they use.
fn read_mapped(pid: i32) -> Option<Vec<Vma>> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mappings = || text.split(|byte| *byte == b'\n').filter_map(maps::parse_header);
    let libraries = mappings().filter(|m| m.is_exec() && m.name.starts_with(b"/"));
    let executable: HashSet<Vec<u8>> = libraries.map(|m| m.name.to_vec()).collect();
    let vma =
        |mapping: maps::Mapping<'_>| with_kind(mapping.perms, vma(&mapping, &Usage::default()), &executable);
    Some(mappings().map(vma).collect())
}

/// Of private mappings that are shared in part, as after a fork: which of their pages.
fn sharers(map: &Pagemap, vmas: &[Vma], pages: &[PageRun]) -> Vec<(Range<u64>, u64)> {
    let mut sharers = Vec::new();
    let Ok(counts) = PageCounts::open() else { return sharers };
    let mixed = vmas.iter().filter(|vma| {
        let shared = vma.usage.shared_clean + vma.usage.shared_dirty > 0;
        shared && vma.write && matches!(vma.kind, Kind::Heap | Kind::Anonymous | Kind::Code)
    });
    for vma in mixed {
        let first = pages.partition_point(|run| run.end <= vma.start);
        for run in pages[first..].iter().take_while(|run| run.start < vma.end) {
            let here = run.start.max(vma.start)..run.end.min(vma.end);
            let _ = map.read_sharers(&here, &counts, &mut sharers);
        }
    }
    sharers
}

/// What each mapping uses now, where it still is. Read mapping by mapping: there can be tens of thousands.
fn read_usages(pid: i32, vmas: &mut [Vma]) {
    let mut vmas = vmas.iter_mut().peekable();
    let visit =
        |mapping: &maps::Mapping<'_>, usage: &Usage| take_usage(&mut vmas, mapping.start..mapping.end, usage);
    let _ = Proc::default().read_smaps(pid, &mut Vec::new(), visit);
}

/// Both in order of their addresses.
fn take_usage<'a>(vmas: &mut Peekable<impl Iterator<Item = &'a mut Vma>>, place: Range<u64>, usage: &Usage) {
    while let Some(vma) = vmas.next_if(|vma| vma.start < place.end) {
        if vma.start >= place.start {
            vma.usage = *usage;
        }
    }
}

/// What it shares as read, if it had the same pages at the look; else in proportion.
fn settle(vma: &mut Vma, pages: &[PageRun]) {
    let usage = vma.usage;
    let walked = walked_kib(vma, pages);
    // Memory of devices and huge pages of hugetlbfs are present, and in no RSS.
    let is_counted =
        !matches!(vma.kind, Kind::Device | Kind::Kernel) && usage.shared_hugetlb + usage.private_hugetlb == 0;
    if usage.rss == walked || !is_counted {
        return;
    }
    vma.scaled = usage.rss > 0;
    vma.usage = if vma.scaled {
        scaled(usage, walked)
    } else {
        Usage { rss: walked, pss: walked, private_dirty: walked, ..Usage::default() }
    };
}

fn walked_kib(vma: &Vma, pages: &[PageRun]) -> u64 {
    let first = pages.partition_point(|run| run.end <= vma.start);
    let here = pages[first..].iter().take_while(|run| run.start < vma.end);
    here.map(|run| run.end.min(vma.end) - run.start.max(vma.start)).sum::<u64>() >> 10
}

/// The same shares of another sum.
fn scaled(usage: Usage, rss: u64) -> Usage {
    let part = |kib: u64| (u128::from(kib) * u128::from(rss) / u128::from(usage.rss.max(1))) as u64;
    Usage {
        rss,
        pss: part(usage.pss),
        shared_clean: part(usage.shared_clean),
        shared_dirty: part(usage.shared_dirty),
        private_clean: part(usage.private_clean),
        private_dirty: part(usage.private_dirty),
        anonymous: part(usage.anonymous),
        ..usage
    }
}

fn vma(mapping: &maps::Mapping<'_>, usage: &Usage) -> Vma {
    Vma {
        start: mapping.start,
        end: mapping.end,
        kind: Kind::Anonymous,
        write: mapping.is_write(),
        name: mapping.name.to_vec(),
        usage: *usage,
        scaled: false,
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
    fn what_is_shared_is_scaled_where_the_pages_have_changed() {
        let vma = |start, end| Vma {
            start,
            end,
            kind: Kind::Anonymous,
            write: true,
            name: Vec::new(),
            usage: Usage::default(),
            scaled: false,
        };
        let usage = Usage { rss: 8, pss: 4, shared_dirty: 8, ..Usage::default() };
        let mut vmas = [vma(0x1000, 0x9000), vma(0x10_000, 0x11_000), vma(0x20_000, 0x30_000)];
        let run = |start, end| PageRun { start, end, state: PageState::Own };
        let pages = [run(0x1000, 0x3000), run(0x10_000, 0x11_000), run(0x20_000, 0x24_000)];
        let mut seen = vmas.iter_mut().peekable();
        for later in [0x1000..0x9000, 0x20_000..0x30_000] {
            take_usage(&mut seen, later, &usage);
        }
        for vma in &mut vmas {
            settle(vma, &pages);
        }
        let told: Vec<_> = vmas.iter().map(|vma| (vma.usage.rss, vma.usage.pss, vma.scaled)).collect();
        assert_eq!(told, [(8, 4, false), (4, 4, false), (16, 8, true)]);
    }

    #[test]
    fn this_process_has_code_and_a_stack() {
        let vmas = read_vmas(std::process::id() as i32).unwrap();
        let rss = |kind| vmas.iter().filter(|vma| vma.kind == kind).map(|vma| vma.usage.rss).sum::<u64>();
        assert!(rss(Kind::Code) > 0 && rss(Kind::Stack) > 0);
        assert!(vmas.is_sorted_by_key(|vma| vma.start));
    }
}
