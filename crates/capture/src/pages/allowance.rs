//! In which rounds written pages are looked for: a page that is watched for writes costs the target a fault, and together
//! these may take only a small part of its time. The one invariant: what a round has cost is known before the next is allowed.

/// What of the target's time it may take.
const SHARE: f64 = 0.01;
/// May be spent before there was any time: a short recording has it in every window.
const AT_START_NS: u64 = 100_000_000;
/// A first write to a protected page: 0.7 µs where nobody else is at work, up to 1.9 µs on a busy machine (Linux 6.18).
const FAULT_NS: u64 = 1_000;

/// What one round took of the target's time, or of the processors that it needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// First writes to protected pages.
    pub faults: u64,
    /// Our own time, in most of which we hold the lock of its mappings.
    pub cpu_ns: u64,
}

impl Cost {
    fn ns(self) -> u64 {
        self.cpu_ns.saturating_add(self.faults.saturating_mul(FAULT_NS))
    }
}

/// Keeps the account.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    always: bool,
    spent_ns: u64,
    /// What the last round that was allowed has cost: so much the next is expected to.
    latest_ns: u64,
    is_allowed: bool,
    looks: u64,
    looks_without: u64,
}

impl Allowance {
    pub fn new(always: bool) -> Self {
        Self { always, ..Self::default() }
    }

    /// Decides about the round that begins so long after the start. The first is always allowed.
    pub fn decide(&mut self, elapsed_ns: u64) -> bool {
        let earned_ns = AT_START_NS + (elapsed_ns as f64 * SHARE) as u64;
        self.is_allowed = self.always || self.spent_ns.saturating_add(self.latest_ns) <= earned_ns;
        self.is_allowed
    }

    pub fn count_look(&mut self) {
        self.looks += 1;
        self.looks_without += u64::from(!self.is_allowed);
    }

    /// What the round has cost the one of the processes that paid most.
    pub fn spend(&mut self, costs: impl Iterator<Item = Cost>) {
        if self.is_allowed {
            self.latest_ns = costs.map(Cost::ns).max().unwrap_or(0);
            self.spent_ns = self.spent_ns.saturating_add(self.latest_ns);
        }
    }

    /// In how many windows they were looked for, and why not in the others.
    pub fn note(&self) -> Option<String> {
        let seen = self.looks - self.looks_without;
        let told = format!(
            "written pages were looked for in {seen} of {} windows, which costs about {} ms each: more often would cost the target \
             more than {} % of its time (--written always: in every window)",
            self.looks,
            self.latest_ns.div_ceil(1_000_000),
            SHARE * 100.0,
        );
        (self.looks_without > 0).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Which of `rounds` windows of a second are allowed if each has so many faults.
    fn allowed(allowance: &mut Allowance, rounds: u64, faults: u64) -> Vec<bool> {
        let mut round = |second: u64| {
            let is_allowed = allowance.decide(second * SECOND_NS);
            allowance.count_look();
            allowance.spend([Cost { faults, cpu_ns: 0 }, Cost::default()].into_iter());
            is_allowed
        };
        (0..rounds).map(&mut round).collect()
    }

    #[test]
    fn what_is_cheap_is_looked_at_in_every_window() {
        let mut allowance = Allowance::new(false);
        assert!(allowed(&mut allowance, 1000, 10_000).into_iter().all(|is_allowed| is_allowed));
        assert_eq!(allowance.note(), None);
    }

    #[test]
    fn what_is_dear_takes_one_part_in_a_hundred_of_the_time() {
        let mut allowance = Allowance::new(false);
        let told = allowed(&mut allowance, 1000, 50_000);
        let count = told.iter().filter(|is_allowed| **is_allowed).count();
        assert!(told[0] && told[1] && !told[2] && (195..=202).contains(&count), "every fifth: {count}");
        let note = allowance.note().unwrap();
        assert!(note.contains(&format!("in {count} of 1000 windows")) && note.contains("50 ms"), "{note}");
    }

    #[test]
    fn more_than_was_earned_is_paid_back_before_the_next() {
        let mut allowance = Allowance::new(false);
        let told = allowed(&mut allowance, 600, 1_000_000);
        let at: Vec<usize> = (0..600).filter(|round| told[*round]).collect();
        assert_eq!(at, [0, 190, 290, 390, 490, 590]);
    }

    #[test]
    fn whoever_wants_it_always_gets_it() {
        let mut allowance = Allowance::new(true);
        assert!(allowed(&mut allowance, 10, u64::MAX).into_iter().all(|is_allowed| is_allowed));
        assert_eq!(allowance.note(), None);
    }
}
