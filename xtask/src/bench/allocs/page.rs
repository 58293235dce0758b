//! The folder's README.

use anyhow::Result;

use super::extra::Extras;
use super::reading::{Figure, Reading, Readings, median};
use super::workload::{Tool, Workload};
use crate::bench::bar::{Bar, render_bars};
use crate::bench::machine;

/// What the page is about.
pub struct Page<'a> {
    pub versions: Vec<String>,
    pub quick: bool,
    pub rounds: usize,
    pub workloads: &'a [Workload],
    pub readings: &'a Readings,
    pub extras: &'a Extras,
    pub bars: &'a [Bar],
}

pub fn render(page: &Page<'_>) -> Result<String> {
    let warning =
        if page.quick { "**A quick run: it shows that the bench works, no more.**\n\n" } else { "" };
    Ok(format!(
        "# What tracking allocations costs, {date}\n\n{warning}\
         Machine: {machine}  \nVersions: {versions}  \nRepeat with: `cargo xtask bench allocs`\n\n\
         The same programs (`xtask/src/bench/allocs/programs`) under each tool, {rounds} interleaved round(s). *Own* is the CPU \
         time of the work itself as the program measures it, *command* that of the whole command line with every process it starts. \
         Ratios are medians over rounds to the median of the unwatched program, with the middle 90 % of 2,000 resamples of whole \
         rounds. *Extra* is what a tool adds. Stacks: `nilo` takes Python and native ones, memray Python (with `--native` both), \
         heaptrack native ones only.\n\n## Bars\n\n{bars}\n## Readings\n\n{table}\n## Reports\n\n{reports}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        versions = page.versions.join("; "),
        rounds = page.rounds,
        bars = render_bars(page.bars),
        table = render_table(page),
        reports = render_reports(page.extras),
    ))
}

fn render_table(page: &Page<'_>) -> String {
    let head = "| workload | tool | own CPU s | own CPU × | own wall × | command CPU s | command CPU × | high water MiB | record \
                MiB |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n";
    let rows = page.workloads.iter().flat_map(|workload| {
        workload.tools.iter().filter_map(|tool| render_row(page.readings, workload.name, *tool))
    });
    head.to_owned() + &rows.collect::<Vec<_>>().concat()
}

fn render_row(readings: &Readings, workload: &str, tool: Tool) -> Option<String> {
    let middle = |figure: fn(&Reading) -> f64| median(&readings.series(workload, tool, figure));
    let ratio = |of| figure(readings.ratio(workload, tool, of));
    let own = middle(|r| r.own_cpu_s)?;
    Some(format!(
        "| {workload} | {} | {own:.3} | {} | {} | {} | {} | {} | {} |\n",
        tool.label(),
        ratio(|r| r.own_cpu_s),
        ratio(|r| r.own_wall_s),
        number(middle(|r| r.command_cpu_s), 2),
        ratio(|r| r.command_cpu_s),
        number(middle(|r| r.peak_kib / 1024.0), 1),
        number(middle(|r| r.record_bytes as f64 / f64::from(1 << 20)), 1),
    ))
}

fn render_reports(extras: &Extras) -> String {
    let head = "| workload | tool | wall s | CPU s | memory MB |\n|---|---|---:|---:|---:|\n";
    let long = extras.long_run.as_ref().map(|run| &run.report);
    let rows = extras.reports.iter().chain(long).map(|report| {
        format!(
            "| {} | {} | {:.2} | {:.2} | {:.0} |\n",
            report.workload,
            report.tool,
            report.wall_s,
            report.cpu_s,
            report.peak_bytes / 1e6
        )
    });
    let told = extras.long_run.as_ref().map_or_else(String::new, |run| {
        format!(
            "\nThe long run: {} events, {} lost, {} bytes recorded.\n",
            run.events, run.lost, run.record_bytes
        )
    });
    head.to_owned() + &rows.collect::<Vec<_>>().concat() + &told
}

fn figure(figure: Option<Figure>) -> String {
    figure.map_or_else(|| "–".to_owned(), |f| format!("{:.2} ({:.2}–{:.2})", f.middle, f.low, f.high))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}
