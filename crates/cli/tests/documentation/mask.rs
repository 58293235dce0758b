//! What may differ between a page and what is printed: numbers with their units, one or many of what is left out, where lines are
//! broken, the drawing of curves, and whatever stands where the page has `…`.

use std::sync::LazyLock;

use regex::Regex;

const NUMBER: &str = "#";
const ANYTHING: &str = "…";

/// A duration of parts, an address, a number with the unit that follows it.
static NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    let unit = "(?: ?(?:B|KiB|MiB|GiB|TiB|kB|MB|GB|ns|µs|ms|s|min|%)\\b| %)?";
    Regex::new(&format!(
        "0x[0-9a-f]+|(?:\\d+ h )?\\d+ m \\d+ s\\b|(?:\\d+ h )?\\d+ m\\b|(?:[+±≈−-] ?)?\\d+(?:[.,:–-]\\d+)*(?:e[+-]?\\d+)?{unit}"
    ))
    .unwrap()
});

/// Braille and block characters of curves and bars.
fn is_drawing(word: &str) -> bool {
    word.chars().all(|c| ('\u{2800}'..='\u{28ff}').contains(&c) || ('\u{2580}'..='\u{259f}').contains(&c))
}

fn words(text: &str) -> Vec<String> {
    let masked = NUMBERS.replace_all(text, NUMBER);
    // Of a short run the cost is told in seconds.
    let masked = masked.replace("# of CPU", "# of a core");
    let masked = masked.replace("...", ANYTHING).replace(ANYTHING, " … ");
    let mut words: Vec<String> =
        masked.split_whitespace().filter(|word| !is_drawing(word)).map(str::to_owned).collect();
    for at in 1..words.len() {
        if is_counted(&words[..at]) {
            words[at] = singular(&words[at]);
        }
    }
    words
}

/// What is left out, and counted: `1 more row`, `3 more rows`.
fn is_counted(before: &[String]) -> bool {
    matches!(before, [.., number, more] if number == NUMBER && more == "more")
}

fn singular(word: &str) -> String {
    let bare = word.trim_end_matches([':', ',', ';', '.']);
    let sign = &word[bare.len()..];
    format!("{}{sign}", bare.strip_suffix('s').unwrap_or(bare))
}

/// The parts between wildcards, in order; the first must begin, the last must end.
pub fn agree(page: &str, printed: &str) -> bool {
    unmatched(page, printed).is_none()
}

/// How many words of the page were found before it went wrong, and where in the output that was.
fn unmatched(page: &str, printed: &str) -> Option<(usize, usize)> {
    let (page, printed) =
        (words(page), words(printed).into_iter().filter(|word| word != ANYTHING).collect::<Vec<_>>());
    let parts: Vec<&[String]> = page.split(|word| word == ANYTHING).collect();
    let (mut at, mut seen) = (0, 0);
    for (number, part) in parts.iter().enumerate() {
        let (first, last) = (number == 0, number + 1 == parts.len());
        let latest = printed.len().checked_sub(part.len());
        let from = match latest {
            Some(latest) if last && !first => latest.max(at),
            _ => at,
        };
        let until = if first { from } else { latest.unwrap_or(0) };
        let found = (from..=until).find(|&from| printed.get(from..from + part.len()) == Some(part));
        let Some(from) = found else {
            let same = common(part, printed.get(from..).unwrap_or_default());
            return Some((seen + same, from + same));
        };
        at = from + part.len();
        seen += part.len() + 1;
    }
    (at < printed.len()).then_some((page.len(), at))
}

fn common(page: &[String], printed: &[String]) -> usize {
    page.iter().zip(printed).take_while(|(page, printed)| page == printed).count()
}

/// For people: the words around the place.
pub fn first_difference(page: &str, printed: &str) -> String {
    let Some((word, at)) = unmatched(page, printed) else { return String::new() };
    let (page, printed) = (words(page), words(printed));
    let shown = |words: &[String], from: usize| {
        words.iter().skip(from.saturating_sub(3)).take(10).cloned().collect::<Vec<_>>().join(" ")
    };
    format!("the page: {}\nprinted:  {}", shown(&page, word), shown(&printed, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_units_and_line_breaks_may_differ() {
        assert!(agree("peak 131 MiB at\n 17.6 s (VmHWM)", "peak 1.2 GiB at 2 m 40 s (VmHWM)"));
        assert!(agree("+1.90 MiB/step ± 0.01 since", "+37 KiB/step ± 1,200 since"));
        assert!(agree("loss 1.0058798789978027", "loss 2.3626562040135468e-08"));
        assert!(agree("saved t.1116-0903.28670.nilo", "saved t.1117-1003.1.nilo"));
    }

    #[test]
    fn what_is_counted_may_be_one_or_many() {
        assert!(agree("2 more rows: all", "1 more row: all"));
        assert!(!agree("more rows: all", "more row: all"));
        assert!(
            agree("…\ncovers 3 %", "--steps 500\ncovers 3 %"),
            "a number at the end of a line counts nothing"
        );
    }

    #[test]
    fn a_cost_is_one_of_time_or_of_share() {
        assert!(agree("cost 11 ms of CPU, 22.9 MiB, no pause", "cost 0.7 % of a core, 24 MiB, no pause"));
        assert!(!agree("cost 11 ms of CPU, 22.9 MiB, no pause", "cost 11 ms of CPU, 24 MiB, paused 3 ms"));
    }

    #[test]
    fn words_may_not_differ() {
        assert!(!agree("peak 131 MiB at 3 s", "peak 131 MiB after 3 s"));
        assert!(!agree("one two", "one two three"));
        assert!(!agree("one two three", "one two"));
        assert!(!agree("", "one"));
    }

    #[test]
    fn dots_stand_for_anything() {
        assert!(agree("one\n…\nfour", "one two three four"));
        assert!(agree("one\n…", "one two three"));
        assert!(agree("…", ""));
        assert!(!agree("one … five", "one two three four"));
        assert!(!agree("… two … one …", "one two"));
    }
}
