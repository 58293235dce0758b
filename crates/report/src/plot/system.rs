//! The machine while a run lasted: five panels of what is free and what is used, and all series of the kernel on one chart.

use nilometer_analysis::model::NamedSeries;

use super::Size;
use super::axis::Unit;
use super::frame::{Frame, Span};
use super::run::curve;
use crate::scene::{Anchor, Ink, Scene, fitted};
use crate::text;

/// Memory in use without buffers and cache, and the kernel's own names.
const PANELS: [(&str, &str); 5] = [
    ("used_less_buffers_cache", "In use without buffers and cache"),
    ("MemFree", "MemFree"),
    ("Buffers", "Buffers"),
    ("Cached", "Cached"),
    ("swap", "Swap in use"),
];
const LEGEND_ROW: f64 = 14.0;
const LEGEND_COLUMNS: usize = 7;

/// One panel below the other, each as high as `size` says.
pub fn system(series: &[NamedSeries], size: Size) -> Option<Scene> {
    let found: Vec<(&NamedSeries, &str)> = PANELS
        .iter()
        .filter_map(|(name, title)| Some((series.iter().find(|one| one.name == *name)?, *title)))
        .collect();
    let mut whole = Scene::new(size.0, 0.0, "Memory of the machine");
    for (one, title) in found {
        let Some(panel) = panel(one, title, size) else { continue };
        let top = whole.height;
        whole.height += panel.height;
        whole.place(panel, 0.0, top);
    }
    (whole.height > 0.0).then_some(whole)
}

fn panel(series: &NamedSeries, title: &str, size: Size) -> Option<Scene> {
    let mut frame = Frame::new(title, size, time(std::slice::from_ref(series))?, top(&[series])?);
    frame.axes();
    let points = curve(&frame, &series.series, |point| point.max);
    frame.scene.line(points, Ink::Series(0), 1.5);
    Some(frame.scene)
}

/// Every series that the kernel tells in kB.
pub fn system_all(series: &[NamedSeries], size: Size) -> Option<Scene> {
    let mut shown: Vec<&NamedSeries> = series.iter().filter(|one| !one.series.points.is_empty()).collect();
    let highest = |one: &NamedSeries| one.series.points.iter().map(|point| point.max).max().unwrap_or(0);
    // Address space is not memory: it would flatten all the others.
    shown.retain(|one| !one.name.starts_with("Vmalloc") && !one.name.starts_with("DirectMap"));
    shown.sort_by_key(|one| std::cmp::Reverse(highest(one)));
    let mut frame = Frame::new("All series of the machine", size, time(series)?, top(&shown)?);
    frame.axes();
    for (number, one) in shown.iter().enumerate() {
        let points = curve(&frame, &one.series, |point| point.max);
        frame.scene.line(points, Ink::Series(number), 1.0);
    }
    let mut scene = frame.scene;
    legend(&mut scene, &shown);
    Some(scene)
}

fn legend(scene: &mut Scene, shown: &[&NamedSeries]) {
    let (top, room) = (scene.height + 4.0, scene.width / LEGEND_COLUMNS as f64);
    for (number, one) in shown.iter().enumerate() {
        let x = (number % LEGEND_COLUMNS) as f64 * room + 6.0;
        let y = top + (number / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        scene.rect((x, y), (8.0, 8.0), Ink::Series(number));
        let name = fitted(&text::escape(&one.name), 10.0, room - 20.0);
        scene.sized((x + 12.0, y + 8.0), &name, 10.0, Anchor::Start, Ink::Text);
    }
    scene.height = top + shown.len().div_ceil(LEGEND_COLUMNS) as f64 * LEGEND_ROW + 6.0;
}

fn time(series: &[NamedSeries]) -> Option<Span> {
    let first = series.iter().filter_map(|one| one.series.points.first()).map(|point| point.at_s);
    let last = series.iter().filter_map(|one| one.series.points.last()).map(|point| point.at_s);
    Some(Span::new(first.min_by(f64::total_cmp)?, last.max_by(f64::total_cmp)?, Unit::Seconds))
}

fn top(series: &[&NamedSeries]) -> Option<Span> {
    let highest = series.iter().flat_map(|one| &one.series.points).map(|point| point.max).max()?;
    Some(Span::up_to(highest as f64, Unit::Bytes))
}
