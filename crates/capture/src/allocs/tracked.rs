//! One process image as its events tell it: blocks, mappings, sums.

use nilometer_ring::event::{Level, Mode, Source as From, Stacks, mapping};
use nilometer_ring::{Decoder, Event};
use nilometer_trace::allocs::{Amount, Histogram, Source, special};
use rustc_hash::FxHashMap;

use super::block::{Block, Blocks, MOST_BYTES, TICKS};
use super::inherit::{Inherited, Seed};
use super::meaning::{Meaning, Meanings};
use super::order::{Order, Place};
use super::phase::{Phases, survey};
use super::range::{Cut, Range, Ranges};
use super::site::{Own, Sites};
use super::weight::{Draw, Draws, EVERY};
use super::window::Window;

/// What is shared by all processes of a recording.
#[derive(Debug)]
pub struct Sums {
    pub sites: Sites,
    pub sizes: Histogram,
    pub lifetimes: Histogram,
    /// What stacks mean, by the inode of their book.
    pub meanings: FxHashMap<u64, Meanings>,
    /// How many 2^-16 nanoseconds a tick has.
    pub tick_scale: u64,
}

impl Sums {
    pub fn new() -> Self {
        Self {
            sites: Sites::default(),
            sizes: Histogram::whole(),
            lifetimes: Histogram::whole(),
            meanings: FxHashMap::default(),
            tick_scale: 0,
        }
    }
}

/// What a site is found by: native stack, Python stack, allocator.
type Key = (u32, u32, Source);

const RECENT_SITES: usize = 1 << 9;
const NO_SITE: u32 = u32::MAX;

/// What a lane's thread did last.
#[derive(Debug, Default)]
struct Lane {
    draw: u8,
    last_allocated: u64,
    last_freed: Option<(u64, Option<Block>)>,
    stacks: (Stacks, Source),
    site: Option<u32>,
    /// The phases it is in.
    phases: u8,
}

/// The events of one process image, added up.
#[derive(Debug)]
pub struct Tracked {
    /// Its row in the recording.
    pub process: u32,
    /// Inode of its book.
    book: u64,
    phases: Phases,
    lanes: Vec<Lane>,
    pub blocks: Blocks,
    ranges: Ranges,
    pub inherited: Inherited,
    order: Order,
    draws: Draws,
    pub own: Own,
    index: FxHashMap<Key, u32>,
    /// The last ones found, by a hash of their stacks.
    recent: Vec<(Key, u32)>,
    pub sites: Vec<u32>,
    pub frees: u64,
    pub events: u64,
    pub unknown_frees: u64,
    pub discarded_bytes: u64,
    pub file_mapped_bytes: u64,
    /// Children it forked, to be given what it had.
    pub forks: Vec<(u32, Seed)>,
    pub last_ticks: u64,
    /// A stretch that somebody asked for.
    pub window: Option<Box<Window>>,
}

impl Tracked {
    pub fn new(process: u32, book: u64, inherited: Inherited) -> Self {
        Self {
            process,
            book,
            phases: Phases::default(),
            lanes: Vec::new(),
            blocks: Blocks::default(),
            ranges: Ranges::default(),
            inherited,
            order: Order::default(),
            draws: Draws::default(),
            own: Own::default(),
            index: FxHashMap::default(),
            recent: vec![((0, 0, Source::Heap), NO_SITE); RECENT_SITES],
            sites: Vec::new(),
            frees: 0,
            events: 0,
            unknown_frees: 0,
            discarded_bytes: 0,
            file_mapped_bytes: 0,
            forks: Vec::new(),
            last_ticks: 0,
            window: None,
        }
    }

    /// Before all lanes are read once more.
    pub fn begin_turn(&mut self) {
        let (inherited, unknown) = (&mut self.inherited, &mut self.unknown_frees);
        self.order.begin_turn(|address| *unknown += u64::from(!inherited.free(address)));
    }

    #[inline]
    pub fn take(&mut self, sums: &mut Sums, lane: usize, decoder: &Decoder, event: Event) {
        self.events += 1;
        match event {
            Event::Alloc { address, bytes, source, stacks } => {
                let bytes = bytes.min(MOST_BYTES); // what is added now is what its end will take away
                self.allocated(sums, lane, decoder.ticks(), address, bytes, source_of(source), stacks);
            }
            Event::Free { address } => self.freed(sums, lane, decoder.ticks(), address),
            other => self.rare(sums, lane, decoder, other),
        }
    }

