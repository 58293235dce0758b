//! The first screen: how high and when, how much room, what it was made of, leak or not, and the next command.

use nilometer_analysis::leak::model::Class;

use super::Page;
use super::markup::Markup;
use crate::layout::{Line, Tone};
use crate::leak::sentence_of;
use crate::sentence;

/// Findings that have a tile, and the view each leads to.
const TILES: [(&str, &str); 4] =
    [("peak", "run"), ("limit", "run"), ("growth", "leak"), ("made of", "where")];
/// Where a sentence has said its most important word.
const BREAKS: [&str; 6] = [" at ", " (", " · ", ": ", " since ", " ± "];

pub(super) fn strip(page: &Page<'_>) -> Markup {
    let findings = findings(page);
    let tile_of = |line: &Line| TILES.iter().find(|(label, _)| *label == line.label).map(|(_, view)| *view);
    let mut tiles: Vec<Markup> =
        findings.iter().filter_map(|line| Some(tile(line, tile_of(line)?))).collect();
    tiles.push(next(page));
    let tiles = Markup::element("div", &[("class", "tiles")], tiles.into_iter().collect());
    let others: Markup = findings.iter().filter(|line| tile_of(line).is_none()).map(finding).collect();
    let list = Markup::element("dl", &[("class", "findings")], others);
    let attributes = [("id", "verdict"), ("class", "strip"), ("tabindex", "-1"), ("aria-label", "verdict")];
    Markup::element("section", &attributes, [tiles, list].into_iter().collect())
}

/// The terminal's sentences; where a leak was judged, its verdict is the one about growth.
fn findings(page: &Page<'_>) -> Vec<Line> {
    let mut lines = sentence::findings(page.run);
    lines.retain(|line| line.label != "saved");
    if let (Some(leak), Some(line)) = (page.leak, lines.iter_mut().find(|line| line.label == "growth")) {
        let tone = match leak.class {
            Class::Grows | Class::Outlives => Tone::Bad,
            Class::CannotTell => Tone::Warn,
            _ => Tone::Plain,
        };
        *line = Line { tone, text: sentence_of(leak), ..line.clone() };
    }
    lines
}

pub(super) fn class_of(tone: Tone) -> &'static str {
    match tone {
        Tone::Bad => "bad",
        Tone::Warn => "warn",
        Tone::Faint => "faint",
        Tone::Plain | Tone::Strong => "",
    }
}

fn tile(line: &Line, view: &str) -> Markup {
    let (first, rest) = split(&line.text);
    let label = if line.label == "growth" { "leak" } else { line.label };
    let content = [
        Markup::tagged("b", &[], label),
        Markup::tagged("strong", &[], first),
        Markup::tagged("span", &[], rest),
    ];
    let attributes = [("class", class_of(line.tone)), ("href", &format!("#{view}"))];
    Markup::element("a", &attributes, content.into_iter().collect())
}

fn split(sentence: &str) -> (&str, &str) {
    let place = BREAKS.iter().filter_map(|word| sentence.find(word)).min().unwrap_or(sentence.len());
    sentence.split_at(place)
}

fn finding(line: &Line) -> Markup {
    let content = [
        Markup::tagged("dt", &[("class", class_of(line.tone))], line.label),
        Markup::tagged("dd", &[("class", class_of(line.tone))], &line.text),
    ];
    content.into_iter().collect()
}

/// What to type now: what the verdict lacks, or what goes deeper.
fn next(page: &Page<'_>) -> Markup {
    let (why, command) = next_command(page);
    let content = [
        Markup::tagged("b", &[], "next"),
        Markup::tagged("code", &[], &command),
        Markup::tagged("span", &[], why),
    ];
    Markup::element("div", &[("class", "next")], content.into_iter().collect())
}

fn next_command(page: &Page<'_>) -> (&'static str, String) {
    let command = page.run.command.join(" ");
    let leaking = page.leak.filter(|leak| leak.class.is_leak());
    if let Some(missing) = leaking.and_then(|leak| leak.missing.first()) {
        return ("to find where it leaks", missing.command.clone());
    }
    if leaking.is_some() {
        return ("where it leaks, with its holders", format!("nilo leak {}", page.name()));
    }
    if page.allocs.is_none() && !command.is_empty() && page.run.about.verb == "run" {
        return ("to see which code owns it", format!("nilo run --allocs -- {command}"));
    }
    ("what each byte is", format!("nilo where {}", page.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_sentence_is_its_number() {
        assert_eq!(split("131 MiB at 17.1 s, step 60 (VmHWM)"), ("131 MiB", " at 17.1 s, step 60 (VmHWM)"));
        assert_eq!(split("23.5 GiB (machine RAM) · headroom"), ("23.5 GiB", " (machine RAM) · headroom"));
        assert_eq!(split("steady: no more"), ("steady", ": no more"));
        assert_eq!(split("nothing"), ("nothing", ""));
    }
}
