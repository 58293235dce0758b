//! `cargo xtask bench pages`: what looking at touched pages costs, and whether its answers are right at size.
//!
//! Truths come from a program that touches stated pages; trainings run alone and looked at in interleaved rounds.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::bar::{self, Bar, Limit, render_bars};
use super::{machine, write_folder};
use crate::workspace;

/// What `cargo xtask bench pages` was asked.
#[derive(Debug)]
pub struct Options {
    /// Small processes, few rounds.
    pub quick: bool,
    pub out: Option<PathBuf>,
}

const ROUNDS: usize = 15;
const QUICK_ROUNDS: usize = 3;
/// Steps of some seconds each.
const TRAININGS: [(&str, &str); 2] = [("numpy", "900"), ("torch", "90")];

pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let largest = if options.quick { "1" } else { "10" };
    let mut costs = Vec::new();
    for words in [
        &["1"][..],
        &["1", "--split"],
        &["1", "--split", "--chunk", "64K"],
        &[largest],
        &[largest, "--split"],
    ] {
        costs.push(workshop.measure("cost", words)?);
        println!("{}", costs.last().unwrap_or(&Value::Null));
    }
    let rounds = if options.quick { QUICK_ROUNDS } else { ROUNDS }.to_string();
    let mut trainings = Vec::new();
    for (kind, steps) in TRAININGS {
        let reading = match workshop.training(kind, steps, &rounds) {
            Ok(ratios) => json!({"kind": kind, "ratios": ratios}),
            Err(reason) => json!({"kind": kind, "skipped": format!("{reason:#}")}),
        };
        println!("{reading}");
        trainings.push(reading);
    }
    let reuse = measure_reuse()?;
    let bars = bars(&costs, &trainings, &reuse);
    let page = render(options.quick, &costs, &trainings, &reuse, &bars)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "commit": machine::read_commit(),
        "costs": costs,
        "trainings": trainings,
        "reuse": reuse,
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<Value>>(),
    });
    write_folder(options.out.clone(), "pages", &page, &data)?;
    Ok(bar::all_hold(&bars))
}

struct Workshop {
    nilo: PathBuf,
    folder: PathBuf,
}

impl Workshop {
    fn open() -> Result<Self> {
        let target = workspace::read_target_dir()?;
        let folder = target.join("bench-pages");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("measure.py"), include_str!("pages/measure.py"))?;
        std::fs::write(folder.join("training.py"), include_str!("pages/training.py"))?;
        succeed(workspace::cargo().args(["build", "--release", "--locked", "-p", "nilometer"]))?;
        let source = workspace::root().join("crates/cli/tests/programs/hot_pages.c");
        let mut cc = Command::new("cc");
        succeed(cc.args(["-O1", "-pthread", "-o"]).arg(folder.join("hot_pages")).arg(source))?;
        Ok(Self { nilo: target.join("release/nilo"), folder })
    }

    fn measure(&self, case: &str, words: &[&str]) -> Result<Value> {
        let mut python = Command::new("python3");
        python.arg(self.folder.join("measure.py")).arg(&self.nilo).arg(self.folder.join("hot_pages"));
        let output = python.arg(case).args(words).output().context("cannot start python3")?;
        ensure!(output.status.success(), "{case} failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn training(&self, kind: &str, steps: &str, rounds: &str) -> Result<Value> {
        let python = workspace::environment(if kind == "torch" { "torch-2.15" } else { "science" })?;
        let program = self.folder.join("training.py");
        self.measure("training", &[rounds, &python, &program.display().to_string(), kind, steps])
    }
}

