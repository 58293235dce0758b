//! When enough has been seen of a run (`--stop-after`): so many steps, so long, or its peak has settled. Pure.
//!
//! Settled means: after warm-up five steps in a row, with some samples among them, in which the peak did not move. The
//! level at the start of the row is what counts, so that a slow creep is not taken for rest.

use std::time::Duration;

/// Steps in a row without a new peak.
const QUIET_STEPS: u64 = 5;
/// The first steps allocate what all later ones use.
const WARM_UP_STEPS: u64 = 2;
/// Samples that the row must contain: short steps alone prove nothing.
const QUIET_TICKS: u64 = 3;
/// A rise below this share of the peak, or below this size, is no new peak.
const SHARE: f64 = 0.002;
const LEAST_KIB: u64 = 1024;

/// One condition; the first that holds ends the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopAfter {
    Steps(u64),
    Time(Duration),
    Settled,
}

/// Follows a run until one of the conditions holds.
#[derive(Debug, Clone, Default)]
pub struct Enough {
    conditions: Vec<StopAfter>,
    /// Steps of the first process that marks any.
    leader: Option<i32>,
    /// Steps that have begun.
    begun: u64,
    row: Row,
}

/// Steps without a new peak.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    since_step: u64,
    since_tick: u64,
    level_kib: u64,
}

impl Enough {
    pub fn new(conditions: &[StopAfter]) -> Self {
        Self { conditions: conditions.to_vec(), ..Self::default() }
    }

    pub fn is_asked(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// A step begins.
    pub fn step(&mut self, pid: Option<i32>) {
        if pid.is_none_or(|pid| *self.leader.get_or_insert(pid) == pid) {
            self.begun += 1;
        }
    }

    /// After a tick: the tree's highest so far, and how many ticks there were.
    pub fn tick(&mut self, peak_kib: u64, ticks: u64) {
        let rise = ((self.row.level_kib as f64 * SHARE) as u64).max(LEAST_KIB);
        if self.begun <= WARM_UP_STEPS || peak_kib > self.row.level_kib + rise {
            self.row = Row { since_step: self.begun, since_tick: ticks, level_kib: peak_kib };
        }
    }

    /// Why the run may end now.
    pub fn reached(&self, elapsed: Duration, ticks: u64) -> Option<String> {
        self.conditions.iter().find_map(|condition| self.holds(*condition, elapsed, ticks))
    }

    fn holds(&self, condition: StopAfter, elapsed: Duration, ticks: u64) -> Option<String> {
        match condition {
            StopAfter::Steps(steps) => (self.begun > steps).then(|| format!("{steps} steps")),
            StopAfter::Time(time) => (elapsed >= time).then(|| format!("{:.1} s", time.as_secs_f64())),
            StopAfter::Settled => {
                let quiet = self.begun.saturating_sub(self.row.since_step);
                let looked = ticks.saturating_sub(self.row.since_tick);
                (self.begun > WARM_UP_STEPS && quiet > QUIET_STEPS && looked >= QUIET_TICKS).then(|| {
                    format!("settled: {QUIET_STEPS} steps without a new peak, after step {}", self.begun - 1)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tick per step; the step at which it settled.
    fn settles(peaks: &[u64], ticks_per_step: u64) -> Option<u64> {
        let mut enough = Enough::new(&[StopAfter::Settled]);
        let mut ticks = 0;
        for peak in peaks {
            enough.step(Some(7));
            for _ in 0..ticks_per_step {
                ticks += 1;
                enough.tick(peak << 10, ticks);
            }
            if enough.reached(Duration::ZERO, ticks).is_some() {
                return Some(enough.begun);
            }
        }
        None
    }

    #[test]
    fn a_plateau_settles_and_growth_does_not() {
        assert_eq!(settles(&[100, 200, 300, 300, 300, 300, 300, 300, 300, 300, 300], 1), Some(9));
        assert_eq!(settles(&(1..200).map(|n| 100 + 2 * n).collect::<Vec<_>>(), 1), None);
    }

    #[test]
    fn a_slow_creep_is_not_rest() {
        let creep: Vec<u64> = (0..400).map(|n| 10_000 + 6 * n).collect();
        assert_eq!(settles(&creep, 1), None, "20 MiB is the share; 6 MiB a step passes it every fourth step");
    }

    #[test]
    fn steps_without_samples_prove_nothing() {
        assert_eq!(settles(&[100; 40], 0), None);
    }

    #[test]
    fn steps_of_the_first_process_count() {
        let mut enough = Enough::new(&[StopAfter::Steps(2), StopAfter::Time(Duration::from_secs(90))]);
        for pid in [Some(7), Some(8), Some(8), Some(8), Some(7)] {
            enough.step(pid);
        }
        assert_eq!(enough.reached(Duration::from_secs(1), 9), None, "the second step has not ended");
        enough.step(None);
        assert_eq!(enough.reached(Duration::from_secs(1), 9).as_deref(), Some("2 steps"));
        assert_eq!(
            Enough::new(&[StopAfter::Time(Duration::from_secs(1))])
                .reached(Duration::from_secs(2), 0)
                .as_deref(),
            Some("1.0 s")
        );
    }
}
