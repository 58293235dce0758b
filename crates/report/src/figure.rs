//! Figures of a run in words: sizes, times and rates, with their sign or their interval.

use nilometer_analysis::metric::Unit;

use crate::text;

/// `412 MiB`, `12 ms`, `1.88 MiB/step`.
pub(crate) fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Bytes => bytes(value),
        Unit::Seconds => text::duration(value),
        Unit::BytesPerStep => format!("{}/step", bytes(value)),
        Unit::BytesPerMinute => format!("{}/min", bytes(value)),
        Unit::BytesPerRun => format!("{}/run", bytes(value)),
    }
}

/// The same with its sign.
pub(crate) fn signed(unit: Unit, change: f64) -> String {
    let sign = if change < 0.0 { "-" } else { "+" };
    format!("{sign}{}", value(unit, change.abs()))
}

/// `350–368 MiB`.
pub(crate) fn interval(unit: Unit, low: f64, high: f64) -> String {
    if unit == Unit::Bytes && low >= 0.0 {
        let (_, name) = text::scale(high.max(1024.0));
        let (_, low_name) = text::scale(low.max(1024.0));
        let range = text::range(low as u64, high as u64);
        return if name == low_name && high >= 1024.0 { format!("{range} {name}") } else { range };
    }
    format!("{} … {}", signed(unit, low), signed(unit, high))
}

/// A coefficient may be a fraction of a byte.
fn bytes(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    match value.abs() {
        size if size > 0.0 && size < 10.0 => format!("{sign}{size:.2} B"),
        size => format!("{sign}{}", text::bytes(size as u64)),
    }
}

/// A plain number as one would type it: `96`, `0.5`.
pub(crate) fn number(value: f64) -> String {
    nilometer_analysis::sweep::space::number_text(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_signs() {
        assert_eq!(value(Unit::Bytes, 412.0 * 1_048_576.0), "412 MiB");
        assert_eq!(value(Unit::BytesPerStep, 0.25), "0.25 B/step");
        assert_eq!(signed(Unit::Seconds, -0.012), "-12 ms");
        assert_eq!(signed(Unit::Bytes, 0.0), "+0 B");
        assert_eq!(interval(Unit::Bytes, 350.0 * 1_048_576.0, 368.0 * 1_048_576.0), "350–368 MiB");
        assert_eq!(interval(Unit::Bytes, -1024.0, 1024.0), "-1.00 KiB … +1.00 KiB");
    }
}
