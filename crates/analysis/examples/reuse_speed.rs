//! How many touches a second exact reuse distances and a sample of them take, and how far the sample is off.
//! `cargo run --release -p nilometer-analysis --example reuse_speed` prints one JSON document.
#![allow(clippy::print_stdout, reason = "its answer")]

use std::time::Instant;

use nilometer_analysis::pages::curve::Histogram;
use nilometer_analysis::pages::order::Stack;
use nilometer_analysis::pages::shards::Shards;
use serde_json::json;

const PAGES: u64 = 262_144;
const TOUCHES: u64 = 20_000_000;
const SHARE: f64 = 0.01;

/// Zipf-like: the rank is the product of two uniform numbers, so that small ranks are frequent.
fn touches() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    (0..TOUCHES).map(move |_| {
        let (one, other) = (next() % PAGES, next() % PAGES);
        one * other / PAGES
    })
}

fn main() {
    let trace: Vec<u64> = touches().collect();
    let begin = Instant::now();
    let (mut stack, mut exact) = (Stack::default(), Histogram::default());
    let mut counts = vec![0_u64; PAGES as usize + 1];
    for page in &trace {
        match stack.touch(*page) {
            Some(distance) => counts[distance as usize] += 1,
            None => exact.add_cold(1),
        }
    }
    let exact_s = begin.elapsed().as_secs_f64();
    for (touches, distance) in counts.iter().zip(0..) {
        exact.add(distance, *touches);
    }
    let begin = Instant::now();
    let mut shards = Shards::new(SHARE);
    for page in &trace {
        shards.touch(*page);
    }
    let sampled = shards.finish();
    let shards_s = begin.elapsed().as_secs_f64();
    let sizes: Vec<u64> = (1..=100).map(|part| PAGES * part / 100).collect();
    let error = |size: &u64| (exact.miss_ratio(*size) - sampled.miss_ratio(*size)).abs();
    let mean_error = sizes.iter().map(error).sum::<f64>() / sizes.len() as f64;
    let document = json!({
        "touches": TOUCHES,
        "pages": stack.len(),
        "exact_touches_per_s": TOUCHES as f64 / exact_s,
        "shards_touches_per_s": TOUCHES as f64 / shards_s,
        "shards_share": SHARE,
        "shards_mean_miss_ratio_error": mean_error,
    });
    println!("{document}");
}
