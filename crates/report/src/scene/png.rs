//! A scene as PNG: its SVG, drawn by resvg with a font that we carry, so that it looks the same everywhere.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};

use super::{Scene, Theme, svg};

/// Larger pictures are refused: four bytes a pixel.
const MOST_PIXELS: f64 = 64e6;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a picture of {width:.0} × {height:.0} points at scale {scale} is too large")]
    TooLarge { width: f64, height: f64, scale: f64 },
    #[error("the picture cannot be drawn: {0}")]
    Drawing(String),
}

/// `scale` pixels for each point.
pub fn render(scene: &Scene, theme: Theme, scale: f64) -> Result<Vec<u8>, Error> {
    encode(&draw(&svg::render(scene, theme), (scene.width, scene.height), scale)?)
}

/// An SVG of a known size as pixels.
pub(crate) fn draw(svg: &str, (width, height): (f64, f64), scale: f64) -> Result<Pixmap, Error> {
    let too_large = || Error::TooLarge { width, height, scale };
    let pixels = width * scale * height * scale;
    if !pixels.is_finite() || pixels > MOST_PIXELS {
        return Err(too_large());
    }
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        font_family: "DejaVu Sans".into(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|error| Error::Drawing(error.to_string()))?;
    let size = ((width * scale).ceil() as u32, (height * scale).ceil() as u32);
    let mut pixels = Pixmap::new(size.0, size.1).ok_or_else(too_large)?;
    let scale = scale as f32;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    Ok(pixels)
}

pub(crate) fn encode(pixels: &Pixmap) -> Result<Vec<u8>, Error> {
    pixels.encode_png().map_err(|error| Error::Drawing(error.to_string()))
}
