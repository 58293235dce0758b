//! The command line, as typed. Nothing outside this module knows clap.

pub mod allocs;
pub mod compare;
pub mod demo;
pub mod heap;
pub mod import;
pub mod leak;
pub mod ledger;
pub mod merge;
pub mod metrics;
pub mod pages;
pub mod plot;
pub mod report;
pub mod shell;
pub mod sweep;
pub mod top;
pub mod value;

#[cfg(test)]
mod documented;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use nilometer_capture::heap_watch::Every;
use nilometer_capture::relay::Steps;
use nilometer_capture::stop_after::StopAfter;
use nilometer_capture::watchdog::Amount;

use crate::cmd::exit;
use crate::talk;
use value::{
    parse_amount, parse_duration, parse_every, parse_interval, parse_percent, parse_size, parse_stop_after,
};

const EXAMPLES: &str = "\
Examples:
  nilo run -- python train.py              how high, will it fit, does it grow?
  nilo run --interval 10ms -- ./a.out      look closer
  nilo top                                 what is happening now?
  nilo heap 4711                           which objects, held by whom?
  nilo where 4711                          why is RSS larger than my tensors?
  nilo pages 4711                          how much of it is really touched?
  nilo sweep --set batch=16,32 -- python train.py --batch {batch}     what does a batch cost?
  nilo compare base.nilo new.nilo          what changed?
  nilo leak -- python train.py             does it leak, where, how fast?
  nilo report                              the last run again, with charts
  nilo run --allocs -- python train.py     which code allocated it? then: nilo report --allocs
  nilo report train.1115-0312.4711.nilo --json
  nilo export @last --format csv           the samples, for other tools
  nilo list --keep 10                      keep the ten newest runs";

/// Where does the memory of a machine-learning job go?
#[derive(Debug, Parser)]
#[command(name = "nilo", version, about, before_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// The command line of this process; when there is nothing to do, the words have been said and this is
/// the exit code: 0 for help, 2 for a usage error, 125 where the exit code belongs to a target.
pub fn parse() -> Result<Cli, u8> {
    Cli::try_parse().map_err(|error| refuse(&error))
}

fn refuse(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    let word = |place| std::env::args_os().nth(place).unwrap_or_default().to_string_lossy().into_owned();
    let (verb, second) = (word(1), word(2));
    let misspelt = misspelt(&verb, &second);
    let _ = misspelt.as_ref().map_or(error, |(better, _)| better).print();
    let second = misspelt.map_or(second, |(_, meant)| meant);
    if let Some(example) = first_example(&verb, &second) {
        talk::talk(&format!("\nhint: for example:  {example}\n"));
    }
    if ["run", "attach"].contains(&verb.as_str()) { exit::OURS } else { exit::USAGE }
}

/// The word after a verb, where it was taken for a target but is nearly one of the verb's own (`heap dif`): what to
/// say, and what was meant.
fn misspelt(verb: &str, word: &str) -> Option<(clap::Error, String)> {
    let command = Cli::command();
    let known = command.find_subcommand(verb).filter(|verb| verb.has_subcommands())?;
    let is_word = word.chars().all(char::is_alphabetic); // no option, file or process
    if !is_word || known.find_subcommand(word).is_some() || Path::new(word).exists() {
        return None;
    }
    let words_alone = clap::Command::new("nilo")
        .bin_name(format!("nilo {verb}"))
        .no_binary_name(true)
        .subcommand_required(true)
        .subcommands(known.get_subcommands().cloned());
    let error = words_alone.try_get_matches_from([word]).err()?;
    let meant = match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::Strings(meant) => meant.last()?.clone(), // the nearest
        ContextValue::String(meant) => meant.clone(),
        _ => return None,
    };
    Some((error, meant))
}

/// What the help of a verb, or of its word, opens with, without what it is for.
fn first_example(verb: &str, word: &str) -> Option<String> {
    let command = Cli::command();
    let verb = command.find_subcommand(verb)?;
    let help = verb.find_subcommand(word).unwrap_or(verb).get_before_help()?.to_string();
    let line = help.lines().map(str::trim).find(|line| line.starts_with("nilo "))?;
    line.split("   ").next().map(str::to_owned)
}

