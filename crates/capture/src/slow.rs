//! The costly readings: PSS and mapping kinds, a few processes at a time, under a budget.

use nilometer_kernel::parse::kind::{Kind, Summary};
use nilometer_kernel::parse::smaps::Usage;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::{monotonic_ns, thread_cpu_ns};
use nilometer_trace::record::{KindSum, Kinds, MappingKind, NamedMapping, Record, Shares};

use crate::bounds::{Walk, little_kib};
use crate::budget::Budget;
use crate::member::{KindsRead, Member};

/// No process is walked more often than this by the ordinary schedule,
const SHORTEST_PACE_NS: u64 = 1_000_000_000;
/// and one that is as it was, this often: a walk of a small process costs as much as its ticks of a second, and one of a
/// large process holds the lock of its address space.
const QUIET_PACE_NS: u64 = 30_000_000_000;
/// What it is made of is read this often then: three times as dear, and the sums say that it is as it was.
const QUIET_KINDS_PACE_NS: u64 = 120_000_000_000;
/// Walks of one tick end when they took this long: the next tick is not to be late.
const AT_ONCE_NS: u64 = 1_000_000;
/// Who is due within this part of its pace is walked with another: a second walk costs a part of the first, for which code
/// and data had to come into the caches.
const NEARLY: u64 = 8;
/// A change worth an early walk.
const MUCH_KIB: u64 = 2 << 10;
/// Above this many mappings the text of smaps costs more than the walk: the rollup alone is read.
const MANY_MAPPINGS: u64 = 4096;
/// Of such processes the kinds are read once in so many walks.
const KINDS_EVERY: u64 = 8;

#[derive(Debug)]
pub struct Slow {
    budget: Budget,
    buffer: Vec<u8>,
    walks: u64,
    enabled: bool,
    /// When a member last ended.
    last_end_ns: u64,
    /// While there is no news of any member, none is due before.
    idle_until_ns: u64,
}

impl Slow {
    pub fn new(now_ns: u64, budget_percent: f64, enabled: bool) -> Self {
        Self {
            budget: Budget::new(now_ns, budget_percent),
            buffer: Vec::new(),
            walks: 0,
            enabled,
            last_end_ns: 0,
            idle_until_ns: 0,
        }
    }

    /// What it shared is now more of the others'.
    pub fn somebody_ended(&mut self, now_ns: u64) {
        (self.last_end_ns, self.idle_until_ns) = (now_ns, 0);
    }

    /// Does a look at the members make sense? `news`: of any of them.
    pub fn is_time(&self, now_ns: u64, news: bool) -> bool {
        self.enabled && (news || now_ns >= self.idle_until_ns)
    }

    /// Walks the member that needs it most, if one is due and the budget allows, and with it others while that is quick.
    pub fn turn(&mut self, proc: &Proc, members: &mut [Member], now_ns: u64, out: &mut Vec<Record>) {
        let births = members.iter().map(|m| m.seen_ns);
        let regrouped_ns = births.chain([self.last_end_ns]).max().unwrap_or(0);
        let living = || members.iter().filter(|m| m.is_alive());
        self.idle_until_ns = living().map(|m| due_ns(m, regrouped_ns)).min().unwrap_or(u64::MAX);
        if now_ns < self.idle_until_ns {
            return;
        }
        let (mut cost_ns, mut nearly) = (0, false);
        while cost_ns < AT_ONCE_NS {
            let Some(member) = most_urgent(members, now_ns, regrouped_ns, nearly) else { return };
            if !self.budget.allows(now_ns, member.walk_cost_ns) {
                return;
            }
            self.walk(proc, member, now_ns, out);
            cost_ns += member.walk_cost_ns;
            nearly = true;
        }
    }

    /// A new peak: walks every member whose share is not fresh, as far as the forced budget goes.
    /// True if that was everybody.
    pub fn force(&mut self, proc: &Proc, members: &mut [Member], now_ns: u64, out: &mut Vec<Record>) -> bool {
        if !self.enabled {
            return false;
        }
        let mut all = true;
        for member in members.iter_mut().filter(|m| m.is_alive()) {
            let allowed = self.budget.allows_forced(now_ns, estimate_ns(member));
            all &= allowed;
            if allowed {
                self.walk(proc, member, now_ns, out);
            }
        }
        all
    }

