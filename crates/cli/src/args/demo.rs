//! The words of `nilo demo`.

use clap::{Args, ValueEnum};

/// Run an example that is inside this program, and see what a finding looks like
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo demo
  nilo demo leak --steps 20")]
pub struct DemoArgs {
    #[arg(value_enum, default_value_t = Demo::Leak)]
    pub demo: Demo,
    /// Length of the example; a step takes about 0.28 s
    #[arg(long, value_name = "N", default_value_t = 54, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub steps: u32,
}

/// Each needs its example in `cmd/demo.rs`. `where` and `pages` belong here once their verbs exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Demo {
    /// A small training that keeps what each step computed
    Leak,
}
