//! Tables as Heapy prints them, to the byte: scripts and eyes that know them need not learn ours.
//!
//! `Size` is header and payload together, as Heapy has it since numpy tells the size of its buffers. The one difference
//! to a real Heapy is the numbers: its set leaves out what it cannot see.

use std::cmp::Reverse;
use std::fmt::Write as _;

use nilometer_analysis::heap::model::{By, Change, ChangeRow, Diff, Table};

use crate::text::escape;

/// What Heapy shows before it says how many more there are.
pub const ROWS: usize = 10;
/// Where Heapy folds the name of a kind.
const LINE: usize = 100;

/// `Partition of a set of …`, with the rows that are listed.
pub fn table(table: &Table) -> String {
    let total = total(table.total.bytes, table.total.payload_bytes);
    let plural = if table.total.count == 1 { "" } else { "s" };
    let mut out =
        format!("Partition of a set of {} object{plural}. Total size = {total} bytes.\n", table.total.count);
    if table.total.count == 0 {
        return out;
    }
    let _ = writeln!(out, " Index  Count   %     Size   % Cumulative  % {}", heading(table.by));
    for row in &table.rows {
        let own = row.bytes.saturating_add(row.payload_bytes);
        let numbers = format!(
            "{:6} {:6} {:>3} {own:8} {:>3} {:9} {:>3} ",
            row.row,
            row.count,
            percent(row.count, table.total.count),
            percent(own, total),
            row.cumulative_bytes,
            percent(row.cumulative_bytes, total),
        );
        fold(&mut out, &numbers, &row.kind);
    }
    more(&mut out, table.rows_total.saturating_sub(table.rows.len() as u64));
    out
}

/// `Summary of difference operation`: A is after, B before. Rows by the largest change either way, at most `top`.
pub fn diff(diff: &Diff, top: Option<usize>) -> String {
    let change = &diff.total;
    let (after, before) = (change.total_after, change.total_before);
    let mut out = String::from("Summary of difference operation (A-B).\n        Count     Size\n");
    let _ = writeln!(out, "  A    {:6} {after:8}", change.count_after);
    let _ = writeln!(out, "  B    {:6} {before:8}", change.count_before);
    let _ = writeln!(
        out,
        "  A-B  {:6} {:8}  = {} % of B",
        change.count,
        total_change(change),
        of_before(total_change(change), before)
    );
    if change.count != 0 || total_change(change) != 0 {
        out += "\nDifferences by kind, largest absolute size diffs first.\n";
        let _ = writeln!(out, " Index  Count     Size  Cumulative  % of B {}", heading(diff.by));
        changes(&mut out, diff, before, top);
    }
    out
}

fn changes(out: &mut String, diff: &Diff, before: u64, top: Option<usize>) {
    let mut rows: Vec<&ChangeRow> = diff.rows.iter().collect();
    rows.sort_by_key(|row| Reverse(total_change(&row.change).unsigned_abs()));
    let mut cumulative = 0i64;
    for (index, row) in rows.iter().take(top.unwrap_or(usize::MAX)).enumerate() {
        let own = total_change(&row.change);
        cumulative = cumulative.saturating_add(own);
        let numbers = format!(
            "{index:6} {:6} {own:8} {cumulative:9} {} ",
            row.change.count,
            of_before(cumulative, before)
        );
        fold(out, &numbers, &row.kind);
    }
    let listed = rows.len().min(top.unwrap_or(usize::MAX)) as u64;
    more(out, diff.rows_total.saturating_sub(listed));
}

fn total(bytes: u64, payload_bytes: u64) -> u64 {
    bytes.saturating_add(payload_bytes)
}

fn total_change(change: &Change) -> i64 {
    change.bytes.saturating_add(change.payload_bytes)
}

/// Heapy's words for what it groups by.
fn heading(by: By) -> &'static str {
    match by {
        By::Kind => "Kind (class / dict of class)",
        By::Type => "Type",
        By::Module => "Module",
        By::Size => "Individual Size",
        By::Owner => "Referrers by Kind (class / dict of class)",
        By::Attribute => "Referred Via:",
    }
}

/// Python's `'%.0f'`: halves go to the even number.
fn percent(part: u64, all: u64) -> String {
    if all == 0 { "0".into() } else { format!("{:.0}", part as f64 * 100.0 / all as f64) }
}

fn of_before(change: i64, before: u64) -> String {
    if before == 0 {
        return "   (n.a.)".into();
    }
    format!("{:>9}", general(change as f64 * 100.0 / before as f64))
}

/// C's `%.3g`: three significant digits, no zeros at the end, an exponent where it is shorter.
fn general(value: f64) -> String {
    let rounded = format!("{value:.2e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..3).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (2 - exponent) as usize)).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

fn more(out: &mut String, rows: u64) {
    if rows > 0 {
        let _ = writeln!(out, "<{rows} more rows. Type e.g. '_.more' to view.>");
    }
}

/// A name that does not fit goes on below its column.
fn fold(out: &mut String, numbers: &str, kind: &str) {
    let room = LINE.saturating_sub(numbers.len()).max(1);
    let mut before = numbers.to_owned();
    for line in crate::layout::fold(&escape(kind), room) {
        let _ = writeln!(out, "{before}{line}");
        before = " ".repeat(numbers.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_numbers_are_cs() {
        let known = [
            (7.388_73, "7.39"),
            (2.9, "2.9"),
            (0.0, "0"),
            (-12.345, "-12.3"),
            (100.0, "100"),
            (1234.0, "1.23e+03"),
            (999.9, "1e+03"),
            (0.000_012_345, "1.23e-05"),
        ];
        for (value, text) in known {
            assert_eq!(general(value), text);
        }
    }
}
