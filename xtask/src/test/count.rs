//! The runner's numbers, read from what it prints.

/// Tests by how they ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Tests that ended early with a skip line: the runner calls them passed.
    pub fn with_skips(self, lines: u64) -> Self {
        Self { passed: self.passed.saturating_sub(lines), failed: self.failed, skipped: self.skipped + lines }
    }
}

/// The numbers of nextest (its last summary) or of cargo test (all result lines); none when neither is there.
pub fn parse(output: &str) -> Option<Counts> {
    let lines: Vec<String> = output.lines().map(without_colour).collect();
    let summary = lines.iter().rev().find_map(|line| parse_nextest(line));
    summary.or_else(|| sum(lines.iter().filter_map(|line| parse_libtest(line))))
}

fn sum(all: impl Iterator<Item = Counts>) -> Option<Counts> {
    all.reduce(|mut total, counts| {
        total.add(counts);
        total
    })
}

/// `Summary [ 0.1s] 4/5 tests run: 2 passed (1 slow), 1 failed, 1 timed out, 1 skipped`.
fn parse_nextest(line: &str) -> Option<Counts> {
    let rest = line.trim_start().strip_prefix("Summary [")?;
    let (_, parts) = rest.split_once(" run: ")?;
    Some(parse_parts(&without_brackets(parts), ','))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
fn parse_libtest(line: &str) -> Option<Counts> {
    let (_, parts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    Some(parse_parts(parts, ';'))
}

fn parse_parts(parts: &str, separator: char) -> Counts {
    let mut counts = Counts::default();
    for part in parts.split(separator) {
        let Some((number, word)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match word {
            "passed" => counts.passed += number,
            "skipped" | "ignored" => counts.skipped += number,
            "measured" | "filtered out" => {}
            _ => counts.failed += number, // failed, timed out, exec failed, setup script failed
        }
    }
    counts
}

fn without_brackets(text: &str) -> String {
    let mut depth = 0;
    let keep = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                return false;
            }
            _ => {}
        }
        depth == 0
    };
    text.chars().filter(keep).collect()
}

/// The line without ANSI colour sequences.
fn without_colour(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts { passed, failed, skipped }
    }

    #[test]
    fn nextest_summary_is_read() {
        let text = "     Summary [   0.012s] 4 tests run: 4 passed, 1 skipped\n";
        assert_eq!(parse(text), Some(counts(4, 0, 1)));
    }

    #[test]
    fn every_kind_of_failure_counts() {
        let text = " Summary [ 61.2s] 9/12 tests run: 5 passed (2 slow, 1 leaky), 2 failed, 1 timed out, 1 exec failed, 3 skipped";
        assert_eq!(parse(text), Some(counts(5, 4, 3)));
    }

    #[test]
    fn the_last_summary_wins_and_colour_does_not_matter() {
        let text = "Summary [ 1s] 1 test run: 1 passed\n\u{1b}[31;1m Summary\u{1b}[0m [ 2s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m1\u{1b}[0m passed, 1 failed, 0 skipped\n";
        assert_eq!(parse(text), Some(counts(1, 1, 0)));
    }

    #[test]
    fn cargo_test_results_are_summed() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(parse(text), Some(counts(4, 2, 1)));
    }

    #[test]
    fn a_compile_error_has_no_numbers() {
        assert_eq!(parse("error: could not compile `nilometer-trace`\n"), None);
    }

    #[test]
    fn a_skip_line_moves_a_test_from_passed_to_skipped() {
        assert_eq!(counts(10, 1, 2).with_skips(3), counts(7, 1, 5));
    }
}
