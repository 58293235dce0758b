//! The ledgers of a run: all of them over time, and the one nearest to the peak.

use std::collections::BTreeMap;

use nilometer_trace::record::LedgerTaken;
use serde::Serialize;

use super::{Account, Badge, Line, account};
use crate::clock::Clock;
use crate::tracked::Tracked;

/// More are thinned out: every other one of the older half goes.
const MOST: usize = 512;

/// Ledgers while the records come.
#[derive(Debug, Default)]
pub(crate) struct LedgerFinder {
    taken: Vec<LedgerTaken>,
    seen: u64,
}

/// All ledgers of a run, in order of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ledgers {
    /// What each said, in short.
    pub curve: Vec<Moment>,
    /// Which of them shows the largest process of the peak, as near to it as there is one.
    pub nearest: usize,
    /// The nearest of each process that lived at the peak, largest first.
    pub at_peak: Vec<usize>,
    /// How many were taken, kept or not.
    pub seen: u64,
    /// The ledgers themselves, in the same order.
    #[serde(skip)]
    pub accounts: Vec<Account>,
}

/// One ledger in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moment {
    pub at_s: f64,
    /// Negative: before the peak.
    pub from_peak_s: f64,
    pub pid: i32,
    pub badge: Badge,
    pub rss_bytes: u64,
    pub pss_bytes: Option<u64>,
    pub parts: Vec<Term>,
    pub residual_bytes: i64,
    /// What it cost us, in CPU time.
    pub cost_s: f64,
    pub stopped_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Term {
    pub name: Line,
    pub bytes: u64,
}

impl LedgerFinder {
    pub(crate) fn push(&mut self, taken: &LedgerTaken) {
        self.seen += 1;
        self.taken.push(taken.clone());
        if self.taken.len() > MOST {
            let mut number = 0;
            self.taken.retain(|_| {
                number += 1;
                number > MOST / 2 || number % 2 == 0
            });
        }
    }

    pub(crate) fn finish<'a>(
        &self,
        all: impl Iterator<Item = &'a Tracked>,
        peak_ns: u64,
        clock: &Clock,
    ) -> Option<Ledgers> {
        let alive: Vec<u32> = all.filter(|process| process.alive_at(peak_ns)).map(|p| p.index).collect();
        let mut taken: Vec<&LedgerTaken> = self.taken.iter().collect();
        taken.sort_by_key(|taken| taken.at_ns);
        let mut nearest: BTreeMap<u32, usize> = BTreeMap::new();
        for (position, one) in taken.iter().enumerate() {
            let known = nearest.entry(one.index).or_insert(position);
            if one.at_ns.abs_diff(peak_ns) < taken[*known].at_ns.abs_diff(peak_ns) {
                *known = position;
            }
        }
        let rss = |position: &usize| taken[*position].ledger.rss_bytes;
        let mut at_peak: Vec<usize> = nearest
            .iter()
            .filter(|(index, _)| alive.contains(index))
            .map(|(_, position)| *position)
            .collect();
        at_peak.sort_by_key(|position| std::cmp::Reverse(rss(position)));
        let first = at_peak.first().copied().or_else(|| nearest.into_values().max_by_key(rss))?;
        Some(Ledgers {
            curve: taken.iter().map(|taken| moment(taken, peak_ns, clock)).collect(),
            nearest: first,
            at_peak,
            seen: self.seen,
            accounts: taken.iter().map(|taken| account(taken.ledger.clone())).collect(),
        })
    }
}

fn moment(taken: &LedgerTaken, peak_ns: u64, clock: &Clock) -> Moment {
    let (ledger, at_s) = (&taken.ledger, clock.seconds(taken.at_ns));
    Moment {
        at_s,
        from_peak_s: at_s - clock.seconds(peak_ns),
        pid: ledger.pid,
        badge: ledger.badge,
        rss_bytes: ledger.rss_bytes,
        pss_bytes: ledger.pss_bytes,
        parts: ledger.parts.iter().map(|part| Term { name: part.name, bytes: part.bytes }).collect(),
        residual_bytes: ledger.residual_bytes,
        cost_s: taken.cost_ns as f64 / 1e9,
        stopped_s: ledger.pause.stopped_ns as f64 / 1e9,
    }
}

impl Ledgers {
    /// The one nearest to a time.
    pub fn nearest_to(&self, at_s: f64) -> Option<usize> {
        let distance = |position: &usize| (self.curve[*position].at_s - at_s).abs();
        (0..self.curve.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

impl Moment {
    pub fn bytes(&self, lines: &[Line]) -> u64 {
        self.parts.iter().filter(|term| lines.contains(&term.name)).map(|term| term.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    fn taken(at_ns: u64, index: u32, rss_bytes: u64) -> LedgerTaken {
        let ledger = Ledger { pid: index as i32, rss_bytes, ..Ledger::default() };
        LedgerTaken { at_ns, index, cost_ns: 0, ledger }
    }

    #[test]
    fn many_are_thinned_and_the_latest_stay() {
        let mut finder = LedgerFinder::default();
        for at in 0..2_000 {
            finder.push(&taken(at, 1, at));
        }
        let found = finder.finish(std::iter::empty(), 1_999, &Clock::default()).unwrap();
        assert!(found.curve.len() <= MOST && found.seen == 2_000);
        assert_eq!(found.curve[found.nearest].rss_bytes, 1_999);
        assert!(found.curve.is_sorted_by_key(|moment| moment.rss_bytes));
    }

    #[test]
    fn without_ledgers_there_is_nothing() {
        assert_eq!(LedgerFinder::default().finish(std::iter::empty(), 5, &Clock::default()), None);
    }

    #[test]
    fn the_largest_process_is_told_first_and_near_the_peak() {
        let mut finder = LedgerFinder::default();
        for one in [taken(10, 1, 50), taken(40, 1, 80), taken(90, 1, 60), taken(50, 2, 70)] {
            finder.push(&one);
        }
        let found = finder.finish(std::iter::empty(), 45, &Clock::default()).unwrap();
        let chosen = &found.curve[found.nearest];
        assert_eq!((chosen.pid, chosen.rss_bytes), (1, 80));
    }
}
