//! The process that is looked at.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Takes orders on stdin, answers each with a line; ended with this value.
#[derive(Debug)]
pub struct Target {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Target {
    /// Returns when the heap is built.
    pub fn start(python: &Path, program: &Path, per_mille: u32) -> Result<Self> {
        let mut child = Command::new(python)
            .arg(program)
            .arg((f64::from(per_mille) / 1000.0).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let orders = child.stdin.take().context("no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut target = Self { child, orders, answers };
        ensure!(target.answer()?["ready"] == true, "the workload did not get ready");
        Ok(target)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn order(&mut self, order: &str) -> Result<()> {
        writeln!(self.orders, "{order}").context("the workload is gone")
    }

    pub fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the workload answered {line:?}"))
    }

    pub fn ask(&mut self, order: &str) -> Result<Value> {
        self.order(order)?;
        self.answer()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is ours to reap.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
