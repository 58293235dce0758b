//! The ledger of a process that is neither stopped nor copied: what a run takes of its own accord.
//!
//! Mappings and pages as ever; of Python the headers of its pools and the owners of large buffers; of malloc the
//! headers of its chunks, window by window. The one invariant: what is kept grows with the number of pools and
//! mappings, by some mebibytes a gigabyte, never with the number of objects.

use std::ops::Range;

use nilometer_cpython as cpython;
use nilometer_image as image;
use nilometer_image::live::Peek;
use nilometer_kernel::parse::kind::Kind;
use nilometer_kernel::sys::pagemap::{PageRun, PageState};
use nilometer_native::glibc::{self, State};
use nilometer_native::{allocator as other, torch};
use nilometer_trace::heap::{Graph, PauseMode};
use nilometer_trace::ledger::{self, Badge, Ledger, Line, PythonHeap};

use super::claim::{self, Claim};
use super::count::{self, Counted};
use super::ground::{self, Circumstances};
use super::sight::{Looker, Sight, Vma};
use super::{Error, allocator, describe, identify, total, unshared, usages};
use crate::census::Readers;

/// Chunks are told together up to so many bytes: where in it each stands hardly matters for what is resident.
const BLOCK: u64 = 64 << 10;

/// What no survey can tell.
const LIMITS: &str = "read while it ran, without a copy: objects above 512 bytes, arrays below 1 MiB and threads' caches \
                      are told as malloc in use";

/// Fails where its memory may not be read.
pub fn survey(pid: i32) -> Result<Ledger, Error> {
    let peek = Peek::open(pid)?;
    let modules = peek.modules();
    let readers = Readers::find(&peek, &modules);
    let looker = Looker::new(pid);
    looker.look(u64::MAX);
    let sight = looker.finish();
    let mut ledger = identify(pid);
    ledger.python = readers.python.as_ref().map(|python| python.version.to_string()).unwrap_or_default();
    ledger.badge = Badge::Estimated;
    ledger.pause.mode = PauseMode::Off;
    ledger.kernel_rss_bytes = sight.kernel_rss_bytes;
    ledger.allocators =
        other::names(&modules).into_iter().map(|allocator| allocator.name.to_owned()).collect();
    ledger.notes.push(LIMITS.to_owned());
    let known = Known::read(&peek, &readers, &sight);
    ledger.malloc.clone_from(&known.malloc);
    ledger.python_heap = known.python_heap();
    fill(&mut ledger, known, &sight);
    Ok(ledger)
}

fn fill(ledger: &mut Ledger, known: Known, sight: &Sight) {
    let circumstances = Circumstances {
        stack_pointers: sight.stack_pointers.clone(),
        has_other_allocator: !ledger.allocators.is_empty(),
        readable: true,
    };
    let grounds = ground::grounds(&sight.vmas, &circumstances);
    let claims = known.claims();
    let counted: Vec<Counted> = if sight.has_pages {
        // Contents are not read, so that zeros cannot be told.
        let count = |of| count::count_pages(of, &sight.pages, &claims, |_| false);
        sight.vmas.iter().zip(&grounds).map(count).collect()
    } else {
        usages(&sight.vmas, &grounds)
    };
    ledger.unshared = sight.fork.as_ref().map(|fork| unshared::judge(fork, &sight.pages, &Graph::default()));
    total(ledger, &sight.vmas);
    ledger.parts = count::parts(&sight.vmas, &counted);
    ledger.libraries = count::libraries(&sight.vmas, &grounds, &counted);
    if let Some(heap) = &mut ledger.python_heap {
        describe::elsewhere(heap, (&grounds, &counted));
    }
    describe::finish(ledger, (&sight.vmas, &grounds, &counted));
}

/// What allocators and interpreter say is theirs.
#[derive(Debug, Default)]
pub(super) struct Known {
    buffers: Vec<Range<u64>>,
    python: Option<cpython::Survey>,
    malloc: Option<ledger::Malloc>,
    chunks: Vec<Claim>,
}

impl Known {
    pub fn read(peek: &Peek, readers: &Readers<'_>, sight: &Sight) -> Self {
        let python = readers.python.as_ref().ok().map(|python| cpython::survey(python, peek));
        let taken = image::merged(python.iter().flat_map(pools).collect());
        let mut blend = Blend::new(sight, readers.torch().map(|classes| classes.finder(peek)));
        let survey = glibc::survey(peek, &taken, &mut blend).ok();
        blend.flush();
        blend.claims.sort_unstable_by_key(|claim| claim.start);
        let mut buffers: Vec<Range<u64>> =
            python.iter().flat_map(|python| python.buffers.iter().cloned()).collect();
        buffers.extend(blend.finder.take().map(torch::Finder::finish).unwrap_or_default());
        buffers.sort_unstable_by_key(|range| range.start);
        buffers.dedup();
        let malloc = survey.map(|survey| blend.sums(survey));
        Self { buffers, python, malloc, chunks: blend.claims }
    }

