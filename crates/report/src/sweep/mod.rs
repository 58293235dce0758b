//! A sweep for people: the table of its runs, laws in one line each, what fits, what is doubtful.

mod document;
pub(crate) mod part;

pub use document::{SCHEMA, json};

use std::path::Path;

use nilometer_analysis::fit::{FARTHEST, Prediction};
use nilometer_analysis::metric::{self, Unit};
use nilometer_analysis::sweep::model::{Asked, At, Found, Group, MetricLaw, PointRun, Sweep};
use nilometer_analysis::sweep::outcome::Outcome;
use nilometer_analysis::sweep::space::Point;

use crate::figure;
use crate::layout::{Line, Style, Tone, fold};
use crate::table::Table;
use crate::text;

/// Laws that are shown of one group.
const LAWS: usize = 10;
/// Beyond this error at left-out points a law is not called one.
const WORST: f64 = 0.15;

pub fn render(sweep: &Sweep, style: &Style) -> String {
    let mut out =
        style.paint(&fold(&style.safe(&headline(sweep)), style.columns()).join("\n"), Tone::Strong) + "\n";
    if !sweep.runs.is_empty() {
        out += &table(sweep, style);
        out.extend(part::table(sweep).map(|table| table.render(style)));
    }
    out.extend(
        sweep.groups.iter().flat_map(|group| group_lines(sweep, group)).map(|line| line.render(style)),
    );
    out.extend(
        sweep
            .notes
            .iter()
            .map(|note| Line { tone: Tone::Warn, ..Line::new("note", note.clone()) }.render(style)),
    );
    let next = next_command(sweep);
    out += &Line::new("saved", format!("{}   → {next}", sweep.saved)).render(style);
    out
}

fn headline(sweep: &Sweep) -> String {
    let runs = text::counted(sweep.runs.len() as u64, "run", "runs");
    let planned =
        if sweep.planned > sweep.runs.len() { format!(" of {}", sweep.planned) } else { String::new() };
    format!("nilo sweep: {} · {runs}{planned}", text::escape(&sweep.command.join(" ")))
}

/// What works next: the rest of it, its laws, or the first run that did not end well.
fn next_command(sweep: &Sweep) -> String {
    let unfinished = |group: &Group| group.found.as_ref().is_some_and(|found| found.unfinished);
    if sweep.runs.is_empty() || sweep.runs.len() < sweep.planned || sweep.groups.iter().any(unfinished) {
        return format!("nilo sweep {} --resume", sweep.saved);
    }
    let has_law = sweep.groups.iter().any(|group| !group.laws.is_empty());
    match (sweep.varying.first(), sweep.runs.iter().find(|run| !run.outcome.ran()).or(sweep.runs.first())) {
        (Some(name), _) if has_law => format!("nilo sweep {} --predict {name}=…", sweep.saved),
        // Its own words say why; they are beside its recording.
        (_, Some(run)) if run.outcome == Outcome::Failed => {
            format!("tail {}", Path::new(&run.saved).with_extension("out").display())
        }
        (_, Some(run)) => format!("nilo report {}", run.saved),
        (_, None) => format!("nilo sweep {}", sweep.saved),
    }
}

/// The columns beside the parameters: the figure that was asked for, then the usual ones.
fn columns(sweep: &Sweep) -> Vec<String> {
    let mut names = vec![sweep.metric.clone()];
    names.extend(
        ["peak", "wss", "step-time", "duration"]
            .into_iter()
            .filter(|name| *name != sweep.metric)
            .map(str::to_owned),
    );
    let told = |name: &String| sweep.runs.iter().any(|run| metric::named(&run.metrics, name).is_some());
    names.retain(told);
    names
}

fn has_repeats(sweep: &Sweep) -> bool {
    sweep.runs.iter().any(|run| run.repeat > 1)
}

/// What the columns of the table are called.
pub(crate) fn heads(sweep: &Sweep) -> Vec<String> {
    let mut heads: Vec<String> = sweep.names.clone();
    heads.extend(has_repeats(sweep).then(|| "run".to_owned()));
    heads.extend(columns(sweep));
    heads.extend(sweep.at.iter().map(at_name));
    heads.push("outcome".to_owned());
    heads
}

