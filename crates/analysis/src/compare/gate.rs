//! The language of gates: `peak > +5%`, `leak > 1MB/step`, `category.activations > 2GiB`.
//!
//! A number with a sign is a change against the base; without one it is the value itself. A gate is broken only where
//! the whole 95 % interval lies beyond it; where the value does and its interval does not, there is not enough evidence.

use serde::Serialize;

use super::stat::{Difference, Stat, difference};
use crate::metric::{Metric, Unit};
use crate::text::parse_size;

/// One condition under which a comparison fails.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub text: String,
    pub metric: String,
    above: bool,
    bound: Bound,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// The value itself.
    Value(f64, Unit),
    /// The change against the base.
    Change(f64, Unit),
    /// The change as a share of the base.
    Share(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    Kept,
    Broken,
    NotEnoughEvidence,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    pub gate: String,
    pub judgement: Judgement,
    pub reason: String,
}

impl Gate {
    pub fn parse(text: &str) -> Result<Self, String> {
        let place = text
            .find(['>', '<'])
            .ok_or_else(|| format!("`{text}` has no > or <; write for example 'peak > +5%'"))?;
        let (metric, rest) = text.split_at(place);
        let above = rest.starts_with('>');
        let bound = rest.trim_start_matches(['>', '<', '=']).trim();
        let metric = metric.trim();
        if metric.is_empty() || metric.contains(char::is_whitespace) {
            return Err(format!("`{metric}` is no figure; for example peak, leak, step-time"));
        }
        Ok(Self {
            text: text.trim().to_owned(),
            metric: metric.to_owned(),
            above,
            bound: parse_bound(bound)?,
        })
    }

    /// Judges a figure that both sides have.
    pub fn judge(&self, unit: Unit, other: &Stat, difference: &Difference) -> Judged {
        let scale = Self::scale(difference);
        let (limit, wanted) = match self.bound {
            Bound::Value(limit, unit) | Bound::Change(limit, unit) => (limit, Some(unit)),
            Bound::Share(limit) => (limit, None),
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != unit) {
            return self.unknown(&format!(
                "{} is {}, not {}",
                self.metric,
                unit_name(unit),
                unit_name(wanted)
            ));
        }
        let (value, low, high) = match self.bound {
            Bound::Value(..) => (other.mean, other.interval().0, other.interval().1),
            Bound::Change(..) => (difference.change, difference.low, difference.high),
            Bound::Share(_) => match scale {
                Some(scale) => (difference.change * scale, difference.low * scale, difference.high * scale),
                None => return self.unknown("the base is zero: it has no share"),
            },
        };
        let judgement = self.judgement(limit, value, low, high);
        self.judged(judgement, String::new())
    }

    /// A bound on the value itself needs no base.
    pub fn judge_alone(&self, figures: &[&Metric], slack: f64) -> Option<Judged> {
        let Bound::Value(..) = self.bound else { return None };
        let (stat, unit) = (Stat::of(figures, slack)?, figures.first()?.unit);
        Some(self.judge(unit, &stat, &difference(&stat, &stat)))
    }

    fn judgement(&self, limit: f64, value: f64, low: f64, high: f64) -> Judgement {
        let (beyond, surely) =
            if self.above { (value > limit, low > limit) } else { (value < limit, high < limit) };
        match (beyond, surely) {
            (true, true) => Judgement::Broken,
            (true, false) => Judgement::NotEnoughEvidence,
            (false, _) => Judgement::Kept,
        }
    }

    fn scale(difference: &Difference) -> Option<f64> {
        let share = difference.share?;
        // A change of exactly nothing has a share of zero and no scale of its own.
        if difference.change == 0.0 { Some(0.0) } else { Some(share / difference.change) }
    }

    /// The figure is not in the data.
    pub fn unknown(&self, why: &str) -> Judged {
        self.judged(Judgement::NotEnoughEvidence, why.to_owned())
    }

    fn judged(&self, judgement: Judgement, reason: String) -> Judged {
        Judged { gate: self.text.clone(), judgement, reason }
    }
}

pub fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "a size",
        Unit::Seconds => "a time",
        Unit::BytesPerStep => "a size per step",
        Unit::BytesPerMinute => "a size per minute",
        Unit::BytesPerRun => "a size per run",
    }
}

/// `+5%`, `-100MiB`, `2GiB`, `1MB/step`, `0.5s`, `+10ms`.
fn parse_bound(text: &str) -> Result<Bound, String> {
    let (sign, bare) = match text.strip_prefix('-') {
        Some(bare) => (-1.0, bare),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = text.starts_with(['+', '-']);
    if let Some(percent) = bare.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().map_err(|_| format!("`{percent}` is no number"))?;
        if !signed {
            return Err(format!("a share is a change and needs its sign: +{percent}%"));
        }
        return Ok(Bound::Share(sign * percent / 100.0));
    }
    let (value, unit) = parse_value(bare)?;
    Ok(if signed { Bound::Change(sign * value, unit) } else { Bound::Value(value, unit) })
}

