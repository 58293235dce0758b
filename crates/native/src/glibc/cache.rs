//! Lists of free chunks that still look used: fastbins, and the threads' caches.
//!
//! A thread's cache is an ordinary chunk of a known size. It is recognised by its contents: every list leads through
//! chunks of its own size and is as long as the count beside it. Since 2.32 the links are mangled; both ways are
//! tried, and the one whose lists end is right.
//!
//! ```text
//!   2.26 to 2.29   u8  counts[64], entries[64]           chunk of 0x250
//!   2.30 to 2.41   u16 counts[64], entries[64]           chunk of 0x290
//!   2.42 on        u16 free slots[76], entries[76]       chunk of 0x300; the count is what is missing to the full
//! ```

use super::index::HEADER;
use super::locate::HIGHEST;
use super::walk::SMALLEST;
use crate::runs::Runs;

/// Longest list that a tunable allows.
const MOST_CACHED: usize = 65_535;
const SMALL_BINS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    chunk: u64,
    /// Bytes of one count.
    width: usize,
    bins: usize,
    /// The counts are free slots instead of entries.
    slots: bool,
}

const KINDS: [Kind; 3] = [
    Kind { chunk: 0x300, width: 2, bins: 76, slots: true },
    Kind { chunk: 0x290, width: 2, bins: 64, slots: false },
    Kind { chunk: 0x250, width: 1, bins: 64, slots: false },
];

/// Sizes that a cache's own chunk may have: a remainder too small to be a chunk stays with it.
pub(super) fn may_be_cache(size: u64) -> bool {
    KINDS.iter().any(|kind| size == kind.chunk || size == kind.chunk + HEADER)
}

/// One thread's cache: its own chunk, and the chunks in it.
#[derive(Debug)]
pub(super) struct Cache {
    pub chunk: u64,
    kind: Kind,
    pub cached: Vec<u64>,
}

/// The caches among `candidates` (chunks in use of a size that fits).
pub(super) fn caches(runs: &Runs<'_>, candidates: &[u64]) -> Vec<Cache> {
    let mut found: Vec<Cache> = candidates.iter().filter_map(|chunk| read(runs, *chunk)).collect();
    // One libc has one kind: what looks like another one is somebody's block.
    let filled = |kind: Kind| {
        found.iter().filter(|cache| cache.kind == kind).map(|cache| cache.cached.len()).sum::<usize>()
    };
    let Some(kind) = KINDS.into_iter().max_by_key(|kind| filled(*kind)) else { return Vec::new() };
    found.retain(|cache| cache.kind == kind && !cache.cached.is_empty());
    found
}

fn read(runs: &Runs<'_>, chunk: u64) -> Option<Cache> {
    let size = runs.word(chunk + 8)? & !7;
    let kind = KINDS.into_iter().find(|kind| size == kind.chunk || size == kind.chunk + HEADER)?;
    let cached = [true, false].into_iter().find_map(|mangled| kind.lists(runs, chunk, mangled))?;
    Some(Cache { chunk, kind, cached })
}

impl Kind {
    /// The chunks on all lists, if every list is one.
    fn lists(self, runs: &Runs<'_>, chunk: u64, mangled: bool) -> Option<Vec<u64>> {
        let body = runs.slice(chunk + HEADER, self.bins * (self.width + 8))?;
        let (counts, entries) = body.split_at(self.bins * self.width);
        let mut cached = Vec::new();
        // Slots that are free and slots that are taken: together the same in every bin that is not switched off.
        let mut full = None;
        for (bin, (count, entry)) in counts.chunks_exact(self.width).zip(entries.chunks_exact(8)).enumerate()
        {
            let head = u64::from_le_bytes(entry.try_into().ok()?);
            let before = cached.len();
            follow(runs, head, bin, mangled, &mut cached)?;
            let length = cached.len() - before;
            let count = if self.width == 1 {
                usize::from(count[0])
            } else {
                usize::from(u16::from_le_bytes(count.try_into().ok()?))
            };
            if self.slots {
                let whole = *full.get_or_insert(count + length);
                ((count + length).abs_diff(whole) <= 1 || count + length == 0 || bin >= SMALL_BINS)
                    .then_some(())?;
            } else {
                (count.abs_diff(length) <= 1).then_some(())?;
            }
        }
        Some(cached)
    }
}

/// Collects one list's chunks; none if it leads astray.
fn follow(runs: &Runs<'_>, head: u64, bin: usize, mangled: bool, into: &mut Vec<u64>) -> Option<()> {
    let mut entry = head;
    for _ in 0..MOST_CACHED {
        if entry == 0 {
            return Some(());
        }
        let chunk =
            entry.checked_sub(HEADER).filter(|chunk| chunk.is_multiple_of(HEADER) && *chunk < HIGHEST)?;
        let size = runs.word(chunk + 8)? & !7;
        let fits = if bin < SMALL_BINS { size == SMALLEST + HEADER * bin as u64 } else { size > SMALLEST };
        fits.then(|| into.push(chunk))?;
        entry = next(runs, entry, mangled)?;
    }
    None
}

fn next(runs: &Runs<'_>, link: u64, mangled: bool) -> Option<u64> {
    let word = runs.word(link)?;
    Some(if mangled { word ^ (link >> 12) } else { word })
}

/// The chunks of one fastbin, and whether its end was found. At most `most` of them.
pub(super) fn fastbin(runs: &Runs<'_>, head: u64, most: usize) -> (Vec<u64>, bool) {
    let mangled = fastbin_list(runs, head, most, true);
    if mangled.1 {
        return mangled;
    }
    let plain = fastbin_list(runs, head, most, false);
    if plain.1 || plain.0.len() > mangled.0.len() { plain } else { mangled }
}

fn fastbin_list(runs: &Runs<'_>, head: u64, most: usize, mangled: bool) -> (Vec<u64>, bool) {
    let mut chunks = Vec::new();
    let mut chunk = head;
    while chunk != 0 {
        let sound = chunk.is_multiple_of(HEADER) && chunk < HIGHEST && chunks.len() < most;
        let Some(next) = sound.then(|| fastbin_next(runs, chunk, mangled)).flatten() else {
            return (chunks, false);
        };
        chunks.push(chunk);
        chunk = next;
    }
    (chunks, true)
}

fn fastbin_next(runs: &Runs<'_>, chunk: u64, mangled: bool) -> Option<u64> {
    let size = runs.word(chunk + 8)? & !7;
    (size >= SMALLEST).then(|| next(runs, chunk + HEADER, mangled)).flatten()
}
