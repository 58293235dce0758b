//! All processes of the tree: the living in full, of the ended ones the largest.

use std::collections::BTreeMap;

use nilometer_trace::record::{self, ProcessSample, Tick};

use crate::clock::Clock;
use crate::curve::KindSums;
use crate::model;
use crate::tracked::{Ended, Rise, Tracked};
use crate::unit::kib;
use crate::unseen::Account;

/// Ended processes that are kept, the largest by VmHWM.
const ENDED_KEPT: usize = 4_096;
/// Every so many ends the smaller ones are dropped.
const TIDY_EVERY: usize = 256;
const LATELY_NS: u64 = 1_000_000_000;
/// Processes with a series of their own in the model.
const SERIES: usize = 12;

#[derive(Debug)]
pub(crate) struct ProcessTable {
    live: BTreeMap<u32, Tracked>,
    ended: Vec<Tracked>,
    ended_untidy: usize,
    pub(crate) seen: u64,
    account: Account,
    /// Largest `ru_maxrss` of orphans that no tick saw, and when it was told.
    orphan_maxrss: Option<(u64, u64)>,
    /// Processes of the first tick are older than the recording (`attach`).
    attached: bool,
    first_tick: bool,
}

/// What a tick's process samples say together, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Together {
    pub(crate) largest_rss: u64,
    pub(crate) sum_rss: u64,
    pub(crate) sums: KindSums,
    /// Heights above the samples that were reached since the tick before: all, the largest, and the mark itself.
    pub(crate) above_sum: u64,
    pub(crate) above_largest: u64,
    pub(crate) rose_to: u64,
    pub(crate) rose: bool,
    /// The largest distance of any mark above its sample, whenever it was reached.
    pub(crate) mark_above: u64,
}

impl Together {
    fn add(&mut self, sample: &ProcessSample, rise: Rise) {
        self.largest_rss = self.largest_rss.max(rise.rss_bytes);
        self.sum_rss = self.sum_rss.saturating_add(rise.rss_bytes);
        self.sums.anon = self.sums.anon.saturating_add(kib(sample.anon_kib));
        self.sums.file = self.sums.file.saturating_add(kib(sample.file_kib));
        self.sums.shmem = self.sums.shmem.saturating_add(kib(sample.shmem_kib));
        self.mark_above = self.mark_above.max(rise.above());
        if rise.rose {
            self.rose = true;
            self.rose_to = self.rose_to.max(rise.hwm_bytes);
            self.above_sum = self.above_sum.saturating_add(rise.above());
            self.above_largest = self.above_largest.max(rise.above());
        }
    }
}

impl ProcessTable {
    pub(crate) fn new(attached: bool) -> Self {
        Self {
            live: BTreeMap::new(),
            ended: Vec::new(),
            ended_untidy: 0,
            seen: 0,
            account: Account::default(),
            orphan_maxrss: None,
            attached,
            first_tick: true,
        }
    }

    pub(crate) fn begin(&mut self, process: &record::Process) {
        self.seen += 1;
        if let Some(parent) = process.parent.and_then(|parent| self.live.get_mut(&parent)) {
            parent.has_child = true;
        }
        if let Some(replaced) = self.live.insert(process.index, Tracked::new(process)) {
            self.ended.push(replaced);
        }
    }

    pub(crate) fn update(&mut self, update: &record::ProcessUpdate) {
        if let Some(process) = self.live.get_mut(&update.index) {
            process.update(update);
        }
    }

    pub(crate) fn tick(&mut self, tick: &Tick) -> Together {
        let mut together = Together::default();
        let fresh = !(self.attached && self.first_tick);
        for sample in &tick.processes {
            let seen = &mut self.seen;
            let process = self.live.entry(sample.index).or_insert_with(|| {
                *seen += 1;
                Tracked::unknown(sample.index, tick.at_ns)
            });
            together.add(sample, process.sample(tick.at_ns, sample, fresh));
        }
        self.first_tick &= tick.processes.is_empty();
        together
    }

    pub(crate) fn shares(&mut self, shares: &record::Shares) {
        if let Some(process) = self.live.get_mut(&shares.index) {
            process.shares(shares);
        }
    }

    pub(crate) fn end(&mut self, end: &record::ProcessEnd) -> Option<Ended> {
        let mut process = self.live.remove(&end.index)?;
        let ended = process.end(end);
        self.account.ended(&process);
        self.ended.push(process);
        self.ended_untidy += 1;
        Some(ended)
    }

