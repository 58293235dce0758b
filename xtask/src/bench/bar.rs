//! Bars: a figure, the limit it must keep, and the verdict.

use serde_json::{Value, json};

/// One promise about a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub what: String,
    /// None where this run did not measure it.
    pub measured: Option<f64>,
    pub limit: Limit,
    pub unit: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    /// None where it was not measured.
    pub fn holds(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(match self.limit {
            Limit::AtMost(limit) => measured <= limit,
            Limit::AtLeast(limit) => measured >= limit,
        })
    }

    fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "pass",
            Some(false) => "**FAIL**",
            None => "not measured",
        }
    }

    fn limit_text(&self) -> String {
        match self.limit {
            Limit::AtMost(limit) => format!("≤ {limit}{}", self.unit),
            Limit::AtLeast(limit) => format!("≥ {limit}{}", self.unit),
        }
    }

    pub fn to_json(&self) -> Value {
        json!({"what": self.what, "measured": self.measured, "limit": self.limit_text(), "holds": self.holds()})
    }
}

/// The bars as a Markdown table.
pub fn render_bars(bars: &[Bar]) -> String {
    let head = "| bar | limit | measured | verdict |\n|---|---:|---:|---|\n".to_owned();
    let row = |bar: &Bar| {
        let measured = bar.measured.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}{}", bar.unit));
        format!("| {} | {} | {measured} | {} |\n", bar.what, bar.limit_text(), bar.verdict())
    };
    head + &bars.iter().map(row).collect::<Vec<_>>().concat()
}

/// True when no measured bar is broken.
pub fn all_hold(bars: &[Bar]) -> bool {
    bars.iter().all(|bar| bar.holds() != Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(measured: Option<f64>, limit: Limit) -> Bar {
        Bar { what: "x".to_owned(), measured, limit, unit: " %" }
    }

    #[test]
    fn a_bar_holds_up_to_its_limit() {
        assert_eq!(bar(Some(0.4), Limit::AtMost(0.4)).holds(), Some(true));
        assert_eq!(bar(Some(0.5), Limit::AtMost(0.4)).holds(), Some(false));
        assert_eq!(bar(Some(19.0), Limit::AtLeast(20.0)).holds(), Some(false));
    }

    #[test]
    fn what_was_not_measured_is_neither_passed_nor_failed() {
        let unmeasured = [bar(None, Limit::AtMost(1.0))];
        assert!(all_hold(&unmeasured));
        assert!(render_bars(&unmeasured).contains("| x | ≤ 1 % | – | not measured |"));
    }
}