/// Whether there is such a verb.
pub fn has_verb(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

#[cfg(test)]
pub fn verbs() -> Vec<String> {
    Cli::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
}

/// `nilo sweep DIRECTORY` as if typed.
pub fn sweep_shown(directory: &Path) -> Option<sweep::SweepArgs> {
    let words = ["nilo".into(), "sweep".into(), directory.as_os_str().to_owned()];
    match Cli::try_parse_from(words).ok()?.verb? {
        Verb::Sweep(args) => Some(args),
        _ => None,
    }
}

/// `nilo run -- COMMAND` as if typed.
pub fn run_args(command: &[OsString]) -> Option<RunArgs> {
    let words = ["nilo", "run", "--"].into_iter().map(OsString::from);
    match Cli::try_parse_from(words.chain(command.iter().cloned())).ok()?.verb? {
        Verb::Run(args) => Some(args),
        _ => None,
    }
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // one value, made once
pub enum Verb {
    Run(RunArgs),
    Attach(AttachArgs),
    Top(top::TopArgs),
    Record(RecordArgs),
    Heap(heap::HeapArgs),
    Where(ledger::WhereArgs),
    Pages(pages::PagesArgs),
    Sweep(sweep::SweepArgs),
    Compare(compare::CompareArgs),
    Mode(allocs::ModeArgs),
    Report(report::ReportArgs),
    Plot(plot::PlotArgs),
    Export(report::ExportArgs),
    Leak(leak::LeakArgs),
    Merge(merge::MergeArgs),
    List(ListArgs),
    Doctor(DoctorArgs),
    Import(import::ImportArgs),
    Demo(demo::DemoArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

/// Run a command and tell how high its memory rose, what limits it, and whether it grows
///
/// Nothing is injected (without --allocs), no privilege is needed, the command is never stopped; its exit code, streams,
/// terminal and signals are its own. Orphans of the command become children of nilo while it runs.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo run -- python train.py --epochs 3
  nilo run -o base.nilo --interval 10ms -- ./bench
  nilo run --json=peak.json -q -- make test
  nilo run --allocs -- python train.py     which code owns the memory?
  torchrun --nproc-per-node 8 --no-python nilo run -- python train.py
  srun nilo run -- python train.py         every rank into one directory: nilo report",
    after_help = "\
Exit code: the command's own; 128+n when a signal ended it; 126/127 when it cannot be
executed; 125 when nilo itself fails before the start."
)]
pub struct RunArgs {
    #[command(flatten)]
    pub recording: RecordingArgs,
    /// Look at the system this long before the start
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = parse_duration)]
    pub before: Duration,
    /// Look at the system this long after the end
    #[arg(long, value_name = "TIME", default_value = "150ms", value_parser = parse_duration)]
    pub settle: Duration,
    #[command(flatten)]
    pub depth: DepthArgs,
    /// Reset the kernel's high-water mark at each step, for exact peaks per step (changes what the
    /// command's own getrusage says)
    #[arg(long)]
    pub exact_step_peaks: bool,
    /// Where steps are told: torch, keras, tqdm, sklearn, jax (a hook in the command's Pythons; the script stays
    /// as it is), or a regular expression of its output whose first group (or group `step`) is the number
    #[arg(long, value_name = "LIBRARY|REGEX", value_parser = Steps::new)]
    pub steps: Option<Steps>,
    /// End the command when enough was seen (exit code 0): 30steps, 90s, settled (after warm-up five steps
    /// without a new peak), or several by commas
    #[arg(long, value_name = "WHEN", value_delimiter = ',', value_parser = parse_stop_after)]
    pub stop_after: Vec<StopAfter>,
    /// Run the command N times into one directory, for comparison with noise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,
    /// Look at the memory that is really touched, in windows of this length (1s), and ever more seldom; then:
    /// nilo pages RUN. Nothing is injected; the bits by which the kernel finds old pages are cleared
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
          value_parser = pages::parse_window, conflicts_with = "repeat")]
    pub wss: Option<Duration>,
    /// Give the run a cgroup of its own, for the kernel's exact peak of the whole tree
    #[arg(long)]
    pub cgroup: bool,
    /// Record below this directory of the node's own disk; the run is copied to its place at the end
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    #[command(flatten)]
    pub allocs: allocs::AllocArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub telling: TellArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Where a recording goes and how often it looks
#[derive(Debug, Args)]
pub struct RecordingArgs {
    /// Run directory to write; those above it are made [default: NAME.DATE.PID.nilo in `$NILO_DIR` or here]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace an existing run directory
    #[arg(long)]
    pub force: bool,
    /// Time between two samples, 5ms to 60s [default: 100ms; record: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub interval: Option<Duration>,
    /// Largest size of the recording; the interval is stretched to stay below
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub max_log: u64,
    #[command(flatten)]
    pub metrics: metrics::MetricsArgs,
}

