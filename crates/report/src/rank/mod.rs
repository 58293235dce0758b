//! A job for people: one sentence about who is not like the others, then a table of its ranks.

mod json;

pub use json::{SCHEMA, json};

use nilometer_analysis::Run;
use nilometer_analysis::model::{Growth, GrowthClass, GrowthUnit};
use nilometer_analysis::rank::{Comparison, Job, Pattern, Ranked, compare};

use crate::layout::{Line, Style, Tone, fold};
use crate::table::Table;
use crate::text;

/// Rows of a large job: those that stand out, then the first.
const ROWS: usize = 24;
/// Ranks that a sentence names.
const NAMED: usize = 4;
const NUMBERS: [&str; 13] =
    ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// The screen: the sentence first.
pub fn render(job: &Job, style: &Style) -> String {
    let strong = |text: &str| style.paint(&fold(&style.safe(text), style.columns()).join("\n"), Tone::Strong);
    let mut out = strong(&headline(job, style)) + "\n" + &strong(&sentence(job)) + "\n";
    out += &table(job, style);
    out.extend(notes(job).iter().map(|line| line.render(style)));
    out
}

/// The same sentence and table for a launcher that was recorded with its ranks; nothing where there are none.
pub(crate) fn of_run(run: &Run, style: &Style) -> String {
    let Some(job) = of_one_recording(run) else { return String::new() };
    let sentence = fold(&style.safe(&sentence(&job)), style.columns()).join("\n");
    style.paint(&sentence, Tone::Strong) + "\n" + &table(&job, style)
}

/// A launcher and its ranks in one recording, as a job.
pub fn of_one_recording(run: &Run) -> Option<Job> {
    (run.ranks.len() > 1).then(|| Job {
        name: run.name.clone(),
        launcher: String::new(),
        id: String::new(),
        started: run.about.started.clone(),
        command: run.command.clone(),
        world_size: None,
        nodes: vec![run.about.host.clone()],
        duration_s: run.duration_s,
        missing: Vec::new(),
        comparison: compare(&run.ranks.iter().collect::<Vec<_>>()),
        ranks: run.ranks.clone(),
        problems: Vec::new(),
        saved: None,
    })
}

fn headline(job: &Job, style: &Style) -> String {
    let command = style.shorten(&style.safe(&job.command.join(" ")), style.columns() / 2);
    let ranks = text::counted(job.last().count() as u64, "rank", "ranks");
    let nodes = text::counted(job.nodes.len() as u64, "node", "nodes");
    format!("nilo: {command} · {ranks} on {nodes} · {} · {}", job.launcher, text::duration(job.duration_s))
}

/// `rank 5 grows 12 MiB/step ± 0.1, the other seven 0.0–0.1`.
pub fn sentence(job: &Job) -> String {
    let all = job.last().count();
    let found = &job.comparison;
    match found.pattern {
        Pattern::SomeGrow => {
            let how = format!("{}{}", rates(found.outlying, found.outlying, unit(found)), doubt(found));
            format!("{} {how}{}", subject(found, "grows", "grow"), the_others(found, all))
        }
        Pattern::SomePeak => {
            let how = sizes(found.outlying);
            format!("{} {how}{}", subject(found, "peaks at", "peak at"), the_others(found, all))
        }
        Pattern::AllGrow => {
            let rates = rates(found.others, found.others, unit(found));
            format!(
                "{} {rates}",
                if all == 1 { "the only rank grows".into() } else { format!("all {} ranks grow", word(all)) }
            )
        }
        Pattern::NoneGrows => {
            let rates = rates(found.others, found.others, unit(found));
            format!(
                "no rank grows: {rates} in {}",
                text::counted((all - found.unknown) as u64, "rank", "ranks")
            )
        }
        Pattern::CannotTell => format!("cannot tell whether ranks grow: {}", reason(job)),
    }
}

fn reason(job: &Job) -> String {
    job.last().map(|it| it.growth.reason.clone()).next().unwrap_or_else(|| "nothing was recorded".into())
}

fn unit(found: &Comparison) -> &'static str {
    if found.per == GrowthUnit::Step { "step" } else { "min" }
}

fn subject(found: &Comparison, one: &str, many: &str) -> String {
    match found.outliers.as_slice() {
        [rank] => format!("rank {rank} {one}"),
        several => {
            let named: Vec<String> = several.iter().take(NAMED).map(ToString::to_string).collect();
            let more = several.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("ranks {}{more} {many}", named.join(", "))
        }
    }
}

/// In the unit of the outliers, so that they can be compared at a glance.
fn the_others(found: &Comparison, all: usize) -> String {
    let (Some(others), Some(outlying)) = (found.others, found.outlying) else { return String::new() };
    let count = all - found.outliers.len() - found.unknown.min(all - found.outliers.len());
    let who = if count == 1 { "the other".to_owned() } else { format!("the other {}", word(count)) };
    format!(", {who} {}", span(others, outlying[1]))
}

fn word(count: usize) -> String {
    NUMBERS.get(count).map_or_else(|| text::count(count as u64), |word| (*word).to_owned())
}

fn span([low, high]: [f64; 2], unit_of: f64) -> String {
    let (low, high) = (in_unit(low, unit_of), in_unit(high, unit_of));
    if low == high { low } else { format!("{low}–{high}") }
}

