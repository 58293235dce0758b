//! The words of `nilo compare`.

use std::path::PathBuf;

use clap::Args;

/// Tell what changed between runs: environment first, then peak, growth, parts, steps, kinds of object
///
/// The first is the base. Each side is a run, a directory of runs (repeats of one command), a heap snapshot or a sweep.
/// Repeats tell the noise: a difference is called one only where its 95 % interval does not hold zero.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo compare base.nilo new.nilo
  nilo compare base/ new/ --fail-if 'peak > +5%' --fail-if 'leak > 1MB/step'
  nilo compare @2 @last --markdown >> $GITHUB_STEP_SUMMARY
  nilo compare before.heap after.heap
  nilo compare --rev main --rev HEAD --repeat 5 --fail-if 'peak > +5%' -- python train.py --steps 20",
    after_help = "\
Gates: FIGURE > VALUE or FIGURE < VALUE. With a sign (+5%, +100MiB, -10ms) the change against the base, without one
the value itself (2GiB, 1MB/step, 0.5s). Broken only where the whole 95 % interval is beyond it.

Exit code: 0 good; 1 a gate is broken; 3 a gate has not enough evidence; 4 the command failed; 2 usage; 125 nilo failed."
)]
pub struct CompareArgs {
    /// Runs, directories of runs, heap snapshots or sweeps; the first is the base
    #[arg(value_name = "SIDE", conflicts_with = "rev")]
    pub sides: Vec<String>,
    /// Of a job: this rank on every side, instead of all as repeats
    #[arg(long, value_name = "N")]
    pub rank: Option<u64>,
    /// Fail where this holds: 'peak > +5%', 'leak > 1MB/step', 'made.heap > 500MiB'
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    /// Run the command at this revision, in a git worktree of its own; the first is the base
    #[arg(long, value_name = "REVISION", requires = "command")]
    pub rev: Vec<String>,
    /// Runs of each revision, in turns
    #[arg(long, value_name = "N", requires = "rev", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub repeat: Option<u32>,
    /// An option for the `nilo run` of each revision, for example --with=--heap
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, requires = "rev")]
    pub with: Vec<String>,
    /// Where the runs of the revisions are kept [default: NAME.DATE.PID.compare]
    #[arg(short, long, value_name = "DIR", requires = "rev")]
    pub output: Option<PathBuf>,
    /// A table for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// All figures, also those that did not change
    #[arg(long)]
    pub all: bool,
    /// The command to run at each revision
    #[arg(last = true, value_name = "COMMAND", requires = "rev")]
    pub command: Vec<String>,
}
