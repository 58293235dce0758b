//! The words of `nilo where`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::heap::Switch;
use super::value::parse_duration;

/// Tell what the resident memory of a process, or of a run at its peak, is made of, to the last byte
///
/// Code, Python objects, arrays and tensors, malloc in use and held, stacks, shared memory, files: lines that add
/// up to RSS, the residual printed. Nothing is injected or written: the memory is copied during a stop of
/// milliseconds, which can make a blocking call return EINTR, as a debugger would. Where memory may not be read,
/// the ledger is by kinds of mappings.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo where 4711                    why is RSS larger than my tensors?
  nilo where 4711 --by library       what does each package cost?
  nilo where 4711 --line             52M = code 25M + objects 10M + arrays 15M + other 2M
  nilo where 4711 --pause off        never stop it: estimated
  nilo where                         the newest run: the ledger nearest to its peak
  nilo where train.nilo --curve      all ledgers of a run over time
  nilo where @2 --at 90s             the one nearest to that moment
  nilo where 4711 --json | jq '.parts[] | [.name, .bytes]'")]
pub struct WhereArgs {
    /// Process id, run directory, or @last, @2, … (default: @last)
    #[arg(value_name = "PID|RUN")]
    pub target: Option<String>,
    /// Of a job: this rank [default: the one that is not like the others]
    #[arg(long, value_name = "N")]
    pub rank: Option<u64>,
    /// What a row is
    #[arg(long, value_enum, default_value_t = By::Line, conflicts_with = "line")]
    pub by: By,
    /// One line: RSS = code + objects + arrays + other
    #[arg(long)]
    pub line: bool,
    /// One JSON document on standard output
    #[arg(long, conflicts_with = "line")]
    pub json: bool,
    /// Of a run: the ledger nearest to this time after its start, instead of the peak
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub at: Option<Duration>,
    /// Of a run: all its ledgers over time, a row each
    #[arg(long, conflicts_with_all = ["line", "at", "by"])]
    pub curve: bool,
    /// off: read it while it runs; lines may be of different instants
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub pause: Switch,
    /// Stop no longer than this, and say what is missing
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub max_pause: Duration,
    /// This one process only, not the ones it started
    #[arg(long)]
    pub single: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// What the memory is used for
    Line,
    /// Programs and libraries per package
    Library,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Verb};
    use super::*;

    fn parse(words: &str) -> Result<WhereArgs, clap::error::ErrorKind> {
        match Cli::try_parse_from(words.split(' ')).map_err(|error| error.kind())?.verb {
            Some(Verb::Where(args)) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_way_of_showing_at_a_time() {
        let args = parse("nilo where 4711 --by library --pause off").unwrap();
        assert_eq!((args.by, args.pause, args.target.as_deref()), (By::Library, Switch::Off, Some("4711")));
        for words in
            ["nilo where 1 --curve --line", "nilo where 1 --line --json", "nilo where 1 --line --by library"]
        {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
