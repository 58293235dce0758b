//! Who holds large memory of which nobody says what it is: the library whose variable or object points at its beginning.
//!
//! Evidence is a word in a library's written data, or in a block of malloc's whose own first word lies in a library (a
//! virtual table). In blocks, which are used again and again, an int often stands in one half of what was a pointer into a
//! library; where such a word would lead, blocks are no evidence. The one invariant: where the evidence is divided, nobody
//! is named.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use nilometer_image::Image;
use nilometer_native::glibc::{Malloc, State};
use nilometer_trace::ledger::Line;

use super::claim::{self, Claim};
use super::count::{self, Counted};
use super::ground::Ground;
use super::sight::Vma;

/// Smaller ones are not worth a search.
const LARGE: u64 = 1 << 20;
const PAGE: u64 = 4096;
const WORD: u64 = 8;
/// Blocks that may be objects; in larger ones a word is too likely something else.
const LARGEST_OBJECT: u64 = 4096;
/// So many of three votes must be for one.
const SHARE: (u64, u64) = (2, 3);

/// Names by where the memory begins.
pub(super) type Holders = BTreeMap<u64, String>;

/// What is looked at.
pub(super) struct Scene<'a> {
    pub image: &'a Image,
    pub malloc: Option<&'a Malloc>,
    pub vmas: &'a [Vma],
    pub grounds: &'a [Ground],
    pub counted: &'a [Counted],
    pub claims: &'a [Claim],
}

/// Large mappings and mapped chunks that a library holds.
pub(super) fn find(scene: &Scene<'_>) -> Holders {
    let targets = scene.targets();
    if targets.is_empty() {
        return Holders::new();
    }
    let mut search = Search { targets, votes: HashMap::new() };
    scene.variables(&mut search);
    search.targets.retain(|_, start| !is_half_a_pointer(*start));
    scene.objects(&mut search);
    search.judge()
}

impl Scene<'_> {
    /// Pages in which a pointer to the memory would lead, by page number.
    fn targets(&self) -> HashMap<u64, u64> {
        let maps = self.vmas.iter().zip(self.counted);
        let maps = maps.filter(|(_, counted)| counted.lines[Line::OtherMaps as usize] >= LARGE);
        let chunks = self.malloc.into_iter().flat_map(mapped_chunks).filter(|range| {
            range.end - range.start >= LARGE
                && count::claimed(self.claims, range.clone(), Line::MallocInUse) * 2 > range.end - range.start
        });
        let starts = maps.map(|(vma, _)| vma.start).chain(chunks.map(|range| range.start));
        starts.map(|start| (start / PAGE, start)).collect()
    }

    fn package_at(&self, address: u64) -> Option<&str> {
        let index = self.vmas.partition_point(|vma| vma.end <= address);
        let vma = self.vmas.get(index).filter(|vma| vma.start <= address)?;
        self.grounds.get(index)?.package.as_deref().filter(|_| vma.start <= address)
    }

    /// Behind a library's variables another mapping may follow at once (an arena of Python's, say), which the kernel joins
    /// with them: what somebody else claims is none.
    fn variables(&self, search: &mut Search) {
        for (vma, ground) in self.vmas.iter().zip(self.grounds) {
            let Some(package) = ground.package.as_deref().filter(|_| vma.write) else { continue };
            for (start, bytes) in
                self.image.segments().filter(|(start, _)| (vma.start..vma.end).contains(start))
            {
                let end = vma.end.min(start + bytes.len() as u64);
                claim::cut(self.claims, start..end, |piece, line| {
                    let from = (piece.start - start).next_multiple_of(WORD) as usize;
                    let variables = bytes.get(from..(piece.end - start) as usize);
                    search.words(variables.filter(|_| line.is_none()).unwrap_or_default(), package);
                });
            }
        }
    }

    fn objects(&self, search: &mut Search) {
        let chunks = self.malloc.into_iter().flat_map(Malloc::chunks);
        let objects = chunks.filter(|chunk| chunk.state == State::InUse && chunk.usable <= LARGEST_OBJECT);
        for chunk in objects {
            let Some(bytes) = self.image.slice(chunk.start, chunk.usable as usize) else { continue };
            if !search.has(bytes) {
                continue;
            }
            let table = bytes.first_chunk().map(|word| u64::from_le_bytes(*word));
            if let Some(package) = table.and_then(|table| self.package_at(table)) {
                search.words(bytes, package);
            }
        }
    }
}

/// Does a pointer to the beginning of it read like another whose lower half was overwritten by a small int?
fn is_half_a_pointer(start: u64) -> bool {
    start & u64::from(u32::MAX) < PAGE
}

