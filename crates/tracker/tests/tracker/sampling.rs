//! Sampled mode against a program whose live sets are known: unbiased, and as exact as promised.

use std::collections::HashMap;

use super::session::{Session, program};

/// Requested size, live blocks and blocks made, per thread of `sites.c`.
const SITES: [(u64, u64, u64); 6] = [
    (64, 50_000, 50_000),
    (2048, 5_000, 5_000),
    (100_000, 200, 200),
    (1 << 20, 50, 50),
    (128, 0, 500_000),
    (48, 250_000, 500_000),
];

/// Estimated live bytes by size, of one run.
fn live(settings: &str, threads: u64) -> HashMap<u64, f64> {
    let session = Session::new();
    let output = session.command(program("sites.c"), settings).arg(threads.to_string()).output().unwrap();
    assert!(output.status.success());
    let heard = session.finish();
    let told = heard.only();
    assert_eq!((told.totals.lost, told.unknown_frees()), (0, 0));
    let mut sums = HashMap::new();
    for block in told.live().values() {
        *sums.entry(block.bytes).or_insert(0.0) += block.weight;
    }
    sums
}

#[test]
fn estimates_are_unbiased_and_their_error_is_the_one_told() {
    const RUNS: u32 = 12;
    for mean_bytes in [64_u64 << 10, 512 << 10] {
        let settings = format!("mode=sampled,mean={mean_bytes}");
        let runs: Vec<_> = (0..RUNS).map(|_| live(&settings, 2)).collect();
        for (bytes, live_blocks, _) in SITES {
            let truth = (bytes * live_blocks * 2) as f64;
            let found: Vec<f64> = runs.iter().map(|run| run.get(&bytes).copied().unwrap_or(0.0)).collect();
            let average = found.iter().sum::<f64>() / f64::from(RUNS);
            if bytes >= 256 << 10 || truth == 0.0 {
                assert!(found.iter().all(|&sum| (sum - truth).abs() < 0.5), "{bytes}: {found:?}");
                continue;
            }
            // One block in (1 - exp(-s/m)) is drawn and counts s/p: the variance of the sum of n blocks.
            let chance = -(-(bytes as f64) / mean_bytes as f64).exp_m1();
            let deviation = bytes as f64 * (2.0 * live_blocks as f64 * (1.0 - chance) / chance).sqrt();
            let off = (average - truth) / (deviation / f64::from(RUNS).sqrt());
            assert!(
                off.abs() < 4.0,
                "{bytes} at {mean_bytes}: {off:.1} standard errors, {average} of {truth}"
            );
            let inside = found.iter().filter(|&&sum| (sum - truth).abs() < 2.0 * deviation).count();
            assert!(
                inside >= RUNS as usize - 4,
                "{bytes} at {mean_bytes}: {inside} of {RUNS} inside two sigma"
            );
        }
    }
}

#[test]
fn all_mode_is_exact() {
    let sums = live("mode=all", 1);
    for (bytes, live_blocks, _) in SITES {
        let found = sums.get(&bytes).copied().unwrap_or(0.0);
        assert!((found - (bytes * live_blocks) as f64).abs() < 0.5, "{bytes}: {found}");
    }
}

#[test]
fn samples_are_few() {
    let session = Session::new();
    let output = session.command(program("sites.c"), "mode=sampled").arg("1").output().unwrap();
    assert!(output.status.success());
    let heard = session.finish();
    let told = heard.only();
    let total: u64 = SITES.iter().map(|(bytes, _, made)| bytes * made).sum();
    assert!(told.allocations < 50 + 3 * total / (512 << 10), "{} of {total} bytes", told.allocations);
}
