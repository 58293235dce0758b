//! How values are written: one formatter for screens, tables and charts.

pub use nilometer_analysis::text::{bytes, digits, duration, scale, signed_bytes};

/// `1,234,567`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut grouped = String::with_capacity(plain.len() + plain.len() / 3);
    for (place, digit) in plain.chars().enumerate() {
        if place > 0 && (plain.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 process`, `9 processes`.
pub fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// `6.38–6.44` in the unit of the larger value, with both units where they differ.
pub fn range(low: u64, high: u64) -> String {
    let (top, unit) = scale(high as f64);
    if high >= 1024 && scale(low as f64).1 == unit {
        let bottom = low as f64 / (high as f64 / top);
        format!("{}–{}", digits(bottom), digits(top))
    } else {
        format!("{}–{}", bytes(low), bytes(high))
    }
}

/// Values in one common unit, the unit of the largest.
pub fn in_unit(value: f64, unit_of: f64) -> String {
    let (top, _) = scale(unit_of.abs().max(1024.0));
    digits(value / (unit_of.abs().max(1024.0) / top))
}

pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// As a shell takes it for one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Control characters, and those that reorder or hide text, become visible: a hostile process name
/// must not drive the terminal.
pub fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if matches!(c, '\n' | '\t' | '\r') {
            safe.push(' ');
        } else if is_hostile(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
        safe
    })
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// For terminals without Unicode: our own signs get a look-alike, anything else a question mark.
pub fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '·' => plain.push('|'),
            '→' => plain.push_str("->"),
            '±' => plain.push_str("+-"),
            '–' => plain.push('-'),
            '×' => plain.push('x'),
            '≈' => plain.push('~'),
            '…' => plain.push_str("..."),
            c if c.is_ascii() => plain.push(c),
            _ => plain.push('?'),
        }
    }
    plain
}

/// The same in as many columns: what is already ASCII stays, our own signs are one character.
pub(crate) fn ascii_keeping_width(text: &str) -> String {
    let plain = |c: char| match c {
        '·' => '|',
        '▼' | '↓' => 'v',
        '↑' => '^',
        '→' => '>',
        '±' | '≈' => '~',
        '–' => '-',
        '×' => 'x',
        '…' => '.',
        c if c.is_ascii() => c,
        _ => '?',
    };
    text.chars().map(plain).collect()
}

/// The name of a signal where it is one that ends processes.
pub fn signal(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_020), "1,020");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "process", "processes"), "1 process");
    }

    #[test]
    fn ranges_share_a_unit_where_they_can() {
        assert_eq!(range(6_850_000_000, 6_914_000_000), "6.38–6.44");
        assert_eq!(range(500 << 20, 2 << 30), "500 MiB–2.00 GiB");
        assert_eq!(range(0, 0), "0 B–0 B");
    }

    #[test]
    fn control_and_reordering_characters_are_shown_not_sent() {
        assert_eq!(escape("a\x1b[31mb\nc\u{9b}\u{202e}"), "a\\u{1b}[31mb c\\u{9b}\\u{202e}");
        assert_eq!(escape("träin 日本"), "träin 日本");
    }

    #[test]
    fn ascii_has_a_look_alike_for_our_signs() {
        assert_eq!(ascii("8 × a ± 1 → b… é"), "8 x a +- 1 -> b... ?");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a.heap"), "a.heap");
        assert_eq!(quoted("m.cache['x'][3]"), r"'m.cache['\''x'\''][3]'");
        assert_eq!(quoted(""), "''");
    }
}
