//! A comparison for people: what the sides differ in, then what changed, with its doubt; gates last.

mod document;
mod markdown;

pub use document::{SCHEMA, json};
pub use markdown::render_markdown;

use nilometer_analysis::compare::fact::FactChange;
use nilometer_analysis::compare::gate::{Judged, Judgement};
use nilometer_analysis::compare::object::{KindChange, Movement};
use nilometer_analysis::compare::site::SiteChange;
use nilometer_analysis::compare::stat::Verdict;
use nilometer_analysis::compare::step::Alignment;
use nilometer_analysis::compare::{Change, Comparison, PointChange, Versus};
use nilometer_analysis::metric::Unit;
use nilometer_analysis::sweep::space::Point;

use crate::figure;
use crate::layout::{Line, Style, Tone, fold};
use crate::table::Table;
use crate::text;

const KIND_ROWS: usize = 12;

/// Figures that are shown even where they did not change.
const ALWAYS: [&str; 4] = ["peak", "leak", "step-time", "heap"];

pub fn render(comparison: &Comparison, all: bool, style: &Style) -> String {
    comparison.others.iter().map(|other| versus(comparison, other, all, style)).collect::<Vec<_>>().join("\n")
}

fn versus(comparison: &Comparison, other: &Versus, all: bool, style: &Style) -> String {
    let head = headline(comparison, other);
    let mut out = style.paint(&fold(&style.safe(&head), style.columns()).join("\n"), Tone::Strong) + "\n";
    out += &facts(&other.facts).render(style);
    out += &changes(&other.changes, all, style);
    out += &points(&other.points, style);
    out.extend(other.steps.as_ref().map(steps_line).map(|line| line.render(style)));
    out += &sites(&other.sites, style);
    out += &kinds(&other.kinds, style);
    out.extend(absent(other).iter().map(|line| line.render(style)));
    out.extend(
        other
            .notes
            .iter()
            .map(|note| Line { tone: Tone::Warn, ..Line::new("note", note.clone()) }.render(style)),
    );
    out.extend(other.gates.iter().map(|judged| gate(judged).render(style)));
    out
}

fn headline(comparison: &Comparison, other: &Versus) -> String {
    let side = |name: &str, what: &str, runs: usize| match what {
        "repeats" => format!("{name} ({runs} runs)"),
        "run" => name.to_owned(),
        other => format!("{name} ({other})"),
    };
    format!(
        "nilo compare: {} → {}",
        side(&comparison.base, comparison.base_what, comparison.base_runs),
        side(&other.name, other.what, other.runs)
    )
}

pub(crate) fn facts(facts: &[FactChange]) -> Line {
    if facts.is_empty() {
        return Line::new(
            "differ",
            "in nothing that is known: same command, variables, host and settings".to_owned(),
        );
    }
    let told = |fact: &FactChange| {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
        format!("{} {} → {}", fact.what, side(&fact.base), side(&fact.other))
    };
    Line::new("differ", facts.iter().map(told).collect::<Vec<_>>().join(" · "))
}

/// Those that changed, and the usual ones.
fn shown(changes: &[Change], all: bool) -> Vec<&Change> {
    let usual = |change: &&Change| {
        all || change.difference.verdict != Verdict::Same || ALWAYS.contains(&change.metric.as_str())
    };
    changes.iter().filter(usual).collect()
}

fn changes(changes: &[Change], all: bool, style: &Style) -> String {
    let shown = shown(changes, all);
    if shown.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["base", "other", "change", "95 % of the change", "figure"]);
    for change in &shown {
        table.row(row(change, &change.metric));
    }
    let hidden = changes.len() - shown.len();
    let rest =
        if hidden > 0 { format!(" {hidden} more figures did not change (--all)\n") } else { String::new() };
    table.render(style) + &style.paint(&rest, Tone::Faint)
}

pub(crate) fn row(change: &Change, name: &str) -> Vec<String> {
    let unit = change.unit;
    vec![
        figure::value(unit, change.base.mean),
        figure::value(unit, change.other.mean),
        change_text(change),
        interval_text(change),
        format!("{name}: {}", verdict(change)),
    ]
}

fn change_text(change: &Change) -> String {
    let share = change.difference.share.filter(|_| matches!(change.unit, Unit::Bytes | Unit::Seconds));
    let share = share.map(|share| format!(" ({:+.1} %)", share * 100.0)).unwrap_or_default();
    format!("{}{share}", figure::signed(change.unit, change.difference.change))
}

