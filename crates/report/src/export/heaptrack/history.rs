//! A history of blocks that has given sums.
//!
//! heaptrack calls a block temporary when it is given back right after it was handed out, told by size and stack. So blocks
//! that passed without being temporary are given back after another one was handed out.

use nilometer_analysis::allocs::model::Amounts;

/// How far a block is looked for that fits beside another one.
const LOOKED_AT: usize = 8;

/// Blocks of one stack and one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) trace: u64,
    pub(super) each_bytes: u64,
    pub(super) count: u64,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Out(&'a Blocks),
    Back(&'a Blocks),
    /// What follows leads to the peak.
    Peak,
    /// What follows leads to the end.
    End,
}

/// Bytes and blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    bytes: u64,
    count: u64,
}

impl Amount {
    fn less(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), count: self.count.saturating_sub(other.count) }
    }

    /// As blocks of two sizes that differ by one byte; bytes without a block are one.
    fn blocks(self, trace: u64) -> impl Iterator<Item = Blocks> {
        let count = self.count.max(u64::from(self.bytes > 0));
        let (each_bytes, larger) = (self.bytes / count.max(1), self.bytes % count.max(1));
        let small = Blocks { trace, each_bytes, count: count - larger };
        let large = Blocks { trace, each_bytes: each_bytes + 1, count: larger };
        [small, large].into_iter().filter(|blocks| blocks.count > 0)
    }
}

/// The sums of one stack, as blocks that share a fate.
#[derive(Debug)]
pub(super) struct Sums {
    trace: u64,
    /// At the peak and at the end.
    kept: Amount,
    /// At the peak only, at the end only.
    peak: Amount,
    live: Amount,
    /// At neither.
    passed: Amount,
    temporary: Amount,
    /// More were temporary than were at neither.
    temporary_at_peak: bool,
}

impl Sums {
    pub(super) fn new(trace: u64, amounts: &Amounts) -> Self {
        let peak = Amount { bytes: amounts.peak_bytes, count: amounts.peak_count };
        let live = Amount { bytes: amounts.live_end_bytes, count: amounts.live_end_count };
        let total = Amount { bytes: amounts.cumulative_bytes, count: amounts.count };
        let kept = both(peak, live);
        let (peak, live) = (peak.less(kept), live.less(kept));
        let passing = total.less(kept).less(peak).less(live);
        let temporary = Amount {
            bytes: amounts.temporary_bytes.min(passing.bytes),
            count: amounts.temporary_count.min(passing.count),
        };
        let temporary_at_peak = amounts.temporary_count > temporary.count && peak.count > 0;
        Self { trace, kept, peak, live, passed: passing.less(temporary), temporary, temporary_at_peak }
    }

    /// Blocks that came and went.
    pub(super) fn passing(&self) -> u64 {
        self.passed.count.saturating_add(self.temporary.count)
    }

    pub(super) fn thin(&mut self, one_in: u64) {
        for amount in [&mut self.passed, &mut self.temporary] {
            let count = amount.count.div_ceil(one_in);
            amount.bytes =
                (u128::from(amount.bytes) * u128::from(count) / u128::from(amount.count.max(1))) as u64;
            amount.count = count;
        }
    }
}

/// As much as can be the same blocks, so that what remains of either has bytes only where it has blocks.
fn both(peak: Amount, live: Amount) -> Amount {
    let bytes = peak.bytes.min(live.bytes);
    let mut count = peak.count.min(live.count);
    let orphaned = |amount: Amount| amount.bytes > bytes && amount.count == count;
    if orphaned(peak) || orphaned(live) {
        count = count.saturating_sub(1);
    }
    Amount { bytes: if count > 0 { bytes } else { 0 }, count }
}

/// All blocks by their fate.
#[derive(Debug)]
pub(super) struct Book {
    sums: Vec<Sums>,
}

impl Book {
    pub(super) fn new(sums: Vec<Sums>) -> Self {
        Self { sums }
    }

