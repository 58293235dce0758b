//! Folded stacks, one line each: `outermost;…;innermost BYTES`, as flame graph programs read them.

use nilometer_analysis::allocs::model::{Frame, Site};

/// One line; `None` where there is nothing to draw.
pub fn line(site: &Site, value: f64) -> Option<String> {
    let value = value.round();
    if value < 1.0 {
        return None;
    }
    let frames: Vec<String> = site.stack.iter().rev().map(|found| frame(found)).collect();
    Some(format!("{} {value:.0}\n", frames.join(";")))
}

/// Line ends separate stacks: names lose theirs.
pub(crate) fn frame(frame: &Frame) -> String {
    frame.folded().replace(['\n', '\r'], ",")
}

#[cfg(test)]
mod tests {
    use nilometer_analysis::allocs::model::FrameKind;

    use super::*;

    #[test]
    fn a_line_has_the_caller_first_and_the_bytes_last() {
        let python = Frame {
            function: "f;g".into(),
            file: Some("a.py".into()),
            line: Some(3),
            kind: FrameKind::Python,
            ..Frame::default()
        };
        let native = Frame { function: "alloc".into(), library: Some("lib.so".into()), ..Frame::default() };
        let site = Site { stack: vec![native.into(), python.into()], ..Site::default() };
        assert_eq!(line(&site, 12.4).unwrap(), "f,g (a.py:3);alloc [lib.so] 12\n");
        assert_eq!(line(&site, 0.2), None);
    }
}