    fn python_heap(&self) -> Option<PythonHeap> {
        let python = self.python.as_ref()?;
        let mut arenas: Vec<u64> =
            python.pools.iter().map(|(base, _)| base / python.arena_bytes.max(1)).collect();
        arenas.dedup();
        Some(PythonHeap {
            arenas: arenas.len() as u64,
            pools: python.pools.len() as u64,
            buffers: self.buffers.len() as u64,
            buffer_bytes: self.buffers.iter().map(|range| range.end - range.start).sum(),
            ..PythonHeap::default()
        })
    }

    pub fn claims(self) -> Vec<Claim> {
        let buffers = claim::claims(self.buffers, Line::Arrays);
        let Some(python) = self.python else { return claim::overlay(&buffers, self.chunks) };
        let gaps = claim::claims(gaps(&python), Line::PythonSlack);
        let mut objects: Vec<Claim> = python.pools.iter().flat_map(|pool| blocks(&python, *pool)).collect();
        objects.extend(claim::claims(python.texts, Line::PythonObjects));
        objects.sort_unstable_by_key(|claim| claim.start);
        let upper = claim::overlay(&buffers, objects);
        claim::overlay(&claim::overlay(&upper, self.chunks), gaps)
    }
}

fn pools(python: &cpython::Survey) -> impl Iterator<Item = Range<u64>> + '_ {
    python.pools.iter().map(|(base, _)| *base..base + python.pool_bytes)
}

/// Blocks in use first, the rest of the pool behind them.
fn blocks(python: &cpython::Survey, (base, used): (u64, u32)) -> [Claim; 2] {
    let (used, end) = (base + u64::from(used).min(python.pool_bytes), base + python.pool_bytes);
    [
        Claim { start: base, end: used, line: Line::PythonObjects },
        Claim { start: used, end, line: Line::PythonSlack },
    ]
}

/// Between two pools of one arena: pools without a block in use. Whoever else claims it is believed.
fn gaps(python: &cpython::Survey) -> Vec<Range<u64>> {
    let ends = python.pools.windows(2).map(|pair| pair[0].0 + python.pool_bytes..pair[1].0);
    ends.filter(|gap| gap.start < gap.end && gap.end - gap.start < python.arena_bytes).collect()
}

/// Malloc's stretches, joined to claims.
struct Blend<'a> {
    pages: Pages<'a>,
    heap: Range<u64>,
    finder: Option<torch::Finder<'a>>,
    claims: Vec<Claim>,
    /// What is not a claim yet: a stretch without gaps, and the bytes of it by line.
    open: Range<u64>,
    sums: [(Line, u64); 4],
    held_main_bytes: u64,
    held_threads_bytes: u64,
    trimmable_bytes: u64,
}

impl<'a> Blend<'a> {
    fn new(sight: &'a Sight, finder: Option<torch::Finder<'a>>) -> Self {
        Self {
            pages: Pages { runs: &sight.pages, at: 0 },
            heap: main_heap(&sight.vmas),
            finder,
            claims: Vec::new(),
            open: 0..0,
            sums: [Line::MallocInUse, Line::MallocHeld, Line::MallocMetadata, Line::MallocUnknown]
                .map(|line| (line, 0)),
            held_main_bytes: 0,
            held_threads_bytes: 0,
            trimmable_bytes: 0,
        }
    }

    fn flush(&mut self) {
        let mut start = self.open.start;
        for (line, bytes) in &mut self.sums {
            let end = start + std::mem::take(bytes);
            if start < end {
                self.claims.push(Claim { start, end, line: *line });
            }
            start = end;
        }
        self.open = 0..0;
    }

    fn sums(&self, survey: glibc::Survey) -> ledger::Malloc {
        ledger::Malloc {
            arenas: survey.arenas,
            system_bytes: survey.in_use_bytes
                + survey.free_bytes
                + survey.metadata_bytes
                + survey.unknown_bytes,
            in_use_bytes: survey.in_use_bytes + survey.metadata_bytes,
            free_bytes: survey.free_bytes,
            mapped_bytes: survey.mapped_bytes,
            mapped_chunks: survey.mapped_chunks,
            held_main_bytes: self.held_main_bytes,
            held_threads_bytes: self.held_threads_bytes,
            trimmable_bytes: self.trimmable_bytes,
            ..ledger::Malloc::default()
        }
    }
}

