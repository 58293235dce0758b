//! Which word may occur where: `unsafe`, `clap`, module names.
//!
//! Works on the text of one file with comments and literals blanked by [`code_of`]; it knows no more of
//! Rust than that.

/// Names that say nothing about what is inside.
const FORBIDDEN_MODULES: &[&str] =
    &["shared", "common", "util", "utils", "helper", "helpers", "misc", "manager", "data"];

/// Where `unsafe` may occur.
const UNSAFE_PLACES: &[&str] =
    &["crates/ring/", "crates/tracker/", "crates/kernel/src/sys/", "crates/kernel/src/sys.rs"];

/// Where `clap` may occur: elsewhere the binary sees plain option structs.
const CLAP_PLACES: &[&str] = &["crates/cli/src/args/", "crates/cli/src/args.rs", "xtask/"];

/// Violations in one file; `path` is relative to the root.
pub fn check(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let mut violations = check_module_names(path, &code);
    if !is_within(path, CLAP_PLACES) {
        violations
            .extend(lines_with(&code, "clap").map(|n| format!("{path}:{n}: clap outside the args layer")));
    }
    let excused = is_test(path) && says_why_unsafe(text);
    if !is_within(path, UNSAFE_PLACES) && !excused {
        let places = "`unsafe` outside ring, tracker and kernel::sys";
        violations.extend(lines_with(&code, "unsafe").map(|n| format!("{path}:{n}: {places}")));
    }
    violations
}

fn is_within(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The file lifts the lint for itself and gives its reason: in the attribute, behind it, or above it.
fn says_why_unsafe(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(n, line)| {
        line.starts_with("#![allow(unsafe_code")
            && (line.contains("reason =") || line.contains("//") || (n > 0 && lines[n - 1].starts_with("//")))
    })
}

fn check_module_names(path: &str, code: &str) -> Vec<String> {
    let in_path = path.trim_end_matches(".rs").split('/').filter(|part| FORBIDDEN_MODULES.contains(part));
    let words: Vec<&str> = words_of(code).collect();
    let declared = words.windows(2).filter(|pair| pair[0] == "mod").map(|pair| pair[1]);
    in_path
        .chain(declared.filter(|name| FORBIDDEN_MODULES.contains(name)))
        .map(|name| format!("{path}: module name `{name}` says nothing; name what it holds"))
        .collect()
}

/// Numbers of the lines that hold `word` as a whole identifier.
fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines()
        .enumerate()
        .filter(move |(_, line)| words_of(line).any(|found| found == word))
        .map(|(index, _)| index + 1)
}

fn words_of(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// The text with comments, strings and character literals blanked; lines keep their numbers.
fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The end of the comment or literal that starts at `at`; `at` itself when none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match (chars[at], next) {
        ('/', Some('/')) => find(chars, at, |c| c == '\n'),
        ('/', Some('*')) => block_comment_end(chars, at),
        ('"', _) => quoted_end(chars, at, '"'),
        ('r' | 'b' | 'c', _) if !follows_word(chars, at) => raw_string_end(chars, at),
        ('\'', Some('\\')) => quoted_end(chars, at, '\''),
        ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn follows_word(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&n| wanted(chars[n])).unwrap_or(chars.len())
}

/// Block comments nest.
fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `r"…"`, `r#"…"#`, with `b` or `c` before; `start` itself when it is a plain word.
fn raw_string_end(chars: &[char], start: usize) -> usize {
    let after_prefix = if matches!(chars[start], 'b' | 'c') { start + 1 } else { start };
    if chars.get(after_prefix) != Some(&'r') {
        return start;
    }
    let quote = find(chars, after_prefix + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return start;
    }
    let hashes = quote - after_prefix - 1;
    let closes = |n: usize| chars[n] == '"' && (1..=hashes).all(|k| chars.get(n + k) == Some(&'#'));
    (quote + 1..chars.len()).find(|&n| closes(n)).map_or(chars.len(), |n| n + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FN: &str = "fn f() {\n    unsafe { g() }\n}\n";

    #[test]
    fn unsafe_outside_its_places_is_found_with_its_line() {
        let found = check("crates/capture/src/tick.rs", FN);
        assert_eq!(found, ["crates/capture/src/tick.rs:2: `unsafe` outside ring, tracker and kernel::sys"]);
    }

    #[test]
    fn unsafe_is_allowed_in_its_places() {
        for path in ["crates/ring/src/lib.rs", "crates/tracker/src/hook.rs", "crates/kernel/src/sys/clone.rs"]
        {
            assert!(check(path, FN).is_empty(), "{path}");
        }
    }

    #[test]
    fn a_test_file_needs_the_attribute_and_a_reason() {
        let path = "crates/cli/tests/process/main.rs";
        assert_eq!(check(path, FN).len(), 1);
        assert_eq!(check(path, &format!("\n#![allow(unsafe_code)]\n{FN}")).len(), 1);
        assert!(check(path, &format!("#![allow(unsafe_code)] // calls setsid\n{FN}")).is_empty());
        assert!(check(path, &format!("// calls setsid\n#![allow(unsafe_code)]\n{FN}")).is_empty());
        assert!(check(path, &format!("#![allow(unsafe_code, reason = \"setsid\")]\n{FN}")).is_empty());
    }

    #[test]
    fn the_attribute_does_not_help_outside_tests() {
        let text = format!("#![allow(unsafe_code)] // I want it\n{FN}");
        assert_eq!(check("crates/report/src/term.rs", &text).len(), 1);
    }

    #[test]
    fn words_in_comments_and_literals_do_not_count() {
        let text = r##"
            // unsafe
            /* unsafe /* nested unsafe */ unsafe */
            const A: &str = "unsafe \" unsafe";
            const B: &str = r#"unsafe " unsafe"#;
            const C: &[u8] = br"unsafe";
            const D: char = '"'; const E: char = '\''; // unsafe
            fn f<'a>(unsafe_code: &'a str) {}
        "##;
        assert_eq!(check("crates/trace/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn code_after_a_literal_still_counts() {
        let text = "const Q: char = '\"';\nunsafe fn f<'a>() {}\n/* x */ unsafe {}\n\"s\"; unsafe {}";
        assert_eq!(check("crates/trace/src/lib.rs", text).len(), 3);
    }

    #[test]
    fn clap_belongs_to_the_args_layer() {
        assert!(check("crates/cli/src/args/run.rs", "use clap::Args;").is_empty());
        assert_eq!(
            check("crates/cli/src/cmd/run.rs", "use clap::Args;"),
            ["crates/cli/src/cmd/run.rs:1: clap outside the args layer"]
        );
    }

    #[test]
    fn forbidden_module_names_are_found_as_files_and_inline() {
        assert_eq!(check("crates/trace/src/utils.rs", "").len(), 1);
        assert_eq!(check("crates/trace/tests/common/mod.rs", "").len(), 1);
        assert_eq!(check("crates/trace/src/lib.rs", "pub mod helpers {}").len(), 1);
        assert!(check("crates/trace/src/lib.rs", "mod record; fn data() {}").is_empty());
    }
}
