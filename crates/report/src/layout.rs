//! Labelled lines folded to a width, with colour on top. All text from outside is escaped here.

use unicode_width::UnicodeWidthStr;

use crate::text;

/// How the output may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub width: usize,
    pub color: bool,
    pub unicode: bool,
    /// Nobody said how wide it may be (a pipe): sentences are folded, but no row of a table is cut.
    pub whole: bool,
}

const LABEL_WIDTH: usize = 10;
const NARROWEST: usize = 40;
const WIDEST: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Strong,
    Faint,
    Warn,
    Bad,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Warn => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

impl Style {
    /// Text width within what charts and tables can bear.
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(NARROWEST, WIDEST)
    }

    pub(crate) fn paint(&self, text: &str, tone: Tone) -> String {
        match tone.code().filter(|_| self.color && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.into(),
        }
    }

    pub fn shorten(&self, text: &str, width: usize) -> String {
        shorten(text, width, if self.unicode { "…" } else { "..." })
    }

    /// What may be shown of a text from outside.
    pub fn safe(&self, text: &str) -> String {
        let escaped = text::escape(text);
        if self.unicode { escaped } else { text::ascii(&escaped) }
    }
}

/// One finding: a label, its sentence, the next command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    pub(crate) hint: Option<&'static str>,
    pub(crate) tone: Tone,
}

impl Line {
    pub(crate) fn new(label: &'static str, text: String) -> Self {
        Self { label, text, ..Self::default() }
    }

    pub(crate) fn render(&self, style: &Style) -> String {
        let label = style.paint(&format!(" {:<1$}", self.label, LABEL_WIDTH - 1), Tone::Strong);
        let mut folded = fold(&style.safe(&self.text), style.columns() - LABEL_WIDTH);
        let hint = self.hint.map(|hint| style.safe(&format!("   → {hint}")));
        if let Some(hint) = &hint {
            place_hint(&mut folded, hint, style.columns() - LABEL_WIDTH);
        }
        let indent = " ".repeat(LABEL_WIDTH);
        let rows: Vec<String> = folded.iter().map(|row| style.paint(row, self.tone)).collect();
        format!("{label}{}\n", rows.join(&format!("\n{indent}")))
    }
}

/// Behind the sentence if it fits, otherwise on a row of its own.
fn place_hint(folded: &mut Vec<String>, hint: &str, room: usize) {
    match folded.last_mut().filter(|last| last.width() + hint.width() <= room) {
        Some(last) => last.push_str(hint),
        None => folded.push(hint.trim_start().to_owned()),
    }
}

/// Rows of at most `width` columns, broken at spaces; a longer word is cut into pieces.
pub(crate) fn fold(text: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in words(text) {
        let row = rows.len() - 1;
        let space = usize::from(!rows[row].is_empty());
        if rows[row].width() + space + word.width() > width && space > 0 {
            rows.push(String::new());
        } else if space > 0 {
            rows[row].push(' ');
        }
        append_word(&mut rows, &word, width);
    }
    rows
}

/// Words as a reader sees them: a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words
            .last_mut()
            .filter(|before| before.ends_with(|c: char| c.is_ascii_digit()) && is_unit(word))
        {
            Some(number) => *number = format!("{number} {word}"),
            None => words.push(word.into()),
        }
    }
    words
}

fn is_unit(word: &str) -> bool {
    let unit = word.trim_end_matches([')', ',', ';', ':', '.']);
    let unit = unit.split('/').next().unwrap_or(unit);
    matches!(unit, "%" | "B" | "kB" | "KiB" | "MiB" | "GiB" | "TiB" | "ms" | "s" | "m" | "h" | "d")
}

fn append_word(rows: &mut Vec<String>, word: &str, width: usize) {
    let mut encoded = [0; 4];
    for c in word.chars() {
        let piece: &str = c.encode_utf8(&mut encoded);
        let full = rows.last().is_none_or(|row| row.width() + piece.width() > width);
        if full {
            rows.push(String::new());
        }
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
}

/// At most `width` columns, the end replaced by `mark`.
fn shorten(text: &str, width: usize, mark: &str) -> String {
    if text.width() <= width {
        return text.into();
    }
    let mut short = String::new();
    let mut encoded = [0; 4];
    for c in text.chars() {
        let piece: &str = c.encode_utf8(&mut encoded);
        if short.width() + piece.width() + mark.width() > width {
            break;
        }
        short.push(c);
    }
    short + mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_breaks_at_spaces_and_cuts_long_words() {
        assert_eq!(fold("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(fold("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(fold("", 3), [""]);
        assert_eq!(fold("room 20 %)", 8), ["room", "20 %)"]);
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(shorten("日本語日本語", 7, "…"), "日本語…");
        assert!(fold("日本語日本語", 5).iter().all(|row| row.width() <= 5));
    }
}
