//! The memory of a process tree, counted once, as an interval.
//!
//! RSS counts a shared page in each process, so the sum of RSS is too high and the largest RSS too low.
//! PSS divides shared pages rightly but is a page-table walk, too dear for each tick. So between two
//! walks the last PSS is carried along and widened by what can have happened since:
//!
//! - growth, of anonymous memory or of the rest, may be new (private) or sharing of what another process has: high
//!   takes all of it, low only the anonymous part (fresh anonymous pages are private);
//! - each minor fault may have un-shared one page (copy on write) without changing RSS: high takes it, up to all that the
//!   tree shares. Where little is shared after a fork faults are not read at each tick, and high takes all of that little;
//! - where the pages of files and shared memory are not as many as they were, others may have come in the place of
//!   some: high takes the faults for those too;
//! - shrinking may have given back private pages (low) or only shared ones, which then count for those that still have
//!   them (high keeps them);
//! - PSS read at different instants may count a page twice that became shared in between. Anonymous pages
//!   become shared only by `fork`, so low takes the anonymous PSS of walks since the last birth of a member;
//!   of file and shared-memory pages, which anybody may map at any time, only those of the largest holder;
//! - when a process ends, the pages it shared count fully for those that stay: high takes its shared part.
//!
//! Whatever the estimate, `largest RSS <= tree <= sum of RSS` holds, and both ends are clamped to that.

use nilometer_trace::record::{Bounds, ProcessSample, Shares};

/// What is known of one process: its counters now and at its last page-table walk.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub now: &'a ProcessSample,
    pub walk: Option<Walk>,
    /// When it was first seen: what was walked before may have become shared with it.
    pub seen_ns: u64,
}

/// The last walk of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    pub pss_kib: u64,
    pub uss_kib: u64,
    pub rss_kib: u64,
    pub anon_kib: u64,
    /// Files and shared memory.
    pub other_kib: u64,
    pub pss_anon_kib: u64,
    pub minor_faults: u64,
    /// Memory on graphics devices.
    pub device_kib: u64,
    pub at_ns: u64,
}

impl Walk {
    /// A walk and the fast counters that were read just before it.
    pub fn new(shares: &Shares, then: &ProcessSample) -> Self {
        Self {
            pss_kib: shares.pss_kib,
            uss_kib: shares.uss_kib,
            rss_kib: shares.rss_kib,
            anon_kib: then.anon_kib,
            other_kib: then.file_kib + then.shmem_kib,
            pss_anon_kib: shares.pss_anon_kib,
            at_ns: shares.at_ns,
            minor_faults: then.minor_faults,
            device_kib: shares.device_kib,
        }
    }

    /// Anonymous memory that was shared after a fork: by so much its share can grow while its RSS stays.
    pub fn hidden_kib(&self) -> u64 {
        self.anon_kib.saturating_sub(self.pss_anon_kib)
    }

    /// Is that worth a look at its faults?
    pub fn hides_much(&self) -> bool {
        self.hidden_kib() > little_kib(self.rss_kib)
    }

    /// Pages that others had a part in, when this was walked.
    pub fn shared_part_kib(&self) -> u64 {
        self.pss_kib.saturating_sub(self.uss_kib)
    }
}

/// A change of memory that is none, in a process of this size.
pub fn little_kib(rss_kib: u64) -> u64 {
    (rss_kib / 64).max(128)
}

/// Adds up the tree at one tick.
#[derive(Debug, Default)]
pub struct TreeBounds {
    /// Shared parts of processes that ended since the last walk of those that stay.
    released_kib: u64,
}

impl TreeBounds {
    /// A process ended; what it shared now counts fully for the others, which no counter shows.
    pub fn ended(&mut self, walk: Option<Walk>) {
        self.released_kib += walk.map_or(0, |w| w.shared_part_kib());
    }

    /// All members have been walked anew: nothing is hidden any more.
    pub fn all_walked(&mut self) {
        self.released_kib = 0;
    }

    pub fn measure<'a>(&self, page_kib: u64, members: impl Iterator<Item = Known<'a>> + Clone) -> Bounds {
        let last_birth_ns = members.clone().map(|member| member.seen_ns).max().unwrap_or(0);
        let mut sum = Totals::default();
        for member in members {
            sum.add(page_kib, &member, last_birth_ns);
        }
        sum.close(self.released_kib)
    }
}

#[derive(Default)]
struct Totals {
    members: u64,
    largest_rss_kib: u64,
    sum_rss_kib: u64,
    low_anon_kib: u64,
    largest_file_kib: u64,
    high_kib: u64,
    /// What may have been un-shared, and all that can be.
    unshared_kib: u64,
    hidden_kib: u64,
}

