//! What the guest says over its serial port: `ok NAME` or `FAIL NAME: why`, and a last line with both counts.

use std::fmt;

/// The cases as the guest told them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub passed: u64,
    pub failed: u64,
    /// The last line came, and its counts are those of the lines before it.
    pub finished: bool,
}

impl Verdict {
    pub fn is_good(&self) -> bool {
        self.finished && self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, finished } = self;
        let end = if *finished { "" } else { ", and it did not get to its end" };
        write!(f, "guest: {passed} ok, {failed} failed{end}")
    }
}

pub fn last_line(passed: u64, failed: u64) -> String {
    format!("cases: {passed} ok, {failed} failed")
}

pub fn parse(serial: &str) -> Verdict {
    let mut verdict = Verdict::default();
    for line in serial.lines().map(str::trim) {
        verdict.passed += u64::from(line.starts_with("ok "));
        verdict.failed += u64::from(line.starts_with("FAIL "));
        verdict.finished |= line == last_line(verdict.passed, verdict.failed);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_ends_in_order_is_believed() {
        let verdict = parse("SeaBIOS\r\nok one\r\nok two\r\ncases: 2 ok, 0 failed\r\n");
        assert_eq!(verdict, Verdict { passed: 2, failed: 0, finished: true });
        assert!(verdict.is_good());
    }

    #[test]
    fn without_its_last_line_it_has_failed() {
        assert!(!parse("ok one\r\nok two\r\n").is_good());
        assert!(!parse("").is_good());
        assert!(!parse("cases: 0 ok, 0 failed").is_good());
    }

    #[test]
    fn a_lost_line_shows_in_the_counts() {
        assert!(!parse("ok one\r\ncases: 2 ok, 0 failed\r\n").finished);
        let verdict = parse("ok one\r\nFAIL two: it is so\r\ncases: 1 ok, 1 failed\r\n");
        assert_eq!((verdict.failed, verdict.finished, verdict.is_good()), (1, true, false));
    }
}
