//! Puts the parts together: arenas, their stretches, the lists over them, and the sums.

use std::ops::Range;

use nilometer_image::{Mapping, merged};

use super::heap::{Region, heaps, walk_break, walk_heap};
use super::index::{Index, State, Stretch};
use super::locate::{HIGHEST, Layout, Located, State as Fields, locate};
use super::mapped::{self, Counting, Found};
use super::parameters::{self, Break, Parameters};
use super::walk::SMALLEST;
use super::{Doubt, Error, Malloc, Mapped, cache, writable_files};
use crate::runs::Runs;

const PAGE: u64 = 4096;
/// A free chunk keeps its list links: `sizeof (struct malloc_chunk)`.
const LINKS: u64 = 48;
/// The main arena is not one piece: `NONCONTIGUOUS_BIT`.
const IN_PIECES: u32 = 2;

/// One arena. Bytes are whole chunks, with their headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arena {
    pub address: u64,
    pub main: bool,
    /// Threads that allocate from it.
    pub threads: u64,
    /// Stretches of memory: the program break, heaps.
    pub pieces: u64,
    /// What it has from the kernel, by its own count.
    pub system_bytes: u64,
    pub in_use_bytes: u64,
    pub in_use_chunks: u64,
    /// In bins.
    pub free_bytes: u64,
    pub free_chunks: u64,
    pub fastbin_bytes: u64,
    /// In threads' caches.
    pub tcache_bytes: u64,
    pub top_bytes: u64,
    /// What of `free` and `top` whole pages `malloc_trim(0)` could give back.
    pub trimmable_bytes: u64,
    pub metadata_bytes: u64,
    /// Counted by the arena and not understood by the walk, or another's in the middle of the program break.
    pub unknown_bytes: u64,
    pub(super) top: u64,
}

impl Arena {
    /// Held, not handed out.
    pub fn held_bytes(&self) -> u64 {
        self.free_bytes + self.fastbin_bytes + self.tcache_bytes + self.top_bytes
    }

    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            threads: self.threads + other.threads,
            pieces: self.pieces + other.pieces,
            system_bytes: self.system_bytes.saturating_add(other.system_bytes),
            in_use_bytes: self.in_use_bytes + other.in_use_bytes,
            in_use_chunks: self.in_use_chunks + other.in_use_chunks,
            free_bytes: self.free_bytes + other.free_bytes,
            free_chunks: self.free_chunks + other.free_chunks,
            fastbin_bytes: self.fastbin_bytes + other.fastbin_bytes,
            tcache_bytes: self.tcache_bytes + other.tcache_bytes,
            top_bytes: self.top_bytes + other.top_bytes,
            trimmable_bytes: self.trimmable_bytes + other.trimmable_bytes,
            metadata_bytes: self.metadata_bytes + other.metadata_bytes,
            unknown_bytes: self.unknown_bytes.saturating_add(other.unknown_bytes),
            ..Self::default()
        }
    }

    fn add(&mut self, stretch: Stretch, main_top: Option<u64>) {
        let bytes = stretch.bytes();
        match stretch.state {
            State::InUse => {
                self.in_use_bytes += bytes;
                self.in_use_chunks += 1;
            }
            State::Free => {
                self.free_bytes += bytes;
                self.free_chunks += 1;
            }
            State::Fastbin => self.fastbin_bytes += bytes,
            State::Cached => self.tcache_bytes += bytes,
            State::Top => self.top_bytes += bytes,
            State::Metadata => self.metadata_bytes += bytes,
            State::Unknown => {}
            // Somebody else's, in the middle of the program break: the arena counts it as its own.
            State::Outside | State::Mapped => self.unknown_bytes += bytes,
        }
        self.trimmable_bytes += trimmable(stretch, main_top).map_or(0, |range| range.end - range.start);
    }

    fn walked(&self) -> u64 {
        self.in_use_bytes
            + self.free_bytes
            + self.fastbin_bytes
            + self.tcache_bytes
            + self.top_bytes
            + self.metadata_bytes
    }
}

/// The whole pages that `malloc_trim(0)` gives back of a stretch (`mtrim` and `systrim` in malloc.c).
pub(super) fn trimmable(stretch: Stretch, main_top: Option<u64>) -> Option<Range<u64>> {
    let (start, end) = match stretch.state {
        State::Free => ((stretch.start + LINKS).next_multiple_of(PAGE), stretch.end),
        State::Top if Some(stretch.start) == main_top => {
            let given = stretch.bytes().checked_sub(SMALLEST + 1)? / PAGE * PAGE;
            (stretch.end - given, stretch.end)
        }
        _ => return None,
    };
    let end = start + end.checked_sub(start)? / PAGE * PAGE;
    (start < end).then_some(start..end)
}

/// What one arena was walked into.
struct Walked {
    fields: Fields,
    main: bool,
    ranges: Vec<Range<u64>>,
}

/// In the making.
struct Reader<'a> {
    runs: &'a Runs<'a>,
    layout: Layout,
    parts: Vec<Region>,
    arenas: Vec<Walked>,
    doubts: Vec<Doubt>,
}

