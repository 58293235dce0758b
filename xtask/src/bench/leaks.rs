//! `cargo xtask bench leaks`: the verdict of `nilo leak` on programs with a known truth, and on generated curves.
//!
//! The programs and their truth are in `bench/leaks`. Beside each verdict stands what mprof (a slope that nobody
//! judges) and memray (what was not freed at the end) say of the same program.

mod page;
mod peer;
mod program;
mod reading;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};
use peer::Peer;
use program::Program;
use reading::{Outcome, Reading};

#[derive(Debug, Args)]
pub struct Options {
    /// Verdicts on each program
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// These programs only: parts of their names
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Without mprof and memray
    #[arg(long)]
    pub alone: bool,
    /// So many programs at a time; those that leave files in memory run by themselves
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Folder to write [default: bench/DATE-leaks]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const PACKAGES: &[&str] = &["numpy==2.3.5", "memory_profiler==0.61.0", "psutil==7.2.2", "memray==1.20.0"];
const CURVES: u64 = 200;

pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open(options.alone)?;
    let programs = workshop.programs(&options.only)?;
    ensure!(!programs.is_empty(), "no program in bench/leaks is called so");
    let mut readings = Vec::new();
    let batches = batches(&programs, options.jobs);
    for round in 1..=options.rounds {
        for batch in &batches {
            for reading in together(batch, |program| workshop.judge(program, round))? {
                let reading = reading?;
                println!("{}", page::render_row(&reading));
                readings.push(reading);
            }
        }
    }
    let mut peers: Vec<Peer> = Vec::new();
    for batch in batches.iter().filter(|_| !options.alone) {
        peers.extend(together(batch, |program| workshop.peer(program))?);
    }
    let curves = workshop.curves()?;
    let bars = bars(&readings, &curves);
    let page = page::render(&workshop.versions()?, &readings, &peers, &curves, &bars)?;
    println!("{page}");
    let document = json!({
        "readings": readings.iter().map(Reading::to_json).collect::<Vec<_>>(),
        "peers": peers.iter().map(Peer::to_json).collect::<Vec<_>>(),
        "curves": curves,
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<_>>(),
    });
    write_folder(options.out.clone(), "leaks", &page, &document)?;
    Ok(bar::all_hold(&bars))
}

/// Programs that run at the same time. What one leaves in memory would be found after the others, too.
fn batches(programs: &[Program], jobs: usize) -> Vec<Vec<&Program>> {
    let (leaving, others): (Vec<&Program>, Vec<&Program>) =
        programs.iter().partition(|program| program.file.starts_with("shm"));
    let alone = leaving.into_iter().map(|program| vec![program]);
    alone.chain(others.chunks(jobs.max(1)).map(<[&Program]>::to_vec)).collect()
}

/// The same with each of them, at the same time, in their order.
fn together<T: Send>(programs: &[&Program], with: impl Fn(&Program) -> T + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = programs.iter().map(|program| scope.spawn(|| with(program))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().ok().context("a thread panicked"));
        joined.collect()
    })
}

fn bars(readings: &[Reading], curves: &Value) -> Vec<Bar> {
    let count =
        |wanted: Outcome| readings.iter().filter(|reading| reading.outcome() == wanted).count() as f64;
    let rounds = readings.iter().map(|reading| reading.round).max().unwrap_or(1) as f64;
    let worst = readings.iter().filter_map(Reading::rate_off).fold(0.0, f64::max);
    let classes = readings.iter().filter(|reading| !reading.has_class()).count() as f64;
    let bar = |what: &str, measured: f64, most: f64, unit| Bar {
        what: what.to_owned(),
        measured: Some(measured),
        limit: Limit::AtMost(most),
        unit,
    };
    vec![
        bar("false alarms", count(Outcome::FalseAlarm), 0.0, ""),
        bar("leaks missed", count(Outcome::Missed), 0.0, ""),
        bar("cannot tell, per round", count(Outcome::CannotTell) / rounds, 2.0, ""),
        bar("a rate off by at most", worst * 100.0, 10.0, " %"),
        bar("verdicts with another class than the program's, per round", classes / rounds, 2.0, ""),
        bar("generated curves judged wrong", curves["wrong"].as_f64().unwrap_or(f64::NAN), 1.0, ""),
    ]
}

