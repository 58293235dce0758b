//! The heat map on a terminal: rows of addresses with their owners, columns of time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nilometer_analysis::pages::model::{Picture, PictureRow};

use crate::layout::{Style, Tone};
use crate::text;

/// Rows of the screen that it takes.
const MOST_ROWS: usize = 24;
const LABEL: usize = 24;
const SIZE: usize = 10;
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];
const PLAIN: [char; 5] = ['.', ':', '+', '%', '#'];

/// Nothing for fewer than two columns.
pub(super) fn render(picture: &Picture, style: &Style) -> String {
    let columns = picture.times_s.len();
    if columns < 2 || picture.rows.is_empty() {
        return String::new();
    }
    let width = style.columns().saturating_sub(LABEL + SIZE + 3).min(columns).max(1);
    let mut out = String::from("\n");
    let groups = groups(&picture.rows);
    for group in &groups {
        let bytes: u64 = group.iter().map(|row| row.bytes).sum();
        let label = style.shorten(&style.safe(&name(group)), LABEL);
        let cells: String = (0..width)
            .map(|at| {
                cell(
                    group,
                    at * columns / width..((at + 1) * columns / width).max(at * columns / width + 1),
                    style,
                )
            })
            .collect();
        let _ = writeln!(out, "{label:>LABEL$} {:>SIZE$} {cells}", text::bytes(bytes));
    }
    let [none, little, .., all] = shades(style);
    let mixed = if groups.iter().any(|group| is_mixed(group)) { "; …: with small neighbours" } else { "" };
    let legend = format!(
        "{:>LABEL$} {:>SIZE$} {} to {}; {none} not touched, {little} a little, {all} all{mixed}",
        "",
        "",
        text::duration(picture.times_s.first().copied().unwrap_or(0.0)),
        text::duration(picture.end_s),
    );
    out + &style.paint(&style.safe(&legend), Tone::Faint) + "\n"
}

fn is_mixed(group: &[PictureRow]) -> bool {
    group.windows(2).any(|pair| pair[0].name != pair[1].name)
}

/// Whose most of it is. Where small neighbours share the row, its size and shade are not that owner's alone, and it says so.
fn name(group: &[PictureRow]) -> String {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for row in group {
        *sizes.entry(&row.name).or_default() += row.bytes;
    }
    let largest = sizes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("", |(name, _)| name);
    if is_mixed(group) { format!("{largest}, …") } else { largest.to_owned() }
}

fn shades(style: &Style) -> [char; 5] {
    if style.unicode { SHADES } else { PLAIN }
}

/// Neighbours of one name, so that no more rows are shown than fit; large names keep several.
fn groups(rows: &[PictureRow]) -> Vec<&[PictureRow]> {
    let total: u64 = rows.iter().map(|row| row.bytes).sum();
    let mut share = total / MOST_ROWS as u64;
    loop {
        let groups = grouped(rows, share.max(1));
        if groups.len() <= MOST_ROWS || share > total {
            return groups.into_iter().take(MOST_ROWS).collect();
        }
        share = share * 5 / 4 + 1;
    }
}

fn grouped(rows: &[PictureRow], bytes: u64) -> Vec<&[PictureRow]> {
    let (mut groups, mut first, mut size) = (Vec::new(), 0, 0);
    for (at, row) in rows.iter().enumerate() {
        let named = rows.get(first).is_some_and(|begin| begin.name == row.name);
        // A change of the name ends a group that is worth a row.
        let ends = size + row.bytes > bytes && at > first || !named && size >= bytes / 4;
        if ends {
            groups.push(&rows[first..at]);
            (first, size) = (at, 0);
        }
        size += row.bytes;
    }
    if first < rows.len() {
        groups.push(&rows[first..]);
    }
    groups
}

fn cell(rows: &[PictureRow], columns: std::ops::Range<usize>, style: &Style) -> char {
    let (mut sum, mut weight) = (0.0, 0.0);
    for row in rows {
        for level in row.levels.get(columns.clone()).unwrap_or_default().iter().flatten() {
            sum += f64::from(*level) / 255.0 * row.bytes as f64;
            weight += row.bytes as f64;
        }
    }
    if weight == 0.0 {
        return ' ';
    }
    let share = sum / weight;
    let shade = if share <= 0.0 { 0 } else { 1 + (share * 3.999) as usize };
    shades(style)[shade.min(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small library beside two others, between large heaps: they share a row, which is not the first one's alone.
    #[test]
    fn a_row_of_several_owners_says_so() {
        let row = |name: &str, kib: u64, level: u8| PictureRow {
            name: name.into(),
            start: 0,
            bytes: kib << 10,
            levels: vec![Some(level); 2],
        };
        let rows = vec![
            row("heap", 24 << 10, 255),
            row("liblzma", 100, 0),
            row("libbz2", 60, 0),
            row("libz", 150, 30),
            row("heap", 24 << 10, 255),
        ];
        let picture = Picture { times_s: vec![0.0, 1.0], end_s: 2.0, rows };
        let map = render(&picture, &Style { width: 100, color: false, unicode: true, whole: false });
        let told: Vec<&str> = map.lines().map(str::trim_start).collect();
        assert_eq!(
            told[1..4].iter().map(|line| line.split("  ").next().unwrap()).collect::<Vec<_>>(),
            ["heap", "libz, …", "heap"]
        );
        assert!(told[2].contains("310 KiB ░░"), "{map}");
        assert!(told[4].ends_with("…: with small neighbours"), "{map}");
    }
}
