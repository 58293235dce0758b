//! The words of `nilo report` and `nilo export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nilometer_analysis::allocs::model;

/// Show a run again: the verdict, charts, processes, steps, and how it was measured
///
/// With --allocs: which code allocated, of a run that was made with `nilo run --allocs`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo report                        the newest run here
  nilo report @2                     the one before it
  nilo report base.nilo --json | jq .peak
  nilo report --allocs               which code owned the memory at its peak, as a tree
  nilo report --allocs --by line     the same by file and line
  nilo report --allocs --by category what it was for: parameters, gradients, activations …
  nilo report --allocs --what growth what is more with every step, and where
  nilo report --allocs --json | jq '.sites[0]'
  nilo report --html                 one page that opens offline, in the run's directory
  nilo report new.nilo --html -o new.html --base old.nilo --redact")]
pub struct ReportArgs {
    /// Run directory, or @last, @2, … (default: @last)
    pub run: Option<String>,
    /// Of a job: this rank instead of all of them
    #[arg(long, value_name = "N")]
    pub rank: Option<u64>,
    /// What to show
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = View::Run)]
    pub view: View,
    /// The same as --view allocs
    #[arg(long)]
    pub allocs: bool,
    #[command(flatten)]
    pub allocations: AllocsArgs,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// One HTML page that needs no network: charts, stacks, tables; a directory of `nilo sweep` works too
    #[arg(long, conflicts_with = "json")]
    pub html: bool,
    #[command(flatten)]
    pub page: PageArgs,
    /// Columns to draw in [default: the terminal's]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=400))]
    pub width: Option<u16>,
}

/// How the page is made
#[derive(Debug, Args)]
#[command(next_help_heading = "With --html")]
pub struct PageArgs {
    /// File to write, `-` for standard output [default: report.html in the run's directory]
    #[arg(short, long, value_name = "FILE", requires = "html")]
    pub output: Option<PathBuf>,
    /// Overwrite it
    #[arg(long, requires = "html")]
    pub force: bool,
    /// A directory that `nilo pages -o` wrote: what was really touched
    #[arg(long, value_name = "DIR", requires = "html")]
    pub pages: Option<PathBuf>,
    /// Another run: what changed since then
    #[arg(long, value_name = "RUN", requires = "html")]
    pub base: Option<String>,
    /// Leave out arguments, directories, the host and notes
    #[arg(long, requires = "html")]
    pub redact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// The whole run
    Run,
    /// Which code allocated
    Allocs,
}

/// Which allocations, and how they are put together
#[derive(Debug, Args)]
#[command(next_help_heading = "Allocations")]
pub struct AllocsArgs {
    /// Which figure to order by
    #[arg(long, value_enum, value_name = "WHAT")]
    pub what: Option<What>,
    /// How to put allocations together
    #[arg(long, value_enum, value_name = "BY")]
    pub by: Option<By>,
    /// Show so many stacks or rows [default: 15], or `all`
    #[arg(long, value_name = "N|all", value_parser = parse_top)]
    pub top: Option<Top>,
    /// Show the frames of the interpreter and of the C runtime too
    #[arg(long)]
    pub internals: bool,
    /// Draw long chains of callers whole
    #[arg(long)]
    pub full: bool,
    /// Rules for categories that are asked before the built-in ones (TOML)
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
}

impl ReportArgs {
    /// Any of the words that only allocations have asks for them.
    pub fn wants_allocs(&self) -> bool {
        let AllocsArgs { what, by, top, internals, full, rules } = &self.allocations;
        let is_about_them =
            what.is_some() || by.is_some() || top.is_some() || rules.is_some() || *internals || *full;
        self.allocs || self.view == View::Allocs || is_about_them
    }
}

/// A number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top(pub Option<usize>);

fn parse_top(text: &str) -> Result<Top, String> {
    match text {
        "all" => Ok(Top(None)),
        _ => match text.parse() {
            Ok(rows @ 1..) => Ok(Top(Some(rows))),
            _ => Err("a number from 1 on, or `all`".into()),
        },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Live when most was live
    Peak,
    /// Live at the end
    Live,
    /// All that was ever allocated
    Cumulative,
    /// Freed before the thread's next allocation
    Temporary,
    /// More live with every step
    Growth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// As a tree of callers
    Stack,
    /// By file and line
    Line,
    /// By library or Python package
    Library,
    /// By the function that allocated
    Function,
    /// By what it is for: parameters, gradients, activations …
    Category,
    /// By the innermost line of your own Python code
    Owner,
    /// By who handed it out: malloc, Python's allocator (deep), mappings
    Type,
}

impl From<What> for model::What {
    fn from(what: What) -> Self {
        match what {
            What::Peak => Self::Peak,
            What::Live => Self::Live,
            What::Cumulative => Self::Cumulative,
            What::Temporary => Self::Temporary,
            What::Growth => Self::Growth,
        }
    }
}

impl From<By> for model::By {
    fn from(by: By) -> Self {
        match by {
            By::Stack => Self::Stack,
            By::Line => Self::Line,
            By::Library => Self::Library,
            By::Function => Self::Function,
            By::Category => Self::Category,
            By::Owner => Self::Owner,
            By::Type => Self::Type,
        }
    }
}

/// Write a run for other tools
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo export @last --format csv > run.csv                  a line a tick: pandas, a spreadsheet
  nilo export @last --allocs --format csv > sites.csv       a line a site
  nilo export @last --format json | jq -c .                 every record
  nilo export @last --format parquet -o tables/             DuckDB, Polars, Spark: all tables
  nilo export @last --format folded | flamegraph.pl > x.svg stacks, a line each
  nilo export @last --format speedscope                     stacks, for speedscope.app
  nilo export @last --format pprof                          stacks, for go tool pprof
  nilo export @last --format heaptrack                      stacks, for heaptrack_gui
  nilo export @last --format perfetto                       curves, steps, stacks: ui.perfetto.dev
  nilo export @last --format firefox                        curves, steps, stacks: profiler.firefox.com
  nilo export @last --format tensorboard                    curves by step: tensorboard --logdir .",
    after_help = "Stacks are there where the run was recorded with --allocs."
)]
pub struct ExportArgs {
    /// Run directory, or @last, @2, … (default: @last)
    pub run: Option<String>,
    /// Of a job: this rank [default: the one that is not like the others; parquet: all]
    #[arg(long, value_name = "N")]
    pub rank: Option<u64>,
    /// What to write
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// The allocations of the run instead of its samples (csv: one line a site)
    #[arg(long)]
    pub allocs: bool,
    /// Which figure of the allocations (folded; the one that pprof and speedscope show first)
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = What::Peak)]
    pub what: What,
    /// The frames of the interpreter and of the C runtime too
    #[arg(long)]
    pub internals: bool,
    /// File to write, packed if it ends in .gz, or directory (parquet); - is standard output [default: a file
    /// named after the run; csv, json, folded: standard output; parquet: RUN/tables]
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Overwrite what is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line a tick, or with --allocs one a site
    Csv,
    /// One object a record
    Json,
    /// A directory of tables
    Parquet,
    /// Stacks of allocations, one line each
    Folded,
    /// Stacks for speedscope
    Speedscope,
    /// Stacks for pprof, packed
    Pprof,
    /// Memory of all processes, steps, heap profiles for the Perfetto UI
    Perfetto,
    /// Stacks for heaptrack
    Heaptrack,
    /// Scalars by step for TensorBoard
    Tensorboard,
    /// Memory tracks and allocations for the Firefox Profiler
    Firefox,
}
