//! What a forked child no longer shares with its parent, and whose reference counts did it.
//!
//! A page that both have in the same place and that only one process maps was one page at the fork, unless both have
//! touched it for the first time since: the figure says "at most" of memory that grew after the fork.

use std::ops::Range;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::pagemap::{PageRun, PageState, Pagemap};
use nilometer_trace::heap::Graph;
use nilometer_trace::ledger::{Named, Unshared};

use super::sight::Sight;

/// So many kinds are named.
const MOST: usize = 8;
/// What an object occupies where it stands is at most a block of a pool; the rest of its bytes are elsewhere.
const LARGEST_BLOCK: u64 = 512;

/// A child beside its parent.
#[derive(Debug, Default)]
pub(super) struct Fork {
    parent: i32,
    /// In order of address: pages that nobody else has, and that the parent has too in its own copy.
    copied: Vec<Range<u64>>,
    exclusive_bytes: u64,
}

/// The parent of a process that runs the same program since a fork: where the kernel's own page is, is drawn anew for
/// each program that is started.
pub(super) fn forked_from(pid: i32) -> Option<i32> {
    let parent = Proc::default().read_status(pid, &mut Vec::new()).ok()?.ppid;
    let place = kernel_page(pid)?;
    (parent > 1 && kernel_page(parent)? == place).then_some(parent)
}

/// Where `[vdso]` is.
fn kernel_page(pid: i32) -> Option<String> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mut lines = maps.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.ends_with(b"[vdso]"))?;
    Some(String::from_utf8_lossy(line.split(|byte| *byte == b'-').next()?).into_owned())
}

impl Fork {
    /// `map` is the child's; the parent goes on meanwhile.
    pub fn read(parent: i32, map: &Pagemap, sight: &Sight) -> Self {
        let mut exclusive = Vec::new();
        for run in sight.pages.iter().filter(|run| run.state == PageState::Own) {
            let _ = map.read_exclusive(&(run.start..run.end), &mut exclusive);
        }
        let mut pages = Vec::new();
        if let Ok(theirs) = Pagemap::open(parent) {
            for range in &exclusive {
                let _ = theirs.read_runs(range.clone(), &mut pages);
            }
        }
        let exclusive_bytes = exclusive.iter().map(|range| range.end - range.start).sum();
        let own = pages.iter().filter(|run| run.state == PageState::Own);
        Self { parent, copied: own.map(|run| run.start..run.end).collect(), exclusive_bytes }
    }
}

/// `pages` are the child's.
pub(super) fn judge(fork: &Fork, pages: &[PageRun], graph: &Graph) -> Unshared {
    let own: u64 =
        pages.iter().filter(|run| run.state == PageState::Own).map(|run| run.end - run.start).sum();
    let (kinds, objects_bytes) = kinds(&fork.copied, graph);
    Unshared {
        parent: fork.parent,
        bytes: fork.copied.iter().map(|range| range.end - range.start).sum(),
        shared_bytes: own.saturating_sub(fork.exclusive_bytes),
        kinds,
        objects_bytes,
    }
}

/// Both in order of address.
fn kinds(copied: &[Range<u64>], graph: &Graph) -> (Vec<Named>, u64) {
    let mut sums = vec![0u64; graph.kinds.len()];
    let objects = graph.objects.address.iter().zip(&graph.objects.kind).zip(&graph.objects.bytes);
    let mut ranges = copied.iter().peekable();
    for ((address, kind), bytes) in objects {
        while ranges.next_if(|range| range.end <= *address).is_some() {}
        let is_on = ranges.peek().is_some_and(|range| range.start <= *address);
        if let Some(sum) = sums.get_mut(*kind as usize).filter(|_| is_on) {
            *sum += (*bytes).min(LARGEST_BLOCK);
        }
    }
    let all = sums.iter().sum();
    let named = graph.kinds.iter().zip(sums).filter(|(_, bytes)| *bytes > 0);
    let mut kinds: Vec<Named> = named.map(|(kind, bytes)| Named { name: kind.name.clone(), bytes }).collect();
    kinds.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    kinds.truncate(MOST);
    (kinds, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_trace::heap::{Kind, Objects};

    #[test]
    fn objects_on_copied_pages_are_summed_by_kind() {
        let kind = |name: &str| Kind { name: name.into(), ..Kind::default() };
        let graph = Graph {
            kinds: vec![kind("list"), kind("str")],
            objects: Objects {
                address: vec![0x1000, 0x1800, 0x2000, 0x5000, 0x9000],
                kind: vec![0, 1, 0, 1, 1],
                bytes: vec![100, 50, 9999, 60, 70],
                refcount: vec![1; 5],
            },
            ..Graph::default()
        };
        let (found, all) = kinds(&[0x1000..0x2000, 0x5000..0x6000], &graph);
        let told: Vec<(&str, u64)> = found.iter().map(|named| (named.name.as_str(), named.bytes)).collect();
        assert_eq!((told, all), (vec![("str", 110), ("list", 100)], 210));
    }

    #[test]
    fn a_program_that_was_started_is_no_fork() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert_eq!(forked_from(child.id() as i32), None);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