fn parse_value(text: &str) -> Result<(f64, Unit), String> {
    if let Some(size) = text.strip_suffix("/step") {
        return Ok((parse_size(size)? as f64, Unit::BytesPerStep));
    }
    if let Some(size) = text.strip_suffix("/min") {
        return Ok((parse_size(size)? as f64, Unit::BytesPerMinute));
    }
    if let Some(size) = text.strip_suffix("/s") {
        return Ok((parse_size(size)? as f64 * 60.0, Unit::BytesPerMinute));
    }
    if let Some(size) = text.strip_suffix("/run") {
        return Ok((parse_size(size)? as f64, Unit::BytesPerRun));
    }
    let time = |suffix: &str| text.strip_suffix(suffix).and_then(|number| number.trim().parse::<f64>().ok());
    if let Some(milliseconds) = time("ms") {
        return Ok((milliseconds / 1e3, Unit::Seconds));
    }
    if let Some(seconds) = time("s") {
        return Ok((seconds, Unit::Seconds));
    }
    Ok((parse_size(text)? as f64, Unit::Bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(values: &[f64], unit: Unit) -> Stat {
        let metrics: Vec<Metric> = values
            .iter()
            .map(|v| Metric { name: "peak".into(), unit, value: *v, low: *v, high: *v })
            .collect();
        Stat::of(&metrics.iter().collect::<Vec<_>>(), 0.0).unwrap()
    }

    fn judged(gate: &str, base: &[f64], other: &[f64], unit: Unit) -> Judgement {
        let (base, other) = (stat(base, unit), stat(other, unit));
        Gate::parse(gate).unwrap().judge(unit, &other, &difference(&base, &other)).judgement
    }

    #[test]
    fn changes_and_values() {
        let base = [100.0, 100.2, 99.8];
        let more = [110.0, 110.2, 109.8];
        assert_eq!(judged("peak > +5%", &base, &more, Unit::Bytes), Judgement::Broken);
        assert_eq!(judged("peak > +15%", &base, &more, Unit::Bytes), Judgement::Kept);
        assert_eq!(judged("peak >= +5", &base, &more, Unit::Bytes), Judgement::Broken);
        assert_eq!(judged("peak > 105", &base, &more, Unit::Bytes), Judgement::Broken);
        assert_eq!(judged("peak > 2GiB", &base, &more, Unit::Bytes), Judgement::Kept);
        assert_eq!(judged("peak < -5%", &more, &base, Unit::Bytes), Judgement::Broken);
        assert_eq!(judged("peak > +0%", &base, &base, Unit::Bytes), Judgement::Kept);
    }

    #[test]
    fn a_value_beyond_in_noise_is_not_enough() {
        let (base, other) = ([100.0, 104.0, 96.0], [106.0, 110.0, 102.0]);
        assert_eq!(judged("peak > +5%", &base, &other, Unit::Bytes), Judgement::NotEnoughEvidence);
        assert_eq!(judged("peak > +5%", &[100.0], &[106.0], Unit::Bytes), Judgement::NotEnoughEvidence);
        assert_eq!(judged("peak > +5%", &[100.0], &[120.0], Unit::Bytes), Judgement::Broken);
    }

    #[test]
    fn units_must_agree() {
        let base = stat(&[1e6; 3], Unit::BytesPerMinute);
        let told = Gate::parse("leak > 1MB/step").unwrap().judge(
            Unit::BytesPerMinute,
            &base,
            &difference(&base, &base),
        );
        assert_eq!(told.judgement, Judgement::NotEnoughEvidence);
        assert!(told.reason.contains("per minute"), "{}", told.reason);
        assert_eq!(
            judged("step-time > +10ms", &[1.0, 1.001], &[1.1, 1.101], Unit::Seconds),
            Judgement::Broken
        );
    }

    #[test]
    fn a_value_needs_no_base_and_a_change_does() {
        let metric =
            Metric { name: "leak".into(), unit: Unit::BytesPerMinute, value: 3e6, low: 2.9e6, high: 3.1e6 };
        let judged = |gate: &str| {
            Gate::parse(gate).unwrap().judge_alone(&[&metric], 0.0).map(|judged| judged.judgement)
        };
        assert_eq!(judged("leak > 2MB/min"), Some(Judgement::Broken));
        assert_eq!(judged("leak > 1MB/s"), Some(Judgement::Kept));
        assert_eq!(judged("leak > 3MB/run"), Some(Judgement::NotEnoughEvidence), "another unit");
        assert_eq!(judged("leak > +1MB/min"), None);
    }

    #[test]
    fn what_is_no_gate_says_why() {
        for (absurd, why) in [
            ("peak", "no > or <"),
            ("> 5", "no figure"),
            ("peak > 5%", "+5%"),
            ("peak > +x%", "no number"),
            ("peak > 5 apples", "unknown size"),
            ("the peak > 5", "no figure"),
        ] {
            let said = Gate::parse(absurd).unwrap_err();
            assert!(said.contains(why), "{absurd}: {said}");
        }
        assert!(
            Gate::parse("category.activations>2GiB").is_ok() && Gate::parse("ledger.held > 500MiB").is_ok()
        );
    }
}
