//! A scene as PDF: one page, text as text in the Helvetica that every reader has.

use pdf_writer::{Content, Finish as _, Name, Pdf, Rect, Ref, Str, TextStr};

use super::{Anchor, Ink, Scene, Shape, Theme};
use crate::text;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const FONT: Ref = Ref::new(4);
const CONTENT: Ref = Ref::new(5);
const FAINT: Ref = Ref::new(6);
const INFO: Ref = Ref::new(7);
const FONT_NAME: Name<'static> = Name(b"F1");
const FAINT_NAME: Name<'static> = Name(b"G1");

pub fn render(scene: &Scene, theme: Theme) -> Vec<u8> {
    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut page = pdf.page(PAGE);
    page.media_box(Rect::new(0.0, 0.0, scene.width as f32, scene.height as f32));
    page.parent(PAGES).contents(CONTENT);
    let mut resources = page.resources();
    resources.fonts().pair(FONT_NAME, FONT);
    resources.ext_g_states().pair(FAINT_NAME, FAINT);
    resources.finish();
    page.finish();
    let mut font = pdf.type1_font(FONT);
    font.base_font(Name(b"Helvetica")).encoding_predefined(Name(b"WinAnsiEncoding"));
    font.finish();
    pdf.ext_graphics(FAINT).non_stroking_alpha(Ink::Band(0).opacity() as f32);
    pdf.document_info(INFO).title(TextStr(&text::escape(&scene.title))).producer(TextStr("nilo"));
    pdf.stream(CONTENT, &content(scene, theme));
    pdf.finish()
}

fn content(scene: &Scene, theme: Theme) -> Vec<u8> {
    let mut content = Content::new();
    let ground = Shape::Rect { x: 0.0, y: 0.0, width: scene.width, height: scene.height, fill: Ink::Ground };
    for shape in std::iter::once(&ground).chain(&scene.shapes) {
        draw(&mut content, shape, scene.height, theme);
    }
    content.finish().to_vec()
}

/// PDF counts from the bottom.
fn draw(content: &mut Content, shape: &Shape, height: f64, theme: Theme) {
    let up = |y: f64| (height - y) as f32;
    content.save_state();
    match shape {
        Shape::Rect { x, y, width, height, fill } => {
            set_fill(content, *fill, theme);
            content.rect(*x as f32, up(y + height), *width as f32, *height as f32).fill_nonzero();
        }
        Shape::Area { points, fill } => {
            set_fill(content, *fill, theme);
            trace(content, points, up);
            content.close_path().fill_nonzero();
        }
        Shape::Line { points, ink, width, dashed } => {
            let [red, green, blue] = rgb(ink.color(theme));
            content.set_stroke_rgb(red, green, blue).set_line_width(*width as f32);
            if *dashed {
                content.set_dash_pattern([6.0, 4.0], 0.0);
            }
            trace(content, points, up);
            content.stroke();
        }
        Shape::Text { x, y, text, size, anchor, ink } => {
            set_fill(content, *ink, theme);
            let bytes = win_ansi(text);
            let width = width_of(&bytes, *size);
            let left = match anchor {
                Anchor::Start => *x,
                Anchor::Middle => x - width / 2.0,
                Anchor::End => x - width,
            };
            content.begin_text().set_font(FONT_NAME, *size as f32).next_line(left as f32, up(*y));
            content.show(Str(&bytes)).end_text();
        }
    }
    content.restore_state();
}

fn set_fill(content: &mut Content, ink: Ink, theme: Theme) {
    let [red, green, blue] = rgb(ink.color(theme));
    content.set_fill_rgb(red, green, blue);
    if ink.opacity() < 1.0 {
        content.set_parameters(FAINT_NAME);
    }
}

fn trace(content: &mut Content, points: &[(f64, f64)], up: impl Fn(f64) -> f32) {
    for (place, (x, y)) in points.iter().enumerate() {
        if place == 0 {
            content.move_to(*x as f32, up(*y));
        } else {
            content.line_to(*x as f32, up(*y));
        }
    }
}

/// `#rrggbb` in parts of one.
fn rgb(color: &str) -> [f32; 3] {
    let value = u32::from_str_radix(color.trim_start_matches('#'), 16).unwrap_or(0);
    [16, 8, 0].map(|shift| (value >> shift & 0xff) as f32 / 255.0)
}

/// The encoding of the standard fonts: Latin, and our own signs; what it lacks has a look-alike or is a question mark.
fn win_ansi(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for letter in text::escape(text).chars() {
        match letter {
            '–' => bytes.push(0x96),
            '…' => bytes.push(0x85),
            '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{ff}' => bytes.push(letter as u32 as u8),
            other => bytes.extend(text::ascii(&other.to_string()).into_bytes()),
        }
    }
    bytes
}

/// Widths of Helvetica from the space on, in thousandths of its size (Adobe's metrics).
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

fn width_of(bytes: &[u8], size: f64) -> f64 {
    let width = |byte: &u8| match byte {
        0x85 => 1000,
        other => WIDTHS.get(usize::from(other.saturating_sub(32))).copied().unwrap_or(556),
    };
    bytes.iter().map(width).map(f64::from).sum::<f64>() * size / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_signs_have_codes_and_others_look_alikes() {
        assert_eq!(win_ansi("1–2 … ±×·"), b"1\x962 \x85 \xb1\xd7\xb7");
        assert_eq!(win_ansi("≈日→"), b"~?->");
    }

    #[test]
    fn a_page_is_a_whole_file() {
        let mut scene = Scene::new(100.0, 50.0, "a (b)");
        scene.text((10.0, 10.0), "peak (\\)", Anchor::End, Ink::Text);
        scene.area(vec![(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)], Ink::Band(1));
        scene.dashed((0.0, 0.0), (5.0, 5.0), Ink::Limit);
        let pdf = render(&scene, Theme::Light);
        assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF"));
        assert_eq!(rgb("#ff0080").map(|part| (part * 255.0) as u8), [255, 0, 128]);
    }
}
