//! Tables of objects by kind and of what changed, for people.

use nilometer_analysis::heap::model::{By, Change, ChangeRow, Diff, Row, Sum, Table};

use super::number::{objects, partly, parts, percent, signed_count, signed_size, size};
use super::{Page, head, next};
use crate::layout::{Line, Tone, fold};
use crate::table::Table as Columns;
use crate::text;

/// What was selected, and the rows.
pub(super) fn body(table: &Table, page: &Page) -> String {
    selection(&table.selection, page) + &rows(table, page)
}

/// The rows of a table and the number not listed.
pub(super) fn rows(table: &Table, page: &Page) -> String {
    if table.rows.is_empty() {
        return "nothing is left to show\n".into();
    }
    let mut out = String::new();
    let resident = table.rows.iter().any(is_partly_resident);
    let shared = table.rows.iter().any(|row| row.also_elsewhere.is_some_and(|count| count > 0));
    let mut columns = Columns::new(&heads(table.by, resident, shared));
    for row in &table.rows {
        columns.row(cells(row, resident, shared));
    }
    out += &columns.render(page.style);
    out += &rest(table.rows_total.saturating_sub(table.rows.len() as u64), &table.rest, page);
    out += &table.rule.map_or_else(String::new, |rule| faint(rule, page));
    out
}

fn selection(selection: &[String], page: &Page) -> String {
    if selection.is_empty() {
        return String::new();
    }
    Line::new("showing", selection.join("; then ")).render(page.style)
}

fn is_partly_resident(row: &Row) -> bool {
    partly(row.resident_payload_bytes, row.payload_bytes).is_some()
}

fn heads(by: By, resident: bool, shared: bool) -> Vec<&'static str> {
    let mut heads = vec!["Row", "Count", "%", "Size", "Payload"];
    heads.extend(resident.then_some("Resident"));
    heads.extend(["Cumulative", "%"]);
    heads.extend(shared.then_some("Shared"));
    heads.push(name(by));
    heads
}

fn cells(row: &Row, resident: bool, shared: bool) -> Vec<String> {
    let mut cells =
        vec![row.row.to_string(), text::count(row.count), percent(row.count_share), size(row.bytes)];
    cells.push(size(row.payload_bytes));
    if resident {
        cells.push(row.resident_payload_bytes.map_or_else(|| "-".into(), size));
    }
    cells.extend([size(row.cumulative_bytes), percent(row.cumulative_share)]);
    if shared {
        cells.push(row.also_elsewhere.map_or_else(|| "-".into(), text::count));
    }
    cells.push(row.kind.clone());
    cells
}

/// The head of the last column.
pub(super) fn name(by: By) -> &'static str {
    match by {
        By::Kind => "Kind",
        By::Type => "Type",
        By::Module => "Module",
        By::Size => "Size of one",
        By::Owner => "Held by",
        By::Attribute => "Attribute",
    }
}

/// A list always ends with the number not shown.
fn rest(rows: u64, rest: &Sum, page: &Page) -> String {
    if rows == 0 {
        return String::new();
    }
    let rows = text::counted(rows, "more row", "more rows");
    let sizes = parts(rest.bytes, rest.payload_bytes);
    faint(&format!("{rows}: {}, {sizes} (--top all)", objects(rest.count)), page)
}

pub(super) fn faint(sentence: &str, page: &Page) -> String {
    let rows = fold(&page.style.safe(sentence), page.style.columns() - 1);
    let painted: Vec<String> = rows.iter().map(|row| page.style.paint(row, Tone::Faint)).collect();
    format!(" {}\n", painted.join("\n "))
}

/// What changed between two censuses, growth first.
pub(super) fn diff(diff: &Diff, page: &Page) -> String {
    let style = page.style;
    let rows = fold(&style.safe(&diff_sentence(diff)), style.columns());
    let mut out = style.paint(&rows.join("\n"), Tone::Strong) + "\n";
    let (before, after) = (head::warnings(&diff.before, style), head::warnings(&diff.after, style));
    if before != after {
        out += &before;
    }
    out += &after;
    if diff.different_processes {
        let text = "the two are of different processes: new, gone and resized cannot be told apart";
        out += &Line { tone: Tone::Warn, ..Line::new("doubt", text.into()) }.render(style);
    }
    if diff.rows.is_empty() {
        return out + "nothing changed\n";
    }
    let mut columns = Columns::new(&change_heads(diff));
    for row in &diff.rows {
        columns.row(change_cells(row, diff.different_processes));
    }
    out += &columns.render(style);
    out += &not_listed(diff, page);
    out + &next::line(&next::after_diff(page), style)
}

fn change_heads(diff: &Diff) -> Vec<&'static str> {
    let mut heads = vec!["Row", "Count", "Size", "Payload"];
    if !diff.different_processes {
        heads.extend(["New", "Gone", "Resized"]);
    }
    heads.push(name(diff.by));
    heads
}

fn change_cells(row: &ChangeRow, different_processes: bool) -> Vec<String> {
    let change = &row.change;
    let mut cells = vec![
        row.row.to_string(),
        signed_count(change.count),
        signed_size(change.bytes),
        signed_size(change.payload_bytes),
    ];
    if !different_processes {
        let resized = change.resized.bytes.saturating_add(change.resized.payload_bytes);
        cells.extend([text::count(change.new.count), text::count(change.gone.count), signed_size(resized)]);
    }
    cells.push(row.kind.clone());
    cells
}

/// `+149,539 objects, +14.2 MiB + 113.8 MiB payload in 2 m 05 s: 204,001 objects are 150.1 MiB now`.
fn diff_sentence(diff: &Diff) -> String {
    let Change { count, bytes, payload_bytes, total_after, .. } = diff.total;
    let objects = if count.unsigned_abs() == 1 { "object" } else { "objects" };
    let grown = format!(
        "{} {objects}, size {}, payload {}",
        signed_count(count),
        signed_size(bytes),
        signed_size(payload_bytes)
    );
    let between = elapsed(diff).map_or_else(String::new, |time| format!(" in {time}"));
    format!(
        "{grown}{between}: {} are {} now",
        super::number::objects(diff.total.count_after),
        size(total_after)
    )
}

fn elapsed(diff: &Diff) -> Option<String> {
    let ns = diff.after.taken_realtime_ns.checked_sub(diff.before.taken_realtime_ns)?;
    (diff.before.taken_realtime_ns > 0 && ns > 0).then(|| text::duration(ns as f64 / 1e9))
}

fn not_listed(diff: &Diff, page: &Page) -> String {
    let more = diff.rows_total.saturating_sub(diff.rows.len() as u64);
    let mut said = Vec::new();
    if more > 0 {
        let change = &diff.rest;
        said.push(format!(
            "{}: {} objects, size {}, payload {} (--top all)",
            text::counted(more, "more row", "more rows"),
            signed_count(change.count),
            signed_size(change.bytes),
            signed_size(change.payload_bytes),
        ));
    }
    if diff.unchanged_rows > 0 {
        said.push(format!("{} did not change", text::counted(diff.unchanged_rows, "row", "rows")));
    }
    said.iter().map(|line| faint(line, page)).collect()
}
