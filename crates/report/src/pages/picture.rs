//! The heat map as a picture, with axes and the names of rows: SVG, and PNG with whole pixels for each cell. A trace has no map:
//! its picture is the curve of misses.

use std::fmt::Write as _;

use nilometer_analysis::pages::model::{Pages, Picture, PictureRow};
use resvg::tiny_skia::ColorU8;

use crate::plot;
pub use crate::scene::png::Error;
use crate::scene::{Scene, Theme, png, svg};
use crate::text;

/// Small maps are drawn larger, in whole pixels.
const GOOD_WIDTH: usize = 900;
const GOOD_HEIGHT: usize = 500;
pub(super) const LEFT: usize = 230;
pub(super) const TOP: usize = 46;
const BOTTOM: usize = 34;
const RIGHT: usize = 40;
/// Labels closer than this would overlap.
const LABEL_HEIGHT: f64 = 12.0;
/// Shades that are told apart in an SVG: neighbouring cells of one shade are one rectangle.
const SHADES: u8 = 16;

/// The map with axes and names around it; each of its cells is some whole pixels.
pub fn render_png(pages: &Pages) -> Result<Vec<u8>, Error> {
    if let Some(curve) = curve(pages) {
        return png::render(&curve, Theme::Light, 1.0);
    }
    let (columns, rows) = (pages.picture.times_s.len(), pages.picture.rows.len());
    if columns == 0 || rows == 0 {
        return Err(Error::Drawing("nothing was looked at".into()));
    }
    let (wide, high) = (GOOD_WIDTH.div_ceil(columns), GOOD_HEIGHT.div_ceil(rows));
    let map = Map { width: columns * wide, height: rows * high };
    let mut pixels = png::draw(&frame(pages, map, ""), map.picture_size(), 1.0)?;
    let line = pixels.width() as usize;
    for (y, row) in (0..map.height).map(|y| (y, &pages.picture.rows[y / high])) {
        let start = (TOP + y) * line + LEFT;
        for (x, pixel) in pixels.pixels_mut()[start..start + map.width].iter_mut().enumerate() {
            let [red, green, blue] = color(level(row, x / wide));
            *pixel = ColorU8::from_rgba(red, green, blue, 255).premultiply();
        }
    }
    png::encode(&pixels)
}

fn curve(pages: &Pages) -> Option<Scene> {
    pages.trace.and_then(|_| plot::misses(pages, plot::SIZE))
}

/// The size of the map itself.
#[derive(Debug, Clone, Copy)]
struct Map {
    width: usize,
    height: usize,
}

impl Map {
    /// With all that is around it.
    fn picture_size(self) -> (f64, f64) {
        ((LEFT + self.width + RIGHT) as f64, (TOP + self.height + BOTTOM) as f64)
    }

    fn row_height(self, picture: &Picture) -> f64 {
        self.height as f64 / picture.rows.len().max(1) as f64
    }
}

fn level(row: &PictureRow, column: usize) -> Option<u8> {
    row.levels.get(column).copied().flatten()
}

/// White where nothing is resident, grey where it is not touched, then from yellow to dark red.
fn color(level: Option<u8>) -> [u8; 3] {
    match level {
        None => [255, 255, 255],
        Some(0) => [225, 228, 232],
        Some(level) => {
            let hot = f64::from(level) / 255.0;
            let mix = |from: f64, to: f64| (from + (to - from) * hot).round() as u8;
            [mix(254.0, 150.0), mix(217.0, 10.0), mix(118.0, 30.0)]
        }
    }
}

pub fn render_svg(pages: &Pages) -> String {
    if let Some(curve) = curve(pages) {
        return svg::render(&curve, Theme::Light);
    }
    let picture = &pages.picture;
    let map = Map { width: GOOD_WIDTH, height: GOOD_HEIGHT };
    let columns = picture.times_s.len().max(1);
    let (cell_w, cell_h) = (map.width as f64 / columns as f64, map.row_height(picture));
    let mut cells = String::new();
    for (number, row) in picture.rows.iter().enumerate() {
        let y = TOP as f64 + number as f64 * cell_h;
        for (from, to, shade) in runs(row, columns) {
            let [red, green, blue] = color(shade);
            let (x, wide) = (LEFT as f64 + from as f64 * cell_w, (to - from) as f64 * cell_w);
            let _ = writeln!(
                cells,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{wide:.2}\" height=\"{cell_h:.2}\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/>"
            );
        }
    }
    frame(pages, map, &cells)
}

/// What is around a map: a title that names the way of looking, a time axis, and the names of rows.
fn frame(pages: &Pages, map: Map, cells: &str) -> String {
    let (width, height) = map.picture_size();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"16\" font-size=\"13\">{}</text>", escaped(&title(pages)));
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"33\" fill=\"#555\">{}</text>", escaped(&subtitle(pages)));
    out += cells;
    out += &labels(&pages.picture, map);
    out + &axis(&pages.picture, map) + "</svg>\n"
}

fn title(pages: &Pages) -> String {
    let command: String = pages.command.chars().take(90).collect();
    format!("touched memory of {} {command}", pages.pid)
}

fn subtitle(pages: &Pages) -> String {
    let unit = pages.unit_bytes.map_or_else(|| "whole mappings".into(), text::bytes);
    let exact = if pages.exact { "exact" } else { "sampled" };
    format!(
        "seen by {} ({exact}, {unit}) on Linux {}; grey: resident, not touched; yellow to red: touched share",
        pages.backend, pages.kernel
    )
}

/// Neighbouring columns of one shade; what is not resident stays white.
fn runs(row: &PictureRow, columns: usize) -> Vec<(usize, usize, Option<u8>)> {
    let shade = |column| {
        level(row, column).map(|level| if level == 0 { 0 } else { (level / SHADES * SHADES).max(SHADES / 2) })
    };
    let mut runs: Vec<(usize, usize, Option<u8>)> = Vec::new();
    for column in 0..columns {
        match runs.last_mut() {
            Some((_, to, last)) if *last == shade(column) => *to = column + 1,
            _ => runs.push((column, column + 1, shade(column))),
        }
    }
    runs.retain(|(_, _, shade)| shade.is_some());
    runs
}

/// Names at the beginning of each stretch, as far as there is room.
fn labels(picture: &Picture, map: Map) -> String {
    let cell_h = map.row_height(picture);
    let (mut out, mut last_y, mut last_name) = (String::new(), f64::MIN, "");
    for (number, row) in picture.rows.iter().enumerate() {
        let y = TOP as f64 + number as f64 * cell_h;
        if row.name != last_name && y - last_y >= LABEL_HEIGHT {
            let name: String = row.name.chars().take(34).collect();
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6,
                y + LABEL_HEIGHT - 3.0,
                escaped(&name)
            );
            (last_y, last_name) = (y, &row.name);
        }
    }
    out
}

fn axis(picture: &Picture, map: Map) -> String {
    let y = TOP + map.height + 16;
    let begin = picture.times_s.first().copied().unwrap_or(0.0);
    let mut out = String::new();
    for part in 0..=4 {
        let x = LEFT + map.width * part / 4;
        let at = begin + (picture.end_s - begin) * part as f64 / 4.0;
        let _ =
            writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", text::duration(at));
    }
    out
}

fn escaped(text: &str) -> String {
    text::escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
