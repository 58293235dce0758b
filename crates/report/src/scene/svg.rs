//! A scene as SVG: for a file with its own colours, or inside a page with classes as well.

use std::fmt::Write as _;

use super::{Anchor, Ink, Scene, Shape, Theme};
use crate::html::markup;

const FONT: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// A whole file.
pub fn render(scene: &Scene, theme: Theme) -> String {
    let ground = format!("<rect width=\"100%\" height=\"100%\" {}/>\n", fill(Ink::Ground, theme));
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", element(scene, theme, &ground))
}

/// For a page: the page's own background, and its colours by class.
pub fn render_inline(scene: &Scene) -> String {
    element(scene, Theme::Light, "")
}

fn element(scene: &Scene, theme: Theme, ground: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let title = markup::escape(&scene.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONT}\">\n<title>{title}</title>\n{ground}"
    );
    for shape in &scene.shapes {
        write_shape(&mut out, shape, theme);
    }
    out + "</svg>\n"
}

fn write_shape(out: &mut String, shape: &Shape, theme: Theme) {
    let _ = match shape {
        Shape::Rect { x, y, width, height, fill: ink } => writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>",
            number(*x),
            number(*y),
            number(*width),
            number(*height),
            fill(*ink, theme)
        ),
        Shape::Area { points, fill: ink } => {
            writeln!(out, "<path d=\"{}Z\" {}/>", path(points), fill(*ink, theme))
        }
        Shape::Line { points, ink, width, dashed } => writeln!(
            out,
            "<path class=\"{} i-line\" d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>",
            ink.class(),
            path(points),
            ink.color(theme),
            number(*width),
            if *dashed { " stroke-dasharray=\"6 4\"" } else { "" }
        ),
        Shape::Text { x, y, text, size, anchor, ink } => writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{} {}>{}</text>",
            number(*x),
            number(*y),
            number(*size),
            anchored(*anchor),
            fill(*ink, theme),
            markup::escape(text)
        ),
    };
}

fn anchored(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    }
}

fn fill(ink: Ink, theme: Theme) -> String {
    let opacity = match ink.opacity() {
        full if full >= 1.0 => String::new(),
        part => format!(" fill-opacity=\"{part}\""),
    };
    format!("class=\"{}\" fill=\"{}\"{opacity}", ink.class(), ink.color(theme))
}

fn path(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{} {}", if place == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    out
}

/// A tenth of a point is finer than any screen.
fn number(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.is_finite() { format!("{rounded}") } else { "0".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut scene = Scene::new(10.0, 10.0, "</title><script>");
        scene.text((1.0, 2.0), "<script>alert(1)</script>\u{1b}&", Anchor::Start, Ink::Text);
        let svg = render(&scene, Theme::Dark);
        assert!(
            !svg.contains("<script") && svg.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{1b}&amp;")
        );
    }

    #[test]
    fn numbers_are_short_and_finite() {
        assert_eq!(number(1.0 / 3.0), "0.3");
        assert_eq!(number(f64::NAN), "0");
        assert_eq!(number(2.0), "2");
    }
}
