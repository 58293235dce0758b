//! `mp_`: how many mappings malloc has of its own, and where the program break began.
//!
//! It is found by `sbrk_base`, whose value is known from the mappings, and believed when the fields around it fit:
//!
//! ```text
//!   2.34 and before: … n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold · mmapped_mem, max_mmapped_mem, sbrk_base
//!   2.35 on:         … the same four numbers, four bytes lower (hp_flags before them, padding behind)
//!   all:             sbrk_base, tcache_bins, tcache_max_bytes, tcache_count, tcache_unsorted_limit
//! ```

use std::ops::Range;

use crate::runs::Runs;

const PAGE: u64 = 4096;
/// From `sbrk_base` back to `n_mmaps`.
const COUNTS: [u64; 2] = [36, 32];
/// What `M_MMAP_MAX` is when nobody changed it.
const DEFAULT_MOST_MAPPED: u32 = 65_536;
const MOST_CACHE_BINS: u64 = 76;
const MOST_CACHED: u64 = 65_535;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameters {
    pub mapped_count: u64,
    pub mapped_bytes: u64,
    /// Where the main heap began, if the program break was ever moved.
    pub heap_start: Option<u64>,
}

impl Parameters {
    /// So many mapped chunks are all there are; the sum of bytes drifts by less than a page (2.42 on).
    pub fn agree(&self, count: u64, bytes: u64) -> bool {
        self.mapped_count == count && self.mapped_bytes.abs_diff(bytes) < PAGE
    }
}

/// Where the program break may have begun.
#[derive(Debug)]
pub(super) enum Break {
    /// The kernel names its mapping, which begins here.
    At(u64),
    /// A core names nothing: any of these, or nowhere.
    Among(Vec<u64>),
}

impl Break {
    /// The break need not begin at a page, nor malloc at the break.
    fn may_be(&self, base: u64) -> bool {
        let near = |start: u64| base >= start && base - start < PAGE;
        match self {
            Self::At(start) => near(*start),
            Self::Among(starts) => {
                base == 0
                    || starts
                        .partition_point(|start| *start <= base)
                        .checked_sub(1)
                        .is_some_and(|i| near(starts[i]))
            }
        }
    }
}

pub(super) fn find(runs: &Runs<'_>, places: &[Range<u64>], heap: &Break) -> Option<Parameters> {
    // Without a name for it the parameters must have their default where nobody changes it.
    let strict = matches!(heap, Break::Among(_));
    for place in places {
        for run in runs.within(place.start, place.end) {
            let addresses = (run.start.next_multiple_of(8)..run.end()).step_by(8);
            let mut found = addresses.filter(|at| run.word(*at).is_some_and(|base| heap.may_be(base)));
            if let Some(parameters) = found.find_map(|at| parameters(runs, at, strict)) {
                return Some(parameters);
            }
        }
    }
    None
}

fn parameters(runs: &Runs<'_>, base: u64, strict: bool) -> Option<Parameters> {
    let mapped_bytes = runs.word(base.checked_sub(16)?)?;
    let most_bytes = runs.word(base - 8)?;
    // Not of a page: since 2.42 each mremap adds 16 too many.
    let sound =
        mapped_bytes.is_multiple_of(16) && most_bytes.is_multiple_of(16) && most_bytes >= mapped_bytes;
    let bins = runs.word(base + 8)?;
    let cache = bins <= MOST_CACHE_BINS && runs.word(base + 24)? <= MOST_CACHED;
    if !sound || !cache {
        return None;
    }
    let fit: Vec<[u32; 4]> =
        COUNTS.into_iter().filter_map(|back| counts(runs, base.checked_sub(back)?)).collect();
    let default = fit.iter().find(|[_, most, ..]| *most == DEFAULT_MOST_MAPPED);
    let best = if strict { default.filter(|_| bins > 0) } else { default.or(fit.first()) }?;
    let mapped_count = u64::from(best[0]);
    let heap_start = runs.word(base).filter(|start| *start != 0);
    let agree = (mapped_count == 0) == (mapped_bytes == 0) && mapped_bytes >= mapped_count * PAGE;
    agree.then_some(Parameters { mapped_count, mapped_bytes, heap_start })
}

/// `n_mmaps`, `n_mmaps_max`, `max_n_mmaps`, `no_dyn_threshold`.
fn counts(runs: &Runs<'_>, at: u64) -> Option<[u32; 4]> {
    let counts = [runs.half(at)?, runs.half(at + 4)?, runs.half(at + 8)?, runs.half(at + 12)?];
    (counts[0] <= counts[2] && counts[3] <= 1).then_some(counts)
}
