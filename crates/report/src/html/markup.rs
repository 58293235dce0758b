//! Text of HTML that cannot be anything else: all that comes from outside is escaped here, and only here.
//!
//! The one invariant: a [`Markup`] is well formed, and no text of a target becomes an element, an attribute or a script.

use std::fmt::Write as _;

use crate::text;

/// A piece of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markup(String);

/// Attributes: a name of ours, any value.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

#[allow(clippy::needless_pass_by_value, reason = "a piece goes into another and is not used again")]
impl Markup {
    pub fn text(text: &str) -> Self {
        Self(escape(text))
    }

    /// An element with content.
    pub fn element(name: &'static str, attributes: Attributes<'_>, content: Self) -> Self {
        let mut out = format!("<{name}");
        for (key, value) in attributes {
            let _ = write!(out, " {key}=\"{}\"", escape(value));
        }
        let _ = write!(out, ">{}</{name}>", content.0);
        Self(out)
    }

    /// An element with text.
    pub fn tagged(name: &'static str, attributes: Attributes<'_>, text: &str) -> Self {
        Self::element(name, attributes, Self::text(text))
    }

    /// An SVG picture of ours.
    pub fn picture(scene: &crate::scene::Scene) -> Self {
        Self(crate::scene::svg::render_inline(scene))
    }

    /// A JSON document for the script: no tag can end it early.
    pub fn json(id: &'static str, document: &impl serde::Serialize) -> Self {
        let mut out = Inside(format!("<script type=\"application/json\" id=\"{id}\">").into_bytes());
        // Writing to memory does not fail, and our documents have text for keys.
        let _ = serde_json::to_writer(&mut out, document);
        out.0.extend_from_slice(b"</script>");
        Self(String::from_utf8(out.0).unwrap_or_default())
    }

    /// A part of the bundle: ours, and written by no target.
    pub(super) fn bundled(name: &'static str, content: &'static str) -> Self {
        Self(format!("<{name}>{content}</{name}>"))
    }

    pub fn push(&mut self, other: Self) {
        self.0.push_str(&other.0);
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// JSON on its way into an element: outside of texts it has no `<`, and within them it may be told by number.
struct Inside(Vec<u8>);

impl std::io::Write for Inside {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for (number, piece) in bytes.split(|byte| *byte == b'<').enumerate() {
            if number > 0 {
                self.0.extend_from_slice(b"\\u003c");
            }
            self.0.extend_from_slice(piece);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl FromIterator<Self> for Markup {
    fn from_iter<I: IntoIterator<Item = Self>>(pieces: I) -> Self {
        let mut all = Self::default();
        pieces.into_iter().for_each(|piece| all.push(piece));
        all
    }
}

/// A table; cells of a number class are set to the right.
pub fn table(heads: &[&str], rows: &[Vec<String>], numbers: usize) -> Markup {
    let class = |column: usize| if column < numbers { "n" } else { "" };
    let cells = |name: &'static str, row: &mut dyn Iterator<Item = &str>| -> Markup {
        row.enumerate()
            .map(|(column, cell)| Markup::tagged(name, &[("class", class(column))], cell))
            .collect()
    };
    let head = Markup::element("tr", &[], cells("th", &mut heads.iter().copied()));
    let body =
        rows.iter().map(|row| Markup::element("tr", &[], cells("td", &mut row.iter().map(String::as_str))));
    let content = [Markup::element("thead", &[], head), Markup::element("tbody", &[], body.collect())];
    let table = Markup::element("table", &[], content.into_iter().collect());
    Markup::element("div", &[("class", "scroll")], table)
}

/// For text and attributes of HTML and XML alike; control characters become visible.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text::escape(text).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // No XML, however written.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_breaks_out() {
        let hostile = "\"><script>alert(1)</script><!--";
        let made = Markup::tagged("p", &[("title", hostile)], hostile);
        assert_eq!(made.as_str().matches('<').count(), 2);
        let json = Markup::json("d", &serde_json::json!({ "a": hostile }));
        assert_eq!(json.as_str().matches("</").count(), 1);
        assert!(!json.as_str().contains("<!--"));
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_markup(text in any::<String>()) {
            let safe = escape(&text);
            let forbidden = |letter: char| matches!(letter, '<' | '>' | '"' | '\'') || letter.is_control();
            prop_assert!(!safe.contains(forbidden));
        }
    }
}