impl Totals {
    fn add(&mut self, page_kib: u64, member: &Known<'_>, last_birth_ns: u64) {
        let rss = member.now.rss_kib();
        self.members += 1;
        self.largest_rss_kib = self.largest_rss_kib.max(rss);
        self.sum_rss_kib += rss;
        self.largest_file_kib = self.largest_file_kib.max(rss - member.now.anon_kib);
        let fresh = member.walk.filter(|walk| walk.at_ns >= last_birth_ns);
        self.low_anon_kib += fresh.map_or(0, |walk| least_anon(&walk, member.now));
        let Some(walk) = member.walk else {
            self.high_kib += rss;
            return;
        };
        let faulted_kib = member.now.minor_faults.saturating_sub(walk.minor_faults).saturating_mul(page_kib);
        self.high_kib = self.high_kib.saturating_add(most(&walk, member.now, faulted_kib));
        let unshared_kib = if walk.hides_much() { faulted_kib } else { walk.hidden_kib() };
        self.unshared_kib = self.unshared_kib.saturating_add(unshared_kib);
        self.hidden_kib += walk.hidden_kib();
    }

    fn close(self, released_kib: u64) -> Bounds {
        if self.members <= 1 {
            // One process: its RSS is the tree, whatever it shares with processes outside.
            return Bounds { low_kib: self.sum_rss_kib, high_kib: self.sum_rss_kib };
        }
        let clamp = |kib: u64| kib.clamp(self.largest_rss_kib, self.sum_rss_kib);
        let unshared_kib = self.unshared_kib.min(self.hidden_kib);
        let high_kib = clamp(self.high_kib.saturating_add(unshared_kib).saturating_add(released_kib));
        let low_kib = self.low_anon_kib.saturating_add(self.largest_file_kib);
        Bounds { low_kib: clamp(low_kib).min(high_kib), high_kib }
    }
}

/// The least anonymous memory that is this process's own share.
fn least_anon(walk: &Walk, now: &ProcessSample) -> u64 {
    let (grown, shrunk) =
        (now.anon_kib.saturating_sub(walk.anon_kib), walk.anon_kib.saturating_sub(now.anon_kib));
    walk.pss_anon_kib.saturating_add(grown).saturating_sub(shrunk).min(now.anon_kib)
}

