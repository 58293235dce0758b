//! Memory over time, with the tables of what ran.

use nilometer_analysis::model::{GrowthClass, Process, Run};

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure};
use crate::plot;
use crate::sentence;
use crate::term::events_and_notes;
use crate::text;

const QUESTION: &str = "How high did memory rise, and when?";
const PROCESSES: usize = 50;
const STEPS: usize = 40;
const EVENTS: usize = 100;

pub(super) fn view(page: &Page<'_>) -> View {
    let run = page.run;
    let findings = sentence::findings(run);
    let told = findings.iter().find(|line| matches!(line.label, "peak" | "machine"));
    let Some(told) = told else {
        let why = "no sample of the command was taken";
        return View::absent("run", QUESTION, why, "nilo run -- COMMAND");
    };
    let growth =
        findings.iter().find(|line| line.label == "growth").map(|line| format!("; growth {}", line.text));
    let sentence = format!("{} {}{}.", label(told.label), told.text, growth.unwrap_or_default());
    let exact = run.peak.as_ref().is_some_and(|peak| peak.exact || peak.low_bytes == peak.high_bytes);
    let badge = if exact || run.peak.is_none() {
        Badge::Measured
    } else {
        Badge::Estimated("the tree's total lies in an interval".into())
    };
    View { id: "run", question: QUESTION, sentence, badge, body: body(run) }
}

fn label(label: &str) -> &str {
    if label == "peak" { "Peak" } else { "Machine:" }
}

fn body(run: &Run) -> Markup {
    let parts = [
        figure("chart-run", plot::run(run, plot::SIZE).as_ref()),
        Markup::tagged("p", &[("id", "selection"), ("class", "selection"), ("aria-live", "polite")], ""),
        folded("processes", run.processes_seen, processes(run)),
        folded("phases", run.phases.len() as u64, phases(run)),
        folded("steps", run.steps_seen, steps(run)),
        folded("events", run.events.len() as u64 + run.events_omitted, events(run)),
    ];
    parts.into_iter().collect()
}

/// A list that is out of the way until it is opened.
fn folded(name: &str, count: u64, table: Option<Markup>) -> Markup {
    let Some(table) = table else { return Markup::default() };
    let summary = Markup::tagged("summary", &[], &format!("{name} ({})", text::count(count)));
    Markup::element("details", &[("class", name)], [summary, table].into_iter().collect())
}

fn processes(run: &Run) -> Option<Markup> {
    let mut largest: Vec<&Process> = run.processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.hwm_bytes));
    let rows: Vec<Vec<String>> = largest.iter().take(PROCESSES).map(|process| process_row(process)).collect();
    let heads = ["VmHWM", "private", "PSS", "CPU", "lived", "faults", "pid", "role", "command"];
    (!rows.is_empty()).then(|| markup::table(&heads, &rows, 7))
}

fn process_row(process: &Process) -> Vec<String> {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "–".into(), text::bytes);
    vec![
        size(process.hwm_bytes),
        size(process.uss_bytes),
        size(process.pss_bytes),
        text::duration(process.cpu_s),
        process.end_s.map_or_else(|| "–".into(), |end_s| text::duration(end_s - process.start_s)),
        text::count(process.minor_faults.saturating_add(process.major_faults)),
        process.pid.to_string(),
        process.role.clone(),
        process.command.clone(),
    ]
}

fn phases(run: &Run) -> Option<Markup> {
    let row = |phase: &nilometer_analysis::model::Phase| {
        let peak = if phase.peak_bytes == 0 { "–".into() } else { text::bytes(phase.peak_bytes) };
        vec![text::duration(phase.start_s), text::duration(phase.duration_s), peak, phase.name.clone()]
    };
    let rows: Vec<Vec<String>> = run.phases.iter().take(EVENTS).map(row).collect();
    (!rows.is_empty()).then(|| markup::table(&["start", "length", "peak", "phase"], &rows, 3))
}

fn steps(run: &Run) -> Option<Markup> {
    let stride = run.steps.len().div_ceil(STEPS).max(1);
    let row = |step: &nilometer_analysis::model::Step| {
        vec![
            text::count(step.step),
            text::bytes(step.peak_bytes),
            text::bytes(step.end_bytes),
            text::signed_bytes(step.increment_bytes),
            text::duration(step.start_s),
            text::duration(step.duration_s),
        ]
    };
    let rows: Vec<Vec<String>> = run.steps.iter().step_by(stride).map(row).collect();
    let heads = ["step", "peak", "end", "change", "start", "length"];
    (!rows.is_empty()).then(|| markup::table(&heads, &rows, 6))
}

fn events(run: &Run) -> Option<Markup> {
    let told = events_and_notes(run).into_iter().take(EVENTS);
    let rows: Vec<Vec<String>> = told.map(|(at_s, text)| vec![text::duration(at_s), text]).collect();
    (!rows.is_empty()).then(|| markup::table(&["at", "what"], &rows, 1))
}

/// `+1.80 MiB/step`, `flat`, `cannot tell`.
pub(super) fn growth_text(growth: &nilometer_analysis::model::Growth) -> String {
    match (growth.class, growth.bytes) {
        (GrowthClass::Grows, Some(rate)) => {
            let per = if growth.per == nilometer_analysis::model::GrowthUnit::Step { "step" } else { "min" };
            format!("{}/{per}", text::signed_bytes(rate as i64))
        }
        (GrowthClass::Flat, _) => "flat".to_owned(),
        _ => "cannot tell".to_owned(),
    }
}
