//! Limits of the user, and when they are crossed. Pure: what to do about it is `enforce`'s business.
//!
//! Off unless asked. It judges the run's own tree and the machine, and acts on the run's own tree only.

use nilometer_trace::record::Bounds;

/// Memory cannot be touched faster than about this; the distance to a limit divided by it is the time left.
const FASTEST_KIB_PER_S: u64 = 4 << 20;
/// Never look more often than this.
const SHORTEST_NS: u64 = 2_000_000;

/// A limit in bytes, or as a share of what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Bytes(u64),
    Percent(f64),
}

impl Amount {
    fn kib_of(self, whole_kib: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes / 1024,
            Self::Percent(percent) => (whole_kib as f64 * percent / 100.0) as u64,
        }
    }
}

/// What the user does not want to see crossed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// RSS of any one process.
    pub max_rss_bytes: Option<u64>,
    /// The tree, counted once.
    pub max_pss_bytes: Option<u64>,
    /// `VmSwap` of the tree.
    pub max_swap_bytes: Option<u64>,
    /// SwapTotal - SwapFree - SwapCached of the machine.
    pub max_system_swap_bytes: Option<u64>,
    /// Least MemAvailable of the machine (share: of MemTotal).
    pub min_available: Option<Amount>,
    /// Most use of the binding cgroup without reclaimable cache (share: of its limit).
    pub max_cgroup: Option<Amount>,
    /// Most memory pressure ("some", average over 10 s) in percent.
    pub max_psi_percent: Option<f64>,
}

impl Limits {
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Do any of them need the system files at each tick?
    pub fn watches_system(&self) -> bool {
        self.max_system_swap_bytes.is_some() || self.min_available.is_some() || self.max_cgroup.is_some()
    }

    /// `--guard`: before the machine drowns.
    #[must_use]
    pub fn guard(mut self) -> Self {
        self.min_available = self.min_available.or(Some(Amount::Percent(3.0)));
        self.max_cgroup = self.max_cgroup.or(Some(Amount::Percent(97.0)));
        self.max_swap_bytes = self.max_swap_bytes.or(Some(500 << 20));
        self
    }
}

/// What is judged: one tick.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    pub tree: Bounds,
    pub largest_index: Option<u32>,
    pub largest_rss_kib: u64,
    pub swap_kib: u64,
    pub total_kib: u64,
    pub available_kib: u64,
    pub system_swap_kib: u64,
    /// Limit and use without reclaimable cache of the tightest cgroup that has a limit.
    pub cgroup: Option<(u64, u64)>,
    pub psi_some_centi: u64,
}

/// A limit was crossed.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossing {
    /// The option that was crossed.
    pub option: &'static str,
    pub value_bytes: u64,
    pub limit_bytes: u64,
    pub index: Option<u32>,
}

/// One limit against its value; `rising` is crossed from below, its opposite from above.
struct Rule {
    option: &'static str,
    limit_kib: u64,
    value_kib: u64,
    rising: bool,
}

impl Rule {
    fn distance_kib(&self) -> u64 {
        let (from, to) =
            if self.rising { (self.value_kib, self.limit_kib) } else { (self.limit_kib, self.value_kib) };
        to.saturating_sub(from)
    }

    fn is_crossed(&self) -> bool {
        if self.rising { self.value_kib > self.limit_kib } else { self.value_kib < self.limit_kib }
    }
}

fn rules(limits: &Limits, view: &View) -> impl Iterator<Item = Rule> {
    let rising = |option, limit: Option<u64>, value_kib| {
        limit.map(|bytes| Rule { option, limit_kib: bytes / 1024, value_kib, rising: true })
    };
    let cgroup = limits.max_cgroup.zip(view.cgroup).map(|(amount, (limit_kib, value_kib))| Rule {
        option: "--max-cgroup",
        limit_kib: amount.kib_of(limit_kib),
        value_kib,
        rising: true,
    });
    let available = limits.min_available.map(|amount| Rule {
        option: "--min-available",
        limit_kib: amount.kib_of(view.total_kib),
        value_kib: view.available_kib,
        rising: false,
    });
    [
        rising("--max-rss", limits.max_rss_bytes, view.largest_rss_kib),
        // Judged by the lower end: what is certain.
        rising("--max-pss", limits.max_pss_bytes, view.tree.low_kib),
        rising("--max-swap", limits.max_swap_bytes, view.swap_kib),
        rising("--max-system-swap", limits.max_system_swap_bytes, view.system_swap_kib),
        available,
        cgroup,
    ]
    .into_iter()
    .flatten()
}

