//! Which code owned the memory at the peak: an icicle, callers above, what they called below.

use std::path::Path;

use nilometer_analysis::allocs::model::{Frame, FrameKind};

use super::Size;
use crate::scene::{Anchor, Ink, NORMAL, SMALL, Scene, fitted};
use crate::stacks::Stacks;
use crate::text;

const ROW: f64 = 20.0;
const HEAD: f64 = 32.0;
const MARGIN: f64 = 10.0;
/// Narrower frames are not drawn.
const NARROWEST: f64 = 1.5;
const DEEPEST: usize = 40;

/// A frame in a word or two.
pub(crate) fn label(frame: &Frame) -> String {
    let file = frame.file.as_deref().and_then(|file| Path::new(file).file_name());
    let place = match (file, frame.line) {
        (Some(file), Some(line)) => format!(" ({}:{line})", file.to_string_lossy()),
        (Some(file), None) => format!(" ({})", file.to_string_lossy()),
        _ => frame.library.as_ref().map(|library| format!(" ({library})")).unwrap_or_default(),
    };
    format!("{}{place}", frame.function)
}

/// By where it comes from, so that a library has one colour.
pub(crate) fn ink(frame: &Frame) -> Ink {
    let hash =
        |name: &str| name.bytes().fold(5381_usize, |hash, byte| hash * 33 % 65_521 + usize::from(byte));
    match (frame.kind, &frame.library) {
        (FrameKind::Note, _) => Ink::Rest,
        (FrameKind::Python, Some(library)) => Ink::Band([0, 4, 7][hash(library) % 3]),
        (FrameKind::Python, None) => Ink::Band(0),
        (FrameKind::Native, Some(library)) => Ink::Band([1, 2, 3, 5, 6][hash(library) % 5]),
        (FrameKind::Native, None) => Ink::Band(1),
    }
}

/// Of the peak.
pub fn allocs(stacks: &Stacks, title: &str, size: Size) -> Option<Scene> {
    let whole = stacks.nodes.first().map(|root| root.peak).filter(|whole| *whole > 0.0)?;
    let room = size.0 - 2.0 * MARGIN;
    // Where each node begins, and where its next child will.
    let mut left = vec![0.0; stacks.nodes.len()];
    let mut next = vec![0.0; stacks.nodes.len()];
    let mut depth = vec![0_usize; stacks.nodes.len()];
    let mut scene = Scene::new(size.0, size.1, title);
    let mut deepest = 0;
    for (index, node) in stacks.nodes.iter().enumerate().skip(1) {
        let parent = node.parent as usize;
        let width = node.peak.max(0.0) / whole * room;
        (left[index], depth[index]) = (next[parent], depth[parent] + 1);
        next[parent] += width;
        next[index] = left[index];
        let Some(frame) = stacks.frames.get(node.frame as usize) else { continue };
        if width < NARROWEST || depth[index] > DEEPEST {
            continue;
        }
        deepest = deepest.max(depth[index]);
        let (x, y) = (MARGIN + left[index], HEAD + (depth[index] - 1) as f64 * ROW);
        scene.rect((x, y), (width - 0.5, ROW - 1.0), ink(frame));
        let shown = fitted(&text::escape(&label(frame)), SMALL, width - 6.0);
        if !shown.is_empty() {
            scene.text((x + 3.0, y + 14.0), &shown, Anchor::Start, Ink::Text);
        }
    }
    let title = fitted(&text::escape(title), NORMAL, room);
    scene.sized((MARGIN, 20.0), &title, NORMAL, Anchor::Start, Ink::Text);
    scene.height = HEAD + deepest as f64 * ROW + MARGIN;
    Some(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_file_and_line() {
        let mut frame = Frame {
            function: "forward".into(),
            file: Some("/home/ada/net.py".into()),
            line: Some(12),
            library: Some("torch".into()),
            ..Frame::default()
        };
        assert_eq!(label(&frame), "forward (net.py:12)");
        frame.file = None;
        assert_eq!(label(&frame), "forward (torch)");
    }
}
