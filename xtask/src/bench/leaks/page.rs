//! The page of the bench: confusion tables, rates, what the others say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use serde_json::Value;

use super::super::bar::{Bar, render_bars};
use super::super::machine;
use super::peer::Peer;
use super::reading::{Outcome, Reading};

/// One verdict in one line, while the bench runs.
pub fn render_row(reading: &Reading) -> String {
    format!(
        "{:<24} {:<12} {}{} ({})",
        reading.program.label,
        reading.outcome().name(),
        reading.class,
        rate(reading),
        reading.reason
    )
}

fn rate(reading: &Reading) -> String {
    let off = reading.rate_off().map(|off| format!(", off by {:.1} %", off * 100.0)).unwrap_or_default();
    match reading.rate.filter(|_| reading.program.leaks) {
        Some(rate) => format!(" {rate:.0} B/step{off}"),
        None => String::new(),
    }
}

pub fn render(
    versions: &[String],
    readings: &[Reading],
    peers: &[Peer],
    curves: &Value,
    bars: &[Bar],
) -> Result<String> {
    let mut page = String::from("# Verdicts on leaks\n\n");
    writeln!(page, "{}, {}.", machine::read_date()?, machine::read_machine()?)?;
    writeln!(page, "{}.\n", versions.join(", "))?;
    page.push_str("Programs and their truth: `bench/leaks`. Run by `cargo xtask bench leaks`. The machine was shared.\n\n");
    page.push_str(&render_bars(bars));
    page.push_str(&confusion(readings)?);
    page.push_str(&programs(readings)?);
    page.push_str(&of_peers(peers)?);
    page.push_str(&of_curves(curves)?);
    Ok(page)
}

fn confusion(readings: &[Reading]) -> Result<String> {
    let mut out = String::from(
        "\n## Confusion\n\n| truth | says leak | says no leak | cannot tell |\n|---|---|---|---|\n",
    );
    for leaks in [true, false] {
        let of: Vec<&Reading> = readings.iter().filter(|reading| reading.program.leaks == leaks).collect();
        let unclear = of.iter().filter(|reading| reading.outcome() == Outcome::CannotTell).count();
        let says =
            of.iter().filter(|reading| reading.code == 1 && reading.outcome() != Outcome::CannotTell).count();
        let truth = if leaks { "leaks" } else { "does not leak" };
        writeln!(out, "| {truth} | {says} | {} | {unclear} |", of.len() - says - unclear)?;
    }
    Ok(out)
}

/// One row a program, its rounds together.
fn programs(readings: &[Reading]) -> Result<String> {
    let mut out = String::from(
        "\n## Programs\n\n| program | leaks | right | classes | B/step, median | truth | off, worst | place | smallest B/step |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut seen: Vec<&str> = Vec::new();
    for reading in readings {
        let label = reading.program.label.as_str();
        if seen.contains(&label) {
            continue;
        }
        seen.push(label);
        let of: Vec<&Reading> = readings.iter().filter(|other| other.program.label == label).collect();
        out.push_str(&program_row(reading, &of)?);
    }
    Ok(out)
}

fn program_row(first: &Reading, of: &[&Reading]) -> Result<String> {
    let right = of.iter().filter(|reading| reading.outcome() == Outcome::Right).count();
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for reading in of {
        *classes.entry(&reading.class).or_default() += 1;
    }
    let classes: Vec<String> = classes.iter().map(|(class, times)| format!("{class} {times}")).collect();
    let leaks = first.program.leaks;
    let number = |value: Option<f64>| {
        value.filter(|_| leaks).map_or_else(|| "-".into(), |value| format!("{value:.0}"))
    };
    let worst = of
        .iter()
        .filter_map(|reading| reading.rate_off())
        .fold(None, |worst: Option<f64>, off| Some(worst.map_or(off, |worst| worst.max(off))));
    let placed = of.iter().filter(|reading| reading.has_place() == Some(true)).count();
    let place = first.program.place.as_ref().map(|place| format!("{place}: {placed} of {}", of.len()));
    let mut row = String::new();
    writeln!(
        row,
        "| {} | {} | {right} of {} | {} | {} | {} | {} | {} | {} |",
        first.program.label,
        if leaks { "yes" } else { "no" },
        of.len(),
        classes.join(", "),
        number(median(of.iter().filter_map(|reading| reading.rate).collect())),
        number(first.program.rate_bytes),
        worst.map_or_else(|| "-".into(), |off| format!("{:.1} %", off * 100.0)),
        place.unwrap_or_else(|| "-".into()),
        median(of.iter().filter_map(|reading| reading.smallest).collect())
            .map_or_else(|| "-".into(), |s| format!("{s:.0}")),
    )?;
    Ok(row)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn of_peers(peers: &[Peer]) -> Result<String> {
    if peers.is_empty() {
        return Ok(String::new());
    }
    let mut out = String::from(
        "\n## What the others say\n\nmprof has no verdict: the slope of the second half of its record. memray: the sum of its \
         list of what was not freed at the end (`PYTHONMALLOC=malloc`).\n\n| program | leaks | mprof, MiB/s | memray, MB |\n|---|---|---|---|\n",
    );
    for peer in peers {
        let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
        let leaks = if peer.leaks { "yes" } else { "no" };
        writeln!(
            out,
            "| {} | {leaks} | {} | {} |",
            peer.label,
            number(peer.mprof_slope),
            number(peer.memray_leaked)
        )?;
    }
    Ok(out)
}

fn of_curves(curves: &Value) -> Result<String> {
    let mut out = String::from("\n## Generated curves\n\n");
    let number = |name: &str| curves[name].as_f64().unwrap_or(f64::NAN);
    writeln!(
        out,
        "{} curves from seed {} (`cargo run --release -p nilometer-analysis --example hold_out`): {} wrong, {} cannot \
         tell, {} with a leak smaller than the smallest that the verdict says it can see; rates off by {:.1} % (median).",
        number("count"),
        number("first_seed"),
        number("wrong"),
        number("cannot_tell"),
        number("below"),
        number("median_off_percent"),
    )?;
    Ok(out)
}
