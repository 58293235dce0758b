//! Named amounts, one bar each: categories, kinds of object, libraries.

use nilometer_analysis::allocs::model::Category;

use super::Size;
use crate::scene::{Anchor, Ink, NORMAL, SMALL, Scene, fitted};
use crate::text;

const ROW: f64 = 22.0;
const HEAD: f64 = 34.0;
const NAMES: f64 = 250.0;
const VALUES: f64 = 120.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    pub bytes: f64,
    pub ink: Ink,
    /// Where the bar begins: the end of the one before it in a waterfall.
    pub from: f64,
    /// Beside the value.
    pub note: String,
}

/// What memory was for, at the peak.
pub fn categories(all: &[Category], size: Size) -> Option<Scene> {
    let bar = |(number, category): (usize, &Category)| Bar {
        name: category.category.clone(),
        bytes: category.peak_bytes as f64,
        ink: Ink::Series(number),
        from: 0.0,
        note: String::new(),
    };
    let drawn: Vec<Bar> = all.iter().filter(|it| it.peak_bytes > 0).enumerate().map(bar).collect();
    bars("Live at the peak by category", &drawn, size)
}

/// As high as its rows; `size` says how wide and how many fit.
pub fn bars(title: &str, bars: &[Bar], size: Size) -> Option<Scene> {
    let ends = |bar: &Bar| bar.from.max(bar.from + bar.bytes);
    let whole = bars.iter().map(ends).max_by(f64::total_cmp).filter(|whole| *whole > 0.0)?;
    let mut scene = Scene::new(size.0, HEAD + ROW * bars.len() as f64 + 8.0, title);
    let shown = fitted(&text::escape(title), NORMAL, size.0 - 20.0);
    scene.sized((10.0, 20.0), &shown, NORMAL, Anchor::Start, Ink::Text);
    let room = size.0 - NAMES - VALUES;
    for (row, bar) in bars.iter().enumerate() {
        let y = HEAD + row as f64 * ROW;
        let name = fitted(&text::escape(&bar.name), SMALL, NAMES - 18.0);
        scene.text((NAMES - 8.0, y + 14.0), &name, Anchor::End, Ink::Text);
        let (low, high) = (bar.from.min(bar.from + bar.bytes), ends(bar));
        let (left, width) = (NAMES + low / whole * room, ((high - low) / whole * room).max(1.0));
        scene.rect((left, y + 3.0), (width, ROW - 6.0), bar.ink);
        let sign = if bar.bytes < 0.0 { "-" } else { "" };
        let value = format!("{sign}{}{}", text::bytes(bar.bytes.abs() as u64), bar.note);
        scene.text((left + width + 6.0, y + 14.0), &value, Anchor::Start, Ink::Faint);
    }
    Some(scene)
}
