//! Axes, grid and title around a chart, and the way from values to points on the paper.

use super::axis::Unit;
use crate::scene::{Anchor, Ink, NORMAL, Scene, fitted};
use crate::text;

pub(super) const LEFT: f64 = 76.0;
const RIGHT: f64 = 18.0;
pub(super) const TOP: f64 = 34.0;
const BOTTOM: f64 = 30.0;

/// What an axis shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub low: f64,
    pub high: f64,
    pub unit: Unit,
}

impl Span {
    /// Never empty, so that there is something to divide by.
    pub fn new(low: f64, high: f64, unit: Unit) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, unit }
    }

    /// From zero to a little above the highest value.
    pub fn up_to(high: f64, unit: Unit) -> Self {
        Self::new(0.0, high * 1.06, unit)
    }
}

#[derive(Debug)]
pub struct Frame {
    pub scene: Scene,
    pub x: Span,
    pub y: Span,
}

impl Frame {
    pub fn new(title: &str, (width, height): (f64, f64), x: Span, y: Span) -> Self {
        let mut scene = Scene::new(width, height, title);
        let shown = fitted(&text::escape(title), NORMAL, width - LEFT - RIGHT);
        scene.sized((LEFT, 20.0), &shown, NORMAL, Anchor::Start, Ink::Text);
        Self { scene, x, y }
    }

    pub fn right(&self) -> f64 {
        self.scene.width - RIGHT
    }

    pub fn bottom(&self) -> f64 {
        self.scene.height - BOTTOM
    }

    pub fn at_x(&self, value: f64) -> f64 {
        let share = ((value - self.x.low) / (self.x.high - self.x.low)).clamp(0.0, 1.0);
        LEFT + share * (self.right() - LEFT)
    }

    pub fn at_y(&self, value: f64) -> f64 {
        let share = ((value - self.y.low) / (self.y.high - self.y.low)).clamp(0.0, 1.0);
        self.bottom() - share * (self.bottom() - TOP)
    }

    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.at_x(x), self.at_y(y))
    }

    /// Grid and labels; called before the curves, so that these are on top.
    pub fn axes(&mut self) {
        let (left, right, top, bottom) = (LEFT, self.right(), TOP, self.bottom());
        for tick in self.y.unit.ticks(self.y.low, self.y.high) {
            let y = self.at_y(tick);
            self.scene.line(vec![(left, y), (right, y)], Ink::Grid, 1.0);
            self.scene.text((left - 8.0, y + 4.0), &self.y.unit.label(tick), Anchor::End, Ink::Faint);
        }
        for tick in self.x.unit.ticks(self.x.low, self.x.high) {
            let x = self.at_x(tick);
            self.scene.line(vec![(x, bottom), (x, bottom + 4.0)], Ink::Faint, 1.0);
            self.scene.text((x, bottom + 18.0), &self.x.unit.label(tick), Anchor::Middle, Ink::Faint);
        }
        self.scene.line(vec![(left, top), (left, bottom), (right, bottom)], Ink::Faint, 1.0);
    }

    /// A level that must not be crossed, with its name.
    pub fn limit(&mut self, value: f64, name: &str) {
        if value > self.y.high {
            return;
        }
        let y = self.at_y(value);
        let (left, right) = (LEFT, self.right());
        self.scene.dashed((left, y), (right, y), Ink::Limit);
        self.scene.text((right, y - 5.0), name, Anchor::End, Ink::Limit);
    }

    /// A point worth a word.
    pub fn flag(&mut self, x: f64, y: f64, name: &str) {
        let (px, py) = self.at(x, y);
        let is_right = px > f64::midpoint(LEFT, self.right());
        let (anchor, dx) = if is_right { (Anchor::End, -8.0) } else { (Anchor::Start, 8.0) };
        self.scene.rect((px - 3.5, py - 3.5), (7.0, 7.0), Ink::Flag);
        self.scene.text((px + dx, (py - 8.0).max(TOP + 8.0)), name, anchor, Ink::Flag);
    }

    /// Names of the curves, above the chart to the right.
    pub fn legend(&mut self, names: &[(String, Ink)]) {
        let room = (self.right() - LEFT) / names.len().max(1) as f64;
        for (place, (name, ink)) in names.iter().enumerate() {
            let x = LEFT + place as f64 * room;
            let y = TOP - 2.0;
            self.scene.rect((x, y - 8.0), (9.0, 9.0), *ink);
            let shown = fitted(&text::escape(name), 11.0, room - 18.0);
            self.scene.text((x + 13.0, y), &shown, Anchor::Start, Ink::Text);
        }
    }
}
