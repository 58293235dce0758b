//! What takes longer than a second says how far it is and how long it will take; on a terminal only, gone when done.

use std::time::{Duration, Instant};

use nilometer_report::text;

use crate::talk;

const SILENT: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(200);
/// The clock is looked at once in so many calls.
const CALLS: u32 = 4096;

#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: u64,
    started: Instant,
    shown: Option<Instant>,
    calls: u32,
}

impl Progress {
    pub fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, started: Instant::now(), shown: None, calls: 0 }
    }

    /// Called often; `done` is asked rarely.
    pub fn tick(&mut self, done: impl FnOnce() -> u64) {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(CALLS) || self.started.elapsed() < SILENT {
            return;
        }
        if self.shown.is_none_or(|shown| shown.elapsed() >= OFTEN) {
            self.shown = Some(Instant::now());
            talk::line(&self.words(done(), self.started.elapsed().as_secs_f64()));
        }
    }

    fn words(&self, done: u64, seconds: f64) -> String {
        let share = done as f64 / self.total.max(1) as f64;
        if !(0.001..=1.0).contains(&share) {
            return format!("{} …", self.what);
        }
        let left = text::duration(seconds / share - seconds);
        format!("{} … {}, about {left} left", self.what, text::percent(share))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            talk::line("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_far_and_how_long() {
        let progress = Progress::new("reading", 1_000);
        assert_eq!(progress.words(250, 3.0), "reading … 25 %, about 9.00 s left");
        assert_eq!(progress.words(0, 3.0), "reading …");
        assert_eq!(progress.words(2_000, 3.0), "reading …", "a log that grows meanwhile");
    }
}
