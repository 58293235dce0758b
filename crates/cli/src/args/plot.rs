//! The words of `nilo plot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Draw a picture of a run, or of several on one chart; no display needed
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo plot -o run.svg                       the newest run here: memory over time
  nilo plot base.nilo new.nilo -o both.png   two runs on one chart
  nilo plot --view where -o where.pdf        what it was made of near the peak
  nilo plot --view allocs -o peak.svg        which code owned it (of a run made with --allocs)
  nilo plot --view system -o machine.png     the machine meanwhile: five panels, then all series
  nilo plot sweep.d --view sweep -o law.svg
  nilo plot pages.d --view pages -o touched.png
  nilo plot job.nilo --view ranks -o ranks.svg
  nilo plot base.nilo new.nilo --view compare -o changed.svg")]
pub struct PlotArgs {
    /// Run directories, or @last, @2, … (default: @last); for `--view sweep` and `pages` a directory of
    /// `nilo sweep`, `nilo pages`
    pub runs: Vec<String>,
    /// Of a job: this rank [default: the one that is not like the others]
    #[arg(long, value_name = "N")]
    pub rank: Option<u64>,
    /// What to draw
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = PlotView::Run)]
    pub view: PlotView,
    /// File to write: .svg, .png or .pdf
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Overwrite it
    #[arg(long)]
    pub force: bool,
    /// Width in points
    #[arg(long, value_name = "POINTS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(320..=4000))]
    pub width: u32,
    /// Height of one chart in points
    #[arg(long, value_name = "POINTS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(120..=4000))]
    pub height: u32,
    /// Pixels for each point (PNG)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub scale: u32,
    /// Light lines on a dark ground
    #[arg(long)]
    pub dark: bool,
    /// Leave out arguments, directories, the host and notes
    #[arg(long)]
    pub redact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlotView {
    /// Memory over time
    Run,
    /// What resident memory is made of
    Where,
    /// Which code owned it at the peak
    Allocs,
    /// Weights, activations and so on at the peak
    Categories,
    /// Growth by step
    Leak,
    /// What was really touched, and what a smaller memory would miss, of a directory that `nilo pages -o` wrote
    Pages,
    /// Memory of the ranks of a job over time
    Ranks,
    /// Two runs over each other by step and by time, and the parts that changed
    Compare,
    /// Runs over a setting, and the law
    Sweep,
    /// The machine
    System,
}
