//! The equation in one line, as people write it on paper.

use nilometer_analysis::ledger::{Ledger, equation};

/// `52M = code 25M + objects 10M + arrays 15M + other 2M`; the terms add up as they are printed.
pub fn render_line(ledger: &Ledger) -> String {
    let whole = mebi(ledger.rss_bytes as i64);
    let terms = equation(ledger);
    // The rest takes what rounding leaves, so that the line is true as it stands.
    let named: i64 = terms[..3].iter().map(|(_, bytes)| mebi(*bytes)).sum();
    let mut told: Vec<String> =
        terms[..3].iter().map(|(name, bytes)| format!("{name} {}M", mebi(*bytes))).collect();
    told.push(format!("{} {}M", terms[3].0, whole - named));
    format!("{whole}M = {}\n", told.join(" + "))
}

fn mebi(bytes: i64) -> i64 {
    (bytes as f64 / f64::from(1 << 20)).round() as i64
}
