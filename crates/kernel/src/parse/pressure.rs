//! `/proc/pressure/memory` (PSI, since Linux 4.20): how much time is lost waiting for memory.

use super::scan::{lines, number, words};

/// Averages in 1/100 %, the total in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stall {
    pub avg10: u64,
    pub avg60: u64,
    pub avg300: u64,
    pub total_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// At least one task waits.
    pub some: Stall,
    /// All tasks wait.
    pub full: Stall,
}

pub fn parse(text: &[u8]) -> Option<Pressure> {
    let mut pressure = Pressure::default();
    let mut seen = false;
    for line in lines(text) {
        let stall = if line.starts_with(b"some ") {
            &mut pressure.some
        } else if line.starts_with(b"full ") {
            &mut pressure.full
        } else {
            continue;
        };
        words(line).skip(1).for_each(|word| take(stall, word));
        seen = true;
    }
    seen.then_some(pressure)
}

fn take(stall: &mut Stall, word: &[u8]) {
    let Some(equals) = word.iter().position(|b| *b == b'=') else { return };
    let value = &word[equals + 1..];
    match &word[..equals] {
        b"avg10" => stall.avg10 = hundredths(value),
        b"avg60" => stall.avg60 = hundredths(value),
        b"avg300" => stall.avg300 = hundredths(value),
        b"total" => stall.total_us = number(value).unwrap_or(0),
        _ => {}
    }
}

/// `12.34` as 1234; the kernel always prints two decimals.
fn hundredths(text: &[u8]) -> u64 {
    let whole = number(text).unwrap_or(0);
    let decimals = text.iter().position(|b| *b == b'.').and_then(|dot| number(&text[dot + 1..])).unwrap_or(0);
    whole.saturating_mul(100).saturating_add(decimals.min(99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_read() {
        let p = parse(b"some avg10=1.50 avg60=0.07 avg300=100.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.01 total=45\n").unwrap();
        assert_eq!(p.some, Stall { avg10: 150, avg60: 7, avg300: 10_000, total_us: 123 });
        assert_eq!(p.full, Stall { avg10: 0, avg60: 0, avg300: 1, total_us: 45 });
        assert_eq!(parse(b"nothing"), None);
    }
}
