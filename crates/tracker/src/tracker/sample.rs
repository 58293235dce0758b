//! Sampled mode: which allocations are recorded, and which frees belong to them.
//!
//! Bytes between two samples are exponentially distributed, so that a block of `s` bytes is drawn with
//! probability `1 - exp(-s / mean)` whatever was allocated before; the reader divides by it. Large blocks are
//! always recorded. A free must be matched from any thread: one table for the process.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use nilometer_ring::layout::degraded;

use super::process::control;
use super::sys;
use super::tls::Tls;

/// False if an allocation of this size is surely not recorded. Else [`drawn`] must be asked.
#[inline(always)]
pub fn may_be_drawn(tls: *mut Tls, bytes: usize) -> bool {
    if bytes as u64 >= control().exact_bytes.load(Relaxed) {
        return true;
    }
    // SAFETY: this thread's own bytes.
    let tls = unsafe { &mut *tls };
    tls.countdown -= bytes as i64;
    tls.countdown <= 0
}

/// True if an allocation that [`may_be_drawn`] is to be recorded.
#[cold]
#[inline(never)]
pub fn drawn(tls: *mut Tls, bytes: usize) -> bool {
    // SAFETY: this thread's own bytes.
    let tls = unsafe { &mut *tls };
    if bytes as u64 >= control().exact_bytes.load(Relaxed) {
        return true;
    }
    let mean = control().mean_bytes.load(Relaxed) as f64;
    if tls.random == 0 {
        // The thread's first allocation: its distance was never drawn.
        tls.random = sys::random() | 1;
        tls.countdown = distance(&mut tls.random, mean) - bytes as i64;
        if tls.countdown > 0 {
            return false;
        }
    }
    tls.countdown = distance(&mut tls.random, mean);
    true
}

/// The next distance in bytes: exponential with this mean, rounded up (a block must reach it to be drawn).
fn distance(state: &mut u64, mean: f64) -> i64 {
    let mut x = *state; // xorshift64
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    let uniform = ((x >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let exact = -ln(uniform) * mean;
    let whole = exact as i64;
    whole + i64::from((whole as f64) < exact)
}

/// The natural logarithm for `0 < x < 1`, to 12 digits: libm is not loaded for this.
fn ln(x: f64) -> f64 {
    const LN_2: f64 = core::f64::consts::LN_2;
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let (mut term, mut sum, mut divisor) = (s, 0.0, 1.0);
    while divisor < 18.0 {
        sum += term / divisor;
        term *= square;
        divisor += 2.0;
    }
    2.0 * sum + exponent as f64 * LN_2
}

const SLOTS: usize = 1 << 16;
/// An odd number: the upper half of a 32-bit product with it is the place of a block.
pub const SPREAD: u32 = 0x1b87_3593;
/// A block lies at most so far from its place.
const WINDOW: usize = 64;

/// Blocks that were drawn and live.
static BLOCKS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
/// How many of them belong to each place: a free looks here first and is mostly done.
pub static COUNTS: [AtomicU8; SLOTS] = [const { AtomicU8::new(0) }; SLOTS];
static LIVE: AtomicU32 = AtomicU32::new(0);
/// When so many live, the next ones are drawn less often.
static CEILING: AtomicU32 = AtomicU32::new(SLOTS as u32 / 2);

/// Also computed in `entry`.
#[inline(always)]
fn place(block: u64) -> usize {
    ((block as u32).wrapping_mul(SPREAD) >> 16) as usize
}

fn slot(at: usize) -> &'static AtomicU64 {
    &BLOCKS[at & (SLOTS - 1)]
}

/// Notes a drawn block. False if there is no room: it must not be recorded, its free would be missed.
#[cold]
pub fn note(block: u64) -> bool {
    thin_out();
    let start = place(block);
    COUNTS[start].fetch_add(1, AcqRel);
    let noted =
        (start..start + WINDOW).any(|at| slot(at).compare_exchange(0, block, AcqRel, Relaxed).is_ok());
    if noted {
        LIVE.fetch_add(1, Relaxed);
    } else {
        COUNTS[start].fetch_sub(1, AcqRel);
    }
    noted
}

/// Too many live samples: draw half as many from now on. The lanes are told the new mean.
fn thin_out() {
    let ceiling = CEILING.load(Relaxed);
    let higher = ceiling + SLOTS as u32 / 10;
    if LIVE.load(Relaxed) < ceiling || CEILING.compare_exchange(ceiling, higher, AcqRel, Relaxed).is_err() {
        return;
    }
    let control = control();
    control.degraded.fetch_or(degraded::TABLE_FULL, Relaxed);
    for bytes in [&control.mean_bytes, &control.exact_bytes] {
        bytes.store(bytes.load(Relaxed).saturating_mul(2), Relaxed);
    }
    control.mode.fetch_add(1 << 16, Release); // another revision of the same mode
}

/// Frees of this block are looked at as if it were drawn, for ever.
pub fn never_pass_over(block: u64) {
    COUNTS[place(block)].fetch_add(1, Relaxed);
}

/// False if the block was surely not drawn.
#[inline(always)]
pub fn may_be_known(block: u64) -> bool {
    COUNTS[place(block)].load(Relaxed) != 0
}

/// True if the block was drawn; it is forgotten.
#[inline(always)]
pub fn known(block: u64) -> bool {
    may_be_known(block) && forget(block, place(block))
}

#[cold]
#[inline(never)]
fn forget(block: u64, start: usize) -> bool {
    let found = (start..start + WINDOW).any(|at| {
        slot(at).load(Acquire) == block && slot(at).compare_exchange(block, 0, AcqRel, Relaxed).is_ok()
    });
    if found {
        COUNTS[start].fetch_sub(1, AcqRel);
        LIVE.fetch_sub(1, Relaxed);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for n in 1..2000 {
            let x = f64::from(n) / 2000.0;
            assert!((ln(x) - x.ln()).abs() < 1e-12 * (1.0 + x.ln().abs()), "{x}");
        }
        assert!((ln(1e-15) - 1e-15_f64.ln()).abs() < 1e-10);
    }

    #[test]
    fn distances_have_the_mean_and_the_tail_of_an_exponential() {
        let (mut state, mean, count) = (12345, 1000.0, 200_000);
        let drawn: Vec<i64> = (0..count).map(|_| distance(&mut state, mean)).collect();
        let sum: f64 = drawn.iter().map(|&d| d as f64).sum();
        let average = sum / f64::from(count);
        assert!((average - 1000.5).abs() < 3.0 * 1000.0 / f64::from(count).sqrt(), "{average}");
        let beyond = drawn.iter().filter(|&&d| d > 1000).count() as f64 / f64::from(count);
        assert!((beyond - (-1.0_f64).exp()).abs() < 0.005, "{beyond}");
    }

    #[test]
    fn a_noted_block_is_known_once() {
        assert!(note(0x7f00_0000_1230));
        assert!(known(0x7f00_0000_1230));
        assert!(!known(0x7f00_0000_1230));
    }
}