    pub(crate) fn nobody_lives(&self) -> bool {
        self.live.is_empty()
    }

    pub(crate) fn last_ended_pid(&self) -> Option<i32> {
        self.ended.last().map(|process| process.pid)
    }

    /// Whether enough processes ended to drop the smaller ones; then it is done.
    pub(crate) fn tidy(&mut self) -> bool {
        let due = self.ended_untidy >= TIDY_EVERY;
        if due {
            self.ended_untidy = 0;
            self.ended.sort_by_key(|process| std::cmp::Reverse(process.hwm_bytes));
            self.ended.truncate(ENDED_KEPT);
            let small = self.ended.iter_mut().skip(SERIES);
            small.for_each(|process| process.rss = crate::curve::Series::new(1));
        }
        due
    }

    /// A step ended at `x`.
    pub(crate) fn level(&mut self, x: f64) {
        self.live.values_mut().for_each(|process| process.level(x));
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Tracked> {
        self.ended.iter().chain(self.live.values())
    }

    pub(crate) fn name_of(&self, index: u32) -> String {
        let found = self.all().find(|process| process.index == index);
        found.map_or_else(
            || format!("process #{index}"),
            |process| format!("{} ({})", process.role.name, process.pid),
        )
    }

    pub(crate) fn largest(&self) -> Option<&Tracked> {
        self.all().max_by_key(|process| (process.hwm().0, std::cmp::Reverse(process.index)))
    }

    /// The highest `ru_maxrss` of a process that we waited for, where it tells more than the marks.
    /// Each was told only where it is above the launcher's mark at that launch; `launcher_bytes` is for orphans.
    pub(crate) fn maxrss(&self, launcher_bytes: u64) -> Option<(u64, u64)> {
        let told = self.all().filter_map(|process| Some((process.maxrss()?, process.end_ns?)));
        let largest = self.all().map(|process| process.hwm_bytes).max().unwrap_or(0);
        let told = told.chain(self.orphan_maxrss.filter(|(bytes, _)| *bytes > launcher_bytes));
        told.max().filter(|(bytes, _)| *bytes > largest)
    }

    /// The launcher's own mark, if we waited for a process without learning its `ru_maxrss`.
    pub(crate) fn blind_below(&self) -> Option<u64> {
        let waits = self.all().filter_map(|process| process.waited);
        waits
            .filter(|waited| waited.maxrss_kib <= waited.launcher_kib)
            .map(|waited| kib(waited.launcher_kib))
            .max()
    }

    /// Orphans that ended without a sample.
    pub(crate) fn orphans(
        &mut self,
        at_ns: u64,
        processes: u64,
        cpu_us: u64,
        faults: u64,
        maxrss_bytes: u64,
    ) {
        self.account.orphans(processes, cpu_us, faults);
        self.orphan_maxrss = self.orphan_maxrss.max(Some((maxrss_bytes, at_ns)));
    }

    /// Of the processes that were there at the last tick, the one that grew most in its last seconds.
    pub(crate) fn who_grew_last(&self) -> Option<(String, u64)> {
        let last_ns = self.all().map(|process| process.last_ns).max()?;
        let there = self.all().filter(|process| last_ns.saturating_sub(process.last_ns) < LATELY_NS);
        let most = there.max_by_key(|process| process.grew_lately())?;
        Some((format!("{} ({})", most.role.name, most.pid), most.grew_lately()))
            .filter(|(_, bytes)| *bytes > 0)
    }

    pub(crate) fn unseen(&self, ticks_per_s: u64) -> Option<model::Unseen> {
        self.account.finish(self.all(), ticks_per_s)
    }

    pub(crate) fn models(&self, clock: &Clock, ticks_per_s: u64) -> Vec<model::Process> {
        let mut all: Vec<&Tracked> = self.all().collect();
        all.sort_by_key(|process| (process.seen_ns, process.index));
        all.into_iter().map(|process| process.model(clock, ticks_per_s)).collect()
    }

    pub(crate) fn series(&self, clock: &Clock) -> Vec<model::ProcessSeries> {
        let mut all: Vec<&Tracked> = self.all().filter(|process| process.samples > 0).collect();
        all.sort_by_key(|process| (std::cmp::Reverse(process.hwm_bytes), process.index));
        let series = |process: &Tracked| model::ProcessSeries {
            pid: process.pid,
            role: process.role.name.clone(),
            rss: process.rss.model(clock),
        };
        all.into_iter().take(SERIES).map(series).collect()
    }
}
