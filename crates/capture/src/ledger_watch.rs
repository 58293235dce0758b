//! Ledgers of a run: what each large process is made of, whenever it has grown much, by a thread of its own.
//!
//! The one invariant: unless exact ones were asked for the target is never stopped, and what they cost stays within
//! the budget; exact ones stop it for no more than 1 % of the time that has passed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nilometer_kernel::sys::clock::{monotonic_ns, thread_cpu_ns};
use nilometer_trace::ledger::Ledger;
use nilometer_trace::record::LedgerTaken;
use rustc_hash::FxHashMap;

use crate::answer::{publish, refuse};
use crate::budget::Budget;
use crate::errand::{Came, Errands, Holding};
use crate::ledger::{self, LedgerOptions};

/// A process is looked at again when it has grown by this much …
const GROWTH_KIB: u64 = 64 << 10;
/// … and by this share.
const GROWTH_SHARE: f64 = 0.1;
/// A small one that grows slowly: by this share, no more often than this. So the last of them shows most of a peak.
const SLOW_GROWTH_SHARE: f64 = 0.25;
const SLOW_GROWTH_NS: u64 = 1_000_000_000;
/// Where nothing grows: no more often than this, and than a part of the run's age.
const STALE_NS: u64 = 30_000_000_000;
const STALE_SHARE: u64 = 4;
/// One that could not be read is not tried again for so long.
const REFUSED_NS: u64 = 20_000_000_000;
/// What the first one is expected to cost (measured: see `bench/`), later ones as the one before.
const NS_PER_KIB: u64 = 200;
/// What a stop is expected to take: 30 ms, and 130 ms a GB.
const STOP_NS: u64 = 30_000_000;
const STOP_NS_PER_KIB: u64 = 130;
/// How long the watchdog, or the end of a run, waits for a ledger that stops nobody.
const SHORT: Duration = Duration::from_millis(50);
/// The target stands still for at most this share of the time, in percent.
const PAUSE_PERCENT: f64 = 1.0;

/// Looks for a verdict on leaks: no more often than this, than a part of the run's age, than some times their cost.
const LOOK_SHORTEST_NS: u64 = 400_000_000;
const LOOK_SPREAD: u64 = 9;
const LOOK_COST_SHARE: u64 = 3;

/// Which ledgers a run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ledgers {
    None,
    /// Read while it runs.
    #[default]
    Estimated,
    /// Under a stop.
    Exact,
    /// For a verdict on leaks: of the largest process, often at first, then ever more seldom, without a stop.
    Looks,
}

/// A process that might be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub index: u32,
    pub pid: i32,
    pub rss_kib: u64,
}

/// What the thread brought back.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    pub taken: Option<Box<LedgerTaken>>,
    pub pause_ns: u64,
    index: u32,
    cost_ns: u64,
    /// Why there is none.
    pub failure: Option<String>,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    rss_kib: u64,
    at_ns: u64,
    cost_ns: u64,
    refused: bool,
}

#[derive(Debug)]
pub(crate) struct LedgerWatch {
    ledgers: Ledgers,
    errands: Errands<Brought>,
    started_ns: u64,
    cost: Budget,
    pause: Budget,
    last: FxHashMap<u32, Last>,
    /// For `nilo where`, through the control socket.
    asked: Vec<(i32, PathBuf)>,
    taken: u64,
    told: bool,
    /// The thread that is out may stop the target.
    may_hold: bool,
}

impl LedgerWatch {
    pub fn new(ledgers: Ledgers, budget_percent: f64) -> Self {
        let now_ns = monotonic_ns();
        Self {
            ledgers,
            errands: Errands::default(),
            started_ns: now_ns,
            cost: Budget::new(now_ns, budget_percent),
            pause: Budget::new(now_ns, PAUSE_PERCENT),
            last: FxHashMap::default(),
            asked: Vec::new(),
            taken: 0,
            told: false,
            may_hold: false,
        }
    }