/// One row a run.
pub(crate) fn cells(sweep: &Sweep) -> Vec<Vec<String>> {
    let (figures, repeats) = (columns(sweep), has_repeats(sweep));
    sweep.runs.iter().map(|run| row(run, &figures, repeats)).collect()
}

fn table(sweep: &Sweep, style: &Style) -> String {
    let mut table = Table::new(&heads(sweep).iter().map(String::as_str).collect::<Vec<_>>());
    for row in cells(sweep) {
        table.row(row);
    }
    table.render(style)
}

fn at_name(at: &At) -> String {
    match at {
        At::Step(step) => format!("step {step}"),
        At::Phase(name) => name.clone(),
    }
}

fn row(run: &PointRun, figures: &[String], repeats: bool) -> Vec<String> {
    let none = || "–".to_owned();
    let mut cells: Vec<String> = run.params.iter().map(|(_, value)| value.text.clone()).collect();
    cells.extend(repeats.then(|| run.repeat.to_string()));
    cells.extend(figures.iter().map(|name| {
        metric::named(&run.metrics, name).map_or_else(none, |metric| figure::value(metric.unit, metric.value))
    }));
    cells.extend(run.at.iter().map(|size| size.end_bytes.or(size.peak_bytes).map_or_else(none, text::bytes)));
    cells.push(outcome(run));
    cells
}

fn outcome(run: &PointRun) -> String {
    let code = match (run.code, run.signal) {
        (Some(code), _) if code != 0 => format!(" (exit {code})"),
        (None, Some(signal)) if !run.outcome.ran() => format!(" ({})", text::signal(signal)),
        _ => String::new(),
    };
    format!("{}{code}", run.outcome.name())
}

pub(crate) fn group_lines(sweep: &Sweep, group: &Group) -> Vec<Line> {
    let mut lines = Vec::new();
    if !group.fixed.is_empty() && sweep.groups.len() > 1 {
        lines.push(Line { tone: Tone::Strong, ..Line::new("with", params(&group.fixed)) });
    }
    lines.extend(shown_laws(sweep, group).into_iter().map(|law| Line::new("law", law_text(law))));
    lines.extend(group.predictions.iter().map(|asked| Line::new("predict", asked_text(asked))));
    lines.extend(group.found.as_ref().map(found_line));
    lines
}

/// The figure that was asked for, the time of a step, then parts that vary: what is touched, what memory is for.
fn shown_laws<'a>(sweep: &Sweep, group: &'a Group) -> Vec<&'a MetricLaw> {
    let wanted = |name: &str| name == sweep.metric || name == "step-time";
    let mut laws: Vec<&MetricLaw> = group.laws.iter().filter(|law| wanted(&law.metric)).collect();
    laws.sort_by_key(|law| law.metric != sweep.metric);
    let others = group.laws.iter().filter(|law| {
        !wanted(&law.metric) && law.law.kind != "constant" && is_part(&law.metric) && holds(law)
    });
    let mut others: Vec<&MetricLaw> = others.collect();
    others.sort_by_key(|law| part::rank(&law.metric));
    laws.extend(others);
    laws.truncate(LAWS);
    laws
}

/// A law that misses left-out points by more is none that a reader could use.
fn holds(law: &MetricLaw) -> bool {
    law.law.loo_error.is_none_or(|error| error <= WORST)
}

/// Parts of a whole: `made.heap`, `ledger.held`, `category.activations`.
fn is_part(name: &str) -> bool {
    name.contains('.') || name == "wss" || name == "gpu"
}

/// `peak = 98.2 MiB + 1.02 MiB·batch (affine, 6 points, error at left-out points 0.8 %)`.
pub(crate) fn law_text(law: &MetricLaw) -> String {
    let error = law
        .law
        .loo_error
        .map(|error| format!(", {} at left-out points", text::percent(error)))
        .unwrap_or_default();
    let points = text::counted(law.law.points as u64, "point", "points");
    if !holds(law) {
        return format!(
            "{}: none holds, the best misses left-out points by {} ({points})",
            law.metric,
            text::percent(law.law.loo_error.unwrap_or(0.0))
        );
    }
    format!("{} = {} ({}, {points}{error})", law.metric, formula(law), law.law.kind)
}

