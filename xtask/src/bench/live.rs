//! `cargo xtask bench live`: what a look at a running tree costs: `nilo top` in a terminal, and metrics of `nilo run`.
//!
//! As in the other benches only a window after everything has started is measured, by the kernel's own account of
//! the threads.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit, render_bars};
use super::{machine, write_folder};
use crate::workspace::{self, succeed};

#[derive(Debug, Args)]
pub struct Options {
    /// One short round: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Folder to write [default: bench/DATE-live]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What is measured, and on how many processes.
const CELLS: &[(&str, u32)] = &[
    ("list", 1),
    ("process", 1),
    ("process", 10),
    ("process", 100),
    ("run", 10),
    ("record", 10),
    ("listen", 10),
];
const WINDOW_S: u32 = 20;
const ROUNDS: usize = 3;

/// Measures in interleaved rounds, judges the best of each, writes the folder.
pub fn run(options: &Options) -> Result<bool> {
    let target = workspace::read_target_dir()?;
    let (nilo, script) = (target.join("release/nilo"), target.join("bench-live.py"));
    succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
    std::fs::write(&script, include_str!("live/measure.py"))?;
    let (rounds, window_s) = if options.quick { (1, 3) } else { (ROUNDS, WINDOW_S) };
    let mut readings = Vec::new();
    for round in 1..=rounds {
        for (what, processes) in CELLS {
            let mut command = Command::new("python3");
            command.arg(&script).arg(&nilo).args([what, &*processes.to_string(), &*window_s.to_string()]);
            let output = command.output().context("cannot start python3")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let mut reading: Value = serde_json::from_slice(&output.stdout)?;
            reading["round"] = json!(round);
            println!("{reading}");
            readings.push(reading);
        }
    }
    let bars = bars(&readings);
    let page = page(&readings, &bars, options.quick)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "readings": readings,
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "live", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

/// The least that was measured of a cell: what else ran on the machine can only add to it.
fn least(readings: &[Value], what: &str, processes: u32) -> Option<f64> {
    let cell = readings.iter().filter(|r| r["what"] == what && r["processes"] == processes);
    cell.filter_map(|r| r["percent"].as_f64()).min_by(f64::total_cmp)
}

fn bars(readings: &[Value]) -> Vec<Bar> {
    let top = CELLS.iter().filter(|(what, _)| matches!(*what, "list" | "process" | "run"));
    let mut bars: Vec<Bar> = top
        .map(|(what, processes)| Bar {
            what: format!("nilo top, {what}, {processes} processes"),
            measured: least(readings, what, *processes),
            limit: Limit::AtMost(1.0),
            unit: " % of a core",
        })
        .collect();
    let extra = least(readings, "listen", 10)
        .zip(least(readings, "record", 10))
        .map(|(with, without)| with - without);
    bars.push(Bar {
        what: "metrics of nilo run, a scrape every second, 10 processes: beyond recording".into(),
        measured: extra,
        limit: Limit::AtMost(0.3),
        unit: " % of a core",
    });
    bars
}

fn page(readings: &[Value], bars: &[Bar], quick: bool) -> Result<String> {
    let warning = if quick { "**A quick run: it shows that the bench works, no more.**\n\n" } else { "" };
    let row = |(what, processes): &(&str, u32)| {
        let cell = readings.iter().filter(|r| r["what"] == *what && r["processes"] == *processes);
        let percents: Vec<String> =
            cell.clone().filter_map(|r| Some(format!("{:.3}", r["percent"].as_f64()?))).collect();
        let peak = cell.filter_map(|r| r["peak_kib"].as_u64()).max().unwrap_or(0) / 1024;
        format!("| {what} | {processes} | {} | {peak} |\n", percents.join(", "))
    };
    Ok(format!(
        "# What a live look costs, {date}\n\n{warning}Machine: {machine}  \nnilo: commit {commit}  \n\
         Repeat with: `cargo xtask bench live`\n\n\
         `nilo top` in a terminal of 120 × 40, at its usual interval of a second, on a tree in which every process grows; `record` and `listen` are \
         `nilo run` without and with `--listen` and a scrape every second.\n\n## Bars\n\n{bars}\n## Readings\n\n\
         | what | processes | % of a core, by round | peak MiB |\n|---|---:|---|---:|\n{table}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        commit = machine::read_commit(),
        bars = render_bars(bars),
        table = CELLS.iter().map(row).collect::<String>(),
    ))
}