fn main_heap(vmas: &[Vma]) -> Range<u64> {
    vmas.iter().find(|vma| vma.kind == Kind::Heap).map_or(0..0, |vma| vma.start..vma.end)
}

impl glibc::Visitor for Blend<'_> {
    fn stretch(&mut self, state: State, range: Range<u64>) {
        let (line, bytes) = (allocator::line(state), range.end - range.start);
        if state.is_free() {
            let resident = self.pages.resident(&range);
            if self.heap.contains(&range.start) {
                self.held_main_bytes += resident;
            } else {
                self.held_threads_bytes += resident;
            }
        }
        if range.start != self.open.end || self.open.end - self.open.start >= BLOCK || bytes >= BLOCK {
            self.flush();
        }
        if bytes >= BLOCK {
            return self.claims.push(Claim { start: range.start, end: range.end, line });
        }
        if self.open.start == self.open.end {
            self.open = range.start..range.start;
        }
        self.open.end = range.end;
        if let Some((_, sum)) = self.sums.iter_mut().find(|(known, _)| *known == line) {
            *sum += bytes;
        }
    }

    fn trimmable(&mut self, range: Range<u64>) {
        self.trimmable_bytes += self.pages.resident(&range);
    }

    fn block(&mut self, address: u64, start: u64, bytes: &[u8]) {
        if let Some(finder) = &mut self.finder {
            finder.block(address, start, bytes);
        }
    }
}

/// Resident bytes of ranges that are asked for mostly in order.
struct Pages<'a> {
    runs: &'a [PageRun],
    at: usize,
}

impl Pages<'_> {
    fn resident(&mut self, range: &Range<u64>) -> u64 {
        let is_near =
            self.runs.get(self.at).is_some_and(|run| run.start <= range.start && range.start < run.end);
        if !is_near {
            self.at = self.runs.partition_point(|run| run.end <= range.start);
        }
        let here =
            self.runs.get(self.at..).unwrap_or_default().iter().take_while(|run| run.start < range.end);
        let own = here.filter(|run| run.state == PageState::Own);
        own.map(|run| run.end.min(range.end).saturating_sub(run.start.max(range.start))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_native::glibc::Visitor as _;

    fn run(start: u64, end: u64) -> PageRun {
        PageRun { start, end, state: PageState::Own }
    }

    #[test]
    fn small_chunks_are_told_together_and_none_is_lost() {
        let sight = Sight { pages: vec![run(0x1000, 0x3000), run(0x10_0000, 0x30_0000)], ..Sight::default() };
        let mut blend = Blend::new(&sight, None);
        for (state, range) in [
            (State::InUse, 0x1000..0x1100),
            (State::Free, 0x1100..0x1180),
            (State::InUse, 0x1180..0x2000),
            (State::InUse, 0x10_0000..0x20_0000),
            (State::Top, 0x20_0000..0x28_0000),
        ] {
            blend.stretch(state, range);
        }
        blend.flush();
        let told: Vec<(u64, u64, Line)> = blend.claims.iter().map(|c| (c.start, c.end, c.line)).collect();
        let (used, held) = (Line::MallocInUse, Line::MallocHeld);
        let expected = [
            (0x1000, 0x1f80, used),
            (0x1f80, 0x2000, held),
            (0x10_0000, 0x20_0000, used),
            (0x20_0000, 0x28_0000, held),
        ];
        assert_eq!(told, expected);
        assert_eq!(blend.held_threads_bytes, 0x80 + 0x8_0000);
    }

    #[test]
    fn pools_are_used_then_slack_and_gaps_of_an_arena_are_slack() {
        let python = cpython::Survey {
            pools: vec![(0x4000, 0x1000), (0x1_0000, 0x4000), (0x80_0000, 0x10)],
            pool_bytes: 0x4000,
            arena_bytes: 0x10_0000,
            ..cpython::Survey::default()
        };
        assert_eq!(gaps(&python), std::slice::from_ref(&(0x8000..0x1_0000)));
        let known = Known { python: Some(python), ..Known::default() };
        let claims = known.claims();
        let sum = |line| claims.iter().filter(|c| c.line == line).map(|c| c.end - c.start).sum::<u64>();
        assert_eq!(
            (sum(Line::PythonObjects), sum(Line::PythonSlack)),
            (0x5010, 3 * 0x4000 - 0x5010 + 0x8000)
        );
    }
}
