//! What a measurement needs: `nilo`, its peers, the programs; and one measurement.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::reading::Reading;
use super::workload::{Tool, Workload};
use crate::bench::machine;
use crate::workspace::{self, succeed};

const PACKAGES: &[&str] = &["numpy==2.3.5", "scikit-learn==1.9.1", "memray==1.20.0"];
const TORCH: &str = "torch-2.15";

/// Everything built and installed.
#[derive(Debug)]
pub struct Workshop {
    pub nilo: PathBuf,
    pub python: PathBuf,
    /// The interpreter that has torch; without it torch is left out.
    pub torch_python: PathBuf,
    pub stress: PathBuf,
    pub folder: PathBuf,
    pub has_heaptrack: bool,
    pub has_memray: bool,
    packages: PathBuf,
}

impl Workshop {
    pub fn open() -> Result<Self> {
        let target = workspace::read_target_dir()?;
        let cache = workspace::cache_folder()?;
        let folder = target.join("bench-allocs");
        fs::create_dir_all(&folder)?;
        let venv = cache.join("bench-allocs-venv");
        let mut workshop = Self {
            nilo: target.join("release/nilo"),
            python: venv.join("bin/python"),
            torch_python: cache.join("envs").join(TORCH).join("bin/python"),
            stress: folder.join("stress"),
            has_heaptrack: exists("heaptrack"),
            has_memray: false,
            packages: PathBuf::new(),
            folder,
        };
        succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
        workshop.build_programs()?;
        workshop.install(&venv)?;
        Ok(workshop)
    }

    fn build_programs(&self) -> Result<()> {
        fs::write(self.folder.join("work.py"), include_str!("programs/work.py"))?;
        fs::write(self.folder.join("cost.py"), include_str!("../heap/cost.py"))?;
        let source = self.folder.join("stress.c");
        fs::write(&source, include_str!("programs/stress.c"))?;
        succeed(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&self.stress).arg(&source))
    }

    /// An environment with memray; torch's own environment borrows it.
    fn install(&mut self, venv: &Path) -> Result<()> {
        if !self.python.exists() {
            let made = Command::new("python3.11").args(["-m", "venv"]).arg(venv).status();
            if !made.is_ok_and(|status| status.success()) {
                succeed(Command::new("python3").args(["-m", "venv"]).arg(venv))?;
            }
        }
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
        self.has_memray = succeed(&mut pip).is_ok();
        let where_ = machine::read_output(
            &self.python,
            &["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        )?;
        self.packages = PathBuf::from(where_);
        Ok(())
    }

    pub fn can(&self, workload: &Workload, tool: Tool) -> bool {
        let has_tool = match tool {
            Tool::Heaptrack => self.has_heaptrack,
            tool if tool.is_memray() => self.has_memray,
            _ => true,
        };
        has_tool && (!workload.is_torch() || self.torch_python.exists())
    }

    pub fn versions(&self) -> Vec<String> {
        let nilo = machine::read_output(&self.nilo, &["--version"]).unwrap_or_default();
        let mut versions = vec![format!("{nilo} (commit {})", machine::read_commit())];
        versions.extend(machine::read_output(&self.python, &["--version"]).ok());
        versions.extend(PACKAGES.iter().map(|package| package.replace("==", " ")));
        versions.push(TORCH.replace('-', " "));
        versions.extend(machine::read_output("heaptrack", &["--version"]).ok());
        versions
    }

    /// Runs the workload under a tool once.
    pub fn measure(&self, workload: &Workload, tool: Tool, round: usize) -> Result<Reading> {
        let record = self.folder.join(format!("{}-{tool:?}.record", workload.name));
        remove(&record);
        let words = workload.command(tool, self, &record);
        let (cost, said) = self.cost(&words, workload.is_torch())?;
        let told: Value = said
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str(line).ok())
            .with_context(|| format!("{} under {} said nothing: {said}", workload.name, tool.label()))?;
        Ok(Reading::new(workload.name, tool, round, &told, &cost, read_size(&record)))
    }

    /// Runs a command; what it cost, and what it said on its standard output.
    pub fn cost(&self, words: &[OsString], with_packages: bool) -> Result<(Value, String)> {
        let mut command = Command::new("python3");
        command.arg(self.folder.join("cost.py")).args(words).stdin(Stdio::null()).current_dir(&self.folder);
        // Pools of threads wait by spinning: that would drown what a tool adds.
        command.env("OMP_NUM_THREADS", "1").env("OPENBLAS_NUM_THREADS", "1");
        if with_packages {
            command.env("PYTHONPATH", &self.packages);
        }
        let output = command.output().context("cannot start python3")?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?} failed:\n{talk}");
        let cost = talk.lines().last().context("no cost was told")?;
        Ok((serde_json::from_str(cost)?, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    pub fn record(&self, workload: &Workload, tool: Tool) -> PathBuf {
        let record = self.folder.join(format!("{}-{tool:?}.record", workload.name));
        let packed = ["zst", "gz"].map(|end| record.with_extension(format!("record.{end}")));
        packed.into_iter().find(|path| path.exists()).unwrap_or(record)
    }
}

fn exists(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok()
}

/// A record of an earlier round; usually there is one.
fn remove(record: &Path) {
    let _ = fs::remove_dir_all(record);
    let _ = fs::remove_file(record);
    for end in ["zst", "gz"] {
        let _ = fs::remove_file(record.with_extension(format!("record.{end}")));
    }
}

/// Bytes of a file or of a directory's files; heaptrack adds an ending.
fn read_size(record: &Path) -> u64 {
    let own = fs::metadata(record).map_or(0, |facts| if facts.is_file() { facts.len() } else { 0 });
    let inside = fs::read_dir(record).into_iter().flatten().flatten();
    let inside: u64 = inside.filter_map(|entry| entry.metadata().ok()).map(|facts| facts.len()).sum();
    let packed = ["zst", "gz"].map(|end| record.with_extension(format!("record.{end}")));
    let packed: u64 = packed.iter().filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.len()).sum();
    own + inside + packed
}