    #[inline]
    fn lane(&mut self, lane: usize) -> &mut Lane {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        &mut self.lanes[lane]
    }

    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the fields of one event, in registers")]
    fn allocated(
        &mut self,
        sums: &mut Sums,
        lane: usize,
        ticks: u64,
        address: u64,
        bytes: u64,
        source: Source,
        stacks: Stacks,
    ) {
        let site = self.site(sums, lane, stacks, source);
        let state = self.lane(lane);
        let draw = state.draw;
        state.last_allocated = address;
        let amount = self.draws.amount(draw, bytes);
        sums.sizes.add(bytes, amount.count, amount.bytes);
        self.grow(sums, lane, site, &amount, ticks);
        let block = Block { bytes, born: ticks, draw, site };
        if self.order.was_freed(address, Place { lane: lane as u32, ticks }) {
            self.give_back(sums, &block, ticks, false);
        } else if let Some(before) = self.blocks.insert(address, &block) {
            self.give_back(sums, &before, ticks, false);
            self.order.displaced(address, lane as u32);
        }
    }

    /// The block counts, after the phases that its stack is not in any more have ended.
    #[inline]
    fn grow(&mut self, sums: &mut Sums, lane: usize, site: u32, amount: &Amount, ticks: u64) {
        let meaning = sums.sites.all.get(site as usize).map_or_else(Meaning::default, |site| site.meaning);
        if meaning.mask != 0 {
            let state = self.lane(lane);
            let before = std::mem::replace(&mut state.phases, meaning.mask);
            if before != meaning.mask && self.phases.change(&mut sums.sites, before, meaning.mask) {
                survey(&mut sums.sites, &self.blocks);
            }
        }
        if let Some(window) = &mut self.window {
            window.grow(site, amount.bytes, amount.count, ticks);
        }
        if sums.sites.grow(&mut self.own, site, amount, ticks) {
            self.phases.touch(meaning, site);
        }
    }

    /// The process has ended.
    pub fn close(&mut self, sums: &mut Sums) {
        self.phases.close(&mut sums.sites);
    }

    #[inline]
    fn freed(&mut self, sums: &mut Sums, lane: usize, ticks: u64, address: u64) {
        let temporary = self.lane(lane).last_allocated == address;
        self.frees += 1;
        if self.order.is_settled(address, lane as u32) {
            return;
        }
        let block = self.blocks.remove(address);
        self.lanes[lane].last_freed = Some((address, block));
        match block {
            Some(block) => self.give_back(sums, &block, ticks, temporary),
            None if self.inherited.holds(address) => {
                self.inherited.free(address);
            }
            None => {
                self.order.free_without_block(address, lane as u32, nilometer_ring::clock::ticks());
            }
        }
    }

    /// A block ends: its site has less, and we know how long it lived.
    #[inline]
    fn give_back(&mut self, sums: &mut Sums, block: &Block, ticks: u64, temporary: bool) {
        let amount = self.draws.amount(block.draw, block.bytes);
        let lived = (ticks & TICKS).saturating_sub(block.born);
        let in_step = block.born >= sums.sites.steps.last_ticks() & TICKS;
        sums.lifetimes.add(nanoseconds(lived, sums.tick_scale), amount.count, amount.bytes);
        if let Some(window) = &mut self.window {
            window.shrink(block.site, amount.bytes, block.born);
        }
        let Some(site) = sums.sites.shrink(&mut self.own, block.site, &amount) else { return };
        site.lifetime_ticks = site.lifetime_ticks.saturating_add(lived.saturating_mul(amount.count));
        if temporary {
            site.temporary_bytes = site.temporary_bytes.wrapping_add(amount.bytes);
            site.temporary_count = site.temporary_count.wrapping_add(amount.count);
        }
        if in_step {
            site.freed_in_step_bytes = site.freed_in_step_bytes.wrapping_add(amount.bytes);
        }
    }

    #[inline]
    fn site(&mut self, sums: &mut Sums, lane: usize, stacks: Stacks, source: Source) -> u32 {
        let state = self.lane(lane);
        if let Some(site) = state.site.filter(|_| state.stacks == (stacks, source)) {
            return site;
        }
        let site = self.recent_site(sums, stacks, source);
        let state = self.lane(lane);
        state.stacks = (stacks, source);
        state.site = Some(site);
        site
    }

