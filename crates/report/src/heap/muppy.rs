//! Tables as Pympler's muppy prints them, to the byte. Sizes are header and payload together; negative ones are not
//! scaled, because there they are not either.

use std::cmp::Reverse;

use nilometer_analysis::heap::model::{Diff, Table};
use unicode_width::UnicodeWidthStr;

use crate::text::escape;

/// What muppy shows, and says nothing of the rest.
pub const ROWS: usize = 15;

type Cells = [String; 3];

/// `types | # objects | total size`.
pub fn table(table: &Table) -> String {
    let rows = table.rows.iter().map(|row| {
        let bytes = row.bytes.saturating_add(row.payload_bytes) as i64;
        (row.kind.as_str(), row.count as i64, bytes)
    });
    render(rows.collect(), None)
}

/// The same of changes, growth first, at most `top`.
pub fn diff(diff: &Diff, top: Option<usize>) -> String {
    let rows = diff.rows.iter().map(|row| {
        let bytes = row.change.bytes.saturating_add(row.change.payload_bytes);
        (row.kind.as_str(), row.change.count, bytes)
    });
    render(rows.collect(), top)
}

fn render(mut rows: Vec<(&str, i64, i64)>, top: Option<usize>) -> String {
    rows.sort_by_key(|row| Reverse(row.2));
    rows.truncate(top.unwrap_or(usize::MAX));
    let mut cells: Vec<Cells> = vec![["types".into(), "# objects".into(), "total size".into()]];
    cells.extend(rows.iter().map(|row| [escape(row.0), row.1.to_string(), scaled(row.2)]));
    let widths = [0, 1, 2].map(|column| cells.iter().map(|row| row[column].width()).max().unwrap_or(0) + 2);
    let mut lines: Vec<String> = cells.iter().map(|row| line(row, widths)).collect();
    lines.insert(1, widths.map(|width| "=".repeat(width)).join(" | "));
    lines.join("\n") + "\n"
}

fn line(cells: &Cells, widths: [usize; 3]) -> String {
    let cell = |column: usize| {
        let text = &cells[column];
        " ".repeat(widths[column] - text.width()) + text
    };
    [cell(0), cell(1), cell(2)].join(" | ")
}

/// `4.06 MB` in powers of 1024, `112     B`.
fn scaled(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "EB"];
    if bytes <= 1024 {
        return format!("{bytes:4}     B");
    }
    let (mut value, mut unit) = (bytes as f64, 0);
    while value > 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:7.2} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_pympler() {
        let known = [
            (0, "   0     B"),
            (112, " 112     B"),
            (1024, "1024     B"),
            (1025, "   1.00 KB"),
            (11_938_880, "  11.39 MB"),
            (-147_456, "-147456     B"),
        ];
        for (bytes, text) in known {
            assert_eq!(scaled(bytes), text);
        }
    }
}
