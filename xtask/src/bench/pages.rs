//! `cargo xtask bench pages`: what looking at touched pages costs, and whether its answers are right at size.
//!
//! Truths come from a program that touches stated pages; trainings run alone and looked at in interleaved rounds.

use std::fmt::Write as _;
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
    /// Small processes, few rounds: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Folder to write [default: bench/DATE-pages]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const ROUNDS: usize = 15;
const QUICK_ROUNDS: usize = 3;
/// What is trained, for some seconds, and what malloc does with freed memory.
const TRAININGS: [(&str, &str, &str); 3] =
    [("numpy", "900", "keeps"), ("torch", "90", "keeps"), ("torch", "40", "gives back")];

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
    for (kind, steps, malloc) in TRAININGS {
        let name = format!("{kind}, malloc {malloc}");
        let reading = match workshop.training(kind, steps, malloc, &rounds) {
            Ok(read) => json!({"name": name, "ratios": read["ratios"], "cpu_ratios": read["cpu_ratios"]}),
            Err(reason) => json!({"name": name, "skipped": format!("{reason:#}")}),
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

    fn training(&self, kind: &str, steps: &str, malloc: &str, rounds: &str) -> Result<Value> {
        let python = workspace::environment(if kind == "torch" { "torch-2.15" } else { "science" })?;
        let program = self.folder.join("training.py");
        self.measure("training", &[rounds, malloc, &python, &program.display().to_string(), kind, steps])
    }
}

fn measure_reuse() -> Result<Value> {
    let words = ["run", "--quiet", "--release", "-p", "nilometer-analysis", "--example", "reuse_speed"];
    let output = workspace::cargo().args(words).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
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
            let ratios = sorted(&training["ratios"][way]);
            let what = format!(
                "{}: training looked at every second, {way}: slower",
                training["name"].as_str().unwrap_or("?")
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

fn sorted(numbers: &Value) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The median.
fn center(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// In which the true median lies with 95 % and more, whatever the distribution: by how many of the numbers lie below it.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let count = sorted.len();
    // The probability that so many of fair coins show heads.
    let mut heads = 0.5_f64.powi(i32::try_from(count).ok()?);
    let (mut below, mut first) = (heads, 0);
    while below <= 0.025 && first < count / 2 {
        heads *= (count - first) as f64 / (first + 1) as f64;
        below += heads;
        first += 1;
    }
    let first = first.checked_sub(1)?;
    Some((sorted[first], sorted[count - 1 - first]))
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
    page += "\n## Trainings\n\nTime of the steps, looked at every second, over the time alone; interleaved rounds, the same addresses within each, and \
             malloc told (`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`) to keep what is freed or to give every array back: left to itself it goes \
             one way or the other by chance, and that is more than what is measured here. Processor time is the training's own: what it waited for is not in it.\n\n\
             | training | way | rounds | center | 95 % interval of it | least | most | processor time, center |\n\
             |---|---|---:|---:|---:|---:|---:|---:|\n";
    for training in trainings {
        for way in ["mappings", "split"] {
            let ratios = sorted(&training["ratios"][way]);
            let (Some(center), Some(least), Some(most)) = (center(&ratios), ratios.first(), ratios.last())
            else {
                writeln!(page, "| {} | {way} | – | {} | | | | |", training["name"], training["skipped"])?;
                continue;
            };
            let name = training["name"].as_str().unwrap_or("?");
            let interval = interval(&ratios)
                .map_or_else(|| "too few".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"));
            let cpu = self::center(&sorted(&training["cpu_ratios"][way])).unwrap_or(f64::NAN);
            writeln!(
                page,
                "| {name} | {way} | {} | {center:.3} | {interval} | {least:.3} | {most:.3} | {cpu:.3} |",
                ratios.len()
            )?;
        }
    }
    writeln!(page, "\n## Reuse distances\n\n`{reuse}`")?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_tables() {
        let numbers = |count: u32| (1..=count).map(f64::from).collect::<Vec<f64>>();
        // Ranks of the distribution-free interval at 95 %, as printed in textbooks of order statistics.
        for (count, low, high) in
            [(6, 1.0, 6.0), (9, 2.0, 8.0), (15, 4.0, 12.0), (20, 6.0, 15.0), (25, 8.0, 18.0)]
        {
            assert_eq!(interval(&numbers(count)), Some((low, high)), "{count} numbers");
        }
        assert_eq!((interval(&numbers(5)), interval(&[])), (None, None));
    }
}
