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
    let (width, height) = (scene.width * scale, scene.height * scale);
    let too_large = || Error::TooLarge { width: scene.width, height: scene.height, scale };
    if !(width * height).is_finite() || width * height > MOST_PIXELS {
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
    let problem = |error: &dyn std::fmt::Display| Error::Drawing(error.to_string());
    let tree = usvg::Tree::from_str(&svg::render(scene, theme), &options).map_err(|e| problem(&e))?;
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32).ok_or_else(too_large)?;
    let scale = scale as f32;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| problem(&e))
}