    /// Every member, kinds included, until the deadline.
    pub fn walk_all(&mut self, proc: &Proc, members: &mut [Member], deadline_ns: u64, out: &mut Vec<Record>) {
        for member in members.iter_mut().filter(|m| m.is_alive()) {
            let now_ns = monotonic_ns();
            if now_ns < deadline_ns {
                member.kinds = None;
                self.walk(proc, member, now_ns, out);
            }
        }
    }

    fn walk(&mut self, proc: &Proc, member: &mut Member, now_ns: u64, out: &mut Vec<Record>) {
        let begin = thread_cpu_ns();
        self.walks += 1;
        let read = if self.kinds_are_due(member, now_ns) {
            proc.read_kinds(member.visible_pid(), &mut self.buffer).map(|s| Read::Kinds(Box::new(s)))
        } else {
            proc.read_rollup(member.visible_pid(), &mut self.buffer).map(|r| Read::Rollup(Box::new(r)))
        };
        let cost_ns = thread_cpu_ns().saturating_sub(begin);
        self.budget.spend(cost_ns);
        member.walked_ns = now_ns;
        member.walk_cost_ns = cost_ns;
        let Ok(read) = read else { return };
        let device_kib = member.device_kib;
        let shares = Shares { device_kib, ..read.shares(member.index, now_ns, cost_ns) };
        member.walk = Some(Walk::new(&shares, &member.sample));
        out.push(Record::Shares(shares));
        if let Read::Kinds(summary) = read {
            member.mappings = summary.mappings;
            member.kinds = Some(KindsRead { at_ns: now_ns, then: member.sample, pss_kib: summary.total.pss });
            out.push(Record::Kinds(kinds(member.index, now_ns, cost_ns, *summary)));
        }
    }

    /// The rollup, which tells PSS, is cheaper and enough for what is made as it was.
    fn kinds_are_due(&self, member: &Member, now_ns: u64) -> bool {
        match &member.kinds {
            Some(_) if member.mappings >= MANY_MAPPINGS => self.walks.is_multiple_of(KINDS_EVERY),
            Some(last) => {
                let age_ns = now_ns.saturating_sub(last.at_ns);
                age_ns >= QUIET_KINDS_PACE_NS || is_made_otherwise(last, member)
            }
            None => true,
        }
    }
}

/// Also where only its share is another: what workers no longer have in common, as the last walk told.
fn is_made_otherwise(last: &KindsRead, member: &Member) -> bool {
    let (then, now) = (&last.then, &member.sample);
    let changed_kib = then.anon_kib.abs_diff(now.anon_kib)
        + then.file_kib.abs_diff(now.file_kib)
        + then.shmem_kib.abs_diff(now.shmem_kib);
    let shared_kib = member.walk.map_or(0, |walk| walk.pss_kib.abs_diff(last.pss_kib));
    changed_kib.max(shared_kib) > little_kib(now.rss_kib())
}

/// When it is to be walked next, as it is now: a second after the last time when something can have changed, and sooner
/// when much did, because what a short run is made of is to be seen near its peak. `regrouped_ns`: when a member last came
/// or went.
fn due_ns(member: &Member, regrouped_ns: u64) -> u64 {
    member.walked_ns.saturating_add(pace_ns(member, regrouped_ns))
}

fn pace_ns(member: &Member, regrouped_ns: u64) -> u64 {
    let Some(walk) = member.walk else { return unwalked_pace_ns(member) };
    let rss_kib = member.sample.rss_kib();
    let changed_kib = rss_kib.abs_diff(walk.rss_kib);
    let changed_much = changed_kib > MUCH_KIB && changed_kib > rss_kib / 10;
    // A new process may share what was private, and one that ends leaves its part; a fault may end the sharing.
    let unshares = walk.hides_much() && member.sample.minor_faults != walk.minor_faults;
    // What it has on devices is stored with its shares.
    let device_changed_kib = member.device_kib.abs_diff(walk.device_kib);
    let has_news = changed_kib > little_kib(rss_kib)
        || device_changed_kib > little_kib(member.device_kib)
        || walk.at_ns < regrouped_ns
        || unshares;
    match (changed_much, has_news) {
        (true, _) => SHORTEST_PACE_NS / 5,
        (false, true) => SHORTEST_PACE_NS,
        (false, false) => QUIET_PACE_NS,
    }
}

/// It could not be walked, or never was.
fn unwalked_pace_ns(member: &Member) -> u64 {
    let much = member.sample.rss_kib() > MUCH_KIB;
    if much { SHORTEST_PACE_NS / 5 } else { SHORTEST_PACE_NS }
}

