//! The one way in which sizes and durations are written in sentences; views use the same.

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Three significant digits in KiB, MiB, GiB …; below 1 KiB the bytes.
pub fn bytes(value: u64) -> String {
    if value < 1024 {
        return format!("{value} B");
    }
    let (scaled, unit) = scale(value as f64);
    format!("{} {unit}", digits(scaled))
}

/// The same with a sign, `+` included.
pub fn signed_bytes(value: i64) -> String {
    let sign = if value < 0 { '-' } else { '+' };
    format!("{sign}{}", bytes(value.unsigned_abs()))
}

/// Value in the largest unit that leaves at least one whole digit after rounding.
pub fn scale(value: f64) -> (f64, &'static str) {
    let mut scaled = value / 1024.0;
    let mut place = 0;
    while scaled >= 999.5 && place + 1 < UNITS.len() {
        scaled /= 1024.0;
        place += 1;
    }
    (scaled, UNITS[place])
}

/// Three significant digits without an exponent.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// `12 ms`, `4.21 s`, `3 m 12 s`, `2 h 05 m`, `3 d 04 h`.
pub fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    let sign = if seconds < 0.0 { "-" } else { "" };
    let whole = size.round() as u64;
    if size < 0.9995 {
        format!("{sign}{:.0} ms", size * 1e3)
    } else if size < 59.95 {
        format!("{sign}{} s", digits(size))
    } else if whole < 3_600 {
        format!("{sign}{} m {:02} s", whole / 60, whole % 60)
    } else if whole < 86_400 {
        format!("{sign}{} h {:02} m", whole / 3_600, whole % 3_600 / 60)
    } else {
        format!("{sign}{} d {:02} h", whole / 86_400, whole % 86_400 / 3_600)
    }
}

/// `16G` = `16GiB` = 16 × 2^30, `16GB` = 16 × 10^9, a bare number is bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text)?;
    let (prefix, base) = match unit.strip_suffix("iB") {
        Some(prefix) => (prefix, 1024.0_f64),
        None => match unit.strip_suffix('B') {
            Some(prefix) => (prefix, 1000.0),
            None => (unit, 1024.0),
        },
    };
    let power = match prefix {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return Err(format!("unknown size `{text}`; use for example 512M, 16G or 16GB")),
    };
    let bytes = number * base.powi(power);
    if bytes > 2f64.powi(60) { Err("more than an exbibyte".to_owned()) } else { Ok(bytes as u64) }
}

/// A number and the unit behind it.
pub fn split_unit(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a number with a unit"))?;
    Ok((number, unit.trim()))
}

/// Nanoseconds since 1970 as RFC 3339 in UTC, to the second.
pub fn timestamp(realtime_ns: u64) -> String {
    let seconds = i64::try_from(realtime_ns / 1_000_000_000).unwrap_or(0);
    jiff::Timestamp::from_second(seconds).map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let known = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 * 1024 * 1024, "10.0 MiB"),
            (1023 * 1024, "1.00 MiB"),
            (6_882_885_304, "6.41 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (value, text) in known {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn signs_are_always_there() {
        assert_eq!(signed_bytes(1024), "+1.00 KiB");
        assert_eq!(signed_bytes(-2048), "-2.00 KiB");
        assert_eq!(signed_bytes(i64::MIN), "-8.00 EiB");
        assert_eq!(signed_bytes(0), "+0 B");
    }

    #[test]
    fn durations_use_two_units() {
        let known = [
            (0.0, "0 ms"),
            (0.012, "12 ms"),
            (4.213, "4.21 s"),
            (59.97, "1 m 00 s"),
            (192.0, "3 m 12 s"),
            (7_500.0, "2 h 05 m"),
            (273_600.0, "3 d 04 h"),
            (-1.5, "-1.50 s"),
        ];
        for (seconds, text) in known {
            assert_eq!(duration(seconds), text);
        }
    }
}