/// Where the programs, the interpreters and the tools are.
struct Workshop {
    nilo: PathBuf,
    hold_out: PathBuf,
    folder: PathBuf,
    venv: PathBuf,
    torch: PathBuf,
}

impl Workshop {
    fn open(alone: bool) -> Result<Self> {
        let mut build = workspace::cargo();
        succeed(build.args(["build", "--release", "--locked", "-p", "nilometer"]))?;
        let mut example = workspace::cargo();
        let example = example.args([
            "build",
            "--release",
            "--locked",
            "-p",
            "nilometer-analysis",
            "--example",
            "hold_out",
        ]);
        succeed(example)?;
        let target = workspace::read_target_dir()?;
        let folder = target.join("bench-leaks");
        std::fs::create_dir_all(&folder)?;
        let cache = workspace::cache_folder()?;
        let venv = cache.join("bench-leaks-venv");
        workspace::install(&venv, if alone { &PACKAGES[..1] } else { PACKAGES })?;
        Ok(Self {
            nilo: target.join("release/nilo"),
            hold_out: target.join("release/examples/hold_out"),
            folder,
            venv,
            torch: cache.join("envs/torch-2.15/bin/python"),
        })
    }

    fn programs(&self, only: &[String]) -> Result<Vec<Program>> {
        let source = workspace::root().join("bench/leaks");
        let mut programs = program::read(&source)?;
        programs.retain(|program| only.is_empty() || only.iter().any(|name| program.label.contains(name)));
        programs.retain(|program| {
            let there = !program.needs_torch() || self.torch.exists();
            if !there {
                println!("left out: {}, {} is not there", program.label, self.torch.display());
            }
            there
        });
        programs
            .iter_mut()
            .try_for_each(|program| program.prepare(&source, &self.folder, &self.venv, &self.torch))?;
        Ok(programs)
    }

    fn judge(&self, program: &Program, round: usize) -> Result<Reading> {
        let mut leak = Command::new(&self.nilo);
        let place = self.place(program)?;
        let run = place.join("run.nilo");
        leak.args(["leak", "--json", "--force", "-o"]).arg(&run).arg("--").args(&program.command);
        let output = leak.current_dir(&place).output().context("cannot start nilo")?;
        program::tidy();
        let document: Value = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("{}: no verdict: {}", program.label, String::from_utf8_lossy(&output.stderr))
        })?;
        Ok(Reading::of(program, round, output.status.code().unwrap_or(-1), &document))
    }

    /// A directory of its own, for what programs write beside themselves.
    fn place(&self, program: &Program) -> Result<PathBuf> {
        let name: String =
            program.label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let place = self.folder.join(name);
        std::fs::create_dir_all(&place)?;
        Ok(place)
    }

    /// What the others say; nothing where they cannot run the program.
    fn peer(&self, program: &Program) -> Peer {
        let place = self.place(program).unwrap_or_else(|_| self.folder.clone());
        let peer = peer::ask(program, &self.venv, &place);
        program::tidy();
        peer
    }

    fn curves(&self) -> Result<Value> {
        let first = machine::read_output("date", &["+%s"])?;
        let told = machine::read_output(&self.hold_out, &[&CURVES.to_string(), &first, "--json"])?;
        serde_json::from_str(told.lines().last().unwrap_or_default())
            .context("the generated curves were not judged")
    }

    fn versions(&self) -> Result<Vec<String>> {
        machine::read_versions(&self.nilo, &self.venv.join("bin/python"), PACKAGES)
    }
}
