//! `cargo xtask VERB`: the tests, checks and benchmarks of Nilometer, one module per verb.
//!
//! Nothing here is part of the `nilo` binary, and no crate depends on it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool that talks to its terminal"
)]

mod apt;
mod arrows;
mod bench;
mod dist;
mod docs;
mod fuzz;
mod guest;
mod interpreters;
mod layouts;
mod test;
mod wheel;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
        /// The wheels of a release too (some minutes), installed into each Python
        #[arg(long)]
        wheel: bool,
        /// Only this: real trainings of torch, JAX, TensorFlow and others under each verb, against their own truth.
        /// NAMES: parts of the frameworks' names [default: all]
        #[arg(long, value_name = "NAMES", num_args = 0.., value_delimiter = ',', conflicts_with_all = ["quick", "wheel"])]
        frameworks: Option<Vec<String>>,
        /// Keep the result in bench/ and write docs/frameworks.md from it
        #[arg(long, requires = "frameworks")]
        record: bool,
    },
    /// The wheels of `pip install nilometer` into target/wheels: built for an old C library, checked, installed
    Wheel {
        /// Build and check only
        #[arg(long)]
        no_install: bool,
    },
    /// A release into target/dist: wheels, archives with man pages and completions, a static binary, sums
    Dist,
    /// The pages that benchmarks write, and the book of all pages in target/book
    Docs {
        /// Write no page: say whether they are up to date
        #[arg(long)]
        check: bool,
    },
    /// Only the HTML report: types, bundle, parts, and pages of real runs in Chromium
    Web,
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
    /// Releases of CPython to test against: fetch what the distribution's suites offer, print what is there
    Interpreters {
        /// Fetch nothing
        #[arg(long)]
        offline: bool,
        /// Build this machine's Python from its source too: static, link-time optimised, stripped (some minutes)
        #[arg(long, conflicts_with = "offline")]
        build: bool,
    },
    /// Write what is made by a program and checked in
    Generate {
        #[command(subcommand)]
        what: Generate,
        /// Write nothing: say whether it is up to date
        #[arg(long, global = true)]
        check: bool,
    },
    /// Every reader of bytes that others wrote, under libFuzzer for a while: see fuzz/
    Fuzz {
        /// These only [default: all]
        #[arg(value_name = "TARGET")]
        only: Vec<String>,
        /// For so long each
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        seconds: u32,
    },
    /// Measure, and write a dated folder under bench/
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// CPU, memory and disk of `nilo run` against mprof and psrecord on the same process trees
    Sampler(bench::sampler::Options),
    /// CPU, memory and stall of `nilo heap` against guppy3 and pympler on the same heap
    Heap(bench::heap::Options),
    /// CPU, memory and size of `nilo run --allocs` against memray and heaptrack on the same programs
    Allocs(bench::allocs::Options),
    /// CPU of `nilo top` in a terminal, and of metrics while a run is recorded
    Live(bench::live::Options),
    /// `nilo where` on eight workloads: residual, arrays, malloc and code against truths from inside; time and stop
    Ledger(bench::ledger::Options),
    /// `nilo pages` on processes of 1 and 10 GiB and on trainings: cost, truth, slow-down; reuse distances a second
    Pages(bench::pages::Options),
    /// A busy training under a thousand censuses: its losses must stay the same, to the last bit
    Harmless(bench::harmless::Options),
    /// Laws of `nilo sweep` against sizes that were held out, on numpy, torch and scikit-learn; `--find`, verified
    Sweep(bench::sweep::Options),
    /// A training for hours under `nilo run --heap --allocs`: the recorder must stay as small as it was
    Soak(bench::soak::Options),
    /// Unchanged code compared with itself: no gate may fail
    Gate(bench::gate::Options),
    /// The verdict of `nilo leak` on programs with a known truth, and on generated curves
    Leaks(bench::leaks::Options),
    /// Time, memory and size of the HTML page of a long run beside memray's, and how fast it answers in a browser
    Report(bench::report::Options),
    /// A cold release build: wall time, CPU time, crates
    Build {
        /// Folder to write [default: bench/DATE-build]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum Generate {
    /// Offsets of CPython's structures, from the headers of the interpreters here
    Layouts,
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
        Verb::Test { frameworks: Some(only), record, .. } => {
            test::frameworks::run(&test::frameworks::Options { only, record })
        }
        Verb::Test { quick, wheel, .. } => test::run(quick, wheel),
        Verb::Wheel { no_install } => wheel::run(!no_install),
        Verb::Dist => dist::run(),
        Verb::Docs { check } => docs::run(check),
        Verb::Web => test::run_web_alone(),
        Verb::Arrows => arrows::run(),
        Verb::Guest { only } => guest::run(only.as_deref()),
        Verb::GuestCases => guest::inside::run(),
        Verb::Fuzz { only, seconds } => fuzz::run(&only, seconds),
        Verb::Interpreters { offline, build } => interpreters::run(offline, build),
        Verb::Generate { what: Generate::Layouts, check } => layouts::run(check),
        Verb::Bench { what } => measure(what),
    }
}

fn measure(what: Bench) -> anyhow::Result<bool> {
    match what {
        Bench::Sampler(options) => bench::sampler::run(&options),
        Bench::Heap(options) => bench::heap::run(&options),
        Bench::Allocs(options) => bench::allocs::run(&options),
        Bench::Live(options) => bench::live::run(&options),
        Bench::Ledger(options) => bench::ledger::run(&options),
        Bench::Pages(options) => bench::pages::run(&options),
        Bench::Soak(options) => bench::soak::run(&options),
        Bench::Harmless(options) => bench::harmless::run(&options),
        Bench::Sweep(options) => bench::sweep::run(&options),
        Bench::Gate(options) => bench::gate::run(&options),
        Bench::Leaks(options) => bench::leaks::run(&options),
        Bench::Report(options) => bench::report::run(&options),
        Bench::Build { out } => bench::build::run(out),
    }
}
