//! Arithmetic on sizes that cannot overflow: records may say anything.

/// Kernel kB to bytes.
pub(crate) fn kib(value: u64) -> u64 {
    value.saturating_mul(1024)
}

pub(crate) fn mid(low: u64, high: u64) -> u64 {
    low + high.saturating_sub(low) / 2
}

pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `a - b`, clamped to what an `i64` holds.
pub(crate) fn difference(a: u64, b: u64) -> i64 {
    if a >= b { signed(a - b) } else { -signed(b - a) }
}

/// `part / whole`, 0 where there is no whole.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_saturate() {
        assert_eq!(kib(u64::MAX), u64::MAX);
        assert_eq!(mid(4, 2), 4);
        assert_eq!(mid(0, u64::MAX), u64::MAX / 2);
        assert_eq!(difference(0, u64::MAX), -i64::MAX);
        assert_eq!(difference(7, 10), -3);
    }
}