    /// By a small table of the last ones: a loop has few stacks, and the whole index does not stay in the cache.
    #[inline]
    fn recent_site(&mut self, sums: &mut Sums, stacks: Stacks, source: Source) -> u32 {
        let hash = stacks.native.wrapping_mul(0x9e37_79b1) ^ stacks.python.wrapping_mul(0x85eb_ca6b);
        let at = (hash >> 23) as usize; // RECENT_SITES is 2^9
        if let Some(&(key, site)) = self.recent.get(at)
            && key == (stacks.native, stacks.python, source)
            && site != NO_SITE
        {
            return site;
        }
        let site = self.find_site(sums, stacks, source);
        if let Some(recent) = self.recent.get_mut(at) {
            *recent = ((stacks.native, stacks.python, source), site);
        }
        site
    }

    fn find_site(&mut self, sums: &mut Sums, stacks: Stacks, source: Source) -> u32 {
        let Stacks { native, python } = stacks;
        if let Some(site) = self.index.get(&(native, python, source)) {
            return *site;
        }
        let meaning = sums.meanings.get_mut(&self.book).map_or_else(Meaning::default, |book| book.of(python));
        match sums.sites.push(self.process, native, python, source, meaning) {
            Some(site) => self.own_site((native, python, source), site),
            None => self.folded_site(sums, source),
        }
    }

    fn folded_site(&mut self, sums: &mut Sums, source: Source) -> u32 {
        let key = (special::FOLDED, special::FOLDED, source);
        if let Some(site) = self.index.get(&key) {
            return *site;
        }
        let site = sums.sites.push_always(self.process, special::FOLDED, special::FOLDED, source);
        self.own_site(key, site)
    }

    fn own_site(&mut self, key: Key, site: u32) -> u32 {
        self.index.insert(key, site);
        self.sites.push(site);
        site
    }

    #[cold]
    fn rare(&mut self, sums: &mut Sums, lane: usize, decoder: &Decoder, event: Event) {
        let ticks = decoder.ticks();
        self.last_ticks = self.last_ticks.max(ticks);
        match event {
            Event::Begin { .. } => *self.lane(lane) = Lane::default(),
            Event::Mode { mode, mean_bytes, exact_bytes } => {
                let draw = self.draw_of(mode, mean_bytes, exact_bytes);
                self.lane(lane).draw = draw;
            }
            Event::Unfree { address } => self.unfreed(sums, lane, ticks, address),
            Event::Map { address, bytes, kind, stacks } => {
                self.mapped(sums, lane, ticks, (address, bytes), kind, stacks);
            }
            Event::Unmap { address, bytes } => {
                self.unmapped(sums, address, bytes, ticks);
            }
            // What an allocator maps for itself was not counted, and is not when it moves.
            Event::Remap { from, from_bytes, to, to_bytes, stacks }
                if self.unmapped(sums, from, from_bytes, ticks) =>
            {
                self.mapped(sums, lane, ticks, (to, to_bytes), 0, stacks);
            }
            Event::Discard { bytes, .. } => {
                self.discarded_bytes = self.discarded_bytes.saturating_add(bytes);
            }
            Event::Fork { child } => self.forks.push((child, Seed::of(&self.blocks, &self.inherited))),
            _ => {}
        }
    }

    fn draw_of(&mut self, mode: Mode, mean_bytes: u64, exact_bytes: u64) -> u8 {
        if mode.level() != Level::Sampled {
            return EVERY;
        }
        self.draws.index(Draw { mean_bytes, exact_bytes })
    }

    /// The last free of this thread did not happen.
    fn unfreed(&mut self, sums: &mut Sums, lane: usize, ticks: u64, address: u64) {
        let Some((freed, block)) = self.lane(lane).last_freed.take() else { return };
        if freed != address {
            return;
        }
        self.frees = self.frees.saturating_sub(1);
        match block {
            Some(block) => {
                let amount = self.draws.amount(block.draw, block.bytes);
                sums.sites.regrow(&mut self.own, block.site, &amount, ticks);
                if let Some(window) = &mut self.window {
                    window.raise(block.site, amount.bytes, block.born);
                }
                self.blocks.insert(address, &block);
            }
            None => self.order.forget(address),
        }
    }

