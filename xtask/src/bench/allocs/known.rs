//! A program that keeps its own books: how often its truth lies inside the error that sampled figures are told with, and
//! whether a complete record tells it to the byte.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::workshop::Workshop;
use crate::bench::bar::{Bar, Limit};
use crate::workspace::{self, succeed};

const RUNS: usize = 200;
/// The program's turns; at `INTERVAL` some hundred samples of it.
const TURNS: &str = "20000";
const INTERVAL: &str = "64K";
/// A right 95 % interval holds this share in all but one of fifty such series.
const LEAST_SHARE: f64 = 0.95 - 2.05 * 0.0154;

/// What the program said of itself against what a record says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    pub runs: usize,
    /// Runs whose true peak lies inside the interval of the sampled one.
    pub inside: usize,
    /// Of a complete record, one thread: bytes the peak is off.
    pub off_bytes: u64,
    /// The same with four threads, as a share.
    pub off_share: f64,
}

pub fn measure(workshop: &Workshop) -> Result<Known> {
    let program = build(workshop)?;
    let mut inside = 0;
    for _ in 0..RUNS {
        let (truth, peak) = run(workshop, &program, &["--allocs", "--allocs-interval", INTERVAL], "0")?;
        let [low, high] = ["low_bytes", "high_bytes"].map(|end| peak[end].as_u64().unwrap_or(0));
        inside += usize::from((low..=high).contains(&truth));
    }
    let complete = |threads| -> Result<(u64, u64)> {
        let (truth, peak) = run(workshop, &program, &["--allocs=all"], threads)?;
        Ok((truth, peak["bytes"].as_u64().context("no peak was told")?.abs_diff(truth)))
    };
    let (_, off_bytes) = complete("0")?;
    let (truth, off) = complete("4")?;
    Ok(Known { runs: RUNS, inside, off_bytes, off_share: off as f64 / truth as f64 })
}

/// The program of the tests.
fn build(workshop: &Workshop) -> Result<PathBuf> {
    let program = workshop.folder.join("known");
    let source = workspace::root().join("crates/cli/tests/programs/allocs_known.c");
    succeed(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

/// The true peak, and what is told of it.
fn run(workshop: &Workshop, program: &Path, mode: &[&str], threads: &str) -> Result<(u64, Value)> {
    let record = workshop.folder.join("known.nilo");
    let _ = fs::remove_dir_all(&record);
    let mut words: Vec<OsString> = vec![workshop.nilo.clone().into()];
    words.extend(["run", "-q", "--before", "0ms", "--settle", "0ms", "-o"].map(OsString::from));
    words.push(record.clone().into());
    words.extend(mode.iter().map(OsString::from));
    words.extend(["--".into(), program.into(), TURNS.into(), threads.into()]);
    let (_, said) = workshop.cost(&words, false)?;
    let truth = said.split_whitespace().nth(2).and_then(|word| word.parse().ok());
    let document = super::extra::read_document(workshop, &record)?;
    Ok((truth.with_context(|| format!("no truth was told: {said}"))?, document["peak"].clone()))
}

impl Known {
    pub fn bars(known: Option<&Self>) -> [Bar; 3] {
        let share = |known: &Self| known.inside as f64 / known.runs.max(1) as f64;
        [
            Bar {
                what: format!("sampled: true peak inside the 95 % interval, of {RUNS} runs"),
                measured: known.map(share),
                limit: Limit::AtLeast(LEAST_SHARE),
                unit: "",
            },
            Bar {
                what: "all: peak against the program's own books, one thread".into(),
                measured: known.map(|known| known.off_bytes as f64),
                limit: Limit::AtMost(0.0),
                unit: " B",
            },
            Bar {
                what: "the same with four threads".into(),
                measured: known.map(|known| known.off_share * 100.0),
                limit: Limit::AtMost(0.1),
                unit: " %",
            },
        ]
    }

    pub fn to_json(self) -> Value {
        json!({"runs": self.runs, "inside": self.inside, "off_bytes": self.off_bytes, "off_share": self.off_share})
    }
}
