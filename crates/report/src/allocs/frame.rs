//! A frame as words: the function, and where it is.

use nilometer_analysis::allocs::model::{Frame, FrameKind};
use unicode_width::UnicodeWidthStr as _;

use crate::layout::{Style, Tone};

/// Longer names have their template arguments left out.
const LONG: usize = 72;

/// `forward  model.py:33`, cut to `room` columns; the place is faint.
pub(super) fn render(frame: &Frame, room: usize, style: &Style) -> String {
    let function = style.safe(&short(&frame.function));
    let place = style.safe(&place(frame));
    if frame.kind == FrameKind::Note {
        return style.paint(&style.shorten(&function, room), Tone::Faint);
    }
    if place.is_empty() || function.width() + 8 > room {
        return style.shorten(&function, room);
    }
    let left = room - function.width() - 2;
    let place = tail(&place, left, style);
    format!("{function}  {}", style.paint(&place, Tone::Faint))
}

/// Where a frame is: `model.py:33`, `[libtorch_cpu.so]`.
pub(super) fn place(frame: &Frame) -> String {
    let inlined = if frame.inlined { " (inlined)" } else { "" };
    match (&frame.file, frame.line, &frame.library) {
        (Some(file), Some(line), _) => format!("{}:{line}{inlined}", short_file(file)),
        (Some(file), None, _) => format!("{}{inlined}", short_file(file)),
        (None, _, Some(library)) => format!("[{library}]{inlined}"),
        (None, ..) => String::new(),
    }
}

/// Packages from their own name on, other files without the folders that say nothing.
pub(super) fn short_file(file: &str) -> &str {
    for folder in ["/site-packages/", "/dist-packages/"] {
        if let Some((_, inside)) = file.rsplit_once(folder) {
            return inside;
        }
    }
    let slashes: Vec<usize> = file.match_indices('/').map(|(at, _)| at).collect();
    match slashes.as_slice() {
        [.., cut, _] if *cut > 0 => &file[cut + 1..],
        _ => file,
    }
}

/// The end of a text is what tells places apart.
fn tail(text: &str, room: usize, style: &Style) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mark = if style.unicode { "…" } else { "..." };
    let mut kept = String::new();
    for c in text.chars().rev() {
        let longer = format!("{c}{kept}");
        if longer.width() + mark.width() > room {
            break;
        }
        kept = longer;
    }
    format!("{mark}{kept}")
}

/// A name of reasonable length: template arguments become dots, outermost last.
pub(super) fn short(name: &str) -> String {
    if name.width() <= LONG || !name.contains('<') || name.starts_with('<') {
        return name.to_owned();
    }
    let (mut out, mut depth) = (String::new(), 0_usize);
    let mut before = ' ';
    for c in name.chars() {
        match c {
            '<' if !out.ends_with("operator") => {
                if depth == 0 {
                    out += "<…>";
                }
                depth += 1;
            }
            '>' if depth > 0 && before != '-' => depth -= 1,
            c if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_templates_lose_their_arguments() {
        let long = format!("a::b<{}>::c<x<y>>", "int, ".repeat(20));
        assert_eq!(short(&long), "a::b<…>::c<…>");
        assert_eq!(short("a::b<int>::c"), "a::b<int>::c");
        assert_eq!(short("<module>"), "<module>");
    }

    #[test]
    fn places_are_short_and_fit() {
        let style = Style { width: 80, color: false, unicode: true, whole: false };
        let frame = Frame {
            function: "forward".into(),
            file: Some("/x/lib/python3.11/site-packages/torch/nn/modules/linear.py".into()),
            line: Some(114),
            kind: FrameKind::Python,
            ..Frame::default()
        };
        assert_eq!(render(&frame, 60, &style), "forward  torch/nn/modules/linear.py:114");
        assert_eq!(render(&frame, 24, &style), "forward  …/linear.py:114");
        assert_eq!(short_file("/home/me/model/train.py"), "model/train.py");
        assert_eq!(short_file("train.py"), "train.py");
        let native = Frame { function: "f".into(), library: Some("libx.so".into()), ..Frame::default() };
        assert_eq!(render(&native, 60, &style), "f  [libx.so]");
    }
}
