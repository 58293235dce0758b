//! The words of `nilo pages`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nilometer_capture::pages::{CHUNK_BYTES, Skip, Way};

use super::heap::Switch;
use super::value::{parse_duration, parse_size};

/// Tell how much memory is really touched: working set, reuse distance, heat map, what is cold
///
/// A process is only read (`clear_refs` and smaps): exact numbers of touched pages in each mapping. A command, or a
/// process with --split, is looked at in chunks: two system calls in one of its threads let nilo split its mappings,
/// which ends with nilo. Before Linux 6.7 many calls do it, and core dumps lose every other chunk meanwhile. As root,
/// with a kernel that has idle page tracking, page by page. Which way was taken, and what it disturbs, is told first.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo pages 4711                               how much of it is touched in a second?
  nilo pages -- python train.py                 in chunks, with reuse distances and a heat map
  nilo pages 4711 --windows 0.2,0.5,1,2,4,8     how does the answer depend on the window?
  nilo pages 4711 --split --chunk 64K -o look   finer; keeps data and pictures in look/
  nilo pages --per-step -- python train.py      a window for each step ($NILO_MARKS)
  nilo pages 4711 --births                      how much memory is new in a second, and by whose code?
  nilo pages look --only python                 a recording again: the Python heap alone
  nilo pages 4711 --json | jq .wss_by_window_s",
    after_help = "\
Exit code: 0; 3 when the process ended within the first window; 4 when the command failed; 5 when pages cannot be
seen here; 125 when nilo failed."
)]
pub struct PagesArgs {
    /// Process id, or a directory that -o has written
    #[arg(value_name = "PID|DIR", conflicts_with = "command")]
    pub target: Option<String>,
    /// Time between forgetting what was touched and looking
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = parse_window)]
    pub window: Duration,
    /// Look at several times after one mark, in seconds or with a unit: 0.2,0.5,1,2
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = parse_window, conflicts_with = "window")]
    pub windows: Vec<Duration>,
    #[allow(clippy::doc_markdown)] // the help text is no markdown
    /// A window for every N steps that the command tells in $NILO_MARKS
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "windows")]
    pub per_step: Option<u64>,
    /// End after this long [default: 10s; a command: until it ends]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Keep data and pictures in this directory
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace an existing directory
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub how: HowArgs,
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Show only owners whose name contains this (python: the Python heap)
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Draw the heat map (.png or .svg)
    #[arg(long, value_name = "FILE")]
    pub picture: Vec<PathBuf>,
    /// Write the answer as JSON to FILE; without FILE to standard output (the command's own output then goes
    /// to standard error)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[allow(clippy::option_option)] // absent, bare, with a file
    pub json: Option<Option<PathBuf>>,
    /// Print nothing but what was asked for
    #[arg(short, long)]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// How to look
#[derive(Debug, Args)]
#[command(next_help_heading = "How to look")]
pub struct HowArgs {
    /// Take this way, or fail
    #[arg(long, value_name = "NAME", value_enum)]
    pub backend: Option<Backend>,
    /// Split the mappings of a process into chunks, by system calls in one of its threads
    #[arg(long)]
    pub split: bool,
    /// Size of a chunk, 64K to 2M
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = parse_chunk)]
    pub chunk: u64,
    /// No system calls in the target: whole mappings
    #[arg(long, conflicts_with = "split")]
    pub no_inject: bool,
    /// In which windows to look for written pages
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Often::Cheap)]
    pub written: Often,
    /// Do not look for written pages
    #[arg(long, conflicts_with = "written")]
    pub no_written: bool,
    /// See page faults one by one: how much memory is new in each window, whose, and whose code touched it first. Each
    /// takes the target 0.5 to 4 µs longer, and written pages are not looked for meanwhile
    #[arg(long, conflicts_with_all = ["written", "no_written"])]
    pub births: bool,
    /// Do not read the process's memory to name what lies where
    #[arg(long)]
    pub no_names: bool,
    /// Stop the processes while they are looked at
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub pause: Switch,
    /// Start the command without transparent huge pages: exact at 4 KiB, and slower by what they would have saved
    #[arg(long, requires = "command")]
    pub no_thp: bool,
    /// Look at this one process only, not at those it started
    #[arg(long)]
    pub single: bool,
}

/// What to look at
#[derive(Debug, Args)]
#[command(next_help_heading = "What to look at")]
pub struct FilterArgs {
    /// Leave out mappings of this kind
    #[arg(long, value_enum, value_delimiter = ',')]
    pub skip: Vec<SkipKind>,
    /// Leave out mappings of fewer pages
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_pages: u64,
    /// Only mappings whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Idle page tracking: root, and a kernel that has it
    Idle,
    /// DAMON: root, sampled
    Damon,
    /// Mappings split into chunks
    Split,
    /// Whole mappings
    Mappings,
}

impl From<Backend> for Way {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Idle => Self::Idle,
            Backend::Damon => Self::Damon,
            Backend::Split => Self::Split,
            Backend::Mappings => Self::Mappings,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Often {
    /// In as many as cost the target at most 1 % of its time
    Cheap,
    /// In every one
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SkipKind {
    /// Code
    Executable,
    /// Neither readable nor writable
    NoAccess,
}

impl From<SkipKind> for Skip {
    fn from(kind: SkipKind) -> Self {
        match kind {
            SkipKind::Executable => Self::Executable,
            SkipKind::NoAccess => Self::NoAccess,
        }
    }
}

/// Seconds where no unit is given, as in a list of windows.
pub fn parse_window(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let window = match seconds {
        Some(window) => window,
        None => parse_duration(text)?,
    };
    let fits = (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&window);
    if fits { Ok(window) } else { Err("a window lies between 1ms and 1h".to_owned()) }
}

fn parse_chunk(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if CHUNK_BYTES.contains(&bytes) && bytes.is_power_of_two() {
        Ok(bytes)
    } else {
        Err("a chunk is a power of two between 64K and 2M".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_seconds_or_have_a_unit() {
        assert_eq!(parse_window("0.2"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_window("50ms"), Ok(Duration::from_millis(50)));
        for absurd in ["0", "-1", "2h", "x", "", "NaN", "inf", "1e9"] {
            assert!(parse_window(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn chunks_are_powers_of_two() {
        assert_eq!((parse_chunk("64K"), parse_chunk("2M")), (Ok(64 << 10), Ok(2 << 20)));
        for absurd in ["4K", "4M", "100K", "-1"] {
            assert!(parse_chunk(absurd).is_err(), "{absurd}");
        }
    }
}
