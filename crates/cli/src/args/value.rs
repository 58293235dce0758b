//! Sizes, times and shares as people type them.

use std::time::Duration;

pub use nilometer_analysis::text::parse_size;
use nilometer_analysis::text::split_unit;
use nilometer_capture::heap_watch::Every;
use nilometer_capture::stop_after::StopAfter;
use nilometer_capture::watchdog::Amount;

const SHORTEST_INTERVAL: Duration = Duration::from_millis(5);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// Nothing here needs to look longer than a day before or after a run.
const LONGEST_LOOK: Duration = Duration::from_secs(86_400);

/// `100ms`, `5s`, `2m`, `1h`, `0.5s`; a bare number is refused because nobody knows its unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text)?;
    let seconds = match unit {
        "us" => number * 1e-6,
        "ms" => number * 1e-3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "" if number == 0.0 => 0.0,
        "" => return Err(format!("a time needs its unit, for example {text}s or {text}ms")),
        _ => return Err(format!("unknown unit `{unit}`; use us, ms, s, m or h")),
    };
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| "too long".to_owned())?;
    if duration > LONGEST_LOOK { Err("longer than a day".to_owned()) } else { Ok(duration) }
}

/// `30steps`, `90s`, `settled`.
pub fn parse_stop_after(text: &str) -> Result<StopAfter, String> {
    if text == "settled" {
        return Ok(StopAfter::Settled);
    }
    match parse_every(text) {
        Ok(Every::Steps(steps)) => Ok(StopAfter::Steps(steps)),
        Ok(Every::Time(time)) => Ok(StopAfter::Time(time)),
        _ => Err("use a number of steps as 30steps, a time as 90s, or settled".to_owned()),
    }
}

/// `auto`, `30s`, `100steps`.
pub fn parse_every(text: &str) -> Result<Every, String> {
    if text == "auto" {
        return Ok(Every::Auto);
    }
    let Some(steps) = text.strip_suffix("steps").or_else(|| text.strip_suffix("step")) else {
        return match parse_duration(text) {
            Ok(time) if !time.is_zero() => Ok(Every::Time(time)),
            _ => Err("use auto, a time as 30s, or a number of steps as 100steps".to_owned()),
        };
    };
    match steps.trim().parse() {
        Ok(steps) if steps > 0 => Ok(Every::Steps(steps)),
        _ => Err(format!("`{steps}` is no number of steps")),
    }
}

pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err("the interval must lie between 5ms and 60s".to_owned())
    }
}

/// `1%` or `0.5%`, between 0 and 100.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("a share needs a percent sign, for example 1%")?;
    let percent: f64 = number.trim().parse().map_err(|_| format!("`{number}` is not a number"))?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent)
    } else {
        Err("must lie between 0% and 100%".to_owned())
    }
}

/// A size, or a share of what the option says.
pub fn parse_amount(text: &str) -> Result<Amount, String> {
    if text.trim_end().ends_with('%') {
        parse_percent(text.trim()).map(Amount::Percent)
    } else {
        parse_size(text).map(Amount::Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_stated_bases() {
        assert_eq!(parse_size("16G"), Ok(16 << 30));
        assert_eq!(parse_size("16GiB"), Ok(16 << 30));
        assert_eq!(parse_size("16GB"), Ok(16_000_000_000));
        assert_eq!(parse_size("1.5k"), Ok(1536));
        assert_eq!(parse_size("42"), Ok(42));
        for absurd in ["", "-1", "5X", "99999999999T", "G", "1e9", "NaN", "inf"] {
            assert!(parse_size(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn intervals_are_bounded_and_need_units() {
        assert_eq!(parse_interval("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_interval("60s"), Ok(Duration::from_secs(60)));
        for absurd in ["100", "4ms", "61s", "0", "-5s", "1y", "", "1e3s", "99999999999999999999h"] {
            assert!(parse_interval(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn shares_need_a_percent_sign() {
        assert_eq!(parse_percent("0.5%"), Ok(0.5));
        for absurd in ["1", "101%", "-1%", "x%", "NaN%"] {
            assert!(parse_percent(absurd).is_err(), "{absurd}");
        }
    }
}
