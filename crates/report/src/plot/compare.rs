//! Two sides of a comparison: their curves over each other, and what each part of the memory has more or less.

use nilometer_analysis::compare::course::{Axis, Pair};
use nilometer_analysis::compare::part::{PartChange, Parts};
use nilometer_analysis::metric::Unit as Figure;

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span};
use crate::figure;
use crate::scene::{Anchor, Ink, NORMAL, SMALL, Scene, Shape, fitted};
use crate::text;

const ROW: f64 = 22.0;
const HEAD: f64 = 34.0;
const NAMES: f64 = 200.0;
/// For the numbers, on either side of the bars.
const VALUES: f64 = 110.0;
const MOST_ROWS: usize = 16;

/// The base dashed, the other solid: by step, or by time since each one's start.
pub fn course(pair: &Pair, names: (&str, &str), size: Size) -> Option<Scene> {
    let both = || pair.base.iter().chain(&pair.other);
    let first = both().map(|point| point.0).min_by(f64::total_cmp)?;
    let last = both().map(|point| point.0).max_by(f64::total_cmp)?;
    let highest = both().map(|point| point.1).max_by(f64::total_cmp)?;
    let (unit, title) = match pair.axis {
        Axis::Step => (Unit::Number, "Level at the end of each step"),
        Axis::Time => (Unit::Seconds, "Memory over time, since each one's start"),
    };
    let mut frame =
        Frame::new("", size, Span::new(first, last, unit), Span::up_to(highest.max(1.0), Unit::Bytes));
    frame.scene.title = format!("{title}: {} and {}", names.0, names.1);
    frame.axes();
    let points = |side: &[(f64, f64)]| side.iter().map(|point| frame.at(point.0, point.1)).collect();
    let (base, other): (Vec<_>, Vec<_>) = (points(&pair.base), points(&pair.other));
    frame.scene.shapes.push(Shape::Line { points: base, ink: Ink::Series(1), width: 1.5, dashed: true });
    frame.scene.line(other, Ink::Series(0), 1.5);
    let by = if pair.axis == Axis::Step { "by step" } else { "by time" };
    frame.legend(&[
        (format!("{} (dashed), {by}", names.0), Ink::Series(1)),
        (names.1.to_owned(), Ink::Series(0)),
    ]);
    Some(frame.scene)
}

/// Bars to the right are more, to the left less; the largest change first.
pub fn differences(parts: &Parts, size: Size) -> Option<Scene> {
    let shown: Vec<&PartChange> =
        parts.changes.iter().filter(|part| part.bytes().abs() >= 1.0).take(MOST_ROWS).collect();
    let reach = |sign: f64| shown.iter().map(|part| (part.bytes() * sign).max(0.0)).fold(0.0, f64::max);
    let (less, more) = (reach(-1.0), reach(1.0));
    if less + more <= 0.0 {
        return None;
    }
    let what = if parts.of_ledger { "Lines of the ledger" } else { "Kinds of mapping" };
    let title = format!("{what} near the peak: what changed");
    let mut scene = Scene::new(size.0, HEAD + ROW * shown.len() as f64 + 8.0, &title);
    scene.sized((10.0, 20.0), &fitted(&title, NORMAL, size.0 - 20.0), NORMAL, Anchor::Start, Ink::Text);
    let room = (size.0 - NAMES - 2.0 * VALUES).max(20.0);
    let zero = NAMES + VALUES + less / (less + more) * room;
    let foot = HEAD + ROW * shown.len() as f64;
    scene.line(vec![(zero, HEAD), (zero, foot)], Ink::Faint, 1.0);
    for (row, part) in shown.iter().enumerate() {
        let y = HEAD + row as f64 * ROW;
        let name = fitted(&text::escape(&part.name), SMALL, NAMES - 18.0);
        scene.text((NAMES - 8.0, y + 14.0), &name, Anchor::End, Ink::Text);
        let width = (part.bytes().abs() / (less + more) * room).max(1.0);
        let grew = part.bytes() > 0.0;
        let (left, ink) = if grew { (zero, Ink::Series(5)) } else { (zero - width, Ink::Series(2)) };
        scene.rect((left, y + 3.0), (width, ROW - 6.0), ink);
        let value = figure::signed(Figure::Bytes, part.bytes());
        let (x, anchor) = if grew { (left + width + 6.0, Anchor::Start) } else { (left - 6.0, Anchor::End) };
        scene.text((x, y + 14.0), &value, anchor, Ink::Faint);
    }
    Some(scene)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::svg;

    fn part(name: &str, base_bytes: f64, other_bytes: f64) -> PartChange {
        PartChange { name: name.to_owned(), base_bytes, other_bytes }
    }

    #[test]
    fn more_is_to_the_right_and_less_to_the_left() {
        let mib = f64::from(1 << 20);
        let changes = vec![
            part("arrays", 0.0, 30.0 * mib),
            part("held", 20.0 * mib, 10.0 * mib),
            part("code", 5.0, 5.0),
        ];
        let scene = differences(&Parts { of_ledger: true, changes }, (960.0, 300.0)).unwrap();
        let rects: Vec<(f64, f64)> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Rect { x, width, .. } => Some((*x, *width)),
                _ => None,
            })
            .collect();
        assert_eq!(rects.len(), 2, "what did not change has no bar");
        let zero = rects[0].0;
        assert!(
            (rects[1].0 + rects[1].1 - zero).abs() < 1e-9 && (rects[0].1 / rects[1].1 - 3.0).abs() < 1e-9
        );
        let drawn = svg::render(&scene, crate::scene::Theme::Light);
        assert!(drawn.contains("+30.0 MiB") && drawn.contains("-10.0 MiB"), "{drawn}");
    }

    #[test]
    fn both_curves_are_there_and_nothing_is_nothing() {
        let pair = Pair {
            axis: Axis::Step,
            base: vec![(1.0, 10.0), (2.0, 20.0)],
            other: vec![(1.0, 5.0), (3.0, 40.0)],
        };
        let scene = course(&pair, ("<a>", "b"), (960.0, 300.0)).unwrap();
        let lines =
            scene.shapes.iter().filter(|it| matches!(it, Shape::Line { ink: Ink::Series(_), .. })).count();
        assert_eq!(lines, 2);
        assert!(!svg::render(&scene, crate::scene::Theme::Light).contains("<a>"));
        assert_eq!(differences(&Parts::default(), (960.0, 300.0)), None);
        let empty = Pair { axis: Axis::Time, base: Vec::new(), other: Vec::new() };
        assert_eq!(course(&empty, ("a", "b"), (960.0, 300.0)), None);
    }
}
