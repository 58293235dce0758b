//! For people: the verdict screen, its one-line form, and the long report.

use nilometer_analysis::Run;
use nilometer_analysis::heap::model::Sum;
use nilometer_analysis::model::{
    About, EstimatedSteps, Event, GrowthClass, GrowthUnit, Note, Process, Series, Step,
};

use crate::chart::Chart;
use crate::layout::{Line, Style, Tone, fold};
use crate::sentence;
use crate::table::Table;
use crate::text;

const PROCESS_ROWS: usize = 20;
const STEP_ROWS: usize = 20;
const OBJECT_ROWS: usize = 15;
const EVENT_ROWS: usize = 40;
const EVENT_INDENT: usize = 12;

/// The screen at the end of a run: the verdict first, then its parts.
pub fn verdict(run: &Run, style: &Style) -> String {
    let rows = fold(&style.safe(&sentence::headline(run, style)), style.columns());
    let mut out = style.paint(&rows.join("\n"), Tone::Strong) + "\n";
    out += &crate::rank::of_run(run, style);
    out.extend(sentence::findings(run).iter().map(|line| line.render(style)));
    out
}

/// The same in one line, for logs.
pub fn line(run: &Run) -> String {
    let command = text::escape(&run.command.join(" "));
    let mut parts = vec![format!("nilo: {command}"), sentence::ending(run), text::duration(run.duration_s)];
    parts.extend(run.peak.as_ref().map(|peak| peak_of(run, peak.bytes)));
    let grows = run.growth.bytes.filter(|_| run.growth.class == GrowthClass::Grows);
    let per = if run.growth.since_s.is_some() { "min" } else { "step" };
    parts.extend(grows.map(|rate| format!("grows {}/{per}", text::signed_bytes(rate as i64))));
    parts.extend(run.saved.as_deref().map(text::escape));
    parts.join(" · ")
}

fn peak_of(run: &Run, bytes: u64) -> String {
    let limit = run.limit.as_ref().map(|limit| format!(" of {}", text::bytes(limit.bytes)));
    format!("peak {}{}", text::bytes(bytes), limit.unwrap_or_default())
}

/// The verdict, then charts and tables.
pub fn report(run: &Run, style: &Style) -> String {
    let sections = [
        verdict(run, style),
        tree_chart(run, style),
        system_charts(run, style),
        processes(run, style),
        phases(run, style),
        steps(run, style),
        objects(run, style),
        ledgers(run, style),
        events(run, style),
        method(run, style),
    ];
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

fn tree_chart(run: &Run, style: &Style) -> String {
    let limit = run.limit.as_ref().map(|limit| limit.bytes);
    let chart = Chart {
        title: "Memory of the tree",
        legend: "solid: at least · dotted: at most · dashed: the limit, if near",
        low: &run.curve.tree_low,
        high: &run.curve.tree_high,
        limit,
    };
    rendered(&chart, style)
}

fn rendered(chart: &Chart<'_>, style: &Style) -> String {
    if chart.is_empty() { String::new() } else { chart.render(style) }
}

fn system_charts(run: &Run, style: &Style) -> String {
    let chart = |title: &'static str, series: &Series| {
        let legend = "solid: lowest · dotted: highest in the interval";
        rendered(&Chart { title, legend, low: series, high: series, limit: None }, style)
    };
    // A line between two readings would show what nobody saw.
    let drawn = |series: &Series| series.points.len() > 2;
    let swapped = run.curve.swap.points.iter().any(|point| point.max > 0);
    let mut charts = Vec::new();
    charts
        .extend(drawn(&run.curve.available).then(|| chart("Available on the machine", &run.curve.available)));
    charts.extend(swapped.then(|| chart("Swap in use on the machine", &run.curve.swap)));
    charts.into_iter().filter(|chart| !chart.is_empty()).collect::<Vec<_>>().join("\n")
}

fn title(text: &str, style: &Style) -> String {
    style.paint(&style.safe(text), Tone::Strong) + "\n"
}