/// The most that its share can have become, but for what was un-shared.
fn most(walk: &Walk, now: &ProcessSample, faulted_kib: u64) -> u64 {
    let other_kib = now.file_kib + now.shmem_kib;
    let grown_kib = now.anon_kib.saturating_sub(walk.anon_kib) + other_kib.saturating_sub(walk.other_kib);
    let shared_other_kib = walk.other_kib.saturating_sub(walk.pss_kib.saturating_sub(walk.pss_anon_kib));
    let replaced_kib = if other_kib == walk.other_kib { 0 } else { faulted_kib.min(shared_other_kib) };
    // Its part of pages that it may have given back is now with those that shared them.
    let rest_kib = now.rss_kib().saturating_add(walk.shared_part_kib());
    walk.pss_kib.saturating_add(grown_kib).saturating_add(replaced_kib).min(rest_kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(anon_kib: u64, file_kib: u64, minor_faults: u64) -> ProcessSample {
        ProcessSample { anon_kib, file_kib, minor_faults, ..Default::default() }
    }

    #[allow(clippy::unnecessary_wraps)] // as a member has it
    fn walk(pss_kib: u64, uss_kib: u64, then: ProcessSample) -> Option<Walk> {
        let pss_anon_kib = pss_kib.min(then.anon_kib);
        let shares = Shares {
            pss_kib,
            uss_kib,
            pss_anon_kib,
            rss_kib: then.rss_kib(),
            at_ns: 5,
            ..Default::default()
        };
        Some(Walk::new(&shares, &then))
    }

    fn measure(members: &[(ProcessSample, Option<Walk>)]) -> Bounds {
        TreeBounds::default()
            .measure(4, members.iter().map(|(now, walk)| Known { now, walk: *walk, seen_ns: 0 }))
    }

    #[test]
    fn one_process_is_its_rss() {
        let s = sample(100, 40, 9);
        assert_eq!(measure(&[(s, None)]), Bounds { low_kib: 140, high_kib: 140 });
        assert_eq!(measure(&[(s, walk(120, 100, s))]), Bounds { low_kib: 140, high_kib: 140 });
    }

    #[test]
    fn without_walks_largest_and_sum_are_the_ends() {
        let b = measure(&[(sample(1000, 0, 0), None), (sample(600, 0, 0), None)]);
        assert_eq!(b, Bounds { low_kib: 1000, high_kib: 1600 });
    }

    #[test]
    fn a_fresh_walk_closes_the_interval() {
        // Parent and fork share 1000 KiB: 500 each by PSS, plus 200 private in the child.
        let (parent, child) = (sample(1000, 0, 5), sample(1200, 0, 9));
        let b = measure(&[(parent, walk(500, 0, parent)), (child, walk(700, 200, child))]);
        assert_eq!(b, Bounds { low_kib: 1200, high_kib: 1200 });
    }

    #[test]
    fn copy_on_write_widens_only_upwards() {
        let (parent, child) = (sample(1000, 0, 5), sample(1000, 0, 10));
        let written = sample(1000, 0, 60); // 50 faults, RSS unchanged: up to 200 KiB un-shared
        let b = measure(&[(parent, walk(500, 0, parent)), (written, walk(500, 0, child))]);
        assert_eq!(b, Bounds { low_kib: 1000, high_kib: 1200 });
    }

    #[test]
    fn file_growth_may_be_shared_anonymous_growth_is_not() {
        let then = sample(400, 100, 0);
        let now = sample(500, 300, 0);
        let other = sample(100, 500, 0);
        let b = measure(&[(now, walk(400, 300, then)), (other, walk(450, 100, other))]);
        // low: 400 + 100 anonymous, 100 anonymous, 500 files of the largest holder; high: 400 + 300 + 450.
        assert_eq!(b, Bounds { low_kib: 1100, high_kib: 1150 });
    }

    #[test]
    fn one_that_writes_to_all_that_it_shares_leaves_the_rest_to_the_other() {
        let (parent, child, written) = (sample(1000, 0, 5), sample(1000, 0, 10), sample(1000, 0, 900));
        let b = measure(&[(parent, walk(500, 0, parent)), (written, walk(500, 0, child))]);
        assert_eq!(b, Bounds { low_kib: 1000, high_kib: 2000 });
    }

    #[test]
    fn faults_alone_are_no_growth_where_nothing_is_shared_after_a_fork() {
        // Pages given back and touched again; those of files are as many as they were, or not.
        let (then, churned, other) = (sample(1000, 400, 0), sample(1000, 400, 900), sample(1000, 396, 900));
        let walks = walk(1040, 1000, then);
        assert_eq!(measure(&[(churned, walks), (churned, walks)]).high_kib, 2080);
        assert_eq!(measure(&[(churned, walks), (other, walks)]).high_kib, 2080 + 360);
    }

    #[test]
    fn the_little_that_is_shared_is_given_up_at_once() {
        // 100 KiB of 10,000 are shared; the faults that end it are not read at each tick.
        let s = sample(10_000, 0, 0);
        let shares = Shares {
            pss_kib: 9950,
            uss_kib: 9900,
            pss_anon_kib: 9950,
            rss_kib: 10_000,
            ..Default::default()
        };
        let walk = Some(Walk::new(&shares, &s));
        assert_eq!(measure(&[(s, walk), (s, walk)]), Bounds { low_kib: 19_900, high_kib: 20_000 });
    }

    #[test]
    fn shared_pages_that_one_gave_back_stay_with_the_other() {
        // Both map 100 KiB of one file and have 10 KiB of their own; then one unmaps the file.
        let (then, unmapped) = (sample(10, 100, 0), sample(10, 0, 0));
        let b = measure(&[(unmapped, walk(60, 10, then)), (then, walk(60, 10, then))]);
        assert_eq!(b, Bounds { low_kib: 120, high_kib: 120 });
    }

    #[test]
    fn a_fork_makes_older_walks_useless_for_the_lower_end() {
        // Walked alone with 1000 KiB; then a fork shares all of it and is walked with 500.
        let (parent, child) = (sample(1000, 0, 5), sample(1000, 0, 9));
        let members = [(parent, walk(1000, 1000, parent)), (child, walk(500, 0, child))];
        // Both walks are of the time 5; the child was seen after them.
        let known =
            members.iter().zip([0, 6]).map(|((now, walk), seen_ns)| Known { now, walk: *walk, seen_ns });
        let b = TreeBounds::default().measure(4, known);
        assert_eq!(b.low_kib, 1000, "the largest process, not 1500");
    }

    #[test]
    fn an_ended_sharer_leaves_its_shared_part_to_the_others() {
        let child = sample(1000, 0, 0);
        let other = sample(50, 0, 0);
        let mut tree = TreeBounds::default();
        tree.ended(walk(500, 0, sample(1000, 0, 0)));
        let members = [(child, walk(500, 0, child)), (other, walk(50, 50, other))];
        let b = tree.measure(4, members.iter().map(|(now, walk)| Known { now, walk: *walk, seen_ns: 0 }));
        assert_eq!(b, Bounds { low_kib: 1000, high_kib: 1050 });
        tree.all_walked();
    }

    proptest::proptest! {
        #[test]
        fn ends_stay_between_the_largest_and_the_sum(
            members in proptest::collection::vec((0u64..1 << 30, 0u64..1 << 30, 0u64..1 << 40, 0u64..1 << 30), 1..8),
        ) {
            let members: Vec<_> = members.iter().map(|&(anon, file, faults, pss)| {
                let then = sample(anon / 2, file, faults / 2);
                (sample(anon, file, faults), walk(pss, pss / 2, then))
            }).collect();
            let b = measure(&members);
            let largest = members.iter().map(|(s, _)| s.rss_kib()).max().unwrap_or(0);
            let sum: u64 = members.iter().map(|(s, _)| s.rss_kib()).sum();
            proptest::prop_assert!(largest <= b.low_kib && b.low_kib <= b.high_kib && b.high_kib <= sum);
        }
    }
}
