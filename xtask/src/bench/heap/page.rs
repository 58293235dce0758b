//! The folder's README.

use anyhow::Result;

use super::reading::Reading;
use crate::bench::bar::{Bar, render_bars};
use crate::bench::machine;

pub fn render(
    versions: &[String],
    quick: bool,
    rounds: usize,
    readings: &[Reading],
    bars: &[Bar],
) -> Result<String> {
    let warning = if quick { "**A quick run: it shows that the bench works, no more.**\n\n" } else { "" };
    Ok(format!(
        "# What a heap census costs, {date}\n\n{warning}\
         Machine: {machine}  \nVersions: {versions}  \nRepeat with: `cargo xtask bench heap`\n\n\
         The same heap (`xtask/src/bench/heap/workload.py`) in a fresh process for each look; {rounds} interleaved \
         round(s) of three looks each, the look with the least CPU is shown. CPU and memory of `nilo` are those of the whole command; guppy3 \
         (`hpy().heap()` and its table) and pympler (`muppy`, `summary`) run inside the target, so their time is the \
         pause and their memory is the target's. Gaps are the longest time between two turns of a busy loop inside the target while \
         it is looked at, least of the rounds.\n\n## Bars\n\n{bars}\n## Readings\n\n{table}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        versions = versions.join("; "),
        bars = render_bars(bars),
        table = render_table(readings),
    ))
}

fn render_table(readings: &[Reading]) -> String {
    let head = "| look | objects | RSS MiB | CPU s | wall s | stopped ms | gap 1st / 2nd ms | copied MiB | tool's peak MiB | \
                added to the target MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    let mut rows = head.to_owned();
    for reading in best(readings) {
        rows += &render_row(&reading);
    }
    rows
}

/// Per look and scale the round with the least CPU, with the least gaps of all its rounds.
fn best(readings: &[Reading]) -> Vec<Reading> {
    let mut best: Vec<Reading> = Vec::new();
    for reading in readings {
        match best.iter_mut().find(|b| b.look == reading.look && b.per_mille == reading.per_mille) {
            None => best.push(reading.clone()),
            Some(known) => {
                let gaps = [0, 1].map(|i| least(known.stalls_ms[i], reading.stalls_ms[i]));
                if reading.cpu_s < known.cpu_s {
                    *known = reading.clone();
                }
                known.stalls_ms = gaps;
            }
        }
    }
    best
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a.min(b)).or(a).or(b)
}

fn render_row(reading: &Reading) -> String {
    let mib = |bytes: Option<f64>| number(bytes.map(|bytes| bytes / f64::from(1 << 20)), 1);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} / {} | {} | {} | {} |\n",
        reading.look.name(),
        reading.objects.map_or_else(|| "–".to_owned(), |objects| objects.to_string()),
        mib(Some(reading.rss_bytes as f64)),
        number(reading.cpu_s, 2),
        number(reading.wall_s, 2),
        number(reading.stopped_ms, 1),
        number(reading.stalls_ms[0], 1),
        number(reading.stalls_ms[1], 1),
        mib(reading.copied_bytes.map(|bytes| bytes as f64)),
        mib(reading.peak_bytes.map(|bytes| bytes as f64)),
        mib(reading.added_bytes),
    )
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}
