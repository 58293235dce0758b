//! Own memory beside real trainings: of a Python program a recorder also tells what it is made of, which it never does of
//! the bench's trees.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::workshop::Workshop;
use crate::bench::{machine, process};
use crate::workspace;

/// A high-water mark only rises: the last look before the end misses nothing but the end itself.
const LOOK: Duration = Duration::from_millis(5);

/// One recorded training.
#[derive(Debug)]
pub struct Beside {
    pub name: &'static str,
    /// `VmHWM` of `nilo`.
    pub own_bytes: u64,
    pub target_bytes: f64,
    /// How often it told what the target was made of.
    pub ledgers: usize,
}

/// The README's example, and torch if its environment can be made.
pub fn measure(workshop: &Workshop) -> Result<Vec<Beside>> {
    let root = workspace::root();
    let (example, training) =
        (root.join("examples/tree_lstm.py"), root.join("xtask/src/bench/pages/training.py"));
    let torch = workspace::environment("torch-2.15")?;
    Ok(vec![
        record(workshop, "examples/tree_lstm.py --leak", "python3", &example, &["--leak"])?,
        record(workshop, "torch 2.15, a convolutional network", &torch, &training, &["torch", "100"])?,
    ])
}

fn record(
    workshop: &Workshop,
    name: &'static str,
    python: &str,
    program: &Path,
    words: &[&str],
) -> Result<Beside> {
    let run = workshop.folder().join("beside.nilo");
    let mut nilo = Command::new(&workshop.nilo);
    nilo.args(["run", "-q", "--force", "-o"]).arg(&run).arg("--").arg(python).arg(program).args(words);
    let mut child = nilo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut own_bytes = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        own_bytes = process::read_peak_bytes(child.id()).unwrap_or(own_bytes).max(own_bytes);
        thread::sleep(LOOK);
    };
    ensure!(status.success(), "{name} failed: {status}");
    let text = machine::read_output(&workshop.nilo, &["report", &run.to_string_lossy(), "--json"])?;
    let report: Value = serde_json::from_str(&text).context("nilo report --json is not JSON")?;
    Ok(Beside {
        name,
        own_bytes,
        target_bytes: report["peak"]["bytes"].as_f64().context("no peak")?,
        ledgers: report["ledgers"]["curve"].as_array().map_or(0, Vec::len),
    })
}

impl Beside {
    pub fn own_mb(&self) -> f64 {
        self.own_bytes as f64 / 1e6
    }

    pub fn to_json(&self) -> Value {
        let Self { name, own_bytes, target_bytes, ledgers } = self;
        json!({"name": name, "own_bytes": own_bytes, "target_bytes": target_bytes, "ledgers": ledgers})
    }
}

pub fn render(all: &[Beside]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let row = |beside: &Beside| {
        let (own, target) = (beside.own_mb(), beside.target_bytes / 1e6);
        format!("| {} | {target:.0} MB | {} | {own:.1} MB |\n", beside.name, beside.ledgers)
    };
    let rows: String = all.iter().map(row).collect();
    format!(
        "## Own memory beside trainings\n\n`nilo run` as it comes: it also tells, by ledgers, what the training is made of. Its \
         `VmHWM`, looked at every 5 ms.\n\n| training | its peak | ledgers | RSS of `nilo`, at most |\n|---|---:|---:|---:|\n{rows}"
    )
}
