//! `cargo xtask bench gate`: unchanged code compared with itself a hundred times must never fail a gate, and a real change
//! must always.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit, render_bars};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};

#[derive(Debug, Args)]
pub struct Options {
    /// Comparisons
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub comparisons: u32,
    /// Folder to write [default: bench/DATE-gate]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const REPEATS: u32 = 3;
const GATES: [&str; 2] = ["peak > +5%", "largest > +5%"];
/// Comparisons with a change, for each ten without.
const CHANGED_SHARE: u32 = 10;

/// Exit codes of `nilo compare`.
#[derive(Debug, Default, Clone)]
struct Codes(Vec<i32>);

impl Codes {
    fn count(&self, code: i32) -> f64 {
        self.0.iter().filter(|found| **found == code).count() as f64
    }
}

pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let mut unchanged = Codes::default();
    let mut changed = Codes::default();
    for round in 0..options.comparisons {
        unchanged.0.push(workshop.compare("24", "24")?);
        if round % CHANGED_SHARE == 0 {
            // 12 % more activations: the peak rises by about 10 %.
            changed.0.push(workshop.compare("24", "28")?);
        }
        println!("{} of {}: {} failures", round + 1, options.comparisons, unchanged.count(1));
    }
    let bar = |what: &str, measured, limit| Bar {
        what: what.to_owned(),
        measured: Some(measured),
        limit,
        unit: "",
    };
    let bars = [
        bar("unchanged code: gates broken", unchanged.count(1), Limit::AtMost(0.0)),
        bar("unchanged code: not enough evidence", unchanged.count(3), Limit::AtMost(0.0)),
        bar(
            "a tenth more memory: found, share",
            changed.count(1) / changed.0.len().max(1) as f64,
            Limit::AtLeast(1.0),
        ),
    ];
    let page = render(options, &unchanged, &changed, &bars)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "unchanged": unchanged.0,
        "changed": changed.0,
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "gate", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

fn render(options: &Options, unchanged: &Codes, changed: &Codes, bars: &[Bar]) -> Result<String> {
    Ok(format!(
        "# Gates on unchanged code, {date}\n\nMachine: {machine}  \nCommit: {commit}  \n\
         Repeat with: `cargo xtask bench gate --comparisons {comparisons}`\n\n\
         `examples/attention.py --batch 24` is run {REPEATS} times on each side, in turns, and compared with `--fail-if` {gates}; \
         {many} comparisons of the same command, {few} with `--batch 28` on the other side.\n\n{bars}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        commit = machine::read_commit(),
        comparisons = options.comparisons,
        gates = GATES.map(|gate| format!("`{gate}`")).join(" and "),
        many = unchanged.0.len(),
        few = changed.0.len(),
        bars = render_bars(bars),
    ))
}

struct Workshop {
    nilo: PathBuf,
    python: String,
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Workshop {
    fn open() -> Result<Self> {
        // The memory of a target does not depend on how nilo was built.
        succeed(workspace::cargo().args(["build", "--locked"]))?;
        Ok(Self {
            nilo: workspace::read_target_dir()?.join("debug/nilo"),
            python: workspace::environment("science")?,
            program: workspace::root().join("examples/attention.py"),
            folder: tempfile::tempdir()?,
        })
    }

    /// The exit code of a comparison of fresh repeats.
    fn compare(&self, base: &str, other: &str) -> Result<i32> {
        let sides = ["base", "other"].map(|side| self.folder.path().join(side));
        for side in &sides {
            std::fs::remove_dir_all(side).or_else(|error| if side.exists() { Err(error) } else { Ok(()) })?;
        }
        for number in 0..REPEATS {
            for (side, batch) in sides.iter().zip([base, other]) {
                self.record(&side.join(format!("{number}.nilo")), batch)?;
            }
        }
        let gates = GATES.iter().flat_map(|gate| ["--fail-if", gate]);
        let output = Command::new(&self.nilo).arg("compare").args(&sides).args(gates).output()?;
        output.status.code().context("nilo compare was killed")
    }

    fn record(&self, run: &Path, batch: &str) -> Result<()> {
        let mut nilo = Command::new(&self.nilo);
        nilo.env("OMP_NUM_THREADS", "1")
            .args(["run", "-q", "-o"])
            .arg(run)
            .arg("--")
            .arg(&self.python)
            .arg(&self.program);
        let output = nilo.args(["--batch", batch, "--window", "256", "--steps", "3"]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}
