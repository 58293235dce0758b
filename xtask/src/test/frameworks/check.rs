//! One number: what was told, the truth, how far they may differ, and the verdict.

use serde_json::{Value, json};

/// How far what is told may be from the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// As a share of the truth; 0 is to the byte.
    Within(f64),
    /// At least the truth, and at most so much.
    UpTo(f64),
}

/// A number that was told, or the reason why it is not.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The verb.
    verb: &'static str,
    /// Which number.
    what: String,
    /// Where the truth comes from, or why there is no number.
    how: String,
    figures: Option<Figures>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    told: f64,
    truth: f64,
    limit: Limit,
    unit: &'static str,
}

impl Check {
    pub fn bytes(verb: &'static str, what: &str, told: f64, truth: f64, limit: Limit, how: &str) -> Self {
        Self::of(verb, what, Figures { told, truth, limit, unit: "B" }, how)
    }

    pub fn count(verb: &'static str, what: &str, told: f64, truth: f64, how: &str) -> Self {
        Self::of(verb, what, Figures { told, truth, limit: Limit::Within(0.0), unit: "" }, how)
    }

    fn of(verb: &'static str, what: &str, figures: Figures, how: &str) -> Self {
        Self { verb, what: what.to_owned(), how: how.to_owned(), figures: Some(figures) }
    }

    /// No number is a good answer where there is none to be had; a wrong one is not.
    pub fn cannot_tell(verb: &'static str, what: &str, why: &str) -> Self {
        Self { verb, what: what.to_owned(), how: why.to_owned(), figures: None }
    }

    pub fn holds(&self) -> bool {
        self.figures.is_none_or(|figures| figures.holds())
    }

    pub fn to_json(&self) -> Value {
        let mut value = json!({"verb": self.verb, "what": self.what, "how": self.how, "holds": self.holds()});
        if let Some(Figures { told, truth, limit, unit }) = self.figures {
            value["told"] = told.into();
            value["truth"] = truth.into();
            value["unit"] = unit.into();
            value["limit"] = limit.text(unit).into();
        }
        value
    }
}

impl Figures {
    fn holds(&self) -> bool {
        match self.limit {
            Limit::Within(share) => (self.told - self.truth).abs() <= share * self.truth.abs(),
            Limit::UpTo(most) => (self.truth..=most).contains(&self.told),
        }
    }
}

impl Limit {
    fn text(self, unit: &str) -> String {
        match self {
            Self::Within(0.0) => "the same".to_owned(),
            Self::Within(share) => format!("± {} %", share * 100.0),
            Self::UpTo(most) => format!("at least, and ≤ {most:.0} {unit}").trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(told: f64, truth: f64, limit: Limit) -> bool {
        Check::bytes("run", "x", told, truth, limit, "").holds()
    }

    #[test]
    fn a_wrong_number_fails_and_none_does_not() {
        assert!(holds(100.0, 100.0, Limit::Within(0.0)) && !holds(101.0, 100.0, Limit::Within(0.0)));
        assert!(holds(101.0, 100.0, Limit::Within(0.01)) && !holds(98.0, 100.0, Limit::Within(0.01)));
        assert!(holds(100.0, 100.0, Limit::UpTo(110.0)) && holds(110.0, 100.0, Limit::UpTo(110.0)));
        assert!(!holds(99.0, 100.0, Limit::UpTo(110.0)) && !holds(111.0, 100.0, Limit::UpTo(110.0)));
        assert!(!holds(f64::NAN, 100.0, Limit::Within(1.0)) && !holds(f64::NAN, 1.0, Limit::UpTo(2.0)));
        assert!(Check::cannot_tell("heap", "x", "only C++ knows").holds());
    }
}