fn processes(run: &Run, style: &Style) -> String {
    if run.processes.is_empty() {
        return String::new();
    }
    let mut largest: Vec<&Process> = run.processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.hwm_bytes));
    let heads = ["pid", "VmHWM", "private", "PSS", "CPU", "lived", "parent", "faults", "role: command"];
    let mut table = Table::new(&heads);
    for process in largest.iter().take(PROCESS_ROWS) {
        table.row(process_row(process));
    }
    let shown = largest.len().min(PROCESS_ROWS) as u64;
    let heading = format!("Processes, largest first ({shown} of {})", text::count(run.processes_seen));
    title(&heading, style) + &table.render(style)
}

fn process_row(process: &Process) -> Vec<String> {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), text::bytes);
    vec![
        process.pid.to_string(),
        size(process.hwm_bytes),
        size(process.uss_bytes),
        size(process.pss_bytes),
        text::duration(process.cpu_s),
        process.end_s.map_or_else(|| "-".into(), |end_s| text::duration(end_s - process.start_s)),
        process.parent.to_string(),
        text::count(process.minor_faults.saturating_add(process.major_faults)),
        format!("{}: {}", process.role, process.command),
    ]
}

/// What large processes were made of over the run.
fn ledgers(run: &Run, style: &Style) -> String {
    let Some(ledgers) = run.ledgers.as_ref() else { return String::new() };
    let heading = format!(
        "Made of, MiB ({}; one of them in full: nilo where)",
        text::counted(ledgers.seen, "ledger", "ledgers")
    );
    title(&heading, style) + &crate::ledger::run::render_curve(ledgers, style)
}

/// What the heap tables of the run say.
fn objects(run: &Run, style: &Style) -> String {
    let Some(heap) = &run.heap else { return String::new() };
    let mut table = Table::new(&["first", "last", "highest", "objects", "grows", "kind"]);
    for kind in heap.kinds.iter().take(OBJECT_ROWS) {
        let total = |sum: &Sum| text::bytes(sum.bytes + sum.payload_bytes);
        let rate = match (kind.growth.class, kind.growth.bytes) {
            (GrowthClass::Grows, Some(rate)) => {
                let per = if kind.growth.per == GrowthUnit::Step { "step" } else { "min" };
                format!("{}/{per}", text::signed_bytes(rate as i64))
            }
            (GrowthClass::Flat, _) => "flat".to_owned(),
            _ => "cannot tell".to_owned(),
        };
        let objects = text::count(kind.last.count);
        table.row(vec![
            total(&kind.first),
            total(&kind.last),
            total(&kind.max),
            objects,
            rate,
            kind.kind.clone(),
        ]);
    }
    let shown = heap.kinds.len().min(OBJECT_ROWS) as u64;
    let heading = format!(
        "Python objects of process {} by kind, fastest growth first ({} of {}; {} from {} to {}, paused {:.0} ms at most)",
        heap.pid,
        text::count(shown),
        text::count(heap.kinds.len() as u64 + heap.kinds_omitted),
        text::counted(heap.tables, "table", "tables"),
        text::duration(heap.first_s),
        text::duration(heap.last_s),
        heap.pause_ms_longest,
    );
    title(&heading, style) + &table.render(style)
}

fn phases(run: &Run, style: &Style) -> String {
    if run.phases.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["start", "length", "peak", "phase"]);
    for phase in run.phases.iter().take(EVENT_ROWS) {
        let (start, length) = (text::duration(phase.start_s), text::duration(phase.duration_s));
        // A phase without a sample of the tree has no peak.
        let peak = if phase.peak_bytes == 0 { "-".into() } else { text::bytes(phase.peak_bytes) };
        table.row(vec![start, length, peak, phase.name.clone()]);
    }
    title("Phases", style) + &table.render(style)
}

fn steps(run: &Run, style: &Style) -> String {
    if run.steps.is_empty() {
        return run.estimated_steps.as_ref().map(|steps| estimated(steps, style)).unwrap_or_default();
    }
    let stride = run.steps.len().div_ceil(STEP_ROWS).max(1);
    let mut table = Table::new(&["step", "peak", "end", "change", "start", "length", "peak by"]);
    for step in run.steps.iter().step_by(stride) {
        table.row(step_row(step));
    }
    let shown = run.steps.len().div_ceil(stride) as u64;
    title(&format!("Steps ({shown} of {})", text::count(run.steps_seen)), style) + &table.render(style)
}

