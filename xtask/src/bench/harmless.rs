//! `cargo xtask bench harmless`: a busy training is looked at a thousand times, and must not notice.
//!
//! The losses of the training that was watched are compared, to the last bit, with those of one that was not.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit, render_bars};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};

#[derive(Debug, Args)]
pub struct Options {
    /// Looks at each training
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub censuses: u32,
    /// Folder to write [default: bench/DATE-harmless]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The exit code of a look that is not possible.
const NOT_AVAILABLE: i32 = 5;

#[derive(Debug)]
struct Outcome {
    framework: &'static str,
    censuses: u32,
    partial: u32,
    /// Looks that ended without a census because the target did not stop in time.
    refused: u32,
    longest_ms: f64,
    median_ms: f64,
    steps: u64,
    same_losses: bool,
    seconds: f64,
}

pub fn run(options: &Options) -> Result<bool> {
    let target = workspace::read_target_dir()?;
    let program = target.join("bench-trainer.py");
    std::fs::write(&program, include_str!("harmless/trainer.py"))?;
    succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
    let nilo = target.join("release/nilo");
    let cache = workspace::cache_folder()?;
    let environments = [
        ("numpy", cache.join("bench-heap-venv/bin/python")),
        ("torch", cache.join("envs/torch-2.15/bin/python")),
    ];
    let mut outcomes = Vec::new();
    for (framework, python) in environments {
        if python.exists() {
            outcomes.push(watch(framework, &python, &program, &nilo, options.censuses)?);
        } else {
            println!("left out: {framework}, {} is not there", python.display());
        }
    }
    let bars = outcomes.iter().flat_map(bars).collect::<Vec<_>>();
    let page = render(&outcomes, &bars)?;
    println!("{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "commit": machine::read_commit(),
        "readings": outcomes.iter().map(to_json).collect::<Vec<Value>>(),
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "harmless", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

/// A training that is looked at, and then the same number of steps in peace.
fn watch(
    framework: &'static str,
    python: &Path,
    program: &Path,
    nilo: &Path,
    censuses: u32,
) -> Result<Outcome> {
    let begin = Instant::now();
    let trainer = Trainer::start(python, program, framework, None)?;
    let mut pauses_ms = Vec::new();
    let (mut partial, mut refused) = (0, 0);
    while pauses_ms.len() < censuses as usize {
        let output = Command::new(nilo).args(["heap", &trainer.child.id().to_string(), "--json"]).output()?;
        let talk = String::from_utf8_lossy(&output.stderr);
        // On a busy machine a thread may not come to its stop in time; that is said, and the target runs on.
        if output.status.code() == Some(NOT_AVAILABLE) && talk.contains("timed out") {
            refused += 1;
            ensure!(refused <= censuses, "more looks were refused than are wanted: {talk}");
            continue;
        }
        ensure!(output.status.success(), "nilo heap failed after {} looks: {talk}", pauses_ms.len());
        let census: Value = serde_json::from_slice(&output.stdout)?;
        pauses_ms.push(census["pause_ms"].as_f64().unwrap_or(0.0));
        partial += u32::from(census["partial"] == true);
    }
    let watched = trainer.end()?;
    let steps = watched["steps"].as_u64().context("no steps")?;
    let peaceful = Trainer::start(python, program, framework, Some(steps))?.end()?;
    pauses_ms.sort_by(f64::total_cmp);
    Ok(Outcome {
        framework,
        censuses,
        partial,
        refused,
        longest_ms: pauses_ms.last().copied().unwrap_or(0.0),
        median_ms: pauses_ms.get(pauses_ms.len() / 2).copied().unwrap_or(0.0),
        steps,
        same_losses: watched["digest"] == peaceful["digest"],
        seconds: begin.elapsed().as_secs_f64(),
    })
}

struct Trainer {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Trainer {
    fn start(python: &Path, program: &Path, framework: &str, steps: Option<u64>) -> Result<Self> {
        let mut child = Command::new(python)
            .arg(program)
            .arg(framework)
            .args(steps.map(|steps| steps.to_string()))
            .env("OMP_NUM_THREADS", "1")
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let answers = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut trainer = Self { child, answers };
        trainer.answer()?;
        Ok(trainer)
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the training answered {line:?}"))
    }

    /// A line ends it, if its number of steps does not.
    fn end(mut self) -> Result<Value> {
        if let Some(mut orders) = self.child.stdin.take() {
            orders.write_all(b"enough\n").ok(); // one with a number of steps may be done already
        }
        let answer = self.answer()?;
        ensure!(self.child.wait()?.success(), "the training did not end well");
        Ok(answer)
    }
}

fn bars(outcome: &Outcome) -> [Bar; 1] {
    let differ = f64::from(u8::from(!outcome.same_losses));
    let what = format!("{}: losses that differ after {} censuses", outcome.framework, outcome.censuses);
    [Bar { what, measured: Some(differ), limit: Limit::AtMost(0.0), unit: "" }]
}

fn render(outcomes: &[Outcome], bars: &[Bar]) -> Result<String> {
    let rows: Vec<String> = outcomes
        .iter()
        .map(|o| {
            format!(
                "| {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.0} |\n",
                o.framework, o.censuses, o.refused, o.partial, o.steps, o.median_ms, o.longest_ms, o.seconds
            )
        })
        .collect();
    Ok(format!(
        "# A training that is looked at, {}\n\nMachine: {}  \nCommit: {}  \nRepeat with: `cargo xtask bench harmless`\n\n\
         `nilo heap PID` again and again on a busy training; then the same number of steps in peace. The losses are \
         compared to the last bit (SHA-256 of all of them).\n\n{}\n\
         | training | censuses | not stopped in time | partial | steps | stopped, median ms | longest ms | seconds |\n|---|---:|---:|---:|---:|---:|---:|---:|\n{}",
        machine::read_date()?,
        machine::read_machine()?,
        machine::read_commit(),
        render_bars(bars),
        rows.concat(),
    ))
}

fn to_json(outcome: &Outcome) -> Value {
    let Outcome { framework, censuses, partial, refused, longest_ms, median_ms, steps, same_losses, seconds } =
        outcome;
    json!({
        "framework": framework, "censuses": censuses, "partial": partial, "refused": refused, "longest_ms": longest_ms,
        "median_ms": median_ms, "steps": steps, "same_losses": same_losses, "seconds": seconds,
    })
}