fn interval_text(change: &Change) -> String {
    let difference = &change.difference;
    let sides = format!(
        "{} … {}",
        figure::signed(change.unit, difference.low),
        figure::signed(change.unit, difference.high)
    );
    if difference.assumed { format!("{sides}, assumed") } else { sides }
}

pub(crate) fn verdict(change: &Change) -> &'static str {
    match change.difference.verdict {
        Verdict::Grew => "more",
        Verdict::Shrank => "less",
        Verdict::Same => "same within the noise",
    }
}

fn params(point: &Point) -> String {
    point.iter().map(|(name, value)| format!("{name}={}", value.text)).collect::<Vec<_>>().join(" ")
}

/// Sweeps: the peak of each parameter set that both have.
fn points(points: &[PointChange], style: &Style) -> String {
    let peaks = points
        .iter()
        .filter_map(|point| Some((point, point.changes.iter().find(|change| change.metric == "peak")?)));
    let mut table = Table::new(&["base", "other", "change", "95 % of the change", "peak of"]);
    let mut any = false;
    for (point, change) in peaks {
        any = true;
        table.row(row(change, &params(&point.params)));
    }
    if any { table.render(style) } else { String::new() }
}

pub(crate) fn steps_line(alignment: &Alignment) -> Line {
    let told = |step: &nilometer_analysis::compare::step::StepChange| {
        format!("{} {}", step.step, figure::signed(Unit::Bytes, step.other_bytes - step.base_bytes))
    };
    let listed = alignment.listed.iter().map(told).collect::<Vec<_>>().join(", ");
    let part = match (alignment.part_at, alignment.differ) {
        (Some(step), _) => format!("levels part at step {step} and stay apart"),
        (None, 0) => format!("same levels in all {} steps", alignment.steps),
        (None, some) => format!("levels differ at {some} of {} steps, not at the last", alignment.steps),
    };
    Line::new("steps", format!("{part}; difference at step {listed}"))
}

fn kinds(kinds: &[KindChange], style: &Style) -> String {
    if kinds.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["base", "other", "change", "count", "kind of object"]);
    for kind in kinds.iter().take(KIND_ROWS) {
        table.row(vec![
            text::bytes(kind.base_bytes as u64),
            text::bytes(kind.other_bytes as u64),
            figure::signed(Unit::Bytes, kind.other_bytes - kind.base_bytes),
            format!("{:+.0}", kind.other_count - kind.base_count),
            format!("{}: {}", kind.kind, movement(kind.what)),
        ]);
    }
    table.render(style)
}

/// Code that allocates more or less at the peak.
fn sites(sites: &[SiteChange], style: &Style) -> String {
    if sites.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["base", "other", "change", "allocated at"]);
    for site in sites {
        table.row(vec![
            text::bytes(site.base_bytes as u64),
            text::bytes(site.other_bytes as u64),
            figure::signed(Unit::Bytes, site.other_bytes - site.base_bytes),
            site_text(site),
        ]);
    }
    table.render(style)
}

/// `forward (train.py:15): grew, was line 12`.
pub(crate) fn site_text(site: &SiteChange) -> String {
    let moved = site.base_line.filter(|line| site.other_line.is_some_and(|other| other != *line));
    let moved = moved.map(|line| format!(", was line {line}")).unwrap_or_default();
    format!("{}: {}{moved}", site.place, movement(site.what))
}

pub(crate) fn movement(what: Movement) -> &'static str {
    match what {
        Movement::New => "new",
        Movement::Gone => "gone",
        Movement::Grew => "grew",
        Movement::Shrank => "shrank",
    }
}

fn absent(other: &Versus) -> Vec<Line> {
    let line = |names: &[String], side: &str| {
        (!names.is_empty()).then(|| Line::new("only in", format!("{side}: {}", names.join(", "))))
    };
    [line(&other.only_base, "the base"), line(&other.only_other, "the other")].into_iter().flatten().collect()
}

fn gate(judged: &Judged) -> Line {
    let (word, tone) = match judged.judgement {
        Judgement::Kept => ("kept", Tone::Plain),
        Judgement::Broken => ("BROKEN", Tone::Bad),
        Judgement::NotEnoughEvidence => ("not enough evidence", Tone::Warn),
    };
    let reason = if judged.reason.is_empty() { String::new() } else { format!(": {}", judged.reason) };
    Line { tone, ..Line::new("gate", format!("{} {word}{reason}", judged.gate)) }
}
