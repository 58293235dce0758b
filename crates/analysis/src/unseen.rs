//! Children that lived and died between two ticks: no sample shows them, but the counters of waited-for
//! children in their parents do. What is left after taking away what sampled children account for is theirs.

use crate::model::Unseen;
use crate::tracked::{ChildWork, Tracked, child_work};

/// What sampled children handed to their parents when they ended.
#[derive(Debug, Default)]
pub(crate) struct Account {
    handed: ChildWork,
    /// What they may have used after their last sample: the whole time on each of their threads. It is taken
    /// away from the unseen too, so that the rest is "at least".
    last_moments_ns: u64,
    ended: u64,
    /// Orphans that ended in our arms without a sample: number, CPU, faults.
    orphans: u64,
    orphans_us: u64,
    orphans_faults: u64,
    /// Growth of the counters of parents that are no longer kept.
    ended_growth: ChildWork,
}

impl Account {
    /// Call once per ended process, before it may be dropped.
    pub(crate) fn ended(&mut self, process: &Tracked) {
        self.ended_growth = plus(self.ended_growth, growth(process));
        if process.parent.is_some() && process.waited.is_none() {
            self.handed = plus(self.handed, process.work());
            self.last_moments_ns = self.last_moments_ns.saturating_add(last_moments_ns(process));
            self.ended += 1;
        }
    }

    pub(crate) fn orphans(&mut self, processes: u64, cpu_us: u64, faults: u64) {
        self.orphans = self.orphans.saturating_add(processes);
        self.orphans_us = self.orphans_us.saturating_add(cpu_us);
        self.orphans_faults = self.orphans_faults.saturating_add(faults);
    }

    pub(crate) fn finish<'a>(
        &self,
        all: impl Iterator<Item = &'a Tracked>,
        ticks_per_s: u64,
    ) -> Option<Unseen> {
        let living = all.filter(|process| process.end_ns.is_none());
        let grown = living.map(growth).fold(self.ended_growth, plus);
        let last_moments_s = self.last_moments_ns as f64 / 1e9;
        let ticks = grown.ticks.saturating_sub(self.handed.ticks).saturating_sub(self.ended);
        let cpu_s = ticks as f64 / ticks_per_s.max(1) as f64 - last_moments_s;
        let faults = grown.faults.saturating_sub(self.handed.faults);
        let unseen = Unseen {
            processes: (self.orphans > 0).then_some(self.orphans),
            children_cpu_s: cpu_s.max(0.0) + self.orphans_us as f64 / 1e6,
            children_faults: faults.saturating_add(self.orphans_faults),
        };
        let any = self.orphans > 0 || unseen.children_cpu_s > 0.0 || unseen.children_faults > 0;
        any.then_some(unseen)
    }
}

fn last_moments_ns(process: &Tracked) -> u64 {
    let unsampled_ns = process.end_ns.unwrap_or(process.last_ns).saturating_sub(process.last_ns);
    unsampled_ns.saturating_mul(u64::from(process.last.threads.max(1)))
}

fn growth(process: &Tracked) -> ChildWork {
    let last = child_work(&process.last);
    ChildWork {
        ticks: last.ticks.saturating_sub(process.child_base.ticks),
        faults: last.faults.saturating_sub(process.child_base.faults),
    }
}

fn plus(a: ChildWork, b: ChildWork) -> ChildWork {
    ChildWork { ticks: a.ticks.saturating_add(b.ticks), faults: a.faults.saturating_add(b.faults) }
}
