//! Allocations of a log by category: the screen, the file that the profiler's own scripts read, the charts.

mod chart;

use nilometer_analysis::tagged::Tagged;
use serde_json::{Map, Value, json};

pub use chart::{Charting, chart, chart_together};

use crate::layout::{Line, Style, Tone};
use crate::table::Table;
use crate::text;

/// Tags without a rule that are listed.
const MOST_UNMATCHED: usize = 10;

/// What the profiler's script prints, and beside it what is known besides.
pub fn render(tagged: &Tagged, style: &Style) -> String {
    let title = format!("nilo: allocations by category of {}", tagged.name);
    let mut out = style.paint(&style.safe(&title), Tone::Strong) + "\n";
    let mut table = Table::new(&["MB", "%", "count", "category"]);
    for category in &tagged.categories {
        table.row(vec![
            mb(category.bytes),
            format!("{:.2}", category.percent),
            text::count(category.count),
            category.name.clone(),
        ]);
    }
    out += &table.render(style);
    for line in lines(tagged) {
        out += &line.render(style);
    }
    out
}

fn lines(tagged: &Tagged) -> Vec<Line> {
    let totals = &tagged.totals;
    let mut lines = vec![
        Line::new(
            "total",
            format!(
                "allocations {} MB · weights {} MB (with gradients) · forward tags {} MB (all else that has a tag) · unknown \
                 tags {} MB · {}",
                mb(totals.allocated_bytes),
                mb(totals.weight_bytes),
                mb(totals.forward_bytes),
                mb(totals.unknown_bytes),
                text::counted(totals.annotations, "annotation", "annotations")
            ),
        ),
        Line::new("device", device(tagged)),
    ];
    if let Some(unmatched) = unmatched(tagged) {
        lines.push(Line { tone: Tone::Warn, ..Line::new("no rule", unmatched) });
    }
    if tagged.skipped_lines + tagged.broken_lines > 0 {
        let broken = text::counted(tagged.broken_lines, "line", "lines");
        let skipped = text::counted(tagged.skipped_lines, "line", "lines");
        lines.push(Line::new(
            "skipped",
            format!("{skipped} of other programs, {broken} mixed up with others"),
        ));
    }
    lines
}

/// Cumulative is not live: what the device said is beside it.
fn device(tagged: &Tagged) -> String {
    let told = match (tagged.device_peak_bytes, tagged.device_live_bytes) {
        (Some(peak), Some(live)) => {
            format!("in use at most {} MB, at the end {} MB (all programs on it)", mb(peak), mb(live))
        }
        _ => "what was in use is not told".into(),
    };
    match tagged.releases {
        0 => format!("{told} · nothing was released, so all of it is live"),
        releases => format!(
            "{told} · {}, so the sums above are cumulative, not live",
            text::counted(releases, "release without a size", "releases without a size")
        ),
    }
}

fn unmatched(tagged: &Tagged) -> Option<String> {
    if tagged.unmatched.is_empty() {
        return None;
    }
    let listed: Vec<String> = tagged
        .unmatched
        .iter()
        .take(MOST_UNMATCHED)
        .map(|it| format!("{} {} MB ({}×)", it.tag, mb(it.bytes), it.count))
        .collect();
    let more = tagged.unmatched.len().saturating_sub(MOST_UNMATCHED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "{} MB: {}{more}; add a rule: --rules FILE",
        mb(tagged.totals.unmatched_bytes),
        listed.join(", ")
    ))
}

/// Binary, as the profiler's scripts count.
fn mb(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 20))
}

/// The document for tools.
pub fn document(all: &[Tagged]) -> Value {
    json!({ "schema_version": 1, "view": "tagged", "logs": all })
}

/// `{"in_arg": [BYTES, [TAGS]]}`, as the profiler's script stores it.
pub fn analysis(tagged: &Tagged) -> String {
    let rows: Map<String, Value> = tagged
        .categories
        .iter()
        .map(|category| (category.key.clone(), json!([category.bytes as f64, category.tags])))
        .collect();
    format!("{:#}\n", Value::Object(rows))
}

#[cfg(test)]
mod tests;
