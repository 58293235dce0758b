//! The words of `nilo leak`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use nilometer_analysis::leak::model::Class;
use nilometer_capture::relay::Steps;

use super::allocs::AllocArgs;
use super::value::{parse_duration, parse_size};
use super::{LimitArgs, RecordingArgs};

/// Tell whether memory leaks, how fast, where, and how sure that is
///
/// Runs the command (or watches a process, or reads a recorded run) and judges the part after warm-up: class, rate
/// with its 95 % interval, place, when the limit is reached, and the smallest leak that would have been seen.
/// Nothing is injected (without --allocs). A Python process is stopped for moments to be counted, at most 5 % of the time.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo leak -- python train.py                  does it leak, where, how fast?
  nilo leak --steps tqdm -- python train.py     per step of the progress bar
  nilo leak --allocs -- python train.py         and which code allocates what stays
  nilo leak 4711 --duration 2m                  a process that already runs
  nilo leak @last                               the run that is recorded already
  nilo leak --repeat 30 -- ./train.sh           what does each run leave on the machine?
  nilo leak --repeat 0 --guard -- ./train.sh    again and again until memory is short
  nilo leak --allow 1MB/step --junit leak.xml -- python train.py     as a gate in CI",
    after_help = "\
Exit code: 0 no leak, 1 a leak (or a rate whose lower bound is above --allow, or --fail-if), 3 not enough evidence,
4 the command failed, 75 ended by the watchdog, 125 nilo failed."
)]
pub struct LeakArgs {
    /// Run directory, @last, @2, …, or a process id (default: @last)
    #[arg(conflicts_with = "command")]
    pub target: Option<String>,
    /// Of a job: this rank [default: the one that is not like the others]
    #[arg(long, value_name = "N")]
    pub rank: Option<u64>,
    /// Watch a process this long [default: 60s]; with --repeat: begin no run after this long
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Where steps are told: torch, keras, tqdm, sklearn, jax (a hook in the command's Pythons; the script stays
    /// as it is), or a regular expression of its output whose first group (or group `step`) is the number
    #[arg(long, value_name = "LIBRARY|REGEX", value_parser = Steps::new)]
    pub steps: Option<Steps>,
    /// Run the command N times and judge what each run leaves on the machine; 0: until a limit of the watchdog
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000), requires = "command")]
    pub repeat: Option<u32>,
    /// Growth that is accepted, for example 1MB/step, 100K/s, 5M/run
    #[arg(long, value_name = "SIZE/UNIT")]
    pub allow: Option<Allowance>,
    /// Fail on this too: a class ("cannot tell", sawtooth), or `rate > 1MB/step`, or `peak > 2G`
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Write the verdict as a test case for build servers (`JUnit` XML)
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the verdict as JSON to FILE; without FILE to standard output (the command's own output then
    /// goes to standard error)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option)] // absent, bare, with a file
    pub json: Option<Option<PathBuf>>,
    /// Print nothing but what was asked for
    #[arg(short, long)]
    pub quiet: bool,
    /// Never stop the process to look inside: resident memory only
    #[arg(long)]
    pub no_looks: bool,
    #[command(flatten)]
    pub recording: RecordingArgs,
    #[command(flatten)]
    pub allocs: AllocArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Bytes for each unit of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    pub bytes: f64,
    pub per: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Step,
    Run,
    Second,
}

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("`{text}` is no rate; use for example 1MB/step, 100K/s, 5M/run or 10M/min");
        let (size, unit) = text.split_once('/').ok_or_else(usage)?;
        let bytes = parse_size(size.trim())? as f64;
        let (per, share) = match unit.trim() {
            "step" => (Unit::Step, 1.0),
            "run" => (Unit::Run, 1.0),
            "s" | "second" => (Unit::Second, 1.0),
            "min" | "m" => (Unit::Second, 1.0 / 60.0),
            "h" => (Unit::Second, 1.0 / 3600.0),
            _ => return Err(usage()),
        };
        Ok(Self { bytes: bytes * share, per })
    }
}

/// What makes a run fail besides a leak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Condition {
    Class(Class),
    Rate(Allowance),
    Peak(u64),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((what, limit)) = text.split_once('>') {
            return match what.trim() {
                "rate" => limit.trim().parse().map(Self::Rate),
                "peak" => parse_size(limit.trim()).map(Self::Peak),
                other => Err(format!("`{other}` cannot be compared; use rate or peak")),
            };
        }
        let class = Class::ALL.into_iter().find(|class| class.name() == text.trim());
        let names = || Class::ALL.map(Class::name).join(", ");
        class.map(Self::Class).ok_or_else(|| format!("`{text}` is no class; there are {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_size_and_a_unit() {
        let rate = |text: &str| text.parse::<Allowance>();
        assert_eq!(rate("1MB/step").unwrap(), Allowance { bytes: 1e6, per: Unit::Step });
        assert_eq!(rate("60K/min").unwrap(), Allowance { bytes: 1024.0, per: Unit::Second });
        assert!(rate("1MB").unwrap_err().contains("1MB/step") && rate("1MB/epoch").is_err());
    }

    #[test]
    fn conditions_are_classes_rates_and_peaks() {
        let condition = |text: &str| text.parse::<Condition>();
        assert_eq!(condition("cannot tell").unwrap(), Condition::Class(Class::CannotTell));
        assert_eq!(condition("peak > 2G").unwrap(), Condition::Peak(2 << 30));
        assert!(
            matches!(condition("rate > 1K/run").unwrap(), Condition::Rate(rate) if rate.per == Unit::Run)
        );
        assert!(
            condition("huge").unwrap_err().contains("warm-up then flat") && condition("rss > 1").is_err()
        );
    }
}