    pub fn is_holding(&self) -> bool {
        self.errands.is_holding()
    }

    pub fn is_out(&self) -> bool {
        self.errands.is_out()
    }

    /// It has to be given its turn at every tick, whatever the target does.
    pub fn is_busy(&self) -> bool {
        self.is_out() || self.ledgers == Ledgers::Looks || !self.asked.is_empty()
    }

    /// Ledgers taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// For somebody who asked through the control socket.
    pub fn ask(&mut self, pid: i32, path: PathBuf) {
        self.asked.push((pid, path));
    }

    /// Takes what the thread brought back.
    pub fn collect(&mut self) -> Option<Brought> {
        Some(match self.errands.collect()? {
            Came::Lost => Brought { failure: Some("a ledger broke off".to_owned()), ..Brought::default() },
            Came::Back(brought) => self.note(brought, monotonic_ns()),
        })
    }

    /// Sends the thread if it is not out and something is due.
    pub fn begin(&mut self, now_ns: u64, candidates: impl Iterator<Item = Candidate>) {
        if self.errands.is_out() {
            return;
        }
        if let Some((pid, path)) = self.asked.pop() {
            self.may_hold = true;
            self.errands.send("nilo-ledger", move |holding| write_for(pid, &path, holding));
        } else if self.ledgers != Ledgers::None
            && let Some(candidate) = self.choose(candidates, now_ns)
        {
            self.send(candidate);
        }
    }

    /// Waits for the thread, no longer than this; one that never holds the target is hardly waited for.
    pub fn finish(&mut self, patience: Duration) -> Option<Brought> {
        let patience = if self.may_hold { patience } else { patience.min(SHORT) };
        self.errands.wait(patience).map(|brought| self.note(brought, monotonic_ns()))
    }

    /// A reason is told once.
    fn note(&mut self, mut brought: Brought, now_ns: u64) -> Brought {
        self.cost.spend(brought.cost_ns);
        self.pause.spend(brought.pause_ns);
        self.taken += u64::from(brought.taken.is_some());
        let last = self.last.entry(brought.index).or_default();
        last.at_ns = now_ns;
        last.cost_ns = brought.cost_ns;
        last.refused = brought.taken.is_none();
        if let Some(taken) = &brought.taken {
            last.rss_kib = last.rss_kib.max(taken.ledger.rss_bytes >> 10);
        }
        let told = self.told;
        self.told |= brought.failure.is_some();
        brought.failure = brought.failure.take().filter(|_| !told);
        brought
    }

    /// The one that has grown most of those that are due, if there is budget for it.
    fn choose(&self, candidates: impl Iterator<Item = Candidate>, now_ns: u64) -> Option<Candidate> {
        if self.ledgers == Ledgers::Looks {
            let largest = candidates.max_by_key(|candidate| candidate.rss_kib);
            return largest.filter(|candidate| self.is_time_to_look(*candidate, now_ns));
        }
        let due = candidates.filter(|candidate| self.is_due(*candidate, now_ns));
        let growth = |candidate: &Candidate| {
            let last = self.last.get(&candidate.index).map_or(0, |last| last.rss_kib);
            candidate.rss_kib.saturating_sub(last)
        };
        due.max_by_key(growth)
    }

    fn is_time_to_look(&self, candidate: Candidate, now_ns: u64) -> bool {
        let last = self.last.get(&candidate.index).copied().unwrap_or_default();
        let age_ns = now_ns.saturating_sub(self.started_ns);
        let since_ns = now_ns.saturating_sub(last.at_ns.max(self.started_ns));
        since_ns >= LOOK_SHORTEST_NS.max(age_ns / LOOK_SPREAD).max(last.cost_ns * LOOK_COST_SHARE)
    }

