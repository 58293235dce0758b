//! What memory is for: a short list for every view, and the whole with layers, steps and phases.

use nilometer_analysis::allocs::model::{Allocs, Category, Confidence};

use crate::layout::{Style, Tone};
use crate::table::Table;
use crate::text;

/// Rows of the short list, and their least share.
const MOST_ROWS: usize = 8;
const LEAST_SHARE: f64 = 0.005;
/// Steps and turns that have a column.
const MOST_COLUMNS: usize = 6;

/// The largest categories at the peak.
pub(super) fn brief(allocs: &Allocs, style: &Style) -> String {
    if allocs.by_category.is_empty() || allocs.peak.bytes == 0 {
        return String::new();
    }
    let shown: Vec<&Category> = allocs
        .by_category
        .iter()
        .filter(|it| it.peak_bytes.max(it.kept_bytes) as f64 > allocs.peak.bytes as f64 * LEAST_SHARE)
        .take(MOST_ROWS)
        .collect();
    let mut out = style.paint("what it was for, at the peak", Tone::Strong) + "\n";
    out += &table(allocs, &shown).render(style);
    out.push('\n');
    out
}

fn table(allocs: &Allocs, shown: &[&Category]) -> Table {
    let mut table = Table::new(&["at the peak", "%", "at most", "category"]);
    for category in shown {
        let share = category.peak_bytes as f64 * 100.0 / allocs.peak.bytes.max(1) as f64;
        let most = match category.kept_bytes {
            0 => String::new(),
            kept => text::bytes(kept),
        };
        table.row(vec![text::bytes(category.peak_bytes), format!("{share:.1}"), most, words(category)]);
    }
    table
}

fn words(category: &Category) -> String {
    let sure = match category.confidence {
        Confidence::High => "",
        Confidence::Medium => " (by its stack only)",
        Confidence::Low => " (a guess)",
    };
    let evidence = category.evidence.as_ref().map_or_else(String::new, |evidence| format!(": {evidence}"));
    format!("{}{sure}{evidence}", category.category)
}

/// All categories, with what they are made of.
pub(super) fn render(allocs: &Allocs, style: &Style) -> String {
    let all: Vec<&Category> = allocs.by_category.iter().collect();
    if all.is_empty() {
        return " nothing was recorded\n".into();
    }
    let mut out = table(allocs, &all).render(style);
    out += &layers(allocs, style);
    out += &steps(allocs, style);
    out += &phases(allocs, style);
    out
}

fn layers(allocs: &Allocs, style: &Style) -> String {
    let mut table = Table::new(&["at the peak", "at most", "layer or operator"]);
    let mut any = false;
    for category in &allocs.by_category {
        for layer in &category.layers {
            any = true;
            let words = format!("{}, {}", layer.layer, category.category);
            table.row(vec![text::bytes(layer.peak_bytes), text::bytes(layer.kept_bytes), words]);
        }
    }
    if any { titled("by layer or operator", &table, style) } else { String::new() }
}

fn steps(allocs: &Allocs, style: &Style) -> String {
    let columns = spread(allocs.step_numbers.len());
    if columns.len() < 2 {
        return String::new();
    }
    let heads: Vec<String> = columns
        .iter()
        .filter_map(|at| allocs.step_numbers.get(*at))
        .map(|step| format!("step {step}"))
        .chain(["category".to_owned()])
        .collect();
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for category in allocs.by_category.iter().filter(|it| it.step_bytes.iter().any(|bytes| *bytes > 0)) {
        let value = |at: &usize| text::bytes(category.step_bytes.get(*at).copied().unwrap_or(0));
        table.row(columns.iter().map(value).chain([category.category.clone()]).collect());
    }
    titled("live at the steps", &table, style)
}

fn phases(allocs: &Allocs, style: &Style) -> String {
    let mut turns: Vec<u64> = allocs.phase_peaks.iter().map(|peak| peak.turn).collect();
    turns.dedup();
    let columns: Vec<u64> = spread(turns.len()).iter().filter_map(|at| turns.get(*at).copied()).collect();
    if columns.is_empty() {
        return String::new();
    }
    let heads: Vec<String> =
        columns.iter().map(|turn| format!("turn {turn}")).chain(["phase".to_owned()]).collect();
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for phase in ["init", "forward", "backward", "optimizer"] {
        let of = |turn: &u64| allocs.phase_peaks.iter().find(|it| it.turn == *turn && it.phase == phase);
        if columns.iter().any(|turn| of(turn).is_some()) {
            let cell = |turn: &u64| of(turn).map_or_else(String::new, |peak| text::bytes(peak.peak_bytes));
            table.row(columns.iter().map(cell).chain([phase.to_owned()]).collect());
        }
    }
    titled("the highest in each phase", &table, style)
}

fn titled(title: &str, table: &Table, style: &Style) -> String {
    format!("\n{}\n{}", style.paint(title, Tone::Strong), table.render(style))
}

/// Some of so many, the first and the last among them.
fn spread(count: usize) -> Vec<usize> {
    if count <= MOST_COLUMNS {
        return (0..count).collect();
    }
    (0..MOST_COLUMNS).map(|at| at * (count - 1) / (MOST_COLUMNS - 1)).collect()
}