/// No marks, but a pattern: a guess with its badge, and how to know better.
fn estimated(steps: &EstimatedSteps, style: &Style) -> String {
    let sentence = format!(
        " The curve repeats itself every {} ({} times, {} alike): probably the step. To be sure, mark steps:\n \
         echo \"step N\" >> $NILO_MARKS, or --steps tqdm\n",
        text::duration(steps.period_s),
        text::count(steps.count),
        text::percent(steps.correlation),
    );
    title("Steps (estimated)", style) + &sentence
}

fn step_row(step: &Step) -> Vec<String> {
    vec![
        text::count(step.step),
        text::bytes(step.peak_bytes),
        text::bytes(step.end_bytes),
        text::signed_bytes(step.increment_bytes),
        text::duration(step.start_s),
        text::duration(step.duration_s),
        step.peak_method.into(),
    ]
}

fn events(run: &Run, style: &Style) -> String {
    if run.events.is_empty() && run.notes.is_empty() {
        return String::new();
    }
    let rows = events_and_notes(run);
    let omitted = run.events_omitted + rows.len().saturating_sub(EVENT_ROWS) as u64;
    let lines = rows.iter().take(EVENT_ROWS).map(|(at_s, sentence)| event_line(*at_s, sentence, style));
    let more = (omitted > 0).then(|| format!("{:>EVENT_INDENT$}{} more\n", "", text::count(omitted)));
    title("Events", style) + &lines.collect::<String>() + &more.unwrap_or_default()
}

/// In the order of time, for the terminal and for the page.
pub(crate) fn events_and_notes(run: &Run) -> Vec<(f64, String)> {
    let note = |note: &Note| (note.at_s, format!("note: {}", note.text));
    let event = |event: &Event| (event.at_s, event.text.clone());
    let mut told: Vec<(f64, String)> =
        run.events.iter().map(event).chain(run.notes.iter().map(note)).collect();
    told.sort_by(|a, b| a.0.total_cmp(&b.0));
    told
}

fn event_line(at_s: f64, sentence: &str, style: &Style) -> String {
    let rows = fold(&style.safe(sentence), style.columns() - EVENT_INDENT);
    let indent = " ".repeat(EVENT_INDENT);
    format!(" {:>9}  {}\n", text::duration(at_s), rows.join(&format!("\n{indent}")))
}

fn host(about: &About) -> String {
    let memory = text::bytes(about.memory_bytes);
    if about.kernel.is_empty() {
        return format!("not known, {memory}");
    }
    format!("{}, Linux {}, {} CPUs, {memory}", about.host, about.kernel, about.cpus)
}

/// How it was measured, for the terminal and for the page.
pub(crate) fn method_lines(run: &Run) -> Vec<Line> {
    let about = &run.about;
    let achieved = run.interval_ms.achieved.map_or_else(|| "none".into(), |ms| format!("{ms:.0} ms"));
    let missed = run.interval_ms.missed.map(|missed| format!(", {} missed", text::count(missed)));
    // Of an imported recording it is not known.
    let asked = Some(run.interval_ms.asked).filter(|asked| *asked > 0.0);
    let asked = asked.map_or_else(|| "asked not known".into(), |asked| format!("asked {asked:.0} ms"));
    let ticks = text::count(run.ticks);
    let interval =
        format!("{asked}, achieved {achieved} (median), {ticks} ticks{}", missed.unwrap_or_default());
    let mut lines = vec![Line::new("interval", interval), Line::new("host", host(about))];
    lines.push(Line::new(
        "started",
        format!("{} by nilo {} {}", about.started, about.nilo_version, about.verb),
    ));
    lines.extend(run.cost.map(|cost| Line::new("written", text::bytes(cost.written_bytes))));
    lines.extend(about.method.iter().map(|note| Line::new("how", note.clone())));
    lines.push(Line::new(
        "data",
        format!("ends at {}: {}", text::duration(run.data_end.at_s), run.data_end.why),
    ));
    lines
}

fn method(run: &Run, style: &Style) -> String {
    title("Method and cost", style)
        + &method_lines(run).iter().map(|line| line.render(style)).collect::<String>()
}
