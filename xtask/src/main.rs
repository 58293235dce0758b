//! `cargo xtask VERB`: the tests, checks and benchmarks of Nilometer, one module per verb.
//!
//! Nothing here is part of the `nilo` binary, and no crate depends on it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool that talks to its terminal"
)]

mod arrows;
mod bench;
mod guest;
mod test;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Tests, checks and benchmarks of Nilometer")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Format, lints, arrows, documentation and all tests: what must be green before a commit
    Test {
        /// Leave out the documentation, its examples, and the guest
        #[arg(long)]
        quick: bool,
    },
    /// Dependency arrows between the crates, and where unsafe, clap and arrow may occur
    Arrows,
    /// Boot a small kernel of our own under qemu and try what this machine's kernel may not have: Yama,
    /// cgroup v2, idle pages (the first time it builds that kernel: about 8 CPU-minutes)
    Guest {
        /// Only the cases whose names contain this
        #[arg(long, value_name = "PART")]
        only: Option<String>,
    },
    /// The cases themselves: runs in the guest
    #[command(hide = true)]
    GuestCases,
    /// Measure, and write a dated folder under bench/
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// CPU, memory and disk of `nilo run` against mprof and psrecord on the same process trees
    Sampler(SamplerArgs),
    /// A cold release build: wall time, CPU time, crates
    Build {
        /// Folder to write [default: bench/DATE-build]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct SamplerArgs {
    /// One short round on the small trees: to see that the bench works, not for figures
    #[arg(long)]
    quick: bool,
    /// Measure these samplers only: nilo, mprof, psrecord
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder to write [default: bench/DATE-sampler]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything the verb judges is good.
fn run(verb: Verb) -> anyhow::Result<bool> {
    match verb {
        Verb::Test { quick } => test::run(quick),
        Verb::Arrows => arrows::run(),
        Verb::Guest { only } => guest::run(only.as_deref()),
        Verb::GuestCases => guest::inside::run(),
        Verb::Bench { what: Bench::Sampler(args) } => bench::sampler::run(&bench::sampler::Options {
            quick: args.quick,
            only: args.only,
            out: args.out,
        }),
        Verb::Bench { what: Bench::Build { out } } => bench::build::run(out),
    }
}
