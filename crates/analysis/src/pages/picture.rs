//! The heat map in a size that can be drawn: rows and columns that are too many are averaged.

use super::heat::{Heat, Row};
use super::mapping::Names;
use super::model::{Picture, PictureRow};

pub(super) const MOST_ROWS: usize = 1024;
pub(super) const MOST_COLUMNS: usize = 2048;

/// `times_s`: when each window began.
pub(super) fn picture(heat: &Heat, names: &Names, times_s: &[f64], end_s: f64) -> Picture {
    let windows = heat.windows() as usize;
    let per_column = windows.div_ceil(MOST_COLUMNS).max(1);
    let total: u64 = heat.rows().map(|row| row.resident_bytes).sum();
    let mut picture = Picture { end_s, ..Picture::default() };
    picture.times_s = times_s.iter().step_by(per_column).copied().collect();
    for group in groups(heat, names, total.div_ceil(MOST_ROWS as u64).max(1)) {
        let Some(first) = group.1.first() else { continue };
        let levels = (0..windows).step_by(per_column).map(|from| average(&group.1, from, per_column));
        picture.rows.push(PictureRow {
            name: group.0.to_owned(),
            start: first.start,
            bytes: group.1.iter().map(|row| row.resident_bytes).sum(),
            levels: levels.collect(),
        });
    }
    picture
}

/// Rows in order of address; neighbours of one name are put together up to a size.
fn groups<'a>(heat: &'a Heat, names: &'a Names, bytes: u64) -> Vec<(&'a str, Vec<&'a Row>)> {
    let mut groups: Vec<(&str, Vec<&Row>)> = Vec::new();
    let mut size = 0;
    for row in heat.rows() {
        let name = names.of(row.pid, row.start, row.end, row.mapping);
        match groups.last_mut() {
            Some((last, rows)) if *last == name && size + row.resident_bytes <= bytes => rows.push(row),
            // Names alternate in small pieces: the picture stays within its rows.
            Some((_, rows)) if size + row.resident_bytes <= bytes / 4 => rows.push(row),
            _ => {
                groups.push((name, vec![row]));
                size = 0;
            }
        }
        size += row.resident_bytes;
    }
    groups
}

fn average(rows: &[&Row], from: usize, windows: usize) -> Option<u8> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for window in from..from + windows {
        for row in rows {
            if let Some(share) = row.level(window as u32).share() {
                let bytes = row.resident_bytes.max(1) as f64;
                sum += share * bytes;
                weight += bytes;
            }
        }
    }
    (weight > 0.0).then(|| {
        let level = (sum / weight * 255.0).round() as u8;
        if sum > 0.0 { level.max(1) } else { 0 }
    })
}