/// The first limit that this tick crosses.
pub fn crossing(limits: &Limits, view: &View) -> Option<Crossing> {
    let by_size = rules(limits, view).find(Rule::is_crossed).map(|rule| Crossing {
        option: rule.option,
        value_bytes: rule.value_kib * 1024,
        limit_bytes: rule.limit_kib * 1024,
        index: view.largest_index,
    });
    by_size.or_else(|| pressure_crossing(limits, view))
}

/// Pressure is a share of time; it is carried in the byte fields as hundredths of a percent.
fn pressure_crossing(limits: &Limits, view: &View) -> Option<Crossing> {
    let limit_centi = (limits.max_psi_percent? * 100.0) as u64;
    (view.psi_some_centi > limit_centi).then_some(Crossing {
        option: "--max-psi",
        value_bytes: view.psi_some_centi,
        limit_bytes: limit_centi,
        index: view.largest_index,
    })
}

/// Is the tree's upper end beyond `--max-pss` while the lower is not? Then a page-table walk decides.
pub fn needs_walk(limits: &Limits, view: &View) -> bool {
    let limit_kib = limits.max_pss_bytes.map_or(u64::MAX, |bytes| bytes / 1024);
    view.tree.low_kib <= limit_kib && limit_kib < view.tree.high_kib
}

/// How long until the next look: never so long that a limit could be far overrun in between.
pub fn next_look_ns(limits: &Limits, view: &View, interval_ns: u64) -> u64 {
    let nearest = rules(limits, view).map(|rule| rule.distance_kib()).min();
    let left_ns = nearest.map_or(u64::MAX, |kib| kib.saturating_mul(1_000_000_000) / FASTEST_KIB_PER_S);
    interval_ns.min(left_ns.max(SHORTEST_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const GIB_KIB: u64 = 1 << 20;

    fn view() -> View {
        View {
            tree: Bounds { low_kib: GIB_KIB, high_kib: 2 * GIB_KIB },
            largest_index: Some(3),
            largest_rss_kib: GIB_KIB,
            total_kib: 100 * GIB_KIB,
            available_kib: 50 * GIB_KIB,
            ..View::default()
        }
    }

    #[test]
    fn nothing_is_crossed_without_limits() {
        assert_eq!(crossing(&Limits::default(), &view()), None);
        assert_eq!(next_look_ns(&Limits::default(), &view(), 7), 7);
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        let limits = Limits { max_rss_bytes: Some(GIB), ..Limits::default() };
        assert_eq!(crossing(&limits, &view()), None);
        let above = View { largest_rss_kib: GIB_KIB + 4, ..view() };
        let found = crossing(&limits, &above).unwrap();
        assert_eq!((found.option, found.value_bytes, found.index), ("--max-rss", GIB + 4096, Some(3)));
    }

    #[test]
    fn the_tree_is_judged_by_what_is_certain_and_walked_when_in_doubt() {
        let limits = Limits { max_pss_bytes: Some(GIB + GIB / 2), ..Limits::default() };
        assert_eq!(crossing(&limits, &view()), None);
        assert!(needs_walk(&limits, &view()));
    }

    #[test]
    fn shares_are_of_the_stated_whole() {
        let limits = Limits::default().guard();
        assert_eq!(crossing(&limits, &view()), None);
        let low = View { available_kib: 2 * GIB_KIB, ..view() };
        assert_eq!(crossing(&limits, &low).unwrap().option, "--min-available");
        let full = View { cgroup: Some((100, 98)), ..view() };
        assert_eq!(crossing(&limits, &full).unwrap().option, "--max-cgroup");
        let swapping = View { swap_kib: 600 << 10, ..view() };
        assert_eq!(crossing(&limits, &swapping).unwrap().option, "--max-swap");
    }

    #[test]
    fn pressure_is_compared_in_percent() {
        let limits = Limits { max_psi_percent: Some(20.0), ..Limits::default() };
        assert_eq!(crossing(&limits, &View { psi_some_centi: 2000, ..view() }), None);
        assert_eq!(crossing(&limits, &View { psi_some_centi: 2001, ..view() }).unwrap().option, "--max-psi");
    }

    #[test]
    fn the_interval_shrinks_with_the_distance() {
        let limits = Limits { max_rss_bytes: Some(GIB + (40 << 20)), ..Limits::default() };
        let interval = 100_000_000;
        assert_eq!(next_look_ns(&limits, &view(), interval), 9_765_625, "40 MiB at 4 GiB/s");
        let far = View { largest_rss_kib: 0, ..view() };
        assert_eq!(next_look_ns(&limits, &far, interval), interval);
        let at = View { largest_rss_kib: GIB_KIB + (40 << 10), ..view() };
        assert_eq!(next_look_ns(&limits, &at, interval), SHORTEST_NS);
    }
}
