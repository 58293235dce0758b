//! `cargo xtask bench heap`: what a census costs the tool and the target, against guppy3 and pympler on the same heap.
//!
//! The stall is judged where it hurts: inside a busy target, as the longest gap that its own loop saw.

mod page;
mod reading;
mod target;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};
use reading::{Look, Reading};
use target::Target;

#[derive(Debug, Args)]
pub struct Options {
    /// One round on the smallest heap: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Folder to write [default: bench/DATE-heap]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const PACKAGES: &[&str] = &["numpy==2.3.5", "guppy3==3.1.7", "pympler==1.1"];
/// Thousandths of 3.4 million objects.
const PER_MILLE: &[u32] = &[30, 300, 1000];
const ROUNDS: usize = 3;
/// Looks at each process; the cheapest counts. In a virtual machine the first one also pays for the pages that the
/// host gives it, which is no tool's doing and changes from minute to minute.
const LOOKS: usize = 8;
/// A tool whose looks take ten seconds each is far from every bar.
const LOOKS_OF_PYMPLER: usize = 1;

/// Measures in interleaved rounds, judges, writes the folder.
pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let (sizes, rounds) = if options.quick { (&PER_MILLE[..1], 1) } else { (PER_MILLE, ROUNDS) };
    let mut readings = Vec::new();
    for round in 1..=rounds {
        for &per_mille in sizes {
            for look in Look::ALL {
                let reading = workshop.measure(look, per_mille, round)?;
                println!("{}", reading.summary());
                readings.push(reading);
            }
        }
    }
    let bars = bars(&readings);
    let page = page::render(&workshop.versions()?, options.quick, rounds, &readings, &bars)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "versions": workshop.versions()?,
        "readings": readings.iter().map(Reading::to_json).collect::<Vec<Value>>(),
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "heap", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

/// `nilo` and an environment with its peers.
struct Workshop {
    nilo: PathBuf,
    python: PathBuf,
    folder: PathBuf,
}

impl Workshop {
    fn open() -> Result<Self> {
        let target = workspace::read_target_dir()?;
        let folder = target.join("bench-heap");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("workload.py"), include_str!("heap/workload.py"))?;
        std::fs::write(folder.join("cost.py"), include_str!("heap/cost.py"))?;
        let venv = workspace::cache_folder()?.join("bench-heap-venv");
        succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
        let python = workspace::install(&venv, PACKAGES)?;
        Ok(Self { nilo: target.join("release/nilo"), python, folder })
    }

    fn versions(&self) -> Result<Vec<String>> {
        machine::read_versions(&self.nilo, &self.python, PACKAGES)
    }

    fn measure(&self, look: Look, per_mille: u32, round: usize) -> Result<Reading> {
        let mut target = Target::start(&self.python, &self.folder.join("workload.py"), per_mille)?;
        target.ask("status")?; // what the question itself takes the first time is not the look's
        let before = target.ask("status")?;
        let mut reading = Reading {
            look,
            per_mille,
            round,
            rss_bytes: before["rss_bytes"].as_u64().unwrap_or(0),
            ..Reading::default()
        };
        match look.arguments() {
            None => {
                let looks = if look == Look::Pympler { LOOKS_OF_PYMPLER } else { LOOKS };
                for _ in 0..looks {
                    reading.take_inside(&target.ask(look.name())?);
                }
            }
            Some(arguments) => {
                for _ in 0..LOOKS {
                    let (cost, census) = self.census(target.pid(), arguments)?;
                    reading.take_outside(&cost, &census);
                }
                let after = target.ask("status")?;
                reading.take_added(&before, &after);
                for stall in &mut reading.stalls_ms {
                    target.order("busy")?;
                    let (_, census) = self.census(target.pid(), arguments)?;
                    let seen = target.ask("status")?; // ends `busy`, whose answer comes first
                    *stall = seen["longest_gap_ms"].as_f64();
                    target.answer()?;
                    reading.copied_busy_bytes = census["copied_bytes"].as_u64().unwrap_or(0);
                }
            }
        }
        Ok(reading)
    }

    /// What it cost, and its JSON.
    fn census(&self, pid: u32, arguments: &[&str]) -> Result<(Value, Value)> {
        let output = Command::new("python3")
            .arg(self.folder.join("cost.py"))
            .arg(&self.nilo)
            .arg("heap")
            .arg(pid.to_string())
            .args(arguments)
            .arg("--json")
            .output()
            .context("cannot start python3")?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "nilo heap failed:\n{talk}");
        let cost = talk.lines().last().context("no cost was told")?;
        Ok((serde_json::from_str(cost)?, serde_json::from_slice(&output.stdout)?))
    }
}

/// The largest scale that was measured is judged; the small ones show that cost grows with the heap and not faster.
fn bars(readings: &[Reading]) -> Vec<Bar> {
    let largest = readings.iter().map(|r| r.per_mille).max().unwrap_or(0);
    let of = |look: Look, per_mille: u32, figure: fn(&Reading) -> Option<f64>| -> Option<f64> {
        let same = readings.iter().filter(|r| r.look == look && r.per_mille == per_mille);
        same.filter_map(figure).reduce(f64::min)
    };
    let cpu = |look| of(look, largest, |r| r.cpu_s);
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let first = of(Look::Nilo, largest, |r| r.stall_share(0));
    let second = of(Look::Nilo, largest, |r| r.stall_share(1));
    let per_object = |per_mille| of(Look::Nilo, per_mille, |r| Some(r.cpu_s? / r.objects? as f64));
    let bar = |what: &str, measured, limit, unit| Bar { what: what.to_owned(), measured, limit, unit };
    vec![
        bar(
            "CPU of a census, of guppy3's heap() + table",
            ratio(cpu(Look::Nilo), cpu(Look::Guppy)),
            Limit::AtMost(0.25),
            "×",
        ),
        bar(
            "longest gap in a busy target, first look, of 30 ms + 130 ms per GB copied",
            first,
            Limit::AtMost(1.0),
            "×",
        ),
        bar("the same, second look", second, Limit::AtMost(1.0), "×"),
        bar(
            "census, graph and dominators (--retained), wall",
            of(Look::Retained, largest, |r| r.wall_s),
            Limit::AtMost(1.5),
            " s",
        ),
        bar(
            "memory of the tool, of the bytes copied",
            of(Look::Nilo, largest, Reading::memory_share),
            Limit::AtMost(2.0),
            "×",
        ),
        bar(
            "bytes added to the target",
            of(Look::Nilo, largest, |r| r.added_bytes),
            Limit::AtMost(0.0),
            " B",
        ),
        bar(
            "CPU per object, 3.4 M of 1 M objects",
            ratio(per_object(1000), per_object(300)),
            Limit::AtMost(1.25),
            "×",
        ),
    ]
}
