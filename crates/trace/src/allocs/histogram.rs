//! Sums by powers of two.

use serde::{Deserialize, Serialize};

/// Bucket `k` holds values from 2^(k-1) to 2^k - 1; bucket 0 holds 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    pub buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    pub count: u64,
    pub bytes: u64,
}

impl Histogram {
    /// With room for every value, so that [`Self::add`] never grows.
    pub fn whole() -> Self {
        Self { buckets: vec![Bucket::default(); 65] }
    }

    #[inline]
    pub fn add(&mut self, value: u64, count: u64, bytes: u64) {
        if let Some(bucket) = self.buckets.get_mut(Self::bucket_of(value)) {
            bucket.count = bucket.count.wrapping_add(count);
            bucket.bytes = bucket.bytes.wrapping_add(bytes);
        }
    }

    #[inline]
    pub fn bucket_of(value: u64) -> usize {
        (u64::BITS - value.leading_zeros()) as usize
    }

    /// The smallest value of a bucket.
    pub fn lower_bound(bucket: usize) -> u64 {
        if bucket == 0 { 0 } else { 1_u64.checked_shl(bucket as u32 - 1).unwrap_or(u64::MAX) }
    }

    /// Without the empty buckets at the end.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        while self.buckets.last() == Some(&Bucket::default()) {
            self.buckets.pop();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_between_its_bounds() {
        for value in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            let bucket = Histogram::bucket_of(value);
            assert!(Histogram::lower_bound(bucket) <= value);
            assert!(bucket == 64 || value < Histogram::lower_bound(bucket + 1));
        }
        let mut histogram = Histogram::whole();
        histogram.add(1000, 2, 2000);
        let trimmed = histogram.trimmed();
        assert_eq!(trimmed.buckets.len(), 11);
        assert_eq!(trimmed.buckets[10], Bucket { count: 2, bytes: 2000 });
    }
}
