//! `nilo top`.

use std::time::Duration;

use clap::Args;

use super::value::parse_interval;

/// See what is happening now: a process, a run that is recorded, or a list to choose from
///
/// Shows the verdict so far, the curve, and processes, kinds of objects and sites by how fast they grow. A process is only
/// read from outside; one that `nilo run` records is followed by its log. Keys are shown at the foot, ? tells them all.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo top                 my processes by size, Python ones first; enter looks at one
  nilo top 4711            one process and those it starts
  nilo top @last           the run that was started last, while it goes on
  nilo top train.nilo --interval 5s")]
pub struct TopArgs {
    /// Process id, or a run: a directory, @last, @2
    #[arg(value_name = "PID|RUN")]
    pub target: Option<String>,
    /// Time between two looks, 5ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,
    /// Watch this one process only, not the ones it starts
    #[arg(long)]
    pub single: bool,
}
