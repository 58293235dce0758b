//! The verdict on generated curves with a known truth, as a table.
//! `cargo run --release -p nilometer-analysis --example hold_out [COUNT [FIRST_SEED]]`

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;

use nilometer_analysis::leak::generate::{self, Curve};
use nilometer_analysis::leak::series::{self, Course, Judged, Terms};

fn judge(curve: &Curve) -> Judged {
    let level = curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    series::judge(&curve.points, &Terms::resident(level, 0.0))
}

/// Wrong is a leak where there is none, or none where one as large as said would have been seen.
fn outcome(curve: &Curve, judged: &Judged) -> &'static str {
    let grows = judged.course == Course::Grows;
    match (curve.leaks, grows) {
        _ if judged.course == Course::Unclear => "cannot tell",
        (true, true) | (false, false) => "right",
        (false, true) => "false alarm",
        (true, false) if judged.smallest.is_some_and(|smallest| curve.rate < smallest) => {
            "below what it can see"
        }
        (true, false) => "missed",
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (count, first) = (arguments.next().unwrap_or(200), arguments.next().unwrap_or(1));
    let mut table: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut outcomes: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut off = Vec::new();
    for seed in first..first + count {
        let curve = generate::curve(seed);
        let judged = judge(&curve);
        let outcome = outcome(&curve, &judged);
        *outcomes.entry(outcome).or_default() += 1;
        *table.entry((format!("{:?}", curve.shape), format!("{:?}", judged.course))).or_default() += 1;
        if outcome != "right" {
            println!(
                "seed {seed} {:?} (rate {:.0}): {outcome}: {}: {:?}, smallest {:?}",
                curve.shape,
                curve.rate,
                judged.reason,
                judged.rate.map(|rate| [rate.low as i64, rate.value as i64, rate.high as i64]),
                judged.smallest.map(|s| s as i64)
            );
        }
        if let Some(rate) = judged.rate.filter(|_| curve.leaks && judged.course == Course::Grows) {
            off.push((rate.value / curve.rate - 1.0).abs());
        }
    }
    off.sort_by(f64::total_cmp);
    let at = |share: f64| off.get((off.len() as f64 * share) as usize).copied().unwrap_or(0.0) * 100.0;
    let of = |name: &str| outcomes.get(name).copied().unwrap_or(0);
    if std::env::args().any(|word| word == "--json") {
        println!(
            "{{\"count\": {count}, \"first_seed\": {first}, \"wrong\": {}, \"cannot_tell\": {}, \"below\": {}, \"median_off_percent\": {:.3}}}",
            of("false alarm") + of("missed"),
            of("cannot tell"),
            of("below what it can see"),
            at(0.5)
        );
        return;
    }
    for ((shape, course), times) in &table {
        println!("{shape:<14} {course:<10} {times:>5}");
    }
    println!(
        "{count} curves from seed {first}: {outcomes:?}; rates off by {:.1} % (median), {:.1} % (nine of ten)",
        at(0.5),
        at(0.9)
    );
}
