//! Plain tables: columns as wide as their widest cell, the one text column takes what is left.

use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use crate::layout::{Style, Tone};

/// A table whose last column is text and may be shortened; all others are numbers, right-aligned,
/// the most important first: where the screen is narrow the others go.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

const GAP: usize = 2;
/// Room that the text column is left at least.
const LEAST_TEXT: usize = 12;
/// Of a row that nobody limits; a command line can have megabytes.
const LONGEST: usize = 1000;

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|head| (*head).to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn render(&self, style: &Style) -> String {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| style.safe(cell)).collect()).collect();
        let widths: Vec<usize> = (0..self.heads.len()).map(|column| self.width(&rows, column)).collect();
        let kept = kept(&widths, room(style));
        let heads: Vec<String> = self.heads.iter().map(|head| style.safe(head)).collect();
        let mut out = style.paint(&line(&heads, &widths, &kept, style), Tone::Faint) + "\n";
        for row in &rows {
            out += &line(row, &widths, &kept, style);
            out.push('\n');
        }
        out
    }

    fn width(&self, rows: &[Vec<String>], column: usize) -> usize {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width());
        cells.max().unwrap_or(0).max(self.heads[column].width())
    }
}

fn room(style: &Style) -> usize {
    if style.whole { LONGEST } else { style.columns() }
}

/// Number columns that fit beside a text of some length; the most important come first.
fn kept(widths: &[usize], columns: usize) -> Range<usize> {
    let mut numbers = widths.len().saturating_sub(1);
    let taken = |numbers: usize| widths[..numbers].iter().map(|width| width + GAP).sum::<usize>() + 1;
    while numbers > 1 && taken(numbers) + LEAST_TEXT > columns {
        numbers -= 1;
    }
    0..numbers
}

fn line(cells: &[String], widths: &[usize], kept: &Range<usize>, style: &Style) -> String {
    let mut out = " ".to_owned();
    for (cell, width) in cells[kept.clone()].iter().zip(widths) {
        out += &" ".repeat(width.saturating_sub(cell.width()));
        out += cell;
        out += &" ".repeat(GAP);
    }
    let room = room(style).saturating_sub(out.width()).max(1);
    out += &cells.last().map(|cell| style.shorten(cell, room)).unwrap_or_default();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_align_right_and_text_is_shortened() {
        let mut table = Table::new(&["pid", "role"]);
        table.row(vec!["7".into(), "main".into()]);
        table.row(vec!["4711".into(), "x".repeat(60)]);
        let text = table.render(&Style { width: 40, color: false, unicode: true, whole: false });
        assert!(text.starts_with("  pid  role\n    7  main\n 4711  xxx"));
        assert!(text.lines().all(|line| line.width() <= 40) && text.contains('…'));
        let whole = table.render(&Style { width: 40, color: false, unicode: true, whole: true });
        assert!(whole.contains(&"x".repeat(60)) && !whole.contains('…'), "{whole}");
    }
}
