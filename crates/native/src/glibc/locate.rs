//! Where the arenas and the parameters are: nothing of it has a symbol in a distribution's libc.
//!
//! An arena has 127 list heads in a row, and an empty list's head points at itself; its `next` leads round a ring of
//! all arenas. Both hold in every release, so that the layout comes out of the search instead of a version number:
//!
//! ```text
//!                  2.27 to 2.42                          2.43 on
//!   arena +0   mutex, flags, have_fastchunks             mutex, flags
//!         +16  fastbins[10]
//!         +96  top, last_remainder                  +8   top, last_remainder
//!         +112 bins[127] (fd, bk)                   +24  bins[127]
//!   bins +2032 binmap[4] · +2048 next, next_free, attached_threads, system_mem, max_system_mem
//! ```

use std::collections::HashSet;
use std::ops::Range;

use nilometer_image::Mapping;

use super::Error;
use crate::runs::Runs;

const BINS: u64 = 127;
/// From the first bin to what stands behind the last one.
const NEXT: u64 = BINS * 16 + 16;
const ATTACHED: u64 = NEXT + 16;
const SYSTEM: u64 = NEXT + 24;
const STATE_END: u64 = NEXT + 40;
/// From an arena to its first bin: 2.27 to 2.42, 2.43 on, 2.26.
const BINS_AT: [u64; 3] = [112, 24, 104];
const FASTBINS: u64 = 10;
/// Bins that may be in the middle of a change when the process was stopped.
const BINS_IN_DOUBT: usize = 2;
/// Where it ran on between the reading of a bin and that of its chunks, most may have changed: all are lists still, so
/// many of them whole, and a ring leads back to the arena.
const WHOLE_BINS: usize = 8;
const MOST_ARENAS: usize = 65_536;
/// Heaps are aligned to it.
const HEAP_SIZE: u64 = 64 << 20;
/// No address of a program is above it (five-level page tables).
pub(crate) const HIGHEST: u64 = 1 << 57;

/// What an arena looks like in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// From an arena's start to its first bin.
    pub bins: u64,
    /// None since 2.43.
    pub fastbins: bool,
}

#[derive(Debug)]
pub(super) struct Located {
    pub layout: Layout,
    /// The main arena first, the others in the order of the ring.
    pub arenas: Vec<u64>,
}

/// The fields of one arena.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub address: u64,
    pub top: u64,
    pub attached: u64,
    pub system: u64,
    /// Behind its last field.
    pub end: u64,
}

/// Searches `places` (libc's writable data first) for the main arena, else the mappings for a thread's heap.
pub(super) fn locate(runs: &Runs<'_>, places: &[Range<u64>], mappings: &[Mapping]) -> Result<Located, Error> {
    in_data(runs, places).or_else(|| through_heap(runs, mappings)).ok_or(Error::NoArena)
}

pub(super) fn in_data(runs: &Runs<'_>, places: &[Range<u64>]) -> Option<Located> {
    for place in places {
        for run in runs.within(place.start, place.end.min(HIGHEST)) {
            let words = run.bytes.chunks_exact(8).enumerate().map(|(i, w)| (run.start + 8 * i as u64, w));
            let own =
                words.filter(|(at, word)| at.checked_sub(16).is_some_and(|own| own.to_le_bytes() == **word));
            for (at, _) in own {
                let found = arena_around(runs, at);
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

/// A thread's heap names its arena, and that one's ring leads to the main arena: the only one that is in no heap.
pub(super) fn through_heap(runs: &Runs<'_>, mappings: &[Mapping]) -> Option<Located> {
    let starts =
        mappings.iter().filter(|m| m.write && m.start.is_multiple_of(HEAP_SIZE) && m.start < HIGHEST);
    let arenas = starts.filter_map(|m| runs.word(m.start).filter(|arena| is_address(*arena)));
    arenas.into_iter().find_map(|arena| {
        let mut found = BINS_AT.into_iter().find_map(|bins| ring(runs, arena, bins))?;
        let is_main = |arena: &u64| runs.word(arena & !(HEAP_SIZE - 1)) != Some(*arena);
        let main = found.arenas.iter().position(is_main)?;
        found.arenas.rotate_left(main);
        has_bins(runs, found.arenas.first()? + found.layout.bins).then_some(found)
    })
}

/// `head` points at itself: it may be any of the 127 bins.
fn arena_around(runs: &Runs<'_>, head: u64) -> Option<Located> {
    if runs.word(head + 8) != Some(head - 16) {
        return None;
    }
    let firsts = (0..BINS).filter_map(|before| head.checked_sub(16 * before));
    firsts.filter(|first| runs.word(first + NEXT).is_some_and(is_address)).find_map(|first| {
        let layout = BINS_AT.into_iter().find_map(|bins| ring(runs, first.checked_sub(bins)?, bins))?;
        has_bins(runs, first).then_some(layout)
    })
}

/// All arenas, if `next` leads back to this one.
fn ring(runs: &Runs<'_>, main: u64, bins: u64) -> Option<Located> {
    let mut arenas = vec![main];
    let mut seen = HashSet::from([main]);
    let mut next = runs.word(main + bins + NEXT)?;
    while next != main {
        if !is_address(next) || !seen.insert(next) || arenas.len() > MOST_ARENAS {
            return None;
        }
        arenas.push(next);
        next = runs.word(next + bins + NEXT)?;
    }
    Some(Located { layout: Layout { bins, fastbins: bins > FASTBINS * 8 }, arenas })
}

fn is_address(word: u64) -> bool {
    word.is_multiple_of(8) && (4096..HIGHEST).contains(&word)
}

fn has_bins(runs: &Runs<'_>, first: u64) -> bool {
    let heads = || (0..BINS).map(|i| first + 16 * i);
    let whole = heads().filter(|head| is_bin(runs, *head)).count();
    let most = BINS as usize - BINS_IN_DOUBT;
    whole >= most || whole >= WHOLE_BINS && heads().filter(|head| is_list(runs, *head)).count() >= most
}

/// A list head: what it points at points back.
fn is_bin(runs: &Runs<'_>, links: u64) -> bool {
    let own = links - 16;
    let (Some(forward), Some(back)) = (runs.word(links), runs.word(links + 8)) else { return false };
    let linked = |chunk: u64, link: u64| {
        chunk == own || (is_address(chunk) && runs.word(chunk + link).is_some_and(|word| word == own))
    };
    linked(forward, 24) && linked(back, 16)
}

/// It may be one of a moment: empty, or with chunks at both ends.
fn is_list(runs: &Runs<'_>, links: u64) -> bool {
    let own = links - 16;
    let ends = [links, links + 8].map(|link| runs.word(link).unwrap_or(0));
    ends.iter().all(|end| is_address(*end)) && (ends[0] == own) == (ends[1] == own)
}

impl Layout {
    pub(super) fn state(self, runs: &Runs<'_>, arena: u64) -> Option<State> {
        let first = arena + self.bins;
        Some(State {
            address: arena,
            top: runs.word(first - 16)?,
            attached: runs.word(first + ATTACHED)?,
            system: runs.word(first + SYSTEM)?,
            end: first + STATE_END,
        })
    }

    /// The heads of the fastbins' lists.
    pub(super) fn fastbin_heads(self, runs: &Runs<'_>, arena: u64) -> Vec<u64> {
        if !self.fastbins {
            return Vec::new();
        }
        let first = arena + self.bins - 16 - 8 * FASTBINS;
        (0..FASTBINS).filter_map(|i| runs.word(first + 8 * i)).filter(|head| *head != 0).collect()
    }
}
