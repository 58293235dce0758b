//! The target's ticks as `CLOCK_MONOTONIC`.

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_ring::clock::ticks;

/// A moment on both clocks, and how they run against each other; better known the longer it goes.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    ticks: u64,
    ns: u64,
    /// Nanoseconds of a tick, in 2^-16.
    pub scale: u64,
}

/// Until it is measured: a processor of 3 GHz.
const USUAL: u64 = (32 << 16) / 3;
/// A shorter span tells less than is known.
const SHORTEST_NS: u64 = 2_000_000;

impl Clock {
    pub fn start() -> Self {
        Self { ticks: ticks(), ns: monotonic_ns(), scale: USUAL }
    }

    pub fn measure(&mut self) {
        let (ticks, ns) = (ticks(), monotonic_ns());
        let (span_ticks, span_ns) = (ticks.saturating_sub(self.ticks), ns.saturating_sub(self.ns));
        if span_ns >= SHORTEST_NS && span_ticks > 0 {
            self.scale = ((u128::from(span_ns) << 16) / u128::from(span_ticks)) as u64;
        }
    }

    pub fn span_ns(&self, ticks: u64) -> u64 {
        super::tracked::nanoseconds(ticks, self.scale)
    }

    pub fn ns(&self, ticks: u64) -> u64 {
        if ticks >= self.ticks {
            self.ns.saturating_add(self.span_ns(ticks - self.ticks))
        } else {
            self.ns.saturating_sub(self.span_ns(self.ticks - ticks))
        }
    }

    /// The ticks of a moment, about.
    pub fn ticks(&self, ns: u64) -> u64 {
        let span = |ns: u64| ((u128::from(ns) << 16) / u128::from(self.scale.max(1))) as u64;
        if ns >= self.ns {
            self.ticks.saturating_add(span(ns - self.ns))
        } else {
            self.ticks.saturating_sub(span(self.ns - ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back() {
        let clock = Clock { ticks: 1 << 40, ns: 5_000_000_000, scale: USUAL };
        for ns in [4_000_000_000, 5_000_000_000, 6_500_000_000] {
            assert!(clock.ns(clock.ticks(ns)).abs_diff(ns) < 12, "{ns}");
        }
    }

    #[test]
    fn the_scale_is_found() {
        let mut clock = Clock::start();
        while monotonic_ns() < clock.ns + 5_000_000 {}
        clock.measure();
        assert!(clock.ns(ticks()).abs_diff(monotonic_ns()) < 1_000_000);
    }
}
