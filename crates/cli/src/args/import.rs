//! The words of `nilo import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nilometer_import::Format;

use super::TellArgs;
use super::value::parse_size;

/// Turn a recording of another tool into a run that every reading verb understands
///
/// The format is told from the file's beginning, and said. Nothing in a file is executed.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo import test/mem_info.log
  nilo import mem_test.log -o caffe.nilo && nilo report caffe.nilo
  zcat old.log.gz | nilo import - --as meminfo-log
  nilo import snapshot.pickle && nilo report --allocs
  nilo import logs/ --as mxnet-log -o mxnet.nilo --min-percent 1
  valgrind --tool=lackey --trace-mem=yes --log-file=trace.log ./step && nilo import trace.log",
    after_help = "\
Formats, see docs/import.md:
  mxnet-log     `[mem]` lines of the MXNet memory profiler, its _ANALYSIS files, MXNet's
                own memory profile (CSV); several files or a directory
  torch         torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")
  jax           jax.profiler.save_device_memory_profile(\"memory.prof\")
  pprof         nilo export --format pprof, heap profiles of Go
  heapy, muppy  dumps and printed tables of Heapy, printed tables of Pympler
  smaps         a time and /proc/PID/smaps, again and again
  meminfo-log   `microtime SECONDS`, all of /proc/meminfo, `program_usage BYTES`
  free-log      outputs of `free`: each after its time, or one before and one after
                the times at which repeated runs began
  damon         recordings of DAMON (damo record, perf script): touched pages, for nilo pages
  lackey        valgrind --tool=lackey --trace-mem=yes --log-file=FILE COMMAND, gzipped or not:
                exact reuse distances and what a smaller memory would miss, for nilo pages"
)]
pub struct ImportArgs {
    /// The recording; `-` for standard input. Of mxnet-log also several, or a directory
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Its format [default: told from the file]
    #[arg(long = "as", value_name = "FORMAT", value_enum)]
    pub format: Option<ForeignFormat>,
    #[allow(clippy::doc_markdown)] // the help text is no markdown
    /// Run directory to write [default: NAME.DATE.PID.nilo in $NILO_DIR or here]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace an existing run directory
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub tables: TableArgs,
    #[command(flatten)]
    pub mxnet: MxnetArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub telling: TellArgs,
}

/// Tables of objects
#[derive(Debug, Args)]
#[command(next_help_heading = "heapy, muppy")]
pub struct TableArgs {
    /// Bytes of the numbers of one array, where a table counts headers only
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub array_bytes: Option<u64>,
}

/// Logs of the MXNet memory profiler
#[derive(Debug, Args)]
#[command(next_help_heading = "mxnet-log")]
pub struct MxnetArgs {
    /// Rules for tags that are asked before the built-in ones (TOML)
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// A line under the title of the charts
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub title: String,
    /// Leave categories of at most this share out of the charts
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub min_percent: f64,
    /// All logs in one chart
    #[arg(long)]
    pub together: bool,
    /// Kinds of chart files, by commas
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',', default_values_t = [ChartKind::Svg, ChartKind::Pdf])]
    pub charts: Vec<ChartKind>,
}

/// Address traces
#[derive(Debug, Args)]
#[command(next_help_heading = "lackey")]
pub struct TraceArgs {
    /// Size of the pages whose touches are counted: a power of two, 64 (lines of a cache) to 1G
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_unit)]
    pub unit: u64,
    /// Follow every page while there are up to so many different ones (about 100 bytes of memory each), and a
    /// sample of them beyond, which is said
    #[arg(long, value_name = "PAGES", default_value_t = 1 << 20)]
    pub exact_up_to: usize,
}

fn parse_unit(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    let is_good = bytes.is_power_of_two() && (64..=1 << 30).contains(&bytes);
    if is_good { Ok(bytes) } else { Err("a page is a power of two between 64 and 1G".to_owned()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChartKind {
    Svg,
    Png,
    Pdf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForeignFormat {
    /// Logs, analyses and tables of MXNet's memory profilers
    MxnetLog,
    /// A memory snapshot of torch
    Torch,
    /// A device memory profile of JAX
    Jax,
    /// Another memory profile of pprof: nilo's own, Go's
    Pprof,
    /// Dumps and tables of Heapy
    Heapy,
    /// Tables of Pympler
    Muppy,
    /// A series of /proc/PID/smaps
    Smaps,
    /// Records of /proc/meminfo, each after its time
    MeminfoLog,
    /// Outputs of `free`
    FreeLog,
    /// Recordings of DAMON: damo's file, its JSON, or perf's text
    Damon,
    /// Address traces of valgrind's lackey
    Lackey,
}

impl ForeignFormat {
    /// Looks at touched memory have no records of ours.
    pub fn format(self) -> Option<Format> {
        Some(match self {
            Self::MxnetLog => Format::MxnetLog,
            Self::Torch => Format::Torch,
            Self::Jax => Format::Jax,
            Self::Pprof => Format::Pprof,
            Self::Heapy => Format::Heapy,
            Self::Muppy => Format::Muppy,
            Self::Smaps => Format::Smaps,
            Self::MeminfoLog => Format::MeminfoLog,
            Self::FreeLog => Format::FreeLog,
            Self::Damon | Self::Lackey => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_power_of_two() {
        assert_eq!((parse_unit("64"), parse_unit("4K"), parse_unit("2M")), (Ok(64), Ok(4096), Ok(2 << 20)));
        for absurd in ["0", "1", "32", "5000", "2G", "x", ""] {
            assert!(parse_unit(absurd).is_err(), "{absurd}");
        }
    }
}
