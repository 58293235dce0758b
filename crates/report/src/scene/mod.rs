//! A picture before it has a file format: rectangles, areas, lines and text in points, coloured by meaning.
//!
//! [`svg`] writes it for browsers and for the HTML report, [`pdf`] for print, [`png`] draws the SVG: three formats, one
//! picture. A plotting crate would bring its own charts but neither the classes by which a page recolours them in the dark
//! nor limits, bands and doubts as we draw them. The one invariant: text of a target is text in every format.

mod ink;
pub mod pdf;
pub mod png;
pub mod svg;

pub use ink::{Ink, Theme};

/// Of text, in points.
pub(crate) const SMALL: f64 = 11.0;
pub(crate) const NORMAL: f64 = 13.0;
/// Width of an average letter as a share of the text's size: for fitting, not for placing.
const LETTER: f64 = 0.56;

#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    pub width: f64,
    pub height: f64,
    /// Read aloud, and shown where pictures are not.
    pub title: String,
    pub shapes: Vec<Shape>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Rect { x: f64, y: f64, width: f64, height: f64, fill: Ink },
    Area { points: Vec<(f64, f64)>, fill: Ink },
    Line { points: Vec<(f64, f64)>, ink: Ink, width: f64, dashed: bool },
    Text { x: f64, y: f64, text: String, size: f64, anchor: Anchor, ink: Ink },
}

/// Which end of a text is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Scene {
    pub fn new(width: f64, height: f64, title: impl Into<String>) -> Self {
        Self { width, height, title: title.into(), shapes: Vec::new() }
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Ink) {
        self.shapes.push(Shape::Rect { x, y, width: width.max(0.0), height: height.max(0.0), fill });
    }

    pub fn area(&mut self, points: Vec<(f64, f64)>, fill: Ink) {
        if points.len() > 2 {
            self.shapes.push(Shape::Area { points, fill });
        }
    }

    pub fn line(&mut self, points: Vec<(f64, f64)>, ink: Ink, width: f64) {
        if points.len() > 1 {
            self.shapes.push(Shape::Line { points, ink, width, dashed: false });
        }
    }

    pub fn dashed(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        self.shapes.push(Shape::Line { points: vec![from, to], ink, width: 1.5, dashed: true });
    }

    /// Text with its baseline at `at`.
    pub fn text(&mut self, at: (f64, f64), text: &str, anchor: Anchor, ink: Ink) {
        self.sized(at, text, SMALL, anchor, ink);
    }

    pub fn sized(&mut self, (x, y): (f64, f64), text: &str, size: f64, anchor: Anchor, ink: Ink) {
        self.shapes.push(Shape::Text { x, y, text: text.to_owned(), size, anchor, ink });
    }

    /// Puts another picture into this one.
    pub fn place(&mut self, other: Self, dx: f64, dy: f64) {
        self.shapes.extend(other.shapes.into_iter().map(|shape| shape.moved(dx, dy)));
    }
}

impl Shape {
    fn moved(mut self, dx: f64, dy: f64) -> Self {
        match &mut self {
            Self::Rect { x, y, .. } | Self::Text { x, y, .. } => (*x, *y) = (*x + dx, *y + dy),
            Self::Area { points, .. } | Self::Line { points, .. } => {
                for (x, y) in points {
                    (*x, *y) = (*x + dx, *y + dy);
                }
            }
        }
        self
    }
}

/// About how wide a text is.
fn text_width(text: &str, size: f64) -> f64 {
    unicode_width::UnicodeWidthStr::width(text) as f64 * size * LETTER
}

/// What of a text fits, with an ellipsis where some does not; nothing where not even that.
pub(crate) fn fitted(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let letters = (room / (size * LETTER)) as usize;
    if letters < 3 {
        return String::new();
    }
    text.chars().take(letters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_room() {
        assert_eq!(fitted("forward", 10.0, 100.0), "forward");
        assert_eq!(fitted("forward", 10.0, 30.0), "forw…");
        assert_eq!(fitted("forward", 10.0, 10.0), "");
    }

    #[test]
    fn a_placed_picture_moves_as_a_whole() {
        let mut inner = Scene::new(10.0, 10.0, "");
        inner.rect((1.0, 2.0), (3.0, 4.0), Ink::Text);
        inner.line(vec![(0.0, 0.0), (5.0, 5.0)], Ink::Text, 1.0);
        let mut outer = Scene::new(20.0, 20.0, "");
        outer.place(inner, 10.0, 5.0);
        assert_eq!(
            outer.shapes[0],
            Shape::Rect { x: 11.0, y: 7.0, width: 3.0, height: 4.0, fill: Ink::Text }
        );
        assert!(matches!(&outer.shapes[1], Shape::Line { points, .. } if points[1] == (15.0, 10.0)));
    }
}
