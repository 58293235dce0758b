//! The words of `nilo sweep`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum as _};
use nilometer_capture::relay::Steps;

use super::allocs::Mode;
use super::pages::parse_window;

/// Run a command with several parameter sets: what does each cost, and which fits?
///
/// One run at a time, smallest first, each under the watchdog (--guard). Every run is kept in the sweep's directory;
/// the same command typed again goes on where it was interrupted. {batch} in the command is replaced by the value of
/// batch, {env:NAME} by a variable; a parameter `threads` that the command does not name sets `OMP_NUM_THREADS`.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo sweep --set batch=16,32,64 -- python train.py --batch {batch}
  nilo sweep --set batch=16..1024*2 --set threads=1,2 --repeat 3 -- python train.py --batch {batch}
  nilo sweep --find batch=1..4096 --limit 16G --stop-after settled -- python train.py --batch {batch}
  nilo sweep --set batch=16,32,64 --allocs --wss -- python train.py --batch {batch}
  nilo sweep --set env:OMP_NUM_THREADS=1,2,4 -- python train.py
  nilo sweep train.sweep --predict batch=256          ask the laws of a sweep that was run
  nilo sweep --set batch=16,32 --on slurm --submit=--partition=gpu -- python train.py --batch {batch}
  nilo sweep --set batch=16,32 --on ray=auto --limit 16G -- python train.py --batch {batch}
  nilo sweep --set batch=16,32 --on print -- sbatch job.sh {batch}",
    after_help = "\
Exit code: 0 good; 1 nothing fits the limit; 3 not enough evidence; 4 the command failed; 130 interrupted; \
125 nilo failed."
)]
pub struct SweepArgs {
    /// A sweep that was run: show it again, with other questions
    #[arg(value_name = "SWEEP", conflicts_with_all = ["set", "sets", "find", "random", "repeat"])]
    pub sweep: Option<PathBuf>,
    /// A parameter and its values: batch=16,32  batch=16..1024*2  window=1..9+2  env:NAME=1,2
    #[arg(long, value_name = "NAME=VALUES")]
    pub set: Vec<String>,
    /// Parameter sets from a file: CSV with a head line, or JSON objects; each with all of --set
    #[arg(long, value_name = "FILE")]
    pub sets: Option<PathBuf>,
    /// Run N of the parameter sets, chosen at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub random: Option<u32>,
    /// Which random choice
    #[arg(long, value_name = "N", default_value_t = 1, requires = "random")]
    pub seed: u64,
    /// Runs of each parameter set; they tell the noise
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub repeat: u32,
    /// Search the largest value that stays below --limit, with the fewest runs
    #[arg(long, value_name = "NAME=VALUES")]
    pub find: Option<String>,
    /// The watchdog ends a run that needs more: the tree's PSS, with --metric cgroup the binding cgroup's charge
    /// (% of what is free now) [default with --find: 90%]
    #[arg(long, value_name = "SIZE|%")]
    pub limit: Option<String>,
    /// The figure that matters: peak, largest, cgroup, gpu, step-time, made.heap, wss, category.activations, …
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Sizes at these steps (step=0,100) or phases (phase=evaluate)
    #[arg(long, value_name = "WHERE")]
    pub at: Vec<String>,
    /// What the laws say about a parameter set: batch=256,threads=2
    #[arg(long, value_name = "SET")]
    pub predict: Vec<String>,
    /// End each run when enough was seen: 30steps, 90s, settled (after warm-up five steps without a new peak)
    #[arg(long, value_name = "WHEN", value_delimiter = ',')]
    pub stop_after: Vec<String>,
    /// Where steps are told: torch, keras, tqdm, sklearn, jax, or a regular expression of the output
    #[arg(long, value_name = "REGEX", value_parser = parse_steps)]
    pub steps: Option<String>,
    /// Record the allocations of each point: what the memory at its peak is for, with laws of its own (category.…)
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "sampled",
          value_enum)]
    pub allocs: Option<Mode>,
    /// Look at the memory that is really touched, in windows of this length (1s): the working set of each point
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
          value_parser = parse_window)]
    pub wss: Option<Duration>,
    /// An option for the `nilo run` of each point, for example --with=--heap
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub with: Vec<String>,
    /// Where the points run: local (here, one at a time), slurm (one array job), ray or ray=ADDRESS (one task each),
    /// print (only print their commands)
    #[arg(long, value_name = "WHERE", default_value = "local", value_parser = parse_on)]
    pub on: On,
    /// An option for sbatch, for example --submit=--partition=gpu
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub submit: Vec<String>,
    /// The Python that has Ray
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: String,
    /// Directory of the sweep [default: NAME.sweep in `$NILO_DIR` or here]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace a sweep of another plan in that directory
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Go on with a sweep that was interrupted
    #[arg(long, requires = "sweep")]
    pub resume: bool,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// One JSON document on standard output, or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option)] // absent, bare, with a file
    pub json: Option<Option<PathBuf>>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl SweepArgs {
    /// Options of each `nilo run` that have words of their own here.
    pub fn looks(&self) -> Vec<String> {
        let mode = self.allocs.and_then(|mode| mode.to_possible_value());
        let allocs = mode.map(|mode| format!("--allocs={}", mode.get_name()));
        let wss = self.wss.map(|window| format!("--wss={}ms", window.as_secs_f64() * 1e3));
        allocs.into_iter().chain(wss).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// On this machine, one at a time
    Local,
    /// Print one command per line, for another launcher
    Print,
    /// An array job
    Slurm,
    /// Tasks of the cluster at this address; of the one that runs here, else of our own
    Ray(Option<String>),
}

/// Known before the first run; each run reads it again.
fn parse_steps(word: &str) -> Result<String, String> {
    Steps::new(word).map(|_| word.to_owned())
}

fn parse_on(word: &str) -> Result<On, String> {
    match (word, word.strip_prefix("ray=")) {
        ("local", _) => Ok(On::Local),
        ("print", _) => Ok(On::Print),
        ("slurm", _) => Ok(On::Slurm),
        ("ray", _) => Ok(On::Ray(None)),
        (_, Some(address)) if !address.is_empty() => Ok(On::Ray(Some(address.to_owned()))),
        _ => Err("local, slurm, ray, ray=ADDRESS or print".into()),
    }
}
