//! What a recorded block stands for: itself, or more when it was drawn at random.
//!
//! Weights are whole numbers that depend on the block's size and on how it was drawn alone, so that what is added at an
//! allocation is exactly what is taken away at its free.

use nilometer_trace::allocs::Amount;

/// How blocks are drawn: every one, or one in `mean_bytes` on average and all from `exact_bytes` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Draw {
    pub mean_bytes: u64,
    pub exact_bytes: u64,
}

/// Ways of drawing that a process has used, by index. The first is "every block".
#[derive(Debug, Clone)]
pub struct Draws {
    known: Vec<Draw>,
}

/// A [`super::block::Block`] has four bits for the index.
const MOST: usize = 16;
pub const EVERY: u8 = 0;

impl Default for Draws {
    fn default() -> Self {
        Self { known: vec![Draw::default()] }
    }
}

impl Draws {
    /// The index of a way of drawing. A target that invents too many gets the last one's.
    pub fn index(&mut self, draw: Draw) -> u8 {
        if let Some(index) = self.known.iter().position(|known| *known == draw) {
            return index as u8;
        }
        if self.known.len() < MOST {
            self.known.push(draw);
        }
        (self.known.len() - 1) as u8
    }

    /// What a block of `bytes` stands for.
    #[inline]
    pub fn amount(&self, index: u8, bytes: u64) -> Amount {
        if index == EVERY {
            return Amount { bytes, count: 1, variance: 0 };
        }
        self.known.get(usize::from(index)).map_or(Amount::default(), |draw| draw.amount(bytes))
    }
}

impl Draw {
    fn amount(&self, bytes: u64) -> Amount {
        if self.mean_bytes == 0 || bytes >= self.exact_bytes || bytes == 0 {
            return Amount { bytes, count: 1, variance: 0 };
        }
        // Drawn with probability 1 - exp(-bytes / mean): dividing by it is unbiased.
        let size = bytes as f64;
        let inverse = 1.0 / -(-size / self.mean_bytes as f64).exp_m1();
        let weight = size * inverse;
        Amount {
            bytes: weight.round() as u64,
            count: inverse.round().max(1.0) as u64,
            variance: (weight * (weight - size)).round().max(0.0) as u64,
        }
    }
}

/// Sums of amounts. Wrapping: a target that lies about its events gets strange sums, not a panic of ours.
pub trait Sum {
    fn add(&mut self, other: &Amount);
    fn sub(&mut self, other: &Amount);
}

impl Sum for Amount {
    #[inline]
    fn add(&mut self, other: &Amount) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.count = self.count.wrapping_add(other.count);
        self.variance = self.variance.wrapping_add(other.variance);
    }

    #[inline]
    fn sub(&mut self, other: &Amount) {
        self.bytes = self.bytes.wrapping_sub(other.bytes);
        self.count = self.count.wrapping_sub(other.count);
        self.variance = self.variance.wrapping_sub(other.variance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_surely_seen_stands_for_itself() {
        let mut draws = Draws::default();
        let sampled = draws.index(Draw { mean_bytes: 524_288, exact_bytes: 262_144 });
        let own = |bytes| Amount { bytes, count: 1, variance: 0 };
        assert_eq!(draws.amount(EVERY, 100), own(100));
        assert_eq!(draws.amount(sampled, 262_144), own(262_144));
        assert_eq!(draws.amount(sampled, 0), own(0));
    }

    #[test]
    fn a_drawn_block_stands_for_those_passed_over() {
        let mut draws = Draws::default();
        let sampled = draws.index(Draw { mean_bytes: 524_288, exact_bytes: 262_144 });
        // 1 / (1 - exp(-64 / 524288)) = 8192.5, and 64 times that.
        let amount = draws.amount(sampled, 64);
        assert_eq!((amount.bytes, amount.count), (524_320, 8193));
        let variance = 524_320.000_65_f64 * (524_320.000_65 - 64.0);
        assert!((amount.variance as f64 - variance).abs() < 10.0);
    }

    #[test]
    fn ways_of_drawing_are_told_apart_as_long_as_there_is_room() {
        let mut draws = Draws::default();
        let first = Draw { mean_bytes: 1, exact_bytes: 2 };
        assert_eq!((draws.index(first), draws.index(first)), (1, 1));
        for mean_bytes in 2..100 {
            assert!(draws.index(Draw { mean_bytes, exact_bytes: 9 }) < 16);
        }
    }
}
