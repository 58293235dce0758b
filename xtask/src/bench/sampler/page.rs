//! The folder's README.

use anyhow::Result;

use super::beside::{self, Beside};
use super::reading::Reading;
use super::tool::Tool;
use super::workshop::Workshop;
use super::{Cell, Options, Plan};
use crate::bench::bar::{Bar, render_bars};
use crate::bench::machine;

/// What stands above the tables.
pub struct Facts {
    date: String,
    machine: String,
    versions: Vec<String>,
    quick: bool,
    only: Vec<String>,
    plan: Plan,
    /// Processes on the machine, kernel threads included.
    inhabitants: usize,
}

impl Facts {
    pub fn read(workshop: &Workshop, options: &Options, plan: Plan) -> Result<Self> {
        Ok(Self {
            date: machine::read_date()?,
            machine: machine::read_machine()?,
            versions: workshop.read_versions()?,
            quick: options.quick,
            only: options.only.clone(),
            plan,
            inhabitants: machine::count_processes()?,
        })
    }

    /// The command that repeats this measurement.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let only =
            if self.only.is_empty() { String::new() } else { format!(" --only {}", self.only.join(",")) };
        format!("cargo xtask bench sampler{quick}{only}")
    }
}

pub fn render(facts: &Facts, best: &[Reading], beside: &[Beside], bars: &[Bar]) -> String {
    let parts = [
        render_head(facts),
        format!("## Bars\n\n{}", render_bars(bars)),
        format!("## Readings\n\n{}", render_table(best)),
        beside::render(beside),
        render_cross_check(best),
        format!("## Commands\n\n```\n{}```\n", render_commands(best)),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn render_head(facts: &Facts) -> String {
    let Plan { settle, window, rounds, most_rounds } = facts.plan;
    let warning =
        if facts.quick { "**A quick run: it shows that the bench works, no more.**\n\n" } else { "" };
    format!(
        "# What sampling costs, {}\n\n{warning}\
         Machine: {}  \nVersions: {}  \nRepeat with: `{}`\n\n\
         Every sampler starts the same tree of idle processes that change 64 KiB every 93 ms. When all are up, \
         {} s pass; then a window of {} s (three times as long for `nilo` on ten small processes, so that all but the mappings of \
         processes that stay as they were, read every 120 s, is in it) is measured, so no start-up is in any figure. {rounds} interleaved \
         round(s), {most_rounds} of the trees of ten processes alone; each row is the round with the least CPU per process-sample, its RSS the worst of all rounds. \
         A bar that compares two of them compares within each round, and is the middle of the rounds: with the machine's caches all costs change by a factor within minutes. CPU is that \
         of the sampler process alone (all its threads, `/proc/PID/task/*/schedstat`). A process-sample is one reading of \
         one process; psrecord keeps only the tree's sum, plain mprof looks at the command alone, mprof -C reads children twice for sum and series. `floor` is no \
         sampler: it asks the kernel what a fast tick of `nilo` asks, and does nothing with the answers. *Beside 200*: as many \
         sleeping processes of others are on the machine, which has {} without them; mprof and psrecord look at \
         each of them at every tick.\n",
        facts.date,
        facts.machine,
        facts.versions.join("; "),
        facts.command(),
        settle.as_secs_f64(),
        window.as_secs_f64(),
        facts.inhabitants,
    )
}

fn render_table(best: &[Reading]) -> String {
    let head = "| tree | interval | sampler | achieved | % of a core | µs per process-sample | × nilo --no-slow | RSS | \
         bytes per process-sample |\n|---|---:|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    head + &best.iter().map(|reading| render_row(best, reading)).collect::<Vec<_>>().concat()
}

fn render_row(best: &[Reading], reading: &Reading) -> String {
    let Cell { tree, tool, interval_ms } = reading.cell;
    format!(
        "| {tree} | {interval_ms} ms | {} | {:.1} Hz | {:.3} | {:.2} | {} | {:.1} MB | {:.1} |\n",
        tool.label(),
        reading.rate_hz(),
        reading.core_percent(),
        reading.us_per_sample(),
        ratio_to_ours(best, reading),
        reading.peak_mb(),
        reading.bytes_per_sample,
    )
}

fn ratio_to_ours(best: &[Reading], reading: &Reading) -> String {
    let cell = Cell { tool: Tool::NiloFast, ..reading.cell };
    let ours = best.iter().find(|candidate| candidate.cell == cell);
    ours.map_or_else(
        || "–".to_owned(),
        |ours| format!("{:.1}", reading.us_per_sample() / ours.us_per_sample()),
    )
}

/// What `nilo` says of itself against what the kernel says.
fn render_cross_check(best: &[Reading]) -> String {
    let rows = best
        .iter()
        .filter_map(|reading| {
            let own_cpu_s = reading.own_cpu_s?;
            let Cell { tree, tool, interval_ms } = reading.cell;
            Some(format!(
                "| {tree} | {interval_ms} ms | {} | {own_cpu_s:.3} s | {:.2} s |\n",
                tool.label(),
                reading.whole_cpu_s
            ))
        })
        .collect::<Vec<_>>()
        .concat();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "## Does nilo tell the truth about itself?\n\nCPU of the whole run, start-up and end included: `cost.cpu_s` of \
         `nilo report --json`, and utime + stime of `/proc/PID/stat` just before the end (steps of 0.01 s).\n\n\
         | tree | interval | sampler | its own word | the kernel's |\n|---|---:|---|---:|---:|\n{rows}"
    )
}

/// The commands of the second tree (or of the only one), paths shortened.
fn render_commands(best: &[Reading]) -> String {
    let tree = best.iter().map(|reading| reading.cell.tree).max_by_key(|tree| tree.processes == 10);
    let shorten = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    best.iter()
        .filter(|reading| Some(reading.cell.tree) == tree)
        .map(|reading| reading.command.split(' ').map(shorten).collect::<Vec<_>>().join(" ") + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::SMALL;
    use super::super::reading::tests::reading;
    use super::*;

    #[test]
    fn rows_show_the_ratio_to_our_fast_ticks() {
        let best = [reading(SMALL, Tool::NiloFast, 100, 0.02), reading(SMALL, Tool::Mprof, 100, 0.5)];
        let table = render_table(&best);
        assert!(table.contains(
            "| 10 × 4 MiB | 100 ms | mprof -M | 10.0 Hz | 5.000 | 500.00 | 25.0 | 8.0 MB | 10.0 |"
        ));
    }

    #[test]
    fn commands_are_shown_without_their_folders() {
        let mut one = reading(SMALL, Tool::Mprof, 100, 0.5);
        one.command = "/a/b/mprof run -o /c/record /d/tree 10 4".to_owned();
        assert_eq!(render_commands(&[one]), "mprof run -o record tree 10 4\n");
    }
}
