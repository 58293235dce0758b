//! Along what growth is told: steps of the program where there are enough, else seconds.

use super::model::{Per, StepsFrom};
use crate::model::EstimatedSteps;

/// Fewer steps are no axis.
const LEAST_STEPS: usize = 8;

/// From time to steps and back; piecewise linear between marks.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) per: Per,
    pub(crate) from: StepsFrom,
    /// Seconds since the start, and the step that begins there: both increasing.
    marks: Vec<(f64, f64)>,
    period_s: f64,
}

impl Axis {
    /// `marks`: seconds since the start and number of each step. Numbers that start again are counted on.
    pub(crate) fn of(marks: &[(f64, u64)], estimated: Option<&EstimatedSteps>) -> Self {
        let numbered = counted_on(marks);
        if numbered.len() >= LEAST_STEPS {
            return Self { per: Per::Step, from: StepsFrom::Marks, marks: numbered, period_s: 1.0 };
        }
        match estimated {
            Some(found) if found.period_s > 0.0 => Self {
                per: Per::Step,
                from: StepsFrom::Estimated,
                marks: Vec::new(),
                period_s: found.period_s,
            },
            _ => Self { per: Per::Second, from: StepsFrom::Nothing, marks: Vec::new(), period_s: 1.0 },
        }
    }

    /// Nothing before the first step: that is loading.
    pub(crate) fn x(&self, at_s: f64) -> Option<f64> {
        if self.marks.is_empty() {
            return Some(at_s / self.period_s);
        }
        let next = self.marks.partition_point(|mark| mark.0 <= at_s);
        let begin = self.marks.get(next.checked_sub(1)?)?;
        match self.marks.get(next) {
            Some(end) => Some(begin.1 + (end.1 - begin.1) * (at_s - begin.0) / (end.0 - begin.0)),
            // The last step has no end: as long as the mean one, and no longer.
            None => Some(begin.1 + ((at_s - begin.0) * self.per_s()).min(1.0)),
        }
    }

    /// Seconds at which a step begins.
    pub(crate) fn seconds(&self, x: f64) -> f64 {
        let next = self.marks.partition_point(|mark| mark.1 <= x);
        match (next.checked_sub(1).and_then(|place| self.marks.get(place)), self.marks.get(next)) {
            (Some(begin), Some(end)) => begin.0 + (end.0 - begin.0) * (x - begin.1) / (end.1 - begin.1),
            (Some(begin), None) => begin.0 + (x - begin.1) / self.per_s(),
            (None, Some(first)) => first.0,
            (None, None) => x * self.period_s,
        }
    }

    /// How long memory takes along `x` to rise once, as far as that is known.
    pub(crate) fn rhythm(&self) -> f64 {
        if self.per == Per::Step { 1.0 } else { f64::INFINITY }
    }

    /// Steps per second.
    pub(crate) fn per_s(&self) -> f64 {
        match (self.marks.first(), self.marks.last()) {
            (Some(first), Some(last)) if last.0 > first.0 => (last.1 - first.1) / (last.0 - first.0),
            _ => 1.0 / self.period_s,
        }
    }
}

/// Increasing in both; a new epoch that counts from 0 again goes on where the last one ended.
fn counted_on(marks: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::with_capacity(marks.len());
    let (mut offset, mut last_number) = (0.0, 0);
    for &(at_s, number) in marks {
        if found.last().is_some_and(|last| at_s <= last.0) {
            continue; // two marks at one instant are one
        }
        if !found.is_empty() && number <= last_number {
            offset += last_number as f64 + 1.0 - number as f64;
        }
        found.push((at_s, offset + number as f64));
        last_number = number;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(of: impl Fn(u64) -> u64) -> Vec<(f64, u64)> {
        (0..20).map(|n| (2.0 + n as f64 * 0.5, of(n))).collect()
    }

    #[test]
    fn steps_are_interpolated_both_ways_and_loading_is_left_out() {
        let axis = Axis::of(&marks(|n| 10 * n), None);
        assert_eq!((axis.per, axis.from, axis.x(1.0)), (Per::Step, StepsFrom::Marks, None));
        assert_eq!(axis.x(2.25), Some(5.0));
        assert!((axis.seconds(5.0) - 2.25).abs() < 1e-9 && (axis.per_s() - 20.0).abs() < 1e-9);
        assert_eq!(axis.x(100.0), Some(191.0));
    }

    #[test]
    fn epochs_that_count_from_zero_go_on() {
        let axis = Axis::of(&marks(|n| n % 10), None);
        assert_eq!(axis.x(2.0 + 9.5), Some(19.0));
        let constant = Axis::of(&marks(|_| 7), None);
        assert_eq!(constant.x(2.0 + 9.5), Some(26.0));
    }

    #[test]
    fn without_steps_the_period_or_the_second_is_the_axis() {
        let few = Axis::of(&[(0.0, 1), (1.0, 2)], None);
        assert_eq!((few.per, few.from, few.x(3.5)), (Per::Second, StepsFrom::Nothing, Some(3.5)));
        let found = EstimatedSteps { period_s: 0.25, count: 40, correlation: 0.9 };
        let guessed = Axis::of(&[], Some(&found));
        assert_eq!(
            (guessed.from, guessed.x(3.0), guessed.seconds(12.0)),
            (StepsFrom::Estimated, Some(12.0), 3.0)
        );
        assert!((guessed.per_s() - 4.0).abs() < 1e-9);
    }
}