pub(super) fn read(runs: &Runs<'_>, mappings: &[Mapping]) -> Result<Malloc, Error> {
    let places = writable_files(mappings);
    let Located { layout, arenas } = locate(runs, &places, mappings)?;
    let heap = program_break(mappings);
    let parameters = parameters::find(runs, &places, &heap);
    let mut reader = Reader { runs, layout, parts: Vec::new(), arenas: Vec::new(), doubts: Vec::new() };
    let named = if let Break::At(start) = heap { Some(start) } else { None };
    let start = parameters.and_then(|p| p.heap_start).or(named);
    for (index, arena) in arenas.iter().enumerate() {
        match layout.state(runs, *arena) {
            Some(fields) if index == 0 => {
                reader.main(fields, start.and_then(|start| rest_of(mappings, start)));
            }
            Some(fields) => reader.thread(fields),
            None if index == 0 => return Err(Error::NoArena),
            None => {}
        }
    }
    let found = reader.mapped(mappings, parameters);
    Ok(reader.finish(&found, parameters))
}

pub(super) fn program_break(mappings: &[Mapping]) -> Break {
    let named = mappings.iter().find(|m| m.path.as_os_str() == "[heap]");
    let anonymous = mappings.iter().filter(|m| m.write && !m.shared && is_nameless(m) && m.start < HIGHEST);
    named.map_or_else(|| Break::Among(anonymous.map(|m| m.start).collect()), |heap| Break::At(heap.start))
}

/// From `start` to the end of what is mapped there: several lines, where parts were protected otherwise.
pub(super) fn rest_of(mappings: &[Mapping], start: u64) -> Option<Range<u64>> {
    let first = mappings.partition_point(|mapping| mapping.end <= start);
    let mut end = start;
    for mapping in mappings.get(first..)? {
        if mapping.start > end || !(is_nameless(mapping) || mapping.path.as_os_str() == "[heap]") {
            break;
        }
        end = mapping.end.min(HIGHEST);
    }
    (start < end).then_some(start..end)
}

impl Reader<'_> {
    fn main(&mut self, fields: Fields, range: Option<Range<u64>>) {
        let region = range.map(|range| walk_break(self.runs, range, fields.top));
        self.add_arena(fields, true, region.into_iter().collect());
    }

    fn thread(&mut self, fields: Fields) {
        let heaps = heaps(self.runs, &fields);
        if heaps.is_empty() {
            self.doubts.push(Doubt::NoHeap { arena: fields.address });
        }
        let regions = heaps.into_iter().map(|heap| walk_heap(self.runs, heap, fields.top)).collect();
        self.add_arena(fields, false, regions);
    }

    fn add_arena(&mut self, fields: Fields, main: bool, regions: Vec<Region>) {
        self.arenas.push(Walked { fields, main, ranges: Vec::new() });
        self.add_regions(self.arenas.len() - 1, regions);
    }

    fn add_regions(&mut self, arena: usize, regions: Vec<Region>) {
        let Some(walked) = self.arenas.get_mut(arena) else { return };
        let places: usize = regions.iter().map(|region| region.breaks).sum();
        if places > 0 {
            self.doubts.push(Doubt::Broken { arena: walked.fields.address, places });
        }
        walked.ranges.extend(regions.iter().map(|region| region.range.clone()));
        self.parts.extend(regions);
    }

    /// Looks through the anonymous mappings; pieces of the main arena are added to it.
    fn mapped(&mut self, mappings: &[Mapping], parameters: Option<Parameters>) -> Found {
        let ranges = unclaimed(mappings, self.parts.iter().map(|part| part.range.clone()).collect());
        let in_pieces = self.arenas.first().filter(|main| {
            let flags = self.runs.half(main.fields.address + 4).unwrap_or(0);
            flags & IN_PIECES != 0
        });
        let top = in_pieces.map(|main| main.fields.top);
        let is_right =
            |found: &Found| parameters.is_some_and(|p| p.agree(found.chunks.len() as u64, found.bytes()));
        let mut found = mapped::find(self.runs, &ranges, Counting::Whole, top);
        if !is_right(&found) {
            let other = mapped::find(self.runs, &ranges, Counting::WithoutHeader, top);
            if is_right(&other) || other.chunks.len() > found.chunks.len() {
                found = other;
            }
        }
        let regions = std::mem::take(&mut found.regions);
        self.add_regions(0, regions);
        found
    }

    fn finish(mut self, found: &Found, parameters: Option<Parameters>) -> Malloc {
        let mut parts: Vec<_> =
            std::mem::take(&mut self.parts).into_iter().map(|region| region.marks).collect();
        parts.extend(found.chunks.iter().map(mapped::MappedChunk::marks));
        let mut index = Index::join(parts, found.counting.overhead());
        self.fastbins(&mut index);
        self.caches(&mut index);
        let main_top = self.arenas.first().map(|arena| arena.fields.top);
        let arenas = std::mem::take(&mut self.arenas);
        let arenas = arenas.iter().map(|walked| self.sum(walked, &index, main_top)).collect();
        let mapped = self.compare(found, parameters);
        Malloc { version: None, arenas, mapped, layout: self.layout, doubts: self.doubts, index }
    }

    fn fastbins(&mut self, index: &mut Index) {
        let most = index.len();
        let mut all = Vec::new();
        for arena in self.arenas.iter().map(|arena| arena.fields.address) {
            for head in self.layout.fastbin_heads(self.runs, arena) {
                let (chunks, ended) = cache::fastbin(self.runs, head, most);
                all.extend(chunks);
                if !ended {
                    self.doubts.push(Doubt::Endless { arena });
                }
            }
        }
        self.restate(index, all, State::Fastbin);
    }

    fn caches(&mut self, index: &mut Index) {
        let fits = index.stretches().filter(|s| s.state == State::InUse && cache::may_be_cache(s.bytes()));
        let candidates: Vec<u64> = fits.map(|stretch| stretch.start).collect();
        let caches = cache::caches(self.runs, &candidates);
        let heads = caches.iter().map(|cache| cache.chunk).collect();
        let cached = caches.into_iter().flat_map(|cache| cache.cached).collect();
        self.restate(index, heads, State::Metadata);
        self.restate(index, cached, State::Cached);
    }

    fn restate(&mut self, index: &mut Index, starts: Vec<u64>, state: State) {
        let strangers = index.restate(starts, state).len();
        if strangers > 0 {
            self.doubts.push(Doubt::Strangers { chunks: strangers });
        }
    }

    fn sum(&mut self, walked: &Walked, index: &Index, main_top: Option<u64>) -> Arena {
        let Fields { address, attached, system, top, .. } = walked.fields;
        let pieces = walked.ranges.len() as u64;
        let mut arena = Arena {
            address,
            main: walked.main,
            threads: attached,
            pieces,
            system_bytes: system,
            top,
            ..Arena::default()
        };
        let stretches = walked.ranges.iter().flat_map(|range| index.within(range.clone()));
        stretches.for_each(|stretch| arena.add(stretch, main_top));
        let (walked, foreign) = (arena.walked(), arena.unknown_bytes);
        arena.unknown_bytes = system.saturating_sub(walked);
        if system != walked && system != walked + foreign {
            self.doubts.push(Doubt::Sum { arena: address, system, walked });
        }
        arena
    }

    fn compare(&mut self, found: &Found, parameters: Option<Parameters>) -> Mapped {
        let (found_count, found_bytes) = (found.chunks.len() as u64, found.bytes());
        let Some(parameters) = parameters else {
            self.doubts.push(Doubt::NoParameters);
            return Mapped { count: found_count, bytes: found_bytes, found_count, found_bytes };
        };
        let Parameters { mapped_count: count, mapped_bytes: bytes, .. } = parameters;
        if !parameters.agree(found_count, found_bytes) {
            self.doubts.push(Doubt::Mapped { count, bytes, found_count, found_bytes });
        }
        Mapped { count, bytes, found_count, found_bytes }
    }
}