fn measure_reuse() -> Result<Value> {
    let words = ["run", "--quiet", "--release", "-p", "nilometer-analysis", "--example", "reuse_speed"];
    let output = workspace::cargo().args(words).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn bars(costs: &[Value], trainings: &[Value], reuse: &Value) -> Vec<Bar> {
    let number = |value: &Value, name: &str| value[name].as_f64();
    let mut bars = Vec::new();
    let mut add = |what: String, measured, limit, unit| bars.push(Bar { what, measured, limit, unit });
    let outside = costs.iter().filter(|cost| cost["backend"] == "mappings");
    let dearest = outside.filter_map(|cost| number(cost, "told_cpu_ms_per_gib")).reduce(f64::max);
    add("default backend, CPU per GiB and window at 4 KiB".into(), dearest, Limit::AtMost(60.0), " ms");
    let memory = costs.iter().filter_map(|cost| number(cost, "memory_over_rss")).reduce(f64::max);
    add("own memory above 20 MiB, of the target's RSS".into(), memory, Limit::AtMost(0.01), "");
    for training in trainings {
        for way in ["mappings", "split"] {
            let ratios = ratios(training, way);
            let what = format!(
                "{} training looked at every second, {way}: slower",
                training["kind"].as_str().unwrap_or("?")
            );
            let slower = center(&ratios).map(|ratio| (ratio - 1.0) * 100.0);
            add(what, slower, Limit::AtMost(3.0), " %");
        }
    }
    let millions = |name| number(reuse, name).map(|rate| rate / 1e6);
    add(
        "exact reuse distances, touches a second".into(),
        millions("exact_touches_per_s"),
        Limit::AtLeast(5.0),
        " M",
    );
    add(
        "sampled reuse distances, touches a second".into(),
        millions("shards_touches_per_s"),
        Limit::AtLeast(50.0),
        " M",
    );
    let error = number(reuse, "shards_mean_miss_ratio_error");
    add("sampled, mean error of the miss ratio".into(), error, Limit::AtMost(0.01), "");
    bars
}

fn ratios(training: &Value, way: &str) -> Vec<f64> {
    let mut ratios: Vec<f64> =
        training["ratios"][way].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

/// The median.
fn center(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

fn render(quick: bool, costs: &[Value], trainings: &[Value], reuse: &Value, bars: &[Bar]) -> Result<String> {
    let mut page = format!(
        "# Touched pages, {}\n\n{}, commit {}.{}\n\n",
        machine::read_date()?,
        machine::read_machine()?,
        machine::read_commit(),
        if quick { " Quick: shows only that it works." } else { "" },
    );
    page += &render_bars(bars);
    page += "\n## Cost and truth at size\n\nA fifth of the pages is written over and over; told is what `nilo` says it touched.\n\n\
             | RSS | options | backend | windows | truth | told | CPU per GiB and window | own memory | target stood still |\n\
             |---:|---|---|---:|---:|---:|---:|---:|---:|\n";
    for cost in costs {
        let mib = |name: &str| cost[name].as_f64().unwrap_or(0.0) / f64::from(1 << 20);
        let options: Vec<&str> =
            cost["options"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        writeln!(
            page,
            "| {} GiB | {} | {} | {} | {:.1} MiB | {:.1}–{:.1} MiB | {:.1} ms | {:.1} MiB | {:.2} % |",
            cost["gib"],
            options.join(" "),
            cost["backend"].as_str().unwrap_or("?"),
            cost["windows"],
            mib("touched_truth_bytes"),
            mib("touched_least_bytes"),
            mib("touched_most_bytes"),
            cost["told_cpu_ms_per_gib"].as_f64().unwrap_or(0.0),
            mib("own_memory_bytes"),
            cost["pause_share"].as_f64().unwrap_or(0.0) * 100.0,
        )?;
    }
    page += "\n## Trainings\n\nTime of the steps, looked at every second, over the time alone; interleaved rounds.\n\n\
             | training | way | rounds | center | least | most |\n|---|---|---:|---:|---:|---:|\n";
    for training in trainings {
        for way in ["mappings", "split"] {
            let ratios = ratios(training, way);
            let (Some(center), Some(least), Some(most)) = (center(&ratios), ratios.first(), ratios.last())
            else {
                writeln!(page, "| {} | {way} | – | {} | | |", training["kind"], training["skipped"])?;
                continue;
            };
            let kind = training["kind"].as_str().unwrap_or("?");
            writeln!(page, "| {kind} | {way} | {} | {center:.3} | {least:.3} | {most:.3} |", ratios.len())?;
        }
    }
    writeln!(page, "\n## Reuse distances\n\n`{reuse}`")?;
    Ok(page)
}