/// Of those that are due, or `nearly`.
fn most_urgent(members: &mut [Member], now_ns: u64, regrouped_ns: u64, nearly: bool) -> Option<&mut Member> {
    let early_ns = |m: &Member| if nearly { pace_ns(m, regrouped_ns) / NEARLY } else { 0 };
    let is_due = |m: &Member| due_ns(m, regrouped_ns) <= now_ns + early_ns(m);
    members.iter_mut().filter(|m| m.is_alive() && is_due(m)).max_by_key(|m| urgency(m, now_ns))
}

/// Large changes first, then age; a process never walked comes before all.
fn urgency(member: &Member, now_ns: u64) -> u64 {
    let rss = member.sample.rss_kib();
    let Some(walk) = member.walk else { return u64::MAX };
    let age_s = now_ns.saturating_sub(member.walked_ns) / 1_000_000_000;
    rss.abs_diff(walk.rss_kib).saturating_mul(8).saturating_add(rss / 64 * age_s.min(600)).min(u64::MAX - 1)
}

/// What a walk will cost: as the last one, scaled; 30 ms per GiB where there was none.
fn estimate_ns(member: &Member) -> u64 {
    let rss = member.sample.rss_kib();
    match member.walk {
        Some(walk) if walk.rss_kib > 0 => {
            (member.walk_cost_ns as f64 * rss as f64 / walk.rss_kib as f64) as u64
        }
        _ => rss * 30,
    }
}

enum Read {
    Kinds(Box<Summary>),
    Rollup(Box<nilometer_kernel::parse::smaps::Rollup>),
}

impl Read {
    fn shares(&self, index: u32, at_ns: u64, cost_ns: u64) -> Shares {
        let usage: &Usage = match self {
            Self::Kinds(summary) => &summary.total,
            Self::Rollup(rollup) => &rollup.usage,
        };
        let (pss_anon_kib, pss_file_kib, pss_shmem_kib) = match self {
            Self::Kinds(summary) => pss_by_backing(summary),
            Self::Rollup(r) => (r.pss_anon.unwrap_or(0), r.pss_file.unwrap_or(0), r.pss_shmem.unwrap_or(0)),
        };
        Shares {
            index,
            at_ns,
            rss_kib: usage.rss,
            pss_kib: usage.pss,
            uss_kib: usage.uss_kib(),
            private_dirty_kib: usage.private_dirty,
            pss_anon_kib,
            pss_file_kib,
            pss_shmem_kib,
            swap_pss_kib: usage.swap_pss,
            device_kib: 0,
            cost_ns,
        }
    }
}

/// The rollup's split, from the kinds: shared memory is told by its name, the rest by `Anonymous:`.
fn pss_by_backing(summary: &Summary) -> (u64, u64, u64) {
    let mut split = (0, 0, 0);
    for (kind, _, usage) in &summary.kinds {
        match kind {
            Kind::Shared => split.2 += usage.pss,
            Kind::Code | Kind::File => {
                let anonymous = usage.anonymous.min(usage.pss);
                split.0 += anonymous;
                split.1 += usage.pss - anonymous;
            }
            _ => split.0 += usage.pss,
        }
    }
    split
}

fn kinds(index: u32, at_ns: u64, cost_ns: u64, summary: Summary) -> Kinds {
    Kinds {
        index,
        at_ns,
        mappings: summary.mappings,
        kinds: summary
            .kinds
            .iter()
            .map(|(kind, mappings, usage)| kind_sum(*kind, *mappings, usage))
            .collect(),
        largest: summary
            .largest
            .into_iter()
            .map(|m| NamedMapping {
                name: m.name,
                kind: mapping_kind(m.kind),
                rss_kib: m.rss_kib,
                pss_kib: m.pss_kib,
            })
            .collect(),
        cost_ns,
    }
}

fn kind_sum(kind: Kind, mappings: u64, usage: &Usage) -> KindSum {
    KindSum {
        kind: mapping_kind(kind),
        mappings,
        size_kib: usage.size,
        rss_kib: usage.rss,
        pss_kib: usage.pss,
        private_kib: usage.uss_kib(),
        swap_kib: usage.swap,
        anon_huge_kib: usage.anon_huge,
    }
}

