//! `cargo xtask bench sweep`: laws fitted on some batch sizes must foretell others, and what `--find` calls the largest
//! that fits must fit.
//!
//! Sizes that were held out are run afterwards by an ordinary `nilo run`: the law has never seen them.

mod page;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};

#[derive(Debug, Args)]
pub struct Options {
    /// One training only
    #[arg(long)]
    pub quick: bool,
    /// Folder to write [default: bench/DATE-sweep]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A training whose parameter is swept.
struct Training {
    name: &'static str,
    environment: &'static str,
    program: &'static str,
    /// Words before the value.
    words: &'static [&'static str],
    parameter: &'static str,
    fitted: &'static [u32],
    held_out: &'static [u32],
    /// `--find` range and limit.
    find: (&'static str, &'static str),
}

const TRAININGS: [Training; 4] = [
    Training {
        name: "numpy, batch",
        environment: "science",
        program: "examples/attention.py",
        words: &["--window", "192", "--batch"],
        parameter: "batch",
        fitted: &[8, 16, 32, 64, 96],
        held_out: &[48, 128],
        find: ("batch=1..4096", "500M"),
    },
    Training {
        name: "numpy, window",
        environment: "science",
        program: "examples/attention.py",
        words: &["--window"],
        parameter: "window",
        fitted: &[128, 256, 512, 768, 1024],
        held_out: &[640, 1280],
        find: ("window=16..4096+16", "500M"),
    },
    Training {
        name: "torch, batch",
        environment: "torch-2.15",
        program: "xtask/src/bench/sweep/torch_training.py",
        words: &[],
        parameter: "batch",
        fitted: &[256, 512, 1024, 2048, 3072],
        held_out: &[1536, 4096],
        find: ("batch=64..16384+64", "700M"),
    },
    Training {
        name: "sklearn, batch",
        environment: "science",
        program: "xtask/src/bench/sweep/sklearn_training.py",
        words: &[],
        parameter: "batch",
        fitted: &[512, 1024, 2048, 4096, 6144],
        held_out: &[3072, 8192],
        find: ("batch=64..16384+64", "260M"),
    },
];

/// Runs of each size: what a training needs differs by several percent from run to run (the allocator's arenas and thresholds).
const RUNS: usize = 3;

/// One held-out size: what the law said, and what was needed.
#[derive(Debug, Clone)]
struct HeldOut {
    value: u32,
    told: f64,
    low: f64,
    high: f64,
    /// By each of the runs, the smallest first.
    needed: Vec<f64>,
}

impl HeldOut {
    fn error(&self) -> f64 {
        (self.told / self.median() - 1.0).abs()
    }

    fn is_inside(&self) -> bool {
        self.low <= self.median() && self.median() <= self.high
    }

