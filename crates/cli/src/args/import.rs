//! The words of `nilo import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::TellArgs;

/// Turn a recording of another tool into a run that every reading verb understands
///
/// The format is told from the file's first line, and said.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nilo import test/mem_info.log
  nilo import mem_test.log -o caffe.nilo && nilo report caffe.nilo
  zcat old.log.gz | nilo import - --as meminfo-log

Formats, see docs/import.md:
  meminfo-log   `microtime SECONDS`, all of /proc/meminfo, `program_usage BYTES`
  free-log      outputs of `free`: each after its time, or one before and one after
                the times at which repeated runs began
  damon         recordings of DAMON (damo record, perf script): touched pages, for nilo pages")]
pub struct ImportArgs {
    /// The recording; `-` for standard input
    pub file: PathBuf,
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
    pub telling: TellArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForeignFormat {
    /// Records of /proc/meminfo, each after its time
    MeminfoLog,
    /// Outputs of `free`
    FreeLog,
    /// Recordings of DAMON: damo's file, its JSON, or perf's text
    Damon,
}