pub(crate) fn formula(law: &MetricLaw) -> String {
    let terms = law.law.terms.iter().zip(&law.law.coefficients).filter(|(_, c)| **c != 0.0);
    let told: Vec<String> = terms
        .map(|(term, c)| {
            let name = term.name(&law.law.names);
            let size = coefficient(law.unit, *c);
            if name.is_empty() { size } else { format!("{size}·{name}") }
        })
        .collect();
    if told.is_empty() { figure::value(law.unit, 0.0) } else { told.join(" + ") }
}

fn coefficient(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Seconds if value.abs() < 1e-3 => format!("{} µs", text::digits(value * 1e6)),
        Unit::Seconds if value.abs() < 1.0 => format!("{} ms", text::digits(value * 1e3)),
        _ => figure::value(unit, value),
    }
}

fn params(point: &Point) -> String {
    point.iter().map(|(name, value)| format!("{name}={}", value.text)).collect::<Vec<_>>().join(" ")
}

fn asked_text(asked: &Asked) -> String {
    let told = asked.prediction.as_ref().map_or_else(
        || format!("nothing: there is no law of {}, or a parameter is missing", asked.metric),
        |prediction| prediction_text(asked.unit, prediction),
    );
    format!("{}: {} {told}", params(&asked.params), asked.metric)
}

fn prediction_text(unit: Unit, prediction: &Prediction) -> String {
    let value = figure::value(unit, prediction.value);
    let interval = prediction.low.zip(prediction.high);
    let interval = interval.map_or_else(
        || " (no interval: too few points)".to_owned(),
        |(low, high)| format!(" (95 %: {})", figure::interval(unit, low, high)),
    );
    let far = prediction.beyond.map(|factor| {
        format!("; {factor:.1}× outside what was measured, more than {FARTHEST}×: run a point nearer before you rely on it")
    });
    format!("{value}{interval}{}", far.unwrap_or_default())
}

fn found_line(found: &Found) -> Line {
    let limit = text::bytes(found.limit_bytes);
    let name = &found.parameter;
    if found.unfinished {
        return Line {
            tone: Tone::Warn,
            ..Line::new("fits", format!("the search for {name} under {limit} has not ended"))
        };
    }
    let Some(largest) = found.largest else {
        let smallest = found.next.map(figure::number).unwrap_or_default();
        return Line {
            tone: Tone::Bad,
            ..Line::new("fits", format!("nothing: already {name} {smallest} does not fit {limit}"))
        };
    };
    let band = found
        .low
        .zip(found.high)
        .map(|(low, high)| format!(" (95 %: {}–{})", figure::number(low), figure::number(high)));
    let needs = found.largest_bytes.map(|bytes| format!(" with {}", text::bytes(bytes))).unwrap_or_default();
    let verified = if found.verified { format!(", verified{needs}") } else { ", not verified".to_owned() };
    let runs = text::counted(found.runs as u64, "run", "runs");
    let words = format!(
        "largest that fits {limit}: {name} {}{}{verified}, in {runs}{}",
        figure::number(largest),
        band.unwrap_or_default(),
        next_text(found),
    );
    Line::new("fits", words)
}

fn next_text(found: &Found) -> String {
    let gave_up = if found.gave_up { "; not narrowed further: too many runs" } else { "" };
    let Some(next) = found.next.filter(|_| !found.is_last) else {
        return "; nothing larger was offered".to_owned();
    };
    let next = figure::number(next);
    if found.next_tried {
        return format!("; {next} was tried and did not fit");
    }
    let expected =
        found.next_bytes.as_ref().map(|p| format!("; {next} would need {}", prediction_text(Unit::Bytes, p)));
    expected.unwrap_or_default() + gave_up
}
