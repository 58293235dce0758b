//! A share of one core that costly readings may use.

/// Credit at the start, so that the first walks need not wait.
const START_CREDIT_NS: u64 = 30_000_000;
/// How far a forced reading (a new peak) may overdraw; later ordinary readings wait for it.
const FORCED_CREDIT_NS: u64 = 150_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Budget {
    started_ns: u64,
    spent_ns: u64,
    share: f64,
}

impl Budget {
    pub fn new(started_ns: u64, percent: f64) -> Self {
        Self { started_ns, spent_ns: 0, share: percent / 100.0 }
    }

    pub fn spend(&mut self, cost_ns: u64) {
        self.spent_ns += cost_ns;
    }

    /// May a reading that will cost about `estimate_ns` happen now?
    pub fn allows(&self, now_ns: u64, estimate_ns: u64) -> bool {
        self.within(now_ns, estimate_ns, START_CREDIT_NS)
    }

    /// The same for a reading that matters more than evenness.
    pub fn allows_forced(&self, now_ns: u64, estimate_ns: u64) -> bool {
        self.within(now_ns, estimate_ns, FORCED_CREDIT_NS)
    }

    fn within(&self, now_ns: u64, estimate_ns: u64, credit_ns: u64) -> bool {
        let earned = now_ns.saturating_sub(self.started_ns) as f64 * self.share;
        ((self.spent_ns + estimate_ns) as f64) <= earned + credit_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn one_percent_earns_ten_milliseconds_a_second() {
        let mut budget = Budget::new(100 * S, 1.0);
        assert!(budget.allows(100 * S, START_CREDIT_NS));
        budget.spend(START_CREDIT_NS);
        assert!(!budget.allows(101 * S, 10_000_001));
        assert!(budget.allows(101 * S, 10_000_000));
    }

    #[test]
    fn a_forced_reading_may_overdraw_and_ordinary_ones_then_wait() {
        let mut budget = Budget::new(0, 1.0);
        assert!(budget.allows_forced(0, FORCED_CREDIT_NS));
        assert!(!budget.allows_forced(0, FORCED_CREDIT_NS + 1));
        budget.spend(FORCED_CREDIT_NS);
        assert!(!budget.allows(11 * S, 0));
        assert!(budget.allows(13 * S, 0));
    }
}
