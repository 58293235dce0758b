//! Recording allocations.

use clap::{Args, ValueEnum};
use nilometer_capture::allocs::AllocMode;

use super::value::parse_size;

/// Which code owns the memory
#[derive(Debug, Args)]
#[command(next_help_heading = "Allocations")]
pub struct AllocArgs {
    /// Record allocations with their stacks; a library is preloaded into the command and its children. sampled:
    /// one in so many bytes, and each of 256 KiB and more; all: every one of malloc; deep: Python's
    /// own as well; later: nothing until `nilo mode` switches it on
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "sampled",
          value_enum)]
    pub allocs: Option<Mode>,
    /// Mean distance of samples
    #[arg(long, value_name = "SIZE", default_value = "512K", value_parser = parse_interval, requires = "allocs")]
    pub allocs_interval: u64,
    /// Frames kept of a native stack, 1 to 256
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..=256),
          requires = "allocs")]
    pub allocs_depth: u32,
    /// Keep every event, too (about 3 bytes each, up to --max-log)
    #[arg(long, requires = "allocs")]
    pub events: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Sampled,
    All,
    Deep,
    Later,
}

impl From<Mode> for AllocMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Sampled => Self::Sampled,
            Mode::All => Self::All,
            Mode::Deep => Self::Deep,
            Mode::Later => Self::Later,
        }
    }
}

/// Switch the recording of allocations of a run that goes on
///
/// For runs made with --allocs. Blocks that were handed out before are not known.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo run --allocs=later -- python train.py     in one terminal
  nilo mode all                                  in another: of the newest run here
  nilo mode off 4711                             of the run that process 4711 belongs to")]
pub struct ModeArgs {
    /// What to record from now on
    #[arg(value_enum)]
    pub mode: Level,
    /// Process of the run, or its directory, or @last, @2, … (default: @last)
    pub run: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Off,
    Sampled,
    All,
    Deep,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sampled => "sampled",
            Self::All => "all",
            Self::Deep => "deep",
        }
    }
}

fn parse_interval(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (1024..=1 << 30).contains(&bytes) { Ok(bytes) } else { Err("must lie between 1K and 1G".to_owned()) }
}
