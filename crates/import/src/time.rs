//! Wall-clock stamps of a foreign log, and a monotonic clock made from them.

use crate::error::{Fault, quoted};

/// Log time of the first stamp. Not zero: a record may lie just before.
pub(crate) const FIRST_NS: u64 = 1_000_000_000;
/// The year 2100: later stamps are no times, and differences of earlier ones fit an `i64` of nanoseconds.
const LATEST_S: u64 = 4_102_444_800;
const NS_PER_S: u64 = 1_000_000_000;

/// Unix seconds with or without a fraction, as nanoseconds. (PHP before 8 writes the decimal sign of the locale.)
pub(crate) fn parse_stamp(word: &str) -> Result<u64, Fault> {
    let fault =
        || Fault::new(format!("{} is no Unix time", quoted(word)), "seconds since 1970, as 1461693208.8298");
    let (whole, fraction) = word.split_once(['.', ',']).unwrap_or((word, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(fault());
    }
    let seconds: u64 = whole.parse().map_err(|_| fault())?;
    if seconds >= LATEST_S {
        return Err(fault());
    }
    let nanoseconds = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = nanoseconds.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Ok(seconds * NS_PER_S + nanoseconds)
}

/// Log time that never goes back, whatever the wall clock did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    last_realtime_ns: u64,
    last_ns: u64,
}

impl Timeline {
    pub(crate) fn new(realtime_ns: u64) -> Self {
        Self { last_realtime_ns: realtime_ns, last_ns: FIRST_NS }
    }

    /// The log time of a stamp, and by how much the wall clock was set back before it.
    pub(crate) fn place(&mut self, realtime_ns: u64) -> (u64, Option<i64>) {
        let forward = realtime_ns.checked_sub(self.last_realtime_ns);
        let back = self.last_realtime_ns.saturating_sub(realtime_ns);
        self.last_realtime_ns = realtime_ns;
        self.last_ns = self.last_ns.saturating_add(forward.unwrap_or(0));
        (self.last_ns, forward.is_none().then(|| -(back as i64)))
    }

    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_keep_their_digits() {
        assert_eq!(parse_stamp("1461693208.8298"), Ok(1_461_693_208_829_800_000));
        assert_eq!(parse_stamp("1461693208,8298"), Ok(1_461_693_208_829_800_000));
        assert_eq!(parse_stamp("1461465313"), Ok(1_461_465_313_000_000_000));
        assert_eq!(parse_stamp("0.12345678999"), Ok(123_456_789));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for word in
            ["", ".", "-1", "1e9", "5.", ".5", "1.2.3", "4102444800", "99999999999999999999", "NaN", "1_0"]
        {
            assert!(parse_stamp(word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_clock_set_back_stops_log_time_and_is_told() {
        let mut line = Timeline::new(5_000);
        assert_eq!(line.place(5_000), (FIRST_NS, None));
        assert_eq!(line.place(7_000), (FIRST_NS + 2_000, None));
        assert_eq!(line.place(4_000), (FIRST_NS + 2_000, Some(-3_000)));
        assert_eq!(line.place(4_500), (FIRST_NS + 2_500, None));
    }
}