/// How deep to look
#[derive(Debug, Args)]
pub struct DepthArgs {
    /// Share of one core that page-table walks (PSS, mapping kinds) and ledgers may use
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    pub budget: f64,
    /// No page-table walks: RSS only, the tree's total stays a wide interval
    #[arg(long)]
    pub no_slow: bool,
    /// Keep tables of a Python process's objects: auto, every so long (30s), or every so many steps
    /// (100steps); it is stopped for each, at most 1 % of the time
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "auto",
          value_parser = parse_every)]
    pub heap: Option<Every>,
    /// What processes from 64 MiB on are made of, told again as they grow: estimated reads them while they
    /// run, exact stops them, at most 1 % of the time
    #[arg(long, value_name = "HOW", value_enum, require_equals = true, default_value = "estimated")]
    pub ledger: LedgerKind,
    /// No ledgers
    #[arg(long, conflicts_with = "ledger")]
    pub no_ledger: bool,
    /// Watch this one process only, not the ones it starts
    #[arg(long)]
    pub single: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LedgerKind {
    Estimated,
    Exact,
}

/// What to say at the end
#[derive(Debug, Args)]
pub struct TellArgs {
    /// Print nothing at the end
    #[arg(short, long, conflicts_with = "summary")]
    pub quiet: bool,
    /// What to print at the end
    #[arg(long, value_enum, default_value_t = Summary::Screen)]
    pub summary: Summary,
    /// Write the result as JSON to FILE; without FILE to standard output (a command's own output
    /// then goes to standard error)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option)] // absent, bare, with a file
    pub json: Option<Option<PathBuf>>,
}

/// The watchdog: off unless asked; ends the run's own tree, nothing else, with exit code 75
#[derive(Debug, Args)]
#[command(next_help_heading = "Watchdog")]
pub struct LimitArgs {
    /// End the run before the machine drowns: --min-available 3% --max-cgroup 97% --max-swap 500M
    #[arg(long)]
    pub guard: bool,
    /// End the run when one process has more resident memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_rss: Option<u64>,
    /// End the run when the whole tree, shared pages counted once, has more
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_pss: Option<u64>,
    /// End the run when more of the tree is swapped out
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_swap: Option<u64>,
    /// End the run when the machine uses more swap
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_system_swap: Option<u64>,
    /// End the run when the machine has less memory available (% of all)
    #[arg(long, value_name = "SIZE|%", value_parser = parse_amount)]
    pub min_available: Option<Amount>,
    /// End the run when the binding cgroup uses more, reclaimable cache aside (% of its limit)
    #[arg(long, value_name = "SIZE|%", value_parser = parse_amount)]
    pub max_cgroup: Option<Amount>,
    /// End the run when tasks wait for memory more than this share of 10 s
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub max_psi: Option<f64>,
    /// Time between the request to end (SIGTERM) and SIGKILL
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,
}

/// Record a process that already runs, and those it starts, until it ends
///
/// Ends when the process ends, at Ctrl-C, or after --duration (which it waits for). The process is only
/// read, never stopped, and nothing is sent to it.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo attach 4711
  nilo attach 4711 --duration 60s --interval 10ms -o trainer.nilo")]
pub struct AttachArgs {
    /// Process id
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// End after this long
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub recording: RecordingArgs,
    #[command(flatten)]
    pub depth: DepthArgs,
    #[command(flatten)]
    pub telling: TellArgs,
}

/// Record the machine alone: memory, swap, pressure, cgroups
///
/// Ends at Ctrl-C, after --duration or after --samples.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo record --duration 1h
  nilo record --samples 100 --interval 1s -o machine.nilo")]
pub struct RecordArgs {
    /// End after this long
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// End after so many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,
    #[command(flatten)]
    pub recording: RecordingArgs,
    #[command(flatten)]
    pub telling: TellArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Summary {
    /// The verdict, about ten lines
    Screen,
    /// One line
    Line,
}

/// Tell what works on this machine, and what would make more work
///
/// Looks and tries, and leaves everything as it was. Exit code 0, whatever works.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo doctor
  nilo doctor --json | jq '.capabilities[] | select(.works | not)'")]
pub struct DoctorArgs {
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// List the runs here, newest first, and tidy them
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo list
  nilo list --keep 10
  nilo list --rm @3 --rm old.nilo")]
pub struct ListArgs {
    /// Remove these runs
    #[arg(long, value_name = "RUN")]
    pub rm: Vec<String>,
    /// Remove all but the N newest
    #[arg(long, value_name = "N", conflicts_with = "rm")]
    pub keep: Option<usize>,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}
