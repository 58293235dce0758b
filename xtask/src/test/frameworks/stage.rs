//! Starting trainings and `nilo`, and reading what both say: lines of JSON.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::{Framework, Python};
use crate::workspace;

/// A hang becomes a failure; nothing here takes a minute on an idle machine.
const SECONDS: &str = "400";

/// The binary and the scripts.
pub struct Stage {
    nilo: PathBuf,
    folder: PathBuf,
}

impl Stage {
    pub fn open() -> Result<Self> {
        let built =
            workspace::cargo().args(["build", "--release", "--locked", "-p", "nilometer"]).status()?;
        ensure!(built.success(), "nilo does not build");
        let target = workspace::read_target_dir()?;
        let folder = target.join("frameworks");
        fs::create_dir_all(&folder)?;
        Ok(Self { nilo: target.join("release/nilo"), folder })
    }

    /// Where the result is written.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn play<'a>(&'a self, framework: &'a Framework, python: &'a Python) -> Result<Play<'a>> {
        let script = workspace::root().join("xtask/src/test/frameworks/programs").join(framework.script);
        Ok(Play { stage: self, framework, python, script, place: tempfile::tempdir()? })
    }
}

/// A program without our streams.
pub fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// One framework on stage.
pub struct Play<'a> {
    stage: &'a Stage,
    framework: &'a Framework,
    python: &'a Python,
    script: PathBuf,
    place: TempDir,
}

impl Play<'_> {
    /// `nilo WORDS… -- python SCRIPT MODE` to its end: its exit code and what the training told.
    pub fn under_nilo(&self, words: &[&str], mode: &str) -> Result<(i32, Value)> {
        let mut command = self.within(&self.stage.nilo);
        command.args(words).arg("--").args([&self.python.program, &self.script]).arg(mode);
        let output = command.stdin(Stdio::null()).output().context("cannot start nilo")?;
        let told = merge(String::from_utf8_lossy(&output.stdout).lines());
        let code = output.status.code().context("nilo was killed")?;
        ensure!(
            told["python"].is_string(),
            "{} {mode}: exit {code}: {}",
            self.framework.script,
            last_lines(&output.stderr)
        );
        Ok((code, told))
    }

    /// `nilo WORDS… --json`: its document.
    pub fn ask_nilo(&self, words: &[&str]) -> Result<Value> {
        let output = self.within(&self.stage.nilo).args(words).arg("--json").output()?;
        let text = last_lines(&output.stderr);
        ensure!(output.status.success(), "nilo {}: {text}", words.join(" "));
        serde_json::from_slice(&output.stdout).with_context(|| format!("nilo {}: {text}", words.join(" ")))
    }

    /// A file that `nilo` wrote into the place.
    pub fn read_document(&self, name: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&fs::read(self.place.path().join(name))?)?)
    }

    /// The training itself, which waits for orders.
    pub fn hold(&self) -> Result<Dialogue> {
        let mut command = self.within(&self.python.program);
        let mut child = command
            .arg(&self.script)
            .arg("hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the training")?;
        let lines = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut dialogue = Dialogue { child, lines, pid: String::new() };
        dialogue.pid = dialogue.answer()?["pid"].to_string();
        Ok(dialogue)
    }

    /// Killed after a while; one thread for those who ask, so that a neighbour disturbs less.
    fn within(&self, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", SECONDS]).arg(program).current_dir(self.place.path());
        command.env_remove("NILO_DIR").env("XDG_STATE_HOME", self.place.path());
        command.env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        command.envs(self.framework.environment.iter().copied());
        command.envs(self.python.environment.iter().cloned());
        command
    }
}

/// A training that answers.
pub struct Dialogue {
    child: Child,
    lines: BufReader<ChildStdout>,
    pub pid: String,
}

impl Dialogue {
    /// One order and its answer.
    pub fn ask(&mut self, order: &str) -> Result<Value> {
        self.say(order)?;
        self.answer()
    }

    pub fn say(&mut self, order: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        writeln!(input, "{order}").context("the training has ended")
    }

    /// The next line that is JSON; trainers print others.
    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        while self.lines.read_line(&mut line)? > 0 {
            if let Some(value) = parse_line(&line) {
                return Ok(value);
            }
            line.clear();
        }
        anyhow::bail!("the training has ended")
    }

    pub fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

fn parse_line(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok().filter(Value::is_object)
}

/// All that was told, in one object.
fn merge<'a>(lines: impl Iterator<Item = &'a str>) -> Value {
    let mut all = serde_json::Map::new();
    for value in lines.filter_map(parse_line) {
        all.extend(value.as_object().cloned().unwrap_or_default());
    }
    Value::Object(all)
}

fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_passed_over() {
        let told = merge(["{'epoch': 8}", r#"{"a": 1}"#, "7", r#"{"b": 2}"#].into_iter());
        assert_eq!(told, serde_json::json!({"a": 1, "b": 2}));
    }
}
