//! Sites by line, function or library.

use nilometer_analysis::allocs::model::{Allocs, Amounts, By, Row, What};

use super::tree::{half_width, value};
use super::{Page, frame};
use crate::layout::Tone;
use crate::table::Table;
use crate::text;

pub(super) fn render(allocs: &Allocs, page: &Page<'_>) -> String {
    let shown: Vec<&Row> =
        allocs.rows.iter().filter(|row| figure(allocs.what, &row.amounts).0 != 0.0).collect();
    if shown.is_empty() {
        return " nothing of that kind was recorded\n".into();
    }
    let total = total(allocs);
    let sampled = shown.iter().any(|row| row.amounts.interval.is_some());
    let mut heads = vec![bytes_head(allocs.what), "%"];
    heads.extend(sampled.then_some("±"));
    heads.extend(["blocks", name_head(allocs.by)]);
    let mut table = Table::new(&heads);
    for row in &shown {
        table.row(cells(allocs, row, total, sampled));
    }
    table.render(page.style) + &unlisted(allocs, shown.len(), page)
}

fn cells(allocs: &Allocs, row: &Row, total: f64, sampled: bool) -> Vec<String> {
    let (figure, count) = figure(allocs.what, &row.amounts);
    let share = if total == 0.0 { 0.0 } else { figure / total * 100.0 };
    let mut cells = vec![value(allocs.what, figure), format!("{share:.1}")];
    if sampled {
        cells.push(row.amounts.interval.map_or_else(String::new, |interval| half_width(interval, figure)));
    }
    cells.push(text::count(count));
    cells.push(words(row, allocs.by));
    cells
}

fn words(row: &Row, by: By) -> String {
    let detail = row.detail.as_deref().map(|detail| match by {
        By::Line => frame::short(detail),
        _ => frame::short_file(detail).to_owned(),
    });
    let name = match by {
        By::Line => frame::short_file(&row.name).to_owned(),
        _ => frame::short(&row.name),
    };
    detail.map_or_else(|| name.clone(), |detail| format!("{name}  {detail}"))
}

fn unlisted(allocs: &Allocs, shown: usize, page: &Page<'_>) -> String {
    match allocs.rows_seen.saturating_sub(shown as u64) {
        0 => String::new(),
        more => {
            let words = format!(" {} (--top all)", text::counted(more, "more row", "more rows"));
            page.style.paint(&page.style.safe(&words), Tone::Faint) + "\n"
        }
    }
}

/// The figure that was asked for, and its blocks.
fn figure(what: What, amounts: &Amounts) -> (f64, u64) {
    match what {
        What::Peak => (amounts.peak_bytes as f64, amounts.peak_count),
        What::Live => (amounts.live_end_bytes as f64, amounts.live_end_count),
        What::Cumulative => (amounts.cumulative_bytes as f64, amounts.count),
        What::Temporary => (amounts.temporary_bytes as f64, amounts.temporary_count),
        What::Growth => (amounts.growth_bytes_per_step.unwrap_or(0.0), amounts.live_end_count),
    }
}

fn total(allocs: &Allocs) -> f64 {
    match allocs.what {
        What::Peak => allocs.peak.bytes as f64,
        What::Live => allocs.live_end_bytes as f64,
        What::Cumulative => allocs.cumulative_bytes as f64,
        What::Temporary => allocs.temporary_bytes as f64,
        What::Growth => allocs.growth_bytes_per_step.unwrap_or(0.0),
    }
}

fn bytes_head(what: What) -> &'static str {
    match what {
        What::Peak => "at the peak",
        What::Live => "at the end",
        What::Cumulative => "allocated",
        What::Temporary => "temporary",
        What::Growth => "per step",
    }
}

fn name_head(by: By) -> &'static str {
    match by {
        By::Line => "line",
        By::Library => "library",
        By::Owner => "owner",
        By::Type => "type",
        By::Function | By::Stack | By::Category => "function",
    }
}