/// Anonymous private memory, nameless or named by malloc itself, without what is claimed, in any order.
pub(super) fn unclaimed(mappings: &[Mapping], claimed: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let claimed = merged(claimed);
    let anonymous =
        mappings.iter().filter(|m| m.read && m.write && !m.shared && is_nameless(m) && m.end < HIGHEST);
    anonymous.flat_map(|mapping| without(mapping.range(), &claimed)).collect()
}

fn is_nameless(mapping: &Mapping) -> bool {
    let path = mapping.path.as_os_str().as_encoded_bytes();
    path.is_empty() || path.starts_with(b"[anon")
}

/// `claimed` in order, none of them overlapping.
fn without(range: Range<u64>, claimed: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut at = range.start;
    let first = claimed.partition_point(|taken| taken.end <= range.start);
    for taken in claimed[first..].iter().take_while(|taken| taken.start < range.end) {
        rest.push(at..taken.start.max(at));
        at = at.max(taken.end);
    }
    rest.push(at..range.end.max(at));
    rest.retain(|range| !range.is_empty());
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(start: u64, end: u64) -> Mapping {
        Mapping { start, end, read: true, write: true, ..Mapping::default() }
    }

    #[test]
    fn what_is_claimed_is_not_looked_at() {
        let mappings = [anonymous(0x1000, 0x9000), anonymous(0x10_000, 0x20_000)];
        let claimed = vec![0x8000..0x11_000, 0x0..0x2000, 0x3000..0x4000];
        assert_eq!(unclaimed(&mappings, claimed), [0x2000..0x3000, 0x4000..0x8000, 0x11_000..0x20_000]);
        assert_eq!(unclaimed(&mappings, Vec::new()), [0x1000..0x9000, 0x10_000..0x20_000]);
    }

    /// A heap in two lines of the list, with a buffer in the first.
    #[test]
    fn a_claim_within_another_does_not_end_it() {
        let mappings = [anonymous(0x1000, 0x5000), anonymous(0x5000, 0x9000)];
        let left = unclaimed(&mappings, vec![0x1000..0x9000, 0x2000..0x3000]);
        assert!(left.is_empty(), "{left:x?}");
    }
}
