//! The table of the chosen pane, and the events.

use nilometer_analysis::live::{Per, View};
use ratatui::layout::Rect;

use super::entry::{self, Entry};
use super::state::{Pane, Sort, State};
use super::{Content, Sheet};
use crate::layout::Tone;
use crate::text;

const EVENT_INDENT: usize = 12;

pub(super) fn draw(sheet: &mut Sheet<'_>, area: Rect, state: &State, content: &Content<'_>) {
    if let Content::Run(view) = content {
        sheet.line(area, 0, &tabs(state, view), Tone::Strong);
        if state.pane == Pane::Events {
            list_events(sheet, below(area, 1), view);
            return;
        }
    }
    let area = if content.is_run() { below(area, 1) } else { area };
    let rows = entry::visible(state, content);
    if rows.is_empty() {
        sheet.line(area, 0, &nothing(sheet, state, content), Tone::Faint);
        return;
    }
    sheet.line(area, 0, &heads(state, content), Tone::Faint);
    let per = entry::per(state, content);
    let body = below(area, 1);
    let chosen = entry::position(state, &rows);
    let first = first_row(chosen, rows.len(), usize::from(body.height));
    for (row, entry) in rows.iter().enumerate().skip(first).take(usize::from(body.height)) {
        let name = sheet.style.safe(&entry.name);
        sheet.line(
            body,
            (row - first) as u16,
            &format!("{} {name}", cells(entry, per, content)),
            Tone::Plain,
        );
        if chosen == Some(row) {
            sheet.chosen(body, (row - first) as u16);
        }
    }
}

fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// The chosen row stays on the screen.
fn first_row(chosen: Option<usize>, rows: usize, height: usize) -> usize {
    let last_start = rows.saturating_sub(height);
    chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(height)).min(last_start)
}

fn tabs(state: &State, view: &View) -> String {
    let tab = |pane: &Pane| {
        let count = entry::table(view, *pane).map_or_else(|| events(view).len(), |table| table.rows.len());
        if *pane == state.pane {
            format!("[{} {count}]", pane.name())
        } else {
            format!(" {} {count} ", pane.name())
        }
    };
    Pane::ALL.iter().map(tab).collect::<Vec<_>>().join(" ")
}

fn nothing(sheet: &Sheet<'_>, state: &State, content: &Content<'_>) -> String {
    let words = match content {
        _ if !state.filter.is_empty() => format!("nothing contains `{}`: esc", state.filter),
        Content::List(_) => "no process can be seen".into(),
        Content::Run(view) => {
            let without = entry::table(view, state.pane).map_or("", |table| table.without);
            format!("none: {without}")
        }
    };
    sheet.style.safe(&words)
}

/// Names of the columns, the one that orders marked.
fn heads(state: &State, content: &Content<'_>) -> String {
    let head =
        |name: &str, sort: Sort| if state.sort == sort { format!("{name}▼") } else { name.to_owned() };
    let first =
        if matches!(content, Content::List(_)) || state.pane == Pane::Processes { "pid" } else { "count" };
    let (size, third) = match (content, state.pane) {
        (Content::List(_), _) => ("RSS", "running".to_owned()),
        (_, Pane::Processes) => ("RSS", head("VmHWM", Sort::Peak)),
        (_, Pane::Sites) => ("live", head("peak", Sort::Peak)),
        _ => ("size", head("most", Sort::Peak)),
    };
    let name = match (content, state.pane) {
        (Content::List(_), _) => "command",
        (_, Pane::Processes) => "role: command",
        (_, Pane::Sites) => "place",
        _ => "kind",
    };
    let (rate, size, name) = (head("rate", Sort::Rate), head(size, Sort::Size), head(name, Sort::Name));
    format!("{rate:>16} {size:>9} {third:>9} {first:>9} {name}")
}

fn cells(entry: &Entry, per: Per, content: &Content<'_>) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let third = match content {
        Content::List(_) => entry.lived_s.map(text::duration),
        Content::Run(_) => entry.peak_bytes.map(text::bytes),
    };
    let first = entry.pid.map(|pid| pid.to_string()).or_else(|| entry.count.map(text::count));
    let rate = or_dash(entry.rate.map(|rate| render_rate(rate, per)));
    format!("{rate:>16} {:>9} {:>9} {:>9}", text::bytes(entry.bytes), or_dash(third), or_dash(first))
}

fn render_rate(rate: f64, per: Per) -> String {
    let per = if per == Per::Step { "step" } else { "s" };
    // A float that is no number, or too large, is cut to the nearest whole one.
    format!("{}/{per}", text::signed_bytes(rate as i64))
}

/// When and what, newest first.
pub(super) fn events(view: &View) -> Vec<(f64, String)> {
    let run = &view.run;
    let event = run.events.iter().map(|event| (event.at_s, event.text.clone()));
    let note = run.notes.iter().map(|note| (note.at_s, format!("note: {}", note.text)));
    let phase = run.phases.iter().map(|phase| (phase.start_s, format!("phase {}", phase.name)));
    let end = |process: &nilometer_analysis::model::Process| {
        process.end_s.map(|at_s| (at_s, format!("{} ({}) ended", process.role, process.pid)))
    };
    let begin = run.processes.iter().map(|p| (p.start_s, format!("{} ({}) began", p.role, p.pid)));
    let mut all: Vec<(f64, String)> =
        event.chain(note).chain(phase).chain(begin).chain(run.processes.iter().filter_map(end)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

pub(super) fn draw_events(sheet: &mut Sheet<'_>, area: Rect, view: &View) {
    sheet.line(area, 0, "events, newest first", Tone::Strong);
    list_events(sheet, below(area, 1), view);
}

fn list_events(sheet: &mut Sheet<'_>, area: Rect, view: &View) {
    for (row, (at_s, what)) in events(view).iter().take(usize::from(area.height)).enumerate() {
        let what = sheet.style.safe(what);
        let line = format!("{:>1$}  {what}", text::duration(*at_s), EVENT_INDENT - 2);
        sheet.line(area, row as u16, &line, Tone::Plain);
    }
}
