//! Touched memory: the working set against what is resident, what a smaller memory would miss, and maps with named rows.

use nilometer_analysis::pages::curve::Point;
use nilometer_analysis::pages::model::{How, Pages, Picture, PictureRow};
use nilometer_analysis::rank::Job;
use nilometer_analysis::rank::strip::Strip;

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span};
use crate::pages::trace;
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

/// With so much memory, least recently used out first, this share of touches would miss: between two bounds where the
/// order of touches within a window is not known, one curve of a trace.
pub fn misses(pages: &Pages, size: Size) -> Option<Scene> {
    let reuse = pages.reuse.as_ref()?;
    let ends = |points: &[Point]| Some((points.first()?.distance_bytes, points.last()?.distance_bytes));
    let (low, high) = ends(&reuse.lower).zip(ends(&reuse.upper))?;
    let resident = pages.windows.iter().map(|window| window.rss_bytes).max().unwrap_or(0);
    let log = |bytes: u64| (bytes.max(1) as f64).log2();
    let first = log(low.0.min(high.0).min(reuse.unit_bytes.max(1)));
    let x = Span::new(first, log(low.1.max(high.1).max(resident)), Unit::Doublings);
    let title = "Touches that would miss, by how much may stay resident";
    let mut frame = Frame::new(title, size, x, Span::new(0.0, 1.0, Unit::Share));
    frame.axes();
    let at_most = stairs(&frame, &reuse.upper, log);
    if reuse.how == How::Bounds {
        let at_least = stairs(&frame, &reuse.lower, log);
        let mut between = at_most.clone();
        between.extend(at_least.iter().rev());
        frame.scene.area(between, Ink::Band(0));
        frame.scene.line(at_least, Ink::Series(2), 1.5);
    }
    frame.scene.line(at_most, Ink::Series(0), 1.5);
    if resident > 0 {
        let x = frame.at_x(log(resident));
        let (top, bottom) = (frame.at_y(1.0), frame.at_y(0.0));
        frame.scene.dashed((x, top), (x, bottom), Ink::Flag);
        let name = format!("resident {}", text::bytes(resident));
        frame.scene.text((x - 6.0, top + 24.0), &name, Anchor::End, Ink::Flag);
    }
    let how = if reuse.how == How::Bounds { "at most".into() } else { trace::how(reuse) };
    let cold =
        format!("{how} (the first touch of a page, {}, always misses)", trace::percent(reuse.cold_share));
    let at_least = (reuse.how == How::Bounds).then(|| ("at least".into(), Ink::Series(2)));
    frame.legend(&[(cold, Ink::Series(0))].into_iter().chain(at_least).collect::<Vec<_>>());
    Some(frame.scene)
}

/// A memory helps from a distance on: flat until then, and it falls there.
fn stairs(frame: &Frame, points: &[Point], log: impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let mut miss = 1.0;
    let mut path = vec![frame.at(frame.x.low, miss)];
    for point in points {
        let x = log(point.distance_bytes);
        path.push(frame.at(x, miss));
        miss = 1.0 - point.share;
        path.push(frame.at(x, miss));
    }
    path.push(frame.at(frame.x.high, miss));
    path
}

/// Addresses down, time to the right; hotter is darker.
pub fn heat(pages: &Pages, size: Size) -> Option<Scene> {
    rows(&pages.picture, "Touched memory by address (down) and time (right), darker is hotter", size)
}

/// Ranks down, time to the right; darker is more.
pub fn ranks(job: &Job, size: Size) -> Option<Scene> {
    let strip = Strip::of(job, MOST_ROWS)?;
    let full = text::bytes(strip.full_bytes);
    rows(&strip.picture, &format!("Memory of the ranks since each one's start, darkest is {full}"), size)
}

/// Named rows, time to the right.
fn rows(picture: &Picture, title: &str, size: Size) -> Option<Scene> {
    let (rows, columns) = (picture.rows.len().min(MOST_ROWS), picture.times_s.len().min(MOST_COLUMNS));
    if rows == 0 || columns == 0 {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Shape;
    use nilometer_analysis::pages::model::{Reuse, Window};

    fn pages() -> Pages {
        let point = |pages: u64, share: f64| Point { distance_bytes: pages * 4096, share };
        Pages {
            windows: vec![Window { rss_bytes: 64 * 4096, ..Window::default() }],
            reuse: Some(Reuse {
                unit_bytes: 4096,
                cold_share: 0.25,
                lower: vec![point(1, 0.5), point(4, 0.75)],
                upper: vec![point(8, 0.25), point(32, 0.75)],
                ..Reuse::default()
            }),
            ..Pages::default()
        }
    }

    #[test]
    fn misses_fall_at_distances_and_never_rise() {
        let scene = misses(&pages(), (960.0, 300.0)).unwrap();
        let curve = |series: usize| {
            let found = scene.shapes.iter().find_map(|shape| match shape {
                Shape::Line { points, ink, .. } if *ink == Ink::Series(series) => Some(points.clone()),
                _ => None,
            });
            found.unwrap()
        };
        let (at_most, at_least) = (curve(0), curve(2));
        // Both begin where all touches miss and end where only first touches do.
        assert_eq!((at_most.first(), at_most.last()), (at_least.first(), at_least.last()));
        let falls = |points: &[(f64, f64)]| points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1);
        assert!(falls(&at_most) && falls(&at_least));
        let all: f64 = at_most.last().unwrap().1 - at_most.first().unwrap().1;
        assert!(
            ((at_most[2].1 - at_most[1].1) / all - 1.0 / 3.0).abs() < 1e-9,
            "a quarter of three quarters"
        );
        let drawn = crate::scene::svg::render(&scene, crate::scene::Theme::Light);
        assert!(drawn.contains("resident 256 KiB") && drawn.contains("25 %"), "{drawn}");
    }

    #[test]
    fn a_trace_has_one_curve() {
        let mut pages = pages();
        pages.reuse.as_mut().unwrap().how = How::Exact;
        let scene = misses(&pages, (960.0, 300.0)).unwrap();
        let is_of =
            |shape: &Shape, series| matches!(shape, Shape::Line { ink, .. } if *ink == Ink::Series(series));
        assert!(scene.shapes.iter().any(|shape| is_of(shape, 0)));
        assert!(!scene.shapes.iter().any(|shape| is_of(shape, 2)));
        let drawn = crate::scene::svg::render(&scene, crate::scene::Theme::Light);
        assert!(drawn.contains("exact (the first touch") && !drawn.contains("at least"), "{drawn}");
    }

    #[test]
    fn without_distances_there_is_no_curve() {
        assert_eq!(misses(&Pages::default(), (960.0, 300.0)), None);
        let nothing = Pages { reuse: Some(Reuse::default()), ..Pages::default() };
        assert_eq!(misses(&nothing, (960.0, 300.0)), None);
    }
}
