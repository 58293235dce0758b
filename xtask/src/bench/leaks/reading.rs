//! One verdict on one program.

use serde_json::{Value, json};

use super::program::Program;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Right,
    FalseAlarm,
    Missed,
    CannotTell,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::FalseAlarm => "**false alarm**",
            Self::Missed => "**missed**",
            Self::CannotTell => "cannot tell",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Reading {
    pub program: Program,
    pub round: usize,
    pub code: i32,
    pub class: String,
    pub reason: String,
    pub rate: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub smallest: Option<f64>,
    pub seconds: f64,
    pub looks: [u64; 2],
    pub places: Vec<String>,
}

impl Reading {
    pub fn of(program: &Program, round: usize, code: i32, document: &Value) -> Self {
        let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
        let places = document["places"].as_array().into_iter().flatten();
        let place = |place: &Value| {
            format!(
                "{} {}",
                place["name"].as_str().unwrap_or_default(),
                place["path"].as_str().unwrap_or_default()
            )
        };
        let interval = document["ci95"].as_array();
        Self {
            program: program.clone(),
            round,
            code,
            class: text("class"),
            reason: text("reason"),
            rate: document["rate_bytes_per_step"].as_f64(),
            ci95: interval.and_then(|ends| Some([ends.first()?.as_f64()?, ends.get(1)?.as_f64()?])),
            smallest: document["smallest_detectable"].as_f64(),
            seconds: document["duration_s"].as_f64().unwrap_or(0.0),
            looks: [&document["looks"]["heap"], &document["looks"]["ledger"]]
                .map(|n| n.as_u64().unwrap_or(0)),
            places: places.map(place).collect(),
        }
    }

    pub fn outcome(&self) -> Outcome {
        match (self.class.as_str(), self.program.leaks, self.code == 1) {
            ("cannot tell", _, _) => Outcome::CannotTell,
            (_, true, false) => Outcome::Missed,
            (_, false, true) => Outcome::FalseAlarm,
            _ => Outcome::Right,
        }
    }

    /// How far the rate is from the truth, as a share; where both are known and it was called a leak.
    pub fn rate_off(&self) -> Option<f64> {
        let truth = self.program.rate_bytes.filter(|_| self.outcome() == Outcome::Right)?;
        Some((self.rate? / truth - 1.0).abs())
    }

    pub fn has_class(&self) -> bool {
        self.program.classes.contains(&self.class)
    }

    /// Absent where the truth names none.
    pub fn has_place(&self) -> Option<bool> {
        let wanted = self.program.place.as_ref()?;
        Some(self.places.iter().any(|place| place.contains(wanted.as_str())))
    }

    pub fn to_json(&self) -> Value {
        json!({
            "program": self.program.label, "round": self.round, "leaks": self.program.leaks, "exit_code": self.code,
            "class": self.class, "reason": self.reason, "rate": self.rate, "ci95": self.ci95,
            "truth_rate": self.program.rate_bytes, "smallest_detectable": self.smallest, "seconds": self.seconds,
            "censuses": self.looks[0], "ledgers": self.looks[1], "places": self.places,
            "outcome": self.outcome().name(), "place_found": self.has_place(),
        })
    }
}
