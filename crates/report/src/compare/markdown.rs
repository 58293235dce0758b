//! A comparison as Markdown, for a pull request.

use nilometer_analysis::compare::fact::FactChange;
use nilometer_analysis::compare::gate::{Judged, Judgement};
use nilometer_analysis::compare::{Change, Comparison, Versus};

use super::{change_text, interval_text, movement, params, shown, site_text, verdict};
use nilometer_analysis::compare::site::SiteChange;
use nilometer_analysis::metric::Unit;

use crate::figure;
use crate::text;

pub fn render_markdown(comparison: &Comparison, all: bool) -> String {
    comparison.others.iter().map(|other| versus(comparison, other, all)).collect::<Vec<_>>().join("\n")
}

fn versus(comparison: &Comparison, other: &Versus, all: bool) -> String {
    let head = format!("### Memory: {} → {}\n\n", cell(&comparison.base), cell(&other.name));
    let notes = other.notes.iter().map(|note| format!("\n- {}", cell(note)));
    [
        head,
        gates(other),
        figures(other, all),
        sites(other),
        kinds(other),
        facts(other),
        notes.collect(),
        "\n".to_owned(),
    ]
    .concat()
}

fn gates(other: &Versus) -> String {
    let line = |judged: &Judged| {
        let (mark, word) = match judged.judgement {
            Judgement::Kept => ("✅", "kept"),
            Judgement::Broken => ("❌", "**broken**"),
            Judgement::NotEnoughEvidence => ("❔", "not enough evidence"),
        };
        let reason =
            if judged.reason.is_empty() { String::new() } else { format!(": {}", cell(&judged.reason)) };
        format!("- {mark} `{}` {word}{reason}\n", judged.gate.replace('`', "'"))
    };
    let lines: String = other.gates.iter().map(line).collect();
    if lines.is_empty() { lines } else { lines + "\n" }
}

fn figures(other: &Versus, all: bool) -> String {
    let mut rows: Vec<(String, &Change)> =
        shown(&other.changes, all).into_iter().map(|change| (change.metric.clone(), change)).collect();
    for point in &other.points {
        let peak = point.changes.iter().find(|change| change.metric == "peak");
        rows.extend(peak.map(|change| (format!("peak of {}", params(&point.params)), change)));
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = "| figure | base | other | change | 95 % of the change | |\n|---|---:|---:|---:|---:|---|\n";
    head.to_owned() + &rows.iter().map(|(name, change)| row(name, change)).collect::<String>()
}

fn facts(other: &Versus) -> String {
    let side = |value: &Option<String>| value.as_deref().map_or_else(|| "–".to_owned(), cell);
    let line = |fact: &FactChange| {
        format!("\n- differs: {} {} → {}", cell(&fact.what), side(&fact.base), side(&fact.other))
    };
    other.facts.iter().map(line).collect()
}

fn row(name: &str, change: &Change) -> String {
    format!(
        "| {} | {} | {} | {} | {} | {} |\n",
        cell(name),
        figure::value(change.unit, change.base.mean),
        figure::value(change.unit, change.other.mean),
        change_text(change),
        interval_text(change),
        verdict(change)
    )
}

fn sites(other: &Versus) -> String {
    if other.sites.is_empty() {
        return String::new();
    }
    let head = "\n| allocated at | base | other | change |\n|---|---:|---:|---:|\n".to_owned();
    let row = |site: &SiteChange| {
        let (base, after) = (text::bytes(site.base_bytes as u64), text::bytes(site.other_bytes as u64));
        let change = figure::signed(Unit::Bytes, site.other_bytes - site.base_bytes);
        format!("| {} | {base} | {after} | {change} |\n", cell(&site_text(site)))
    };
    head + &other.sites.iter().map(row).collect::<String>()
}

fn kinds(other: &Versus) -> String {
    if other.kinds.is_empty() {
        return String::new();
    }
    let head = "\n| kind of object | base | other | |\n|---|---:|---:|---|\n".to_owned();
    let row = |kind: &nilometer_analysis::compare::object::KindChange| {
        let (base, after) = (text::bytes(kind.base_bytes as u64), text::bytes(kind.other_bytes as u64));
        format!("| {} | {base} | {after} | {} |\n", cell(&kind.kind), movement(kind.what))
    };
    head + &other.kinds.iter().take(super::KIND_ROWS).map(row).collect::<String>()
}

/// Text from outside in a cell: nothing of it may end the cell or begin a tag.
fn cell(outside: &str) -> String {
    text::escape(outside).replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}
