//! A program of the corpus and the truth about it, from `bench/leaks/truth.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Files that a program may leave on purpose begin with this.
const LEFT_BEHIND: &str = "nilo-leaks-";

#[derive(Debug, Clone)]
pub struct Program {
    pub label: String,
    pub file: String,
    pub arguments: Vec<String>,
    /// `python`, `numpy`, `torch` or `cc`.
    pub with: String,
    pub leaks: bool,
    /// Classes that are right.
    pub classes: Vec<String>,
    pub rate_bytes: Option<f64>,
    /// What a name among the places must contain.
    pub place: Option<String>,
    /// Filled by [`Self::prepare`].
    pub command: Vec<String>,
}

/// All programs, in the order of the file.
pub fn read(folder: &Path) -> Result<Vec<Program>> {
    let path = folder.join("truth.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows: Vec<Value> =
        serde_json::from_str(&text).with_context(|| format!("{} is no list", path.display()))?;
    rows.iter().map(|row| parse(row).with_context(|| format!("{row} lacks something"))).collect()
}

fn parse(row: &Value) -> Option<Program> {
    let text = |name: &str| row[name].as_str().map(ToOwned::to_owned);
    let list = |name: &str| -> Vec<String> {
        row[name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(ToOwned::to_owned))
            .collect()
    };
    let file = text("name")?;
    Some(Program {
        label: text("label").unwrap_or_else(|| file.clone()),
        arguments: list("arguments"),
        with: text("with")?,
        leaks: row["leaks"].as_bool()?,
        classes: list("classes"),
        rate_bytes: row["rate_bytes"].as_f64(),
        place: text("place"),
        command: Vec::new(),
        file,
    })
}

impl Program {
    pub fn needs_torch(&self) -> bool {
        self.with == "torch"
    }

    pub fn is_python(&self) -> bool {
        self.with != "cc"
    }

    /// Compiles what must be compiled and knows the command then.
    pub fn prepare(&mut self, source: &Path, folder: &Path, venv: &Path, torch: &Path) -> Result<()> {
        let file = source.join(&self.file);
        let program = match self.with.as_str() {
            "cc" => return self.compile(&file, &folder.join(self.file.trim_end_matches(".c"))),
            "torch" => torch.to_owned(),
            _ => venv.join("bin/python"),
        };
        self.command = [program, file].iter().map(|path| path.display().to_string()).collect();
        self.command.extend(self.arguments.iter().cloned());
        Ok(())
    }

    fn compile(&mut self, file: &Path, binary: &PathBuf) -> Result<()> {
        let built = Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(binary).arg(file).status();
        ensure!(built.context("cannot start gcc")?.success(), "{} does not compile", file.display());
        self.command = vec![binary.display().to_string()];
        Ok(())
    }
}

/// What it left in memory on purpose is taken away.
pub fn tidy() {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(LEFT_BEHIND)) {
        let _ = fs::remove_file(entry.path());
    }
}