    fn is_due(&self, candidate: Candidate, now_ns: u64) -> bool {
        let last = self.last.get(&candidate.index).copied().unwrap_or_default();
        let since_ns = now_ns.saturating_sub(last.at_ns);
        if last.refused && since_ns < REFUSED_NS {
            return false;
        }
        let by_share = |share| candidate.rss_kib as f64 >= last.rss_kib as f64 * (1.0 + share);
        let grown = candidate.rss_kib >= last.rss_kib + GROWTH_KIB && by_share(GROWTH_SHARE);
        let grown_slowly = self.ledgers == Ledgers::Estimated
            && last.rss_kib >= GROWTH_KIB
            && since_ns >= SLOW_GROWTH_NS
            && by_share(SLOW_GROWTH_SHARE);
        let age_ns = now_ns.saturating_sub(self.started_ns);
        let stale = last.rss_kib > 0 && since_ns >= STALE_NS.max(age_ns / STALE_SHARE);
        if !grown && !grown_slowly && !stale {
            return false;
        }
        let cost_ns = estimate_ns(candidate, last);
        let affordable =
            if grown { self.cost.allows_forced(now_ns, cost_ns) } else { self.cost.allows(now_ns, cost_ns) };
        affordable && self.may_stop(candidate, now_ns)
    }

    fn may_stop(&self, candidate: Candidate, now_ns: u64) -> bool {
        let stop_ns = STOP_NS + candidate.rss_kib * STOP_NS_PER_KIB;
        self.ledgers != Ledgers::Exact || self.pause.allows(now_ns, stop_ns)
    }

    fn send(&mut self, candidate: Candidate) {
        let exact = self.ledgers == Ledgers::Exact;
        self.may_hold = exact;
        // Asked for or not: it is not sent out again before it has grown from here.
        self.last.entry(candidate.index).or_default().rss_kib = candidate.rss_kib;
        self.errands.send("nilo-ledger", move |holding| look(candidate, exact, holding));
    }
}

/// As the last one, scaled.
fn estimate_ns(candidate: Candidate, last: Last) -> u64 {
    if last.cost_ns == 0 || last.rss_kib == 0 {
        return candidate.rss_kib * NS_PER_KIB;
    }
    (last.cost_ns as f64 * candidate.rss_kib as f64 / last.rss_kib as f64) as u64
}

fn look(candidate: Candidate, exact: bool, holding: &Holding) -> Brought {
    let (begin_ns, at_ns) = (thread_cpu_ns(), monotonic_ns());
    let taken = if exact { exactly(candidate.pid, holding) } else { ledger::survey(candidate.pid) };
    let cost_ns = thread_cpu_ns().saturating_sub(begin_ns);
    let mut brought = Brought { index: candidate.index, cost_ns, ..Brought::default() };
    match taken {
        Ok(mut ledger) => {
            ledger.shorten();
            brought.pause_ns = ledger.pause.stopped_ns;
            brought.taken = Some(Box::new(LedgerTaken { at_ns, index: candidate.index, cost_ns, ledger }));
        }
        Err(error) => brought.failure = Some(format!("no ledger: {error}")),
    }
    brought
}

fn exactly(pid: i32, holding: &Holding) -> Result<Ledger, ledger::Error> {
    let options = LedgerOptions { progress: holding.progress(), ..LedgerOptions::default() };
    ledger::take(pid, &options).map(|taken| taken.ledger)
}

