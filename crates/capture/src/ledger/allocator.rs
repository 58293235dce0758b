//! What glibc's malloc has: its claims, and its sums beside `mallinfo2`'s.

use std::ops::Range;

use nilometer_kernel::parse::kind::Kind;
use nilometer_kernel::sys::pagemap::{PageRun, PageState};
use nilometer_native::glibc::{Malloc, State};
use nilometer_trace::ledger::{self, Line};

use super::claim::Claim;
use super::sight::Vma;

/// Every stretch of it, in order of address.
pub(super) fn claims(malloc: &Malloc) -> impl Iterator<Item = Claim> + '_ {
    malloc.ranges().map(|(state, range)| Claim { start: range.start, end: range.end, line: line(state) })
}

pub(super) fn line(state: State) -> Line {
    match state {
        State::InUse | State::Mapped => Line::MallocInUse,
        State::Free | State::Fastbin | State::Cached | State::Top => Line::MallocHeld,
        State::Metadata => Line::MallocMetadata,
        State::Unknown | State::Outside => Line::MallocUnknown,
    }
}

pub(super) fn sums(malloc: &Malloc, vmas: &[Vma], pages: &[PageRun]) -> ledger::Malloc {
    let total = malloc.total();
    let heap = vmas.iter().find(|vma| vma.kind == Kind::Heap).map_or(0..0, |vma| vma.start..vma.end);
    let (mut main, mut threads) = (0, 0);
    for (_, range) in malloc.free_ranges() {
        let resident = resident(pages, &range);
        if heap.contains(&range.start) {
            main += resident;
        } else {
            threads += resident;
        }
    }
    ledger::Malloc {
        version: malloc.version.clone(),
        arenas: malloc.arenas.len() as u64,
        system_bytes: total.system_bytes,
        in_use_bytes: total.in_use_bytes + total.tcache_bytes + total.metadata_bytes,
        free_bytes: total.free_bytes + total.fastbin_bytes + total.top_bytes,
        tcache_bytes: total.tcache_bytes,
        fastbin_bytes: total.fastbin_bytes,
        mapped_bytes: malloc.mapped.bytes,
        mapped_chunks: malloc.mapped.count,
        held_main_bytes: main,
        held_threads_bytes: threads,
        trimmable_bytes: malloc.trimmable_ranges().map(|range| resident(pages, &range)).sum(),
    }
}

/// Bytes of the process's own pages in a range; `pages` in order of address.
pub(super) fn resident(pages: &[PageRun], range: &Range<u64>) -> u64 {
    let first = pages.partition_point(|run| run.end <= range.start);
    let here = pages[first..].iter().take_while(|run| run.start < range.end);
    let own = here.filter(|run| run.state == PageState::Own);
    own.map(|run| run.end.min(range.end) - run.start.max(range.start)).sum()
}