/// One digit after the point where that is enough to tell it from nothing.
fn in_unit(value: f64, unit_of: f64) -> String {
    let (top, _) = text::scale(unit_of.abs().max(1024.0));
    let value = value / (unit_of.abs().max(1024.0) / top);
    let shown = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    if shown == "-0.0" { "0.0".to_owned() } else { shown }
}

fn rates(range: Option<[f64; 2]>, unit_of: Option<[f64; 2]>, per: &str) -> String {
    let (Some(range), Some(of)) = (range, unit_of) else { return String::new() };
    let largest = of[1].abs().max(of[0].abs());
    let unit = text::scale(largest.max(1024.0)).1;
    format!("{} {unit}/{per}", span(range, largest))
}

fn sizes(range: Option<[f64; 2]>) -> String {
    let Some(range) = range else { return String::new() };
    format!("{} {}", span(range, range[1]), text::scale(range[1].max(1024.0)).1)
}

fn doubt(found: &Comparison) -> String {
    let (Some(doubt), Some(of), [_]) = (found.doubt, found.outlying, found.outliers.as_slice()) else {
        return String::new();
    };
    format!(" ± {}", in_unit(doubt, of[1]))
}

fn table(job: &Job, style: &Style) -> String {
    let shown = shown(job);
    let heads = heads(job);
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &shown {
        table.row(cells(job, row));
    }
    let left = job.ranks.len() - shown.len();
    let more = (left > 0).then(|| format!(" {:>5} more; all of them: --json\n", text::count(left as u64)));
    table.render(style) + &more.unwrap_or_default()
}

fn has_restarts(job: &Job) -> bool {
    job.ranks.iter().any(|it| it.restart > 0)
}

/// What the columns are called; the last one is text.
pub(crate) fn heads(job: &Job) -> Vec<String> {
    let restart = has_restarts(job).then_some("restart");
    let heads = [
        Some("rank"),
        restart,
        Some("peak"),
        Some("growth"),
        Some("steps"),
        Some("lived"),
        Some("end"),
        Some("node"),
    ];
    heads.into_iter().flatten().map(str::to_owned).collect()
}

/// One row of the table.
pub(crate) fn cells(job: &Job, it: &Ranked) -> Vec<String> {
    let mut cells = vec![it.rank.to_string()];
    cells.extend(has_restarts(job).then(|| it.restart.to_string()));
    cells.push(it.peak_bytes.map_or_else(|| "–".into(), text::bytes));
    cells.push(rate(&it.growth));
    cells.push(text::count(it.steps));
    cells.push(text::duration(it.duration_s));
    cells.push(it.end.clone());
    cells.push(it.node.clone());
    cells
}

/// `+12.0 MiB/step ± 0.1`, `flat ± 3 KiB/step`, `cannot tell`.
fn rate(growth: &Growth) -> String {
    let per = if growth.per == GrowthUnit::Step { "step" } else { "min" };
    let (Some(rate), Some(low), Some(high)) = (growth.bytes, growth.low_bytes, growth.high_bytes) else {
        return "cannot tell".into();
    };
    let half = (high - low) / 2.0;
    let largest = rate.abs().max(half);
    let unit = text::scale(largest.max(1024.0)).1;
    let sign = if rate < 0.0 { "-" } else { "+" };
    let doubtful = if growth.class == GrowthClass::CannotTell { " ?" } else { "" };
    format!("{sign}{} ± {} {unit}/{per}{doubtful}", in_unit(rate.abs(), largest), in_unit(half, largest))
}

/// All of a small job; of a large one those that stand out, those that failed, and the first.
pub(crate) fn shown(job: &Job) -> Vec<&Ranked> {
    if job.ranks.len() <= ROWS {
        return job.ranks.iter().collect();
    }
    let apart = |it: &Ranked| !it.good || job.comparison.outliers.contains(&it.rank);
    let mut shown: Vec<&Ranked> = job.ranks.iter().filter(|it| apart(it)).take(ROWS - ROWS / 3).collect();
    let room = ROWS - shown.len();
    shown.extend(job.ranks.iter().filter(|it| !apart(it)).take(room));
    shown.sort_by_key(|it| (it.rank, it.restart));
    shown
}

fn notes(job: &Job) -> Vec<Line> {
    let warn = |label, text| Line { tone: Tone::Warn, ..Line::new(label, text) };
    let mut lines = Vec::new();
    if !job.missing.is_empty() {
        let named: Vec<String> = job.missing.iter().take(12).map(ToString::to_string).collect();
        let more = if job.missing.len() > 12 { ", …" } else { "" };
        lines.push(warn("missing", format!("nothing was recorded of ranks {}{more}", named.join(", "))));
    }
    let failed: Vec<String> =
        job.last().filter(|it| !it.good).take(12).map(|it| it.rank.to_string()).collect();
    if !failed.is_empty() {
        lines.push(warn("failed", format!("ranks {}", failed.join(", "))));
    }
    lines.extend(job.problems.iter().take(3).map(|problem| warn("problem", problem.clone())));
    if let Some(saved) = &job.saved {
        let next = match job.worth_a_look().filter(|_| job.ranks.iter().any(|it| it.saved.is_some())) {
            Some(rank) => format!("{saved}   → nilo leak {saved} --rank {rank}"),
            None => saved.clone(),
        };
        lines.push(Line::new("saved", next));
    }
    lines
}

#[cfg(test)]
pub(crate) mod tests;