    fn median(&self) -> f64 {
        self.needed.get(self.needed.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// What one training gave.
#[derive(Debug, Clone)]
struct Reading {
    training: &'static str,
    law: String,
    held_out: Vec<HeldOut>,
    find: Value,
}

pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let trainings = if options.quick { &TRAININGS[..1] } else { &TRAININGS[..] };
    let mut readings = Vec::new();
    for training in trainings {
        println!("{}", training.name);
        readings.push(workshop.measure(training)?);
    }
    let bars = bars(&readings);
    let page = page::render(options.quick, &readings, &bars)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "readings": readings.iter().map(page::to_json).collect::<Vec<Value>>(),
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "sweep", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

fn bars(readings: &[Reading]) -> Vec<Bar> {
    let all = || readings.iter().flat_map(|reading| &reading.held_out);
    let worst = |of_batches: bool| {
        let these = readings.iter().filter(|reading| reading.training.ends_with("batch") == of_batches);
        these.flat_map(|reading| &reading.held_out).map(HeldOut::error).reduce(f64::max).map(|e| e * 100.0)
    };
    let outside = all().filter(|held_out| !held_out.is_inside()).count() as f64;
    let unverified = readings.iter().filter(|reading| reading.find["verified"] != true).count() as f64;
    let runs = readings.iter().filter_map(|reading| reading.find["runs"].as_f64()).reduce(f64::max);
    let bar = |what: &str, measured, limit, unit| Bar { what: what.to_owned(), measured, limit, unit };
    vec![
        bar("error at held-out batch sizes, worst", worst(true), Limit::AtMost(5.0), " %"),
        // Windows grow by steps of the allocator's: harder than what was asked for.
        bar("error at held-out windows, worst", worst(false), Limit::AtMost(5.0), " %"),
        bar("held-out sizes outside their interval", Some(outside), Limit::AtMost(0.0), ""),
        bar("searches whose answer was not verified", Some(unverified), Limit::AtMost(0.0), ""),
        bar("runs of a search, most", runs, Limit::AtMost(8.0), ""),
    ]
}

/// `nilo`, and a place for the sweeps.
struct Workshop {
    nilo: PathBuf,
    folder: tempfile::TempDir,
}

impl Workshop {
    fn open() -> Result<Self> {
        // The memory of a target does not depend on how nilo was built.
        succeed(workspace::cargo().args(["build", "--locked"]))?;
        Ok(Self { nilo: workspace::read_target_dir()?.join("debug/nilo"), folder: tempfile::tempdir()? })
    }

    fn measure(&self, training: &Training) -> Result<Reading> {
        let python = workspace::environment(training.environment)?;
        let program = workspace::root().join(training.program);
        let place = format!("{{{}}}", training.parameter);
        let command: Vec<String> = [python.as_str(), &program.to_string_lossy()]
            .into_iter()
            .chain(training.words.iter().copied())
            .chain([place.as_str()])
            .map(str::to_owned)
            .collect();
        let directory = self.folder.path().join(training.name.replace([',', ' '], "-"));
        let list = training.fitted.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let set = format!("{}={list}", training.parameter);
        let (place, runs) = (directory.to_string_lossy(), RUNS.to_string());
        self.nilo(&["sweep", "-o", &place, "--set", &set, "--repeat", &runs, "--json", "--"], &command)?;
        let mut words =
            vec!["sweep".to_owned(), directory.to_string_lossy().into_owned(), "--json".to_owned()];
        for value in training.held_out {
            words.extend(["--predict".to_owned(), format!("{}={value}", training.parameter)]);
        }
        let asked = self.nilo(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[])?;
        let held_out = training.held_out.iter().enumerate();
        let held_out = held_out
            .map(|(place, value)| self.held_out(*value, &asked["groups"][0]["predictions"][place], &command));
        let held_out = held_out.collect::<Result<Vec<_>>>()?;
        let find = self.find(training, &directory, &command)?;
        Ok(Reading {
            training: training.name,
            law: asked["fit"]["formula"].as_str().unwrap_or("none").to_owned(),
            held_out,
            find,
        })
    }

    /// Runs the size that the law has not seen.
    fn held_out(&self, value: u32, told: &Value, command: &[String]) -> Result<HeldOut> {
        let mut argv = command.to_vec();
        if let Some(last) = argv.last_mut() {
            *last = value.to_string();
        }
        let run = self.folder.path().join("held-out.nilo");
        let words = ["run", "-q", "--force", "-o", &run.to_string_lossy(), "--json", "--"];
        let peak = |_| self.nilo(&words, &argv)?["peak"]["bytes"].as_f64().context("no peak");
        let mut needed = (0..RUNS).map(peak).collect::<Result<Vec<f64>>>()?;
        needed.sort_by(f64::total_cmp);
        let number =
            |name: &str| told["prediction"][name].as_f64().with_context(|| format!("no {name} in {told}"));
        Ok(HeldOut { value, told: number("value")?, low: number("low")?, high: number("high")?, needed })
    }

    fn find(&self, training: &Training, directory: &Path, command: &[String]) -> Result<Value> {
        let (range, limit) = training.find;
        let place = directory.with_extension("find");
        let words =
            ["sweep", "-o", &place.to_string_lossy(), "--find", range, "--limit", limit, "--json", "--"];
        let mut document = self.nilo(&words, command)?;
        Ok(document["fits"].take())
    }

    fn nilo(&self, words: &[&str], command: &[String]) -> Result<Value> {
        let output = Command::new(&self.nilo)
            .args(words)
            .args(command)
            .env("OMP_NUM_THREADS", "1")
            .output()
            .context("cannot start nilo")?;
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).with_context(|| format!("nilo {words:?}: {said}"))
    }
}