    pub(super) fn play(&self, peak_bytes: u64, tell: &mut dyn FnMut(Event<'_>)) {
        let passed: Vec<Blocks> =
            self.all(|sums| sums.passed).filter(|it| it.each_bytes <= peak_bytes).collect();
        let temporary: Vec<Blocks> =
            self.all(|sums| sums.temporary).filter(|it| it.each_bytes <= peak_bytes).collect();
        pass(&passed, &temporary, peak_bytes, tell);
        let mut risen: Vec<Blocks> = self.all(|sums| sums.peak).collect();
        let last = self.take_temporary(&mut risen);
        tell(Event::Peak);
        each(risen.iter().copied(), |it| tell(Event::Out(it)));
        each(self.all(|sums| sums.kept), |it| tell(Event::Out(it)));
        each(last, |it| tell(Event::Out(it)));
        tell(Event::End);
        each(last, |it| tell(Event::Back(it)));
        each(risen, |it| tell(Event::Back(it)));
        each(self.all(|sums| sums.live), |it| tell(Event::Out(it)));
    }

    /// A temporary block may be what made the peak: it comes last, and goes first.
    fn take_temporary(&self, risen: &mut [Blocks]) -> Option<Blocks> {
        let traces: Vec<u64> =
            self.sums.iter().filter(|sums| sums.temporary_at_peak).map(|sums| sums.trace).collect();
        let found = risen.iter_mut().find(|blocks| traces.contains(&blocks.trace))?;
        found.count -= 1;
        Some(Blocks { count: 1, ..*found })
    }

    fn all(&self, which: impl Fn(&Sums) -> Amount) -> impl Iterator<Item = Blocks> {
        self.sums.iter().flat_map(move |sums| which(sums).blocks(sums.trace))
    }
}

fn each(all: impl IntoIterator<Item = Blocks>, mut tell: impl FnMut(&Blocks)) {
    for blocks in all {
        (0..blocks.count).for_each(|_| tell(&blocks));
    }
}

/// Blocks that come and go, two at a time: a block that is no temporary one is given back after another was handed out.
fn pass(passed: &[Blocks], temporary: &[Blocks], peak_bytes: u64, tell: &mut dyn FnMut(Event<'_>)) {
    let (mut passed, mut temporary) = (Queue::new(passed), Queue::new(temporary));
    while let Some(first) = passed.next() {
        let fits = |other: &Blocks| first.each_bytes.saturating_add(other.each_bytes) <= peak_bytes;
        let differs = |other: &Blocks| (other.trace, other.each_bytes) != (first.trace, first.each_bytes);
        if let Some(second) = passed.other(|other| differs(other) && fits(other)) {
            for event in [Event::Out(&first), Event::Out(&second), Event::Back(&first), Event::Back(&second)]
            {
                tell(event);
            }
        } else if let Some(within) = temporary.other(fits) {
            for event in [Event::Out(&first), Event::Out(&within), Event::Back(&within), Event::Back(&first)]
            {
                tell(event);
            }
        } else {
            tell(Event::Out(&first));
            tell(Event::Back(&first));
        }
    }
    while let Some(blocks) = temporary.next() {
        tell(Event::Out(&blocks));
        tell(Event::Back(&blocks));
    }
}

/// Blocks still to come.
struct Queue {
    blocks: Vec<Blocks>,
    at: usize,
}

impl Queue {
    fn new(blocks: &[Blocks]) -> Self {
        Self { blocks: blocks.to_vec(), at: 0 }
    }

    fn next(&mut self) -> Option<Blocks> {
        while self.blocks.get(self.at).is_some_and(|blocks| blocks.count == 0) {
            self.at += 1;
        }
        let blocks = self.blocks.get_mut(self.at)?;
        blocks.count -= 1;
        Some(*blocks)
    }

    /// One that suits, from the end: those are the least likely to be empty soon.
    fn other(&mut self, suits: impl Fn(&Blocks) -> bool) -> Option<Blocks> {
        while self.blocks.last().is_some_and(|blocks| blocks.count == 0) && self.blocks.len() > self.at {
            self.blocks.pop();
        }
        let from = self.at.max(self.blocks.len().saturating_sub(LOOKED_AT));
        let found = self.blocks.get_mut(from..)?.iter_mut().rev().find(|it| it.count > 0 && suits(it))?;
        found.count -= 1;
        Some(*found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What heaptrack would add up.
    #[derive(Debug, Default, PartialEq)]
    struct Found {
        peak: u64,
        left: u64,
        handed_out: u64,
        temporary: u64,
    }

    fn replay(amounts: &[Amounts], peak_bytes: u64) -> Found {
        let sums = amounts.iter().zip(1..).map(|(amounts, trace)| Sums::new(trace, amounts)).collect();
        let (mut found, mut live, mut last) = (Found::default(), 0, None);
        Book::new(sums).play(peak_bytes, &mut |event| match event {
            Event::Out(it) => {
                live += it.each_bytes;
                found.handed_out += 1;
                found.peak = found.peak.max(live);
                last = Some((it.trace, it.each_bytes));
            }
            Event::Back(it) => {
                live -= it.each_bytes;
                found.temporary += u64::from(last.take() == Some((it.trace, it.each_bytes)));
            }
            Event::Peak | Event::End => {}
        });
        found.left = live;
        found
    }

    fn amounts(peak: (u64, u64), live: (u64, u64), all: (u64, u64), temporary: (u64, u64)) -> Amounts {
        Amounts {
            peak_bytes: peak.0,
            peak_count: peak.1,
            live_end_bytes: live.0,
            live_end_count: live.1,
            cumulative_bytes: all.0,
            count: all.1,
            temporary_bytes: temporary.0,
            temporary_count: temporary.1,
            ..Amounts::default()
        }
    }

    #[test]
    fn sums_come_back_from_the_history() {
        let sites = [
            amounts((1000, 3), (500, 1), (9_000, 40), (700, 10)),
            amounts((100, 1), (300, 7), (4_001, 13), (0, 0)),
            amounts((0, 0), (0, 0), (64_000, 1000), (64_000, 1000)),
        ];
        let found = replay(&sites, 1100);
        assert_eq!(found, Found { peak: 1100, left: 800, handed_out: 1053, temporary: 1010 });
    }

    #[test]
    fn a_block_of_the_peak_alone_is_not_also_left() {
        // heaptrack takes the only block there is for a temporary one.
        let found = replay(&[amounts((900, 1), (10, 1), (910, 2), (0, 0))], 900);
        assert_eq!(found, Found { peak: 900, left: 10, handed_out: 2, temporary: 1 });
    }

    #[test]
    fn the_block_of_the_peak_may_be_temporary() {
        let spike = amounts((500, 1), (0, 0), (500, 1), (500, 1));
        let kept = amounts((70, 2), (70, 2), (70, 2), (0, 0));
        let found = replay(&[spike, kept], 570);
        assert_eq!(found, Found { peak: 570, left: 70, handed_out: 3, temporary: 1 });
    }

    #[test]
    fn fewer_blocks_are_told_where_there_are_too_many() {
        let mut sums = Sums::new(1, &amounts((8, 1), (8, 1), (1_000_008, 1_001), (0, 0)));
        sums.thin(10);
        assert_eq!((sums.passed.count, sums.passed.bytes), (100, 100_000));
    }
}
