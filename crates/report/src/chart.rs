//! Area charts in braille dots, or in ASCII: solid up to the lower value, dotted up to the upper one,
//! a dashed line for a limit. Axes in bytes and time.

use nilometer_analysis::model::Series;
use unicode_width::UnicodeWidthStr;

use crate::layout::{Style, Tone, fold};
use crate::text;

const HEIGHT: usize = 10;
const LABEL_WIDTH: usize = 9;

/// What is drawn at one dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Dot {
    #[default]
    Empty,
    Solid,
    Band,
    Limit,
}

#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) legend: &'a str,
    pub(crate) low: &'a Series,
    pub(crate) high: &'a Series,
    pub(crate) limit: Option<u64>,
}

/// Lower and upper value over one column of dots.
type Span = Option<(u64, u64)>;

impl Chart<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.high.points.len() < 2
    }

    /// The chart alone with its axes, in so many columns and rows; none where that is too small.
    pub(crate) fn rows(&self, width: usize, height: usize, style: &Style) -> Vec<String> {
        let columns = width.saturating_sub(LABEL_WIDTH + 2);
        if columns == 0 || height < 2 || self.is_empty() {
            return Vec::new();
        }
        let plain = Style { color: false, ..*style };
        let mut rows = self.body(columns, height - 1, &plain);
        rows.push(self.time_axis(columns, &plain).trim_end().to_owned());
        rows
    }

    fn body(&self, columns: usize, height: usize, style: &Style) -> Vec<String> {
        let (across, down) = if style.unicode { (2, 4) } else { (1, 1) };
        let top = self.top();
        let spans = self.spans(columns * across);
        let canvas = self.draw(&spans, height * down, top);
        let row = |row: usize| {
            let cells: String =
                (0..columns).map(|column| cell(&canvas, column, row, style.unicode)).collect();
            format!("{} {}", axis_label(row, height, top, style), cells).trim_end().to_owned()
        };
        (0..height).map(row).collect()
    }

    pub(crate) fn render(&self, style: &Style) -> String {
        let columns = style.columns() - LABEL_WIDTH - 2;
        let title = style.paint(&style.safe(self.title), Tone::Strong);
        let rows: String = self.body(columns, HEIGHT, style).into_iter().map(|row| row + "\n").collect();
        let indent = format!("\n{}", " ".repeat(LABEL_WIDTH + 1));
        let legend = fold(&style.safe(self.legend), columns).join(&indent);
        let legend = style.paint(&legend, Tone::Faint);
        let time = self.time_axis(columns, style);
        format!("{title}\n{rows}{time}{:LABEL_WIDTH$} {legend}\n", "")
    }

    /// The top of the axis; a limit far above the curve would flatten it and is left out.
    fn top(&self) -> u64 {
        let highest = self.high.points.iter().map(|point| point.max).max().unwrap_or(0).max(1);
        self.shown_limit(highest).map_or(highest, |limit| limit.max(highest))
    }

    fn shown_limit(&self, highest: u64) -> Option<u64> {
        self.limit.filter(|limit| *limit <= highest.saturating_mul(3))
    }

    fn bounds_s(&self) -> (f64, f64) {
        let first = self.high.points.first().map_or(0.0, |point| point.at_s);
        let last = self.high.points.last().map_or(0.0, |point| point.at_s + self.high.width_s);
        (first, last.max(first + 1e-9))
    }

    /// Columns between two samples hold the earlier one.
    fn spans(&self, columns: usize) -> Vec<Span> {
        let (first, last) = self.bounds_s();
        let place =
            |at_s: f64| (((at_s - first) / (last - first) * columns as f64) as usize).min(columns - 1);
        let mut lows: Vec<Option<u64>> = vec![None; columns];
        let mut highs = lows.clone();
        for point in &self.low.points {
            let cell = &mut lows[place(point.at_s)];
            *cell = Some(cell.map_or(point.min, |value| value.min(point.min)));
        }
        for point in &self.high.points {
            let cell = &mut highs[place(point.at_s)];
            *cell = (*cell).max(Some(point.max));
        }
        hold(&mut lows);
        hold(&mut highs);
        lows.into_iter().zip(highs).map(|(low, high)| Some((low?, high?))).collect()
    }

    fn draw(&self, spans: &[Span], rows: usize, top: u64) -> Vec<Vec<Dot>> {
        let dots = |value: u64| (value as f64 / top as f64 * rows as f64).round() as usize;
        let limit = self.limit.filter(|limit| *limit <= top).map(|limit| dots(limit).clamp(1, rows));
        let dot = |column: usize, height: usize, span: Span| {
            let (low, high) = span.map_or((0, 0), |(low, high)| (dots(low), dots(high)));
            match height {
                height if height <= low => Dot::Solid,
                height if height <= high => Dot::Band,
                height if Some(height) == limit && column % 4 < 2 => Dot::Limit,
                _ => Dot::Empty,
            }
        };
        let row = |height: usize| {
            spans.iter().enumerate().map(|(column, span)| dot(column, height, *span)).collect()
        };
        (1..=rows).rev().map(row).collect()
    }

    fn time_axis(&self, columns: usize, style: &Style) -> String {
        let (first, last) = self.bounds_s();
        let labels = [first, f64::midpoint(first, last), last].map(text::duration);
        let room = columns.saturating_sub(labels.iter().map(|label| label.width()).sum());
        let (left, right) = (" ".repeat(room / 2), " ".repeat(room - room / 2));
        let row = format!("{:LABEL_WIDTH$} {}{left}{}{right}{}", "", labels[0], labels[1], labels[2]);
        format!("{}\n", style.paint(&row, Tone::Faint))
    }
}

fn hold(values: &mut [Option<u64>]) {
    let mut last = None;
    for value in values {
        last = value.or(last);
        *value = last;
    }
}

/// The top, the middle and zero are labelled.
fn axis_label(row: usize, height: usize, top: u64, style: &Style) -> String {
    let label = match row {
        0 => text::bytes(top),
        row if row + 1 == height => "0".into(),
        row if row == height / 2 => text::bytes(top / 2),
        _ => String::new(),
    };
    style.paint(&format!("{label:>LABEL_WIDTH$}"), Tone::Faint)
}

fn cell(canvas: &[Vec<Dot>], column: usize, row: usize, unicode: bool) -> char {
    if unicode { braille(canvas, column, row) } else { ascii(canvas[row][column]) }
}

fn ascii(dot: Dot) -> char {
    match dot {
        Dot::Empty => ' ',
        Dot::Solid => '#',
        Dot::Band => ':',
        Dot::Limit => '-',
    }
}

/// Bits of the braille block U+2800, by dot column and dot row.
const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

fn braille(canvas: &[Vec<Dot>], column: usize, row: usize) -> char {
    let mut bits = 0;
    for (x, lane) in BITS.iter().enumerate() {
        for (y, bit) in lane.iter().enumerate() {
            let shown = match canvas[row * 4 + y][column * 2 + x] {
                Dot::Empty => false,
                Dot::Solid | Dot::Limit => true,
                Dot::Band => (x + y) % 2 == 0,
            };
            bits |= if shown { *bit } else { 0 };
        }
    }
    if bits == 0 { ' ' } else { char::from_u32(0x2800 + bits).unwrap_or(' ') }
}
