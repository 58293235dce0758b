//! The ledgers of a run: the curve as a table, one of them with its distance from the peak, and the verdict's terms.

use nilometer_analysis::ledger::run::{Ledgers, Moment};
use nilometer_analysis::ledger::{Badge, Line};
use serde_json::{Value, json};

use super::words;
use crate::layout::{Style, Tone};
use crate::table::Table;
use crate::text;

/// Rows of the curve that a screen shows; the document has them all.
const ROWS: usize = 30;

/// The columns of the curve.
const TERMS: [(&str, &[Line]); 7] = [
    ("code", &[Line::Code, Line::LibraryData]),
    ("objects", &[Line::PythonObjects, Line::PythonSlack, Line::PythonFree]),
    ("arrays", &[Line::Arrays]),
    ("malloc", &[Line::MallocInUse, Line::MallocMetadata, Line::MallocUnknown, Line::OtherAllocator]),
    ("held", &[Line::MallocHeld]),
    ("shared", &[Line::SharedMemory]),
    ("files", &[Line::Files]),
];

/// One ledger of a run: when it was taken and how far from the peak, then the ledger.
pub fn render_moment(ledgers: &Ledgers, position: usize, style: &Style) -> String {
    let (Some(moment), Some(account)) = (ledgers.curve.get(position), ledgers.accounts.get(position)) else {
        return String::new();
    };
    let others = ledgers.curve.len().saturating_sub(1);
    let more = match others {
        0 => String::new(),
        _ => format!("; {} (--curve)", text::counted(others as u64, "more ledger", "more ledgers")),
    };
    let head =
        format!("{} after the start, {}{more}", text::duration(moment.at_s), distance(moment.from_peak_s));
    style.paint(&style.safe(&head), Tone::Faint) + "\n" + &super::render(account, style)
}

/// `3.2 s before the peak`.
pub(crate) fn distance(from_peak_s: f64) -> String {
    let side = if from_peak_s < 0.0 { "before" } else { "after" };
    match from_peak_s.abs() {
        near if near < 0.05 => "at the peak".into(),
        far => format!("{} {side} the peak", text::duration(far)),
    }
}

/// All of them, one row each; `nearest` is marked.
pub fn render_curve(ledgers: &Ledgers, style: &Style) -> String {
    let heads: Vec<&str> = ["at", "RSS"]
        .into_iter()
        .chain(TERMS.map(|term| term.0))
        .chain(["other", "residual", "MiB of"])
        .collect();
    let mut table = Table::new(&heads);
    let skipped = ledgers.curve.len().saturating_sub(ROWS);
    for (position, moment) in ledgers.curve.iter().enumerate().skip(skipped) {
        table.row(curve_row(moment, position == ledgers.nearest));
    }
    let dropped = ledgers.seen as usize - ledgers.curve.len().min(ledgers.seen as usize) + skipped;
    let cut = if dropped > 0 { format!("{dropped} earlier ones are not shown\n") } else { String::new() };
    let nearest =
        ledgers.curve.get(ledgers.nearest).map(|moment| distance(moment.from_peak_s)).unwrap_or_default();
    table.render(style) + &style.safe(&format!(" * nearest to the peak: {nearest}\n")) + &cut
}

fn curve_row(moment: &Moment, is_nearest: bool) -> Vec<String> {
    let terms: Vec<u64> = TERMS.iter().map(|(_, lines)| moment.bytes(lines)).collect();
    let all: u64 = moment.parts.iter().map(|term| term.bytes).sum();
    let other = all - terms.iter().sum::<u64>();
    let mut row = vec![text::duration(moment.at_s), words::mebi(moment.rss_bytes as i64)];
    row.extend(terms.iter().map(|bytes| words::mebi(*bytes as i64)));
    let badge = if moment.badge == Badge::Exact { "exact" } else { "estimated" };
    let mark = if is_nearest { "* " } else { "" };
    let of = format!("{mark}{} {badge}", moment.pid);
    row.extend([words::mebi(other as i64), words::mebi(moment.residual_bytes), of]);
    row
}

/// What the verdict says: the lines as people call them, largest first, and the residual.
pub(crate) fn terms(moment: &Moment) -> Vec<(&'static str, i64)> {
    let mut terms: Vec<(&str, i64)> =
        moment.parts.iter().map(|term| (words::name(term.name), term.bytes as i64)).collect();
    terms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    terms
}

/// The document of `nilo where RUN --json`: the chosen ledger at the top, as for a process, and the curve.
pub fn document(ledgers: &Ledgers, position: usize, run: &str) -> Value {
    let Some((account, moment)) = ledgers.accounts.get(position).zip(ledgers.curve.get(position)) else {
        return json!({});
    };
    let accounts = std::slice::from_ref(account);
    let mut document = super::json::document(accounts, &nilometer_analysis::ledger::tree(accounts));
    if let Value::Object(fields) = &mut document {
        fields.insert("run".into(), run.into());
        fields.insert("at_s".into(), moment.at_s.into());
        fields.insert("from_peak_s".into(), moment.from_peak_s.into());
        fields.insert("ledgers".into(), serde_json::to_value(&ledgers.curve).unwrap_or_default());
    }
    document
}