fn write_for(pid: i32, path: &Path, holding: &Holding) -> Brought {
    let written = exactly(pid, holding).map_err(|error| error.to_string()).and_then(|ledger| {
        let text = serde_json::to_vec(&ledger).map_err(|error| error.to_string())?;
        publish(path, |mut file| file.write_all(&text))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(ledger.pause.stopped_ns)
    });
    let pause_ns = *written.as_ref().unwrap_or(&0);
    if let Err(reason) = written {
        refuse(path, &reason);
    }
    Brought { pause_ns, index: u32::MAX, ..Brought::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 10;

    fn watch(ledgers: Ledgers) -> LedgerWatch {
        LedgerWatch {
            started_ns: 0,
            cost: Budget::new(0, 1.0),
            pause: Budget::new(0, 1.0),
            ..LedgerWatch::new(ledgers, 1.0)
        }
    }

    fn candidate(mib: u64) -> Candidate {
        Candidate { index: 1, pid: 4711, rss_kib: mib * MIB }
    }

    fn with_last(mib: u64, at_ns: u64) -> LedgerWatch {
        let mut watch = watch(Ledgers::Estimated);
        watch.last.insert(1, Last { rss_kib: mib * MIB, at_ns, cost_ns: 1_000_000, refused: false });
        watch
    }

    #[test]
    fn growth_by_a_tenth_and_by_64_mib_is_due() {
        assert!(!watch(Ledgers::Estimated).is_due(candidate(63), S));
        assert!(watch(Ledgers::Estimated).is_due(candidate(64), S));
        assert!(!with_last(100, S).is_due(candidate(163), S + S / 2));
        assert!(with_last(100, S).is_due(candidate(164), S + S / 2));
        assert!(!with_last(1000, S).is_due(candidate(1099), 2 * S));
        assert!(with_last(1000, S).is_due(candidate(1100), 2 * S));
    }

    #[test]
    fn slow_growth_by_a_quarter_is_due_where_nobody_is_stopped() {
        assert!(!with_last(100, S).is_due(candidate(124), 3 * S));
        assert!(with_last(100, S).is_due(candidate(125), 2 * S));
        assert!(!with_last(100, S).is_due(candidate(125), 2 * S - 1));
        assert!(!with_last(20, S).is_due(candidate(60), 3 * S), "too small for any");
        let exact = LedgerWatch { ledgers: Ledgers::Exact, ..with_last(100, S) };
        assert!(!exact.is_due(candidate(130), 3 * S));
    }

    #[test]
    fn what_stays_is_looked_at_seldom_and_refusals_more_so() {
        assert!(!with_last(100, S).is_due(candidate(100), 30 * S));
        assert!(with_last(100, S).is_due(candidate(100), 31 * S));
        assert!(!with_last(100, 400 * S).is_due(candidate(100), 500 * S));
        assert!(with_last(100, 400 * S).is_due(candidate(100), 540 * S));
        let mut refused = with_last(100, S);
        refused.last.get_mut(&1).unwrap().refused = true;
        assert!(!refused.is_due(candidate(900), 20 * S));
        assert!(refused.is_due(candidate(900), 22 * S));
    }

    #[test]
    fn cost_and_pause_are_paid_before() {
        let mut dear = with_last(100, S);
        dear.cost.spend(3 * S);
        assert!(!dear.is_due(candidate(300), 10 * S));
        assert!(dear.is_due(candidate(300), 300 * S));
        let exact = watch(Ledgers::Exact);
        assert!(!exact.is_due(candidate(2000), S));
        assert!(exact.is_due(candidate(2000), 60 * S));
    }

    #[test]
    fn looks_are_of_the_largest_and_ever_more_seldom() {
        let mut watch = watch(Ledgers::Looks);
        let choose = |watch: &LedgerWatch, mib: &[u64], now_ns| {
            watch.choose(mib.iter().map(|&mib| candidate(mib)), now_ns)
        };
        assert_eq!(choose(&watch, &[20], S / 5), None);
        assert_eq!(choose(&watch, &[20, 30, 10], S), Some(candidate(30)));
        watch.last.insert(1, Last { rss_kib: 20 * MIB, at_ns: 90 * S, cost_ns: 1_000_000, refused: false });
        assert!(choose(&watch, &[20], 95 * S).is_none() && choose(&watch, &[20], 102 * S).is_some());
    }

    #[test]
    fn the_one_that_grew_most_is_first() {
        let mut watch = with_last(1000, S);
        watch.cost = Budget::new(0, 100.0);
        let other = Candidate { index: 2, pid: 1, rss_kib: 300 * MIB };
        assert_eq!(watch.choose([candidate(1200), other].into_iter(), 2 * S), Some(other));
        assert_eq!(watch.choose([candidate(1050)].into_iter(), 2 * S), None);
    }
}
