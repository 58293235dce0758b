//! Lines while a sweep runs: which point, how it ended, how long the rest may take.

use std::path::Path;

use nilometer_analysis::fit::{self, Sample, Shape};
use nilometer_analysis::sweep::model::PointRun;
use nilometer_analysis::sweep::outcome::Outcome;
use nilometer_analysis::sweep::space::Point;
use nilometer_report::text;

use super::kept;
use crate::talk;

/// Lines of a failed command's output that are shown.
const LAST_LINES: usize = 3;

#[derive(Debug)]
pub struct Progress {
    planned: Option<usize>,
    quiet: bool,
    line: String,
}

impl Progress {
    pub fn new(planned: Option<usize>, quiet: bool) -> Self {
        Self { planned, quiet, line: String::new() }
    }

    pub fn begin(&mut self, params: &Point, repeat: u32, runs: &[PointRun], rest: &[&Point]) {
        let count = self
            .planned
            .map_or_else(|| format!("{}", runs.len() + 1), |all| format!("{}/{all}", runs.len() + 1));
        let told: Vec<String> = params.iter().map(|(name, value)| format!("{name}={}", value.text)).collect();
        let again = if repeat > 1 { format!(" (run {repeat})") } else { String::new() };
        self.line = format!("[{count}] {}{again}", told.join(" "));
        let left = self.planned.and_then(|_| seconds_left(runs, params, rest));
        let left = left.map(|left| format!(" · about {} left", text::duration(left))).unwrap_or_default();
        self.say(&format!("{}{left}", self.line));
    }

    pub fn end(&self, run: &PointRun, output: &Path) {
        let peak = run
            .peak_bytes
            .map_or_else(|| "no peak".to_owned(), |bytes| format!("peak {}", text::bytes(bytes)));
        let why = run.evidence.first().map(|why| format!(" ({why})")).unwrap_or_default();
        self.say(&format!(
            "{}: {} · {peak} · {}{why}",
            self.line,
            run.outcome.name(),
            text::duration(run.duration_s)
        ));
        if matches!(run.outcome, Outcome::Failed | Outcome::Oom) {
            let said = kept::read_tail(output);
            let lines: Vec<&str> = said.lines().rev().take(LAST_LINES).collect();
            lines.iter().rev().for_each(|line| self.say(&format!("  | {line}")));
        }
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            talk::say(line);
        }
    }
}

/// By the law of the durations so far, or their mean.
fn seconds_left(runs: &[PointRun], now: &Point, rest: &[&Point]) -> Option<f64> {
    let durations: Vec<f64> = runs.iter().map(|run| run.duration_s).collect();
    let mean = durations.iter().sum::<f64>() / durations.len() as f64;
    let names: Vec<String> =
        now.iter().filter(|(_, value)| value.number.is_some()).map(|(name, _)| name.clone()).collect();
    let numbers =
        |point: &Point| -> Vec<f64> { point.iter().filter_map(|(_, value)| value.number).collect() };
    let samples: Vec<Sample> =
        runs.iter().map(|run| Sample { x: numbers(&run.params), y: run.duration_s }).collect();
    let law = fit::fit(&names, &samples, Shape { may_fall: true })
        .filter(|law| law.loo_error.is_some_and(|e| e < 0.5));
    let one = |point: &Point| law.as_ref().map_or(mean, |law| law.predict(&numbers(point)).value.max(0.0));
    (!runs.is_empty()).then(|| one(now) + rest.iter().map(|point| one(point)).sum::<f64>())
}
