//! `cargo xtask bench soak`: a real training for hours under `nilo run --heap --allocs`: does the recorder stay as small as it was?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit, render_bars};
use super::{machine, process, write_folder};
use crate::workspace::{self, succeed};

#[derive(Debug, Args)]
pub struct Options {
    /// For so long
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub minutes: u32,
    /// Folder to write [default: bench/DATE-soak]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// How often the recorder is looked at.
const EVERY: Duration = Duration::from_secs(10);
/// What the recorder may have grown by, beyond what a page more or less is.
const FLAT_MIB: f64 = 2.0;

/// The recorder at one instant.
#[derive(Debug)]
struct Reading {
    at_s: f64,
    rss_bytes: u64,
    descriptors: usize,
    cpu_s: f64,
    written_bytes: u64,
}

/// Records the training, looks at the recorder all the while, judges, writes the folder.
pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let mut recorder = workshop.start(options.minutes)?;
    let readings = workshop.watch(&mut recorder)?;
    let status = recorder.wait()?;
    ensure!(status.success(), "the training ended with {status}");
    let report = workshop.ask(&["report", "--json"])?;
    let allocs = workshop.ask(&["report", "--allocs", "--json"])?;
    let leak = workshop.ask_verdict()?;
    let bars = bars(&readings, &allocs, &leak);
    let page = render(options, &readings, &report, &leak, &bars)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "minutes": options.minutes,
        "readings": readings.iter().map(Reading::to_json).collect::<Vec<Value>>(),
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "soak", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

struct Workshop {
    nilo: PathBuf,
    python: String,
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Workshop {
    /// The binary is copied, so that a soak goes on while the tree is built again.
    fn open() -> Result<Self> {
        succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
        let folder = tempfile::tempdir()?;
        let (nilo, program) = (folder.path().join("nilo"), folder.path().join("training.py"));
        fs::copy(workspace::read_target_dir()?.join("release/nilo"), &nilo)?;
        fs::write(&program, include_str!("soak/training.py"))?;
        Ok(Self { nilo, python: workspace::environment("torch-2.15")?, program, folder })
    }

    fn run_folder(&self) -> PathBuf {
        self.folder.path().join("soak.nilo")
    }

    fn start(&self, minutes: u32) -> Result<Child> {
        let mut nilo = Command::new(&self.nilo);
        nilo.args(["run", "-q", "--heap", "--allocs", "-o"]).arg(self.run_folder()).arg("--");
        nilo.args([Path::new(&self.python), &self.program]).arg(minutes.to_string());
        nilo.stdin(Stdio::null()).spawn().context("cannot start nilo")
    }

    /// Readings until the recorder ends.
    fn watch(&self, recorder: &mut Child) -> Result<Vec<Reading>> {
        let (began, mut readings) = (Instant::now(), Vec::new());
        while recorder.try_wait()?.is_none() {
            // It may end while it is read.
            if let Ok(reading) = self.read(recorder.id(), began) {
                if readings.len().is_multiple_of(60) {
                    println!("{}", reading.to_json());
                }
                readings.push(reading);
            }
            thread::sleep(EVERY);
        }
        Ok(readings)
    }

    fn read(&self, pid: u32, began: Instant) -> Result<Reading> {
        Ok(Reading {
            at_s: began.elapsed().as_secs_f64(),
            rss_bytes: machine::read_kib(format!("/proc/{pid}/status"), "VmRSS")? * 1024,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            cpu_s: process::read_cpu_coarse_s(pid)?,
            written_bytes: folder_bytes(&self.run_folder())?,
        })
    }

    fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let output = Command::new(&self.nilo).args(arguments).arg(self.run_folder()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Its exit code is the verdict: only the document counts here.
    fn ask_verdict(&self) -> Result<Value> {
        let output = Command::new(&self.nilo).args(["leak", "--json"]).arg(self.run_folder()).output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}

impl Reading {
    fn to_json(&self) -> Value {
        json!({
            "at_s": (self.at_s * 10.0).round() / 10.0,
            "rss_bytes": self.rss_bytes,
            "descriptors": self.descriptors,
            "cpu_s": self.cpu_s,
            "written_bytes": self.written_bytes,
        })
    }
}

/// The middle value of a part of the run, given by eighths.
fn middle(readings: &[Reading], from: usize, until: usize, value: impl Fn(&Reading) -> f64) -> Option<f64> {
    let part = |eighth: usize| readings.len() * eighth / 8;
    let mut values: Vec<f64> = readings.get(part(from)..part(until))?.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// What the last eighth has more than the second.
fn growth(readings: &[Reading], value: impl Fn(&Reading) -> f64) -> Option<f64> {
    Some(middle(readings, 7, 8, &value)? - middle(readings, 1, 2, &value)?)
}

fn bars(readings: &[Reading], allocs: &Value, leak: &Value) -> Vec<Bar> {
    let mib = |reading: &Reading| reading.rss_bytes as f64 / f64::from(1 << 20);
    let at_most = |what: &str, measured, limit, unit| Bar {
        what: what.to_owned(),
        measured,
        limit: Limit::AtMost(limit),
        unit,
    };
    let share = readings.last().map(|last| 100.0 * last.cpu_s / last.at_s);
    let written = readings.last().map(|last| last.written_bytes as f64 / f64::from(1 << 20));
    let alarm = leak["class"].as_str().map(|class| f64::from(u8::from(class == "grows")));
    vec![
        at_most("own memory, last eighth over the second", growth(readings, mib), FLAT_MIB, " MiB"),
        at_most("own descriptors, the same", growth(readings, |reading| reading.descriptors as f64), 0.0, ""),
        at_most("run directory, ceiling", written, 256.0, " MiB"),
        at_most("events lost", allocs["lost_events"].as_f64(), 0.0, ""),
        at_most("a training that does not leak is said to grow", alarm, 0.0, ""),
        at_most("own CPU (recorder, censuses and tracker's rings)", share, 5.0, " % of a core"),
    ]
}

fn render(
    options: &Options,
    readings: &[Reading],
    report: &Value,
    leak: &Value,
    bars: &[Bar],
) -> Result<String> {
    let row = |eighth: usize| {
        let value = |of: fn(&Reading) -> f64| middle(readings, eighth, eighth + 1, of).unwrap_or(f64::NAN);
        format!(
            "| {} | {:.1} | {:.0} | {:.1} |\n",
            eighth + 1,
            value(|r| r.rss_bytes as f64) / f64::from(1 << 20),
            value(|r| r.descriptors as f64),
            value(|r| r.written_bytes as f64) / f64::from(1 << 20),
        )
    };
    Ok(format!(
        "# A long run, {date}\n\nMachine: {machine}  \nCommit: {commit}  \n\
         Repeat with: `cargo xtask bench soak --minutes {minutes}`\n\n\
         A convolutional network in torch (`xtask/src/bench/soak/training.py`) for {minutes} minutes under `nilo run --heap --allocs`; \
         the recorder is looked at every {every} s from outside. The run: {steps} steps, peak {peak:.1} MiB; `nilo leak` says: {class}.\n\n\
         ## Bars\n\n{bars}\n## The recorder, middle values of each eighth\n\n\
         | eighth | RSS MiB | descriptors | written MiB |\n|---:|---:|---:|---:|\n{table}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        commit = machine::read_commit(),
        minutes = options.minutes,
        every = EVERY.as_secs(),
        steps = report["steps"].as_array().and_then(|steps| steps.last()?["step"].as_u64()).unwrap_or(0),
        peak = report["peak"]["bytes"].as_f64().unwrap_or(f64::NAN) / f64::from(1 << 20),
        class = leak["class"].as_str().unwrap_or("?"),
        bars = render_bars(bars),
        table = (0..8).map(row).collect::<String>(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_the_last_eighth_over_the_second() {
        let reading = |n: usize| Reading {
            at_s: n as f64,
            rss_bytes: if n < 10 { 0 } else { 1000 + n as u64 },
            descriptors: 9,
            cpu_s: 0.0,
            written_bytes: 0,
        };
        let readings: Vec<Reading> = (0..80).map(reading).collect();
        assert_eq!(growth(&readings, |reading| reading.rss_bytes as f64), Some(60.0), "1075 and 1015");
        assert_eq!(growth(&readings, |reading| reading.descriptors as f64), Some(0.0));
        assert_eq!(growth(&[], |_| 0.0), None);
    }
}
