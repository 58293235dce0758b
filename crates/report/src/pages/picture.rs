//! The heat map as a picture: PNG with a pixel for each cell, SVG with axes and the names of rows.

use std::fmt::Write as _;

use nilometer_analysis::pages::model::{Pages, Picture, PictureRow};

use crate::text;

/// Small maps are drawn larger, in whole pixels.
const GOOD_WIDTH: usize = 900;
const GOOD_HEIGHT: usize = 500;
const LEFT: usize = 230;
const TOP: usize = 46;
const BOTTOM: usize = 34;
/// Labels closer than this would overlap.
const LABEL_HEIGHT: f64 = 12.0;
/// Shades that are told apart in an SVG: neighbouring cells of one shade are one rectangle.
const SHADES: u8 = 16;

/// Why there is no picture.
#[derive(Debug)]
pub struct NoPicture(pub String);

/// Pixels only.
pub fn render_png(picture: &Picture) -> Result<Vec<u8>, NoPicture> {
    let (columns, rows) = (picture.times_s.len(), picture.rows.len());
    if columns == 0 || rows == 0 {
        return Err(NoPicture("nothing was looked at".into()));
    }
    let (wide, high) = ((GOOD_WIDTH / columns).max(1), (GOOD_HEIGHT / rows).max(1));
    let mut pixels = Vec::with_capacity(columns * wide * rows * high * 3);
    for row in &picture.rows {
        let line: Vec<u8> = (0..columns * wide).flat_map(|x| color(level(row, x / wide))).collect();
        (0..high).for_each(|_| pixels.extend_from_slice(&line));
    }
    let mut bytes = Vec::new();
    let failed = |error: png::EncodingError| NoPicture(error.to_string());
    let mut encoder = png::Encoder::new(&mut bytes, (columns * wide) as u32, (rows * high) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
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

/// With a title that names the way of looking, a time axis, and the names of rows.
pub fn render_svg(pages: &Pages) -> String {
    let picture = &pages.picture;
    let (columns, rows) = (picture.times_s.len().max(1), picture.rows.len().max(1));
    let (cell_w, cell_h) = (GOOD_WIDTH as f64 / columns as f64, GOOD_HEIGHT as f64 / rows as f64);
    let (width, height) = (LEFT + GOOD_WIDTH + 20, TOP + GOOD_HEIGHT + BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"16\" font-size=\"13\">{}</text>", escaped(&title(pages)));
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"33\" fill=\"#555\">{}</text>", escaped(&subtitle(pages)));
    for (number, row) in picture.rows.iter().enumerate() {
        let y = TOP as f64 + number as f64 * cell_h;
        for (from, to, shade) in runs(row, columns) {
            let [red, green, blue] = color(shade);
            let (x, wide) = (LEFT as f64 + from as f64 * cell_w, (to - from) as f64 * cell_w);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{wide:.2}\" height=\"{cell_h:.2}\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/>"
            );
        }
    }
    out += &labels(picture, cell_h);
    out + &axis(picture) + "</svg>\n"
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
fn labels(picture: &Picture, cell_h: f64) -> String {
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

fn axis(picture: &Picture) -> String {
    let y = TOP + GOOD_HEIGHT + 16;
    let begin = picture.times_s.first().copied().unwrap_or(0.0);
    let mut out = String::new();
    for part in 0..=4 {
        let x = LEFT + GOOD_WIDTH * part / 4;
        let at = begin + (picture.end_s - begin) * part as f64 / 4.0;
        let _ =
            writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", text::duration(at));
    }
    out
}

fn escaped(text: &str) -> String {
    text::escape(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
