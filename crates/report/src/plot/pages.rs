//! Touched memory: the working set against what is resident, and the map of addresses by time with named rows.

use nilometer_analysis::pages::model::{Pages, Picture, PictureRow};

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span};
use crate::scene::{Anchor, Ink, NORMAL, SMALL, Scene, fitted};
use crate::text;

const NAMES: f64 = 230.0;
const HEAD: f64 = 34.0;
const ROW: f64 = 12.0;
/// A picture in a file has no use for more cells than this.
const MOST_ROWS: usize = 64;
const MOST_COLUMNS: usize = 120;

/// What was touched within each window, and what was resident.
pub fn working_set(pages: &Pages, size: Size) -> Option<Scene> {
    let (first, last) = (pages.windows.first()?, pages.windows.last()?);
    let highest = pages.windows.iter().map(|window| window.rss_bytes.max(window.wss_bytes)).max()?;
    let x = Span::new(first.at_s, last.at_s + last.effective_s, Unit::Seconds);
    let mut frame = Frame::new("", size, x, Span::up_to(highest as f64, Unit::Bytes));
    frame.scene.title = "Touched and resident memory".into();
    frame.axes();
    let points = |value: fn(&nilometer_analysis::pages::model::Window) -> u64| -> Vec<(f64, f64)> {
        pages.windows.iter().map(|window| frame.at(window.at_s, value(window) as f64)).collect()
    };
    let (resident, touched) = (points(|window| window.rss_bytes), points(|window| window.wss_bytes));
    frame.scene.line(resident, Ink::Rest, 1.5);
    frame.scene.line(touched, Ink::Series(1), 1.5);
    frame.legend(&[("touched in a window".into(), Ink::Series(1)), ("resident".into(), Ink::Rest)]);
    Some(frame.scene)
}

/// Addresses down, time to the right; hotter is darker.
pub fn heat(pages: &Pages, size: Size) -> Option<Scene> {
    let picture = &pages.picture;
    let (rows, columns) = (picture.rows.len().min(MOST_ROWS), picture.times_s.len().min(MOST_COLUMNS));
    if rows == 0 || columns == 0 {
        return None;
    }
    let title = "Touched memory by address (down) and time (right), darker is hotter";
    let mut scene = Scene::new(size.0, HEAD + rows as f64 * ROW + 26.0, title);
    scene.sized((10.0, 20.0), &fitted(title, NORMAL, size.0 - 20.0), NORMAL, Anchor::Start, Ink::Text);
    let room = size.0 - NAMES - 10.0;
    let mut named = String::new();
    for row in 0..rows {
        let group = stretch(&picture.rows, row, rows);
        let y = HEAD + row as f64 * ROW;
        let name = group.first().map_or("", |row| row.name.as_str());
        if name != named {
            let shown = fitted(&text::escape(name), SMALL, NAMES - 14.0);
            scene.text((NAMES - 6.0, y + 10.0), &shown, Anchor::End, Ink::Text);
            name.clone_into(&mut named);
        }
        cells(&mut scene, group, picture, columns, (room, y));
    }
    let bottom = HEAD + rows as f64 * ROW + 16.0;
    let first = picture.times_s.first().copied().unwrap_or(0.0);
    scene.text((NAMES, bottom), &text::duration(first), Anchor::Start, Ink::Faint);
    scene.text((NAMES + room, bottom), &text::duration(picture.end_s), Anchor::End, Ink::Faint);
    Some(scene)
}

/// The n-th of so many equal parts.
fn stretch<T>(all: &[T], number: usize, parts: usize) -> &[T] {
    let at = |n: usize| n * all.len() / parts.max(1);
    all.get(at(number)..at(number + 1)).unwrap_or(&[])
}

/// Neighbours of one shade are one rectangle.
fn cells(scene: &mut Scene, group: &[PictureRow], picture: &Picture, columns: usize, (room, y): (f64, f64)) {
    let all = picture.times_s.len();
    let shade = |column: usize| {
        let (from, to) = (column * all / columns, (column + 1) * all / columns);
        let levels = group.iter().flat_map(|row| row.levels.get(from..to).unwrap_or(&[]));
        levels.flatten().max().map(|level| Ink::Heat(level.div_ceil(17)))
    };
    let width = room / columns as f64;
    let mut column = 0;
    while column < columns {
        let ink = shade(column);
        let end = (column + 1..columns).find(|next| shade(*next) != ink).unwrap_or(columns);
        if let Some(ink) = ink {
            let x = NAMES + column as f64 * width;
            scene.rect((x, y), ((end - column) as f64 * width, ROW - 0.5), ink);
        }
        column = end;
    }
}