fn mapping_kind(kind: Kind) -> MappingKind {
    match kind {
        Kind::Heap => MappingKind::Heap,
        Kind::Anonymous => MappingKind::Anonymous,
        Kind::Code => MappingKind::Code,
        Kind::File => MappingKind::File,
        Kind::Shared => MappingKind::Shared,
        Kind::Stack => MappingKind::Stack,
        Kind::Device => MappingKind::Device,
        Kind::Kernel => MappingKind::Kernel,
    }
}

#[cfg(test)]
mod tests {
    use nilometer_trace::record::ProcessSample;

    use super::*;

    fn member() -> Member {
        Member::open(&Proc::default(), 0, std::process::id() as i32, 0, &mut Vec::new()).unwrap()
    }

    #[test]
    fn who_stays_as_it_was_is_walked_again_when_somebody_came_or_went_and_seldom_else() {
        const S: u64 = 1_000_000_000;
        let walk = Walk::new(&Shares { at_ns: 10 * S, ..Shares::default() }, &ProcessSample::default());
        let mut member = member();
        (member.walk, member.walked_ns) = (Some(walk), 10 * S);
        let due_s = |regrouped_s| due_ns(&member, regrouped_s * S) / S;
        assert_eq!(due_s(10), 40, "the walk was of that tick");
        assert_eq!(due_s(11), 11);
    }

    #[test]
    fn an_end_is_followed_by_a_walk_of_who_stays() {
        const S: u64 = 1_000_000_000;
        let mut slow = Slow::new(0, 100.0, true);
        let (mut members, mut out) = ([member()], Vec::new());
        let mut walks_by = |slow: &mut Slow, now_s: u64| {
            if slow.is_time(now_s * S, false) {
                slow.turn(&Proc::default(), &mut members, now_s * S, &mut out);
            }
            // As a tick would have it: it has not changed since.
            let resident_kib = members[0].walk.unwrap().rss_kib;
            members[0].sample.anon_kib = resident_kib;
            slow.walks
        };
        assert_eq!([walks_by(&mut slow, 10), walks_by(&mut slow, 12)], [1, 1]);
        slow.somebody_ended(13 * S);
        assert_eq!([walks_by(&mut slow, 14), walks_by(&mut slow, 16)], [2, 2]);
        assert_eq!([walks_by(&mut slow, 43), walks_by(&mut slow, 44)], [2, 3], "there was no news");
        assert_eq!(walks_by(&mut slow, 45), 3);
        assert!(slow.is_time(46 * S, true) && !slow.is_time(46 * S, false));
    }

    #[test]
    fn who_is_nearly_due_is_walked_with_who_is() {
        const S: u64 = 1_000_000_000;
        let mut members = [10, 13, 14].map(|at_s| {
            let walk = Walk::new(&Shares { at_ns: at_s * S, ..Shares::default() }, &ProcessSample::default());
            let mut member = member();
            (member.walk, member.walked_ns) = (Some(walk), at_s * S);
            member
        });
        let mut next = |now_s: u64, nearly| {
            let member = most_urgent(&mut members, now_s * S, 0, nearly)?;
            Some(std::mem::replace(&mut member.walked_ns, now_s * S) / S)
        };
        assert_eq!(next(39, false), None);
        assert_eq!([next(40, false), next(40, false)], [Some(10), None]);
        assert_eq!([next(40, true), next(40, true)], [Some(13), None]);
    }

    #[test]
    fn memory_on_a_device_is_news() {
        let (mut member, walk) = (member(), Walk::new(&Shares::default(), &ProcessSample::default()));
        member.walk = Some(walk);
        assert_eq!(due_ns(&member, 0), QUIET_PACE_NS);
        member.device_kib = 3 << 20;
        assert_eq!(due_ns(&member, 0), SHORTEST_PACE_NS);
    }

    /// As of a worker after a fork: the same pages, of which it has more and more for itself.
    #[test]
    fn kinds_are_read_again_when_only_the_share_has_changed() {
        let mut member = member();
        member.sample.anon_kib = 100 << 10;
        let walked = |pss_kib| Walk { pss_kib, ..Walk::new(&Shares::default(), &ProcessSample::default()) };
        let last = KindsRead { at_ns: 0, then: member.sample, pss_kib: 50 << 10 };
        member.walk = Some(walked(50 << 10));
        assert!(!is_made_otherwise(&last, &member));
        member.walk = Some(walked(60 << 10));
        assert!(is_made_otherwise(&last, &member));
    }
}