fn mapped_chunks(malloc: &Malloc) -> impl Iterator<Item = Range<u64>> + '_ {
    malloc.ranges().filter(|(state, _)| *state == State::Mapped).map(|(_, range)| range)
}

struct Search {
    targets: HashMap<u64, u64>,
    votes: HashMap<u64, BTreeMap<String, u64>>,
}

impl Search {
    fn has(&self, bytes: &[u8]) -> bool {
        words(bytes).any(|word| self.targets.contains_key(&(word / PAGE)))
    }

    fn words(&mut self, bytes: &[u8], package: &str) {
        let found: Vec<u64> =
            words(bytes).filter_map(|word| self.targets.get(&(word / PAGE)).copied()).collect();
        for start in found {
            *self.votes.entry(start).or_default().entry(package.to_owned()).or_default() += 1;
        }
    }

    fn judge(self) -> Holders {
        let mut holders = Holders::new();
        for (start, votes) in self.votes {
            let all: u64 = votes.values().sum();
            let Some((package, most)) = votes.into_iter().max_by_key(|(_, votes)| *votes) else { continue };
            if most * SHARE.1 >= all * SHARE.0 {
                holders.insert(start, package);
            }
        }
        holders
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes)
}

/// Bytes of mapped chunks by who holds them; `resident` counts what of a range is in memory.
pub(super) fn chunks_by_holder(
    malloc: &Malloc,
    holders: &Holders,
    resident: impl Fn(&Range<u64>) -> u64,
) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for range in mapped_chunks(malloc) {
        if let Some(holder) = holders.get(&range.start) {
            *sums.entry(holder).or_default() += resident(&range);
        }
    }
    let mut sums: Vec<(String, u64)> =
        sums.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    sums.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    sums
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;
    use nilometer_kernel::parse::kind::Kind;
    use nilometer_kernel::parse::smaps::Usage;
    use nilometer_kernel::sys::mapped::Mapped;

    use super::*;

    const POOL: u64 = 0x7f00_0002_0000;

    fn vma(range: Range<u64>) -> Vma {
        let (start, end) = (range.start, range.end);
        Vma {
            start,
            end,
            kind: Kind::Anonymous,
            write: true,
            name: Vec::new(),
            usage: Usage::default(),
            scaled: false,
        }
    }

    fn ground(package: Option<&str>) -> Ground {
        let package = package.map(str::to_owned);
        Ground { own: Line::OtherMaps, file: Line::OtherMaps, open: true, package }
    }

    /// One word of a library's, and behind another library's variables as many as there are in an arena.
    #[test]
    fn what_somebody_else_claims_is_no_variable() {
        let words = [POOL, 0, POOL + 8, POOL, POOL + 16].map(u64::to_le_bytes).concat();
        let segments = vec![Segment::new(0x1000, 0x1008, 0), Segment::new(0x2000, 0x2020, 8)];
        let mut counted = [Counted::default(), Counted::default(), Counted::default()];
        counted[2].lines[Line::OtherMaps as usize] = LARGE;
        let mut scene = Scene {
            image: &Image::new(Mapped::from(&words[..]), segments, Vec::new()),
            malloc: None,
            vmas: &[vma(0x1000..0x1008), vma(0x2000..0x2020), vma(POOL..POOL + LARGE)],
            grounds: &[ground(Some("numpy")), ground(Some("bz2")), ground(None)],
            counted: &counted,
            claims: &[],
        };
        assert_eq!(find(&scene)[&POOL], "bz2");
        // Claims need not begin where a word does.
        scene.claims = &[Claim { start: 0x2006, end: 0x2020, line: Line::PythonObjects }];
        assert_eq!(find(&scene)[&POOL], "numpy");
        scene.claims = &[Claim { start: 0x2004, end: 0x2018, line: Line::PythonObjects }];
        assert_eq!(find(&scene).get(&POOL), None);
    }

    #[test]
    fn divided_evidence_names_nobody() {
        let targets: HashMap<u64, u64> =
            [0x7f00_0000_0000, 0x7f11_0000_0000].map(|start: u64| (start / PAGE, start)).into();
        let mut search = Search { targets, votes: HashMap::new() };
        let word = |word: u64| word.to_le_bytes();
        search.words(&[word(0x7f00_0000_0010), word(7), word(0x7f11_0000_0000)].concat(), "numpy");
        search.words(&word(0x7f11_0000_0040), "torch");
        assert!(!search.has(&word(0x7f00_0000_1000)) && search.has(&word(0x7f00_0000_0fff)));
        let holders = search.judge();
        assert_eq!(holders.into_iter().collect::<Vec<_>>(), [(0x7f00_0000_0000, "numpy".to_owned())]);
    }
}
