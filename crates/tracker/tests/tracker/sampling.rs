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

/// The same of `ways.c`, without the blocks made.
const WAYS: [(u64, u64); 12] = [
    (72, 50_000),
    (41, 0),
    (88, 50_000),
    (2064, 5_000),
    (1001, 0),
    (3001, 0),
    (504, 2_000),
    (4160, 500),
    (101, 0),
    (1 << 20, 50),
    (1 << 19, 0),
    (57, 50),
];

/// Estimated live bytes by size, of one run.
fn live(name: &str, settings: &str, args: &[&str]) -> HashMap<u64, f64> {
    let session = Session::new();
    let output = session.command(program(name), settings).args(args).output().unwrap();
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
    estimate("sites.c", &SITES.map(|(bytes, live, _)| (bytes, live)));
}

#[test]
fn estimates_are_unbiased_whichever_way_a_block_was_made() {
    estimate("ways.c", &WAYS);
}

fn estimate(name: &str, sites: &[(u64, u64)]) {
    const RUNS: u32 = 12;
    for mean_bytes in [64_u64 << 10, 512 << 10] {
        let settings = format!("mode=sampled,mean={mean_bytes}");
        let runs: Vec<_> = (0..RUNS).map(|_| live(name, &settings, &["2"])).collect();
        for &(bytes, live_blocks) in sites {
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
    let sites = SITES.map(|(bytes, live, _)| (bytes, live));
    check_exactly(&live("sites.c", "mode=all", &["1"]), &sites);
    check_exactly(&live("ways.c", "mode=all", &["1"]), &WAYS);
}

/// Every block is a sample, so that nothing may be missed: neither a block nor its end.
#[test]
fn samples_of_everything_are_exact() {
    let tenth = WAYS.map(|(bytes, live)| (bytes, live / 10));
    check_exactly(&live("ways.c", "mode=sampled,exact=0", &["1", "5000"]), &tenth);
}

fn check_exactly(sums: &HashMap<u64, f64>, sites: &[(u64, u64)]) {
    for &(bytes, live_blocks) in sites {
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
