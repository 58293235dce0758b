//! What a measurement needs — `nilo`, the other samplers, the tree program — and one measurement.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};

use super::reading::Reading;
use super::tool::{self, Tool, Window, Yield};
use super::{Cell, Plan};
use crate::bench::{machine, process};
use crate::workspace::{self, succeed};

const TREE_SOURCE: &str = include_str!("tree.c");
const FLOOR_SOURCE: &str = include_str!("floor.c");
const PACKAGES: &[&str] = &["memory_profiler==0.61.0", "psrecord==1.4", "psutil==7.2.2"];
/// A sampler that has not ended so long after its target did hangs.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Everything built and installed.
#[derive(Debug)]
pub struct Workshop {
    pub nilo: PathBuf,
    pub tree: PathBuf,
    pub floor: PathBuf,
    venv: PathBuf,
    folder: PathBuf,
    has_nilo: bool,
    has_others: bool,
}

impl Workshop {
    /// Builds and installs what the tools need.
    pub fn open(tools: &[Tool]) -> Result<Self> {
        let target = workspace::read_target_dir()?;
        let folder = target.join("bench-sampler");
        fs::remove_dir_all(&folder).ok(); // usually not there
        fs::create_dir_all(&folder)?;
        let workshop = Self {
            nilo: target.join("release/nilo"),
            tree: folder.join("tree"),
            floor: folder.join("floor"),
            venv: workspace::cache_folder()?.join("bench-venv"),
            has_nilo: tools.iter().any(|tool| tool.family() == "nilo"),
            has_others: tools.iter().any(|tool| tool.is_peer()),
            folder,
        };
        build(TREE_SOURCE, &workshop.tree)?;
        build(FLOOR_SOURCE, &workshop.floor)?;
        if workshop.has_nilo {
            succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
        }
        if workshop.has_others {
            workspace::install(&workshop.venv, PACKAGES)?;
        }
        Ok(workshop)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn venv_program(&self, name: &str) -> PathBuf {
        self.venv.join("bin").join(name)
    }

    /// One line per program that takes part.
    pub fn read_versions(&self) -> Result<Vec<String>> {
        let mut versions = Vec::new();
        if self.has_nilo {
            let nilo = machine::read_output(&self.nilo, &["--version"])?;
            versions.push(format!("{nilo} (commit {})", machine::read_commit()));
            versions.push(machine::read_output("rustc", &["--version"])?);
        }
        if self.has_others {
            versions.push(machine::read_output(self.venv_program("python"), &["--version"])?);
            versions.extend(PACKAGES.iter().map(|package| package.replace("==", " ")));
        }
        Ok(versions)
    }

    /// Starts the sampler with its tree, lets the window pass, ends the tree, and reads what was sampled.
    pub fn measure(&self, cell: Cell, plan: Plan, round: usize) -> Result<Reading> {
        let _neighbours = Neighbours::start(cell.tree.neighbours)?;
        let name = format!("{}-{}-{}-{round}", cell.tree.processes, cell.tree.mib_each, cell.interval_ms);
        let record = self.folder.join(format!("{}-{name}", cell.tool.label().replace(' ', "")));
        let words = cell.tool.command(self, cell, &record);
        let mut sampler = Sampler::start(&words, &record.with_extension("log"))?;
        thread::sleep(plan.settle);
        let opened = Mark::read(sampler.pid(), &record, cell.tool)?;
        thread::sleep(plan.window_of(cell));
        let closed = Mark::read(sampler.pid(), &record, cell.tool)?;
        let peak_bytes = process::read_peak_bytes(sampler.pid())?;
        let whole_cpu_s = process::read_cpu_coarse_s(sampler.pid())?;
        sampler.end()?;
        let window_s = (closed.at - opened.at).as_secs_f64();
        let outcome = self.read_outcome(cell, &record, &opened, &closed)?;
        fs::remove_file(&record).or_else(|_| fs::remove_dir_all(&record))?;
        Ok(Reading {
            cell,
            round,
            command: words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
            window_s,
            cpu_s: closed.cpu.saturating_sub(opened.cpu).as_secs_f64(),
            ticks: outcome.window.ticks,
            process_samples: outcome.window.process_samples,
            peak_bytes,
            bytes_per_sample: outcome.bytes_per_sample,
            whole_cpu_s,
            own_cpu_s: outcome.own_cpu_s,
        })
    }

    fn read_outcome(&self, cell: Cell, record: &Path, opened: &Mark, closed: &Mark) -> Result<Outcome> {
        match cell.tool {
            Tool::Nilo | Tool::NiloFast => {
                let report = tool::read_nilo_report(&self.nilo, record)?;
                let window = report.share(cell, (closed.at - opened.at).as_secs_f64());
                let all = report.share(cell, report.duration_s);
                Ok(Outcome::new(window, report.written_bytes, all, Some(report.cpu_s)))
            }
            Tool::MprofAlone | Tool::Mprof | Tool::MprofSum => {
                let window = Window { opened_s: opened.unix_s, closed_s: closed.unix_s };
                let (all, inside) = tool::parse_mprof(&fs::read_to_string(record)?, window);
                Ok(Outcome::new(inside, tool::read_file_bytes(record)?, all, None))
            }
            Tool::Floor => {
                let (all, duration_s) = tool::parse_floor(&fs::read_to_string(record)?)?;
                let window = all.share((closed.at - opened.at).as_secs_f64() / duration_s);
                Ok(Outcome::new(window, 0.0, all, None))
            }
            Tool::Psrecord => {
                let all = tool::parse_psrecord(&fs::read_to_string(record)?);
                let inside = closed.psrecord.minus(opened.psrecord);
                Ok(Outcome::new(inside, tool::read_file_bytes(record)?, all, None))
            }
        }
    }
}

fn build(text: &str, program: &Path) -> Result<()> {
    let source = program.with_extension("c");
    fs::write(&source, text)?;
    succeed(Command::new("cc").args(["-O2", "-Wall", "-Wextra", "-o"]).arg(program).arg(&source))
}

/// What a finished run delivered.
struct Outcome {
    window: Yield,
    bytes_per_sample: f64,
    own_cpu_s: Option<f64>,
}

impl Outcome {
    fn new(window: Yield, bytes: f64, all: Yield, own_cpu_s: Option<f64>) -> Self {
        Self { window, bytes_per_sample: bytes / all.process_samples, own_cpu_s }
    }
}

/// The state of a sampler at one end of the window.
struct Mark {
    at: Instant,
    unix_s: f64,
    cpu: Duration,
    /// Its log so far; it has no absolute times, but every line is flushed.
    psrecord: Yield,
}

impl Mark {
    fn read(pid: u32, record: &Path, tool: Tool) -> Result<Self> {
        let log = if tool == Tool::Psrecord { fs::read_to_string(record)? } else { String::new() };
        Ok(Self {
            at: Instant::now(),
            unix_s: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64(),
            cpu: process::read_cpu(pid)?,
            psrecord: tool::parse_psrecord(&log),
        })
    }
}

/// Processes that sleep beside the tree; they end with this.
struct Neighbours(Vec<Child>);

impl Neighbours {
    fn start(count: u64) -> Result<Self> {
        let mut neighbours = Self(Vec::new());
        for _ in 0..count {
            neighbours.0.push(Command::new("sleep").arg("infinity").stdin(Stdio::null()).spawn()?);
        }
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for sleeper in &mut self.0 {
            sleeper.kill().and_then(|()| sleeper.wait().map(drop)).ok();
        }
    }
}

/// A running sampler; the tree below it ends when our end of its standard input is closed.
struct Sampler {
    child: Child,
    log: PathBuf,
}

impl Sampler {
    /// Returns when the tree says that it is ready.
    fn start(words: &[OsString], log: &Path) -> Result<Self> {
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", words[0].display()))?;
        let mut sampler = Self { child, log: log.to_path_buf() };
        let stdout = sampler.child.stdout.take().context("the sampler has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line == "ready");
        ensure!(ready, "the tree did not start: {}", sampler.read_log());
        // What the sampler still prints must not block it.
        thread::spawn(move || lines.for_each(drop));
        Ok(sampler)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn read_log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn end(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let start = Instant::now();
        while start.elapsed() < END_LIMIT {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the sampler failed ({status}): {}", self.read_log());
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("the sampler did not end within {} s of its target", END_LIMIT.as_secs())
    }
}

impl Drop for Sampler {
    /// After a failure nothing is left running: the tree ends with its input.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.kill().and_then(|()| self.child.wait().map(drop)).ok();
    }
}