    fn mapped(
        &mut self,
        sums: &mut Sums,
        lane: usize,
        ticks: u64,
        (address, bytes): (u64, u64),
        kind: u8,
        stacks: Stacks,
    ) {
        let bytes = whole_pages(bytes).min(u64::MAX - address);
        self.unmapped(sums, address, bytes, ticks); // a new mapping may replace an old one
        if kind & mapping::FILE != 0 {
            self.file_mapped_bytes = self.file_mapped_bytes.saturating_add(bytes);
        }
        if kind & (mapping::FILE | mapping::BACKING | mapping::RESERVED) != 0 {
            return;
        }
        let site = self.site(sums, lane, stacks, Source::Mapping);
        if self.ranges.insert(address, Range { end: address + bytes, site, born: ticks }) {
            let amount = Amount { bytes, count: 1, variance: 0 };
            sums.sizes.add(bytes, 1, bytes);
            self.grow(sums, lane, site, &amount, ticks);
        }
    }

    /// True if something was there.
    fn unmapped(&mut self, sums: &mut Sums, address: u64, bytes: u64, ticks: u64) -> bool {
        let end = address.saturating_add(whole_pages(bytes));
        let (own, window) = (&mut self.own, &mut self.window);
        let mut found = false;
        self.ranges.cut(address, end, |Cut { bytes, site, born, ranges }| {
            found = true;
            let amount = Amount { bytes, count: ranges as u64, variance: 0 };
            let lived = (ticks & TICKS).saturating_sub(born & TICKS);
            sums.lifetimes.add(nanoseconds(lived, sums.tick_scale), 1, bytes);
            if let Some(window) = window {
                window.shrink(site, bytes, born);
            }
            if let Some(site) = sums.sites.shrink(own, site, &amount) {
                site.lifetime_ticks = site.lifetime_ticks.saturating_add(lived);
            }
        });
        found
    }
}

/// What a mapping of so many bytes takes, within the addresses there are.
fn whole_pages(bytes: u64) -> u64 {
    bytes.min(1 << 48).next_multiple_of(4096)
}

#[inline]
pub fn nanoseconds(ticks: u64, scale: u64) -> u64 {
    ((u128::from(ticks) * u128::from(scale)) >> 16) as u64
}

fn source_of(source: From) -> Source {
    match source {
        From::Malloc | From::Realloc => Source::Heap,
        From::Python | From::PythonRealloc => Source::Python,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (Tracked, Sums, Decoder) {
        let mut tracked = Tracked::new(0, 0, Inherited::default());
        tracked.window = Some(Box::new(Window::open(0)));
        (tracked, Sums::new(), Decoder::default())
    }

    fn alloc(address: u64, bytes: u64) -> Event {
        Event::Alloc { address, bytes, source: From::Malloc, stacks: Stacks::default() }
    }

    #[test]
    fn the_end_of_a_huge_block_takes_away_what_its_birth_added() {
        let (mut tracked, mut sums, decoder) = fresh();
        tracked.take(&mut sums, 0, &decoder, alloc(64, 32 << 40));
        assert_eq!((sums.sites.live.bytes, sums.sites.live.count), (MOST_BYTES, 1));
        tracked.take(&mut sums, 0, &decoder, Event::Free { address: 64 });
        assert_eq!((sums.sites.live, tracked.own.live), (Amount::default(), Amount::default()));
    }

    #[test]
    fn a_target_that_lies_gets_strange_sums_and_no_panic() {
        let (mut tracked, mut sums, decoder) = fresh();
        // More than fit a sum, each freed at once.
        for address in (8..24 << 20).step_by(8) {
            tracked.take(&mut sums, 0, &decoder, alloc(address, u64::MAX));
            tracked.take(&mut sums, 0, &decoder, Event::Free { address });
        }
        for (address, bytes) in [(0, u64::MAX), (u64::MAX - 5, 9), (4096, u64::MAX - 3)] {
            let map = Event::Map { address, bytes, kind: 0, stacks: Stacks::default() };
            tracked.take(&mut sums, 0, &decoder, map);
            tracked.take(&mut sums, 0, &decoder, Event::Unmap { address, bytes });
        }
        assert_eq!(sums.sites.live.bytes, 0);
        assert!(tracked.window.is_some_and(|window| window.tell(5).total_bytes > 0));
    }
}
