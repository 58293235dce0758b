//! One run of one workload under one tool, and what several of them add up to.

use serde_json::{Value, json};

use super::workload::Tool;

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub workload: &'static str,
    pub tool: Tool,
    pub round: usize,
    /// Of the work itself, as the program says.
    pub own_cpu_s: f64,
    pub own_wall_s: f64,
    /// High water of the program.
    pub peak_kib: f64,
    /// Of the whole command with all its processes.
    pub command_cpu_s: f64,
    pub command_wall_s: f64,
    pub record_bytes: u64,
}

impl Reading {
    pub fn new(
        workload: &'static str,
        tool: Tool,
        round: usize,
        told: &Value,
        cost: &Value,
        record_bytes: u64,
    ) -> Self {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        Self {
            workload,
            tool,
            round,
            own_cpu_s: number(&told["cpu_s"]),
            own_wall_s: number(&told["wall_s"]),
            peak_kib: number(&told["peak_kib"]),
            command_cpu_s: number(&cost["cpu_s"]),
            command_wall_s: number(&cost["wall_s"]),
            record_bytes,
        }
    }

    pub fn summary(&self) -> String {
        format!(
            "round {}: {} under {}: {:.3} s CPU of its own, {:.3} s of the whole command",
            self.round,
            self.workload,
            self.tool.label(),
            self.own_cpu_s,
            self.command_cpu_s
        )
    }

    pub fn to_json(&self) -> Value {
        json!({
            "workload": self.workload, "tool": self.tool.label(), "round": self.round,
            "own_cpu_s": self.own_cpu_s, "own_wall_s": self.own_wall_s, "peak_kib": self.peak_kib,
            "command_cpu_s": self.command_cpu_s, "command_wall_s": self.command_wall_s,
            "record_bytes": self.record_bytes,
        })
    }
}

/// A figure with the interval that holds 90 % of its resamples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

/// All readings, asked by workload and tool.
#[derive(Debug, Default)]
pub struct Readings(pub Vec<Reading>);

const RESAMPLES: usize = 2000;

impl Readings {
    /// One figure per round, in the order of rounds.
    pub fn series(&self, workload: &str, tool: Tool, figure: fn(&Reading) -> f64) -> Vec<f64> {
        let of = self.0.iter().filter(|reading| reading.workload == workload && reading.tool == tool);
        of.map(figure).collect()
    }

    /// Median of the rounds' ratios to the unwatched program.
    pub fn ratio(&self, workload: &str, tool: Tool, figure: fn(&Reading) -> f64) -> Option<Figure> {
        let (watched, plain) =
            (self.series(workload, tool, figure), self.series(workload, Tool::Nobody, figure));
        resampled(&watched, &plain, &[], |watched, plain, _| Some(median(watched)? / median(plain)?))
    }

    /// What one tool adds to the program, of what another adds.
    pub fn of_extra(
        &self,
        workload: &str,
        ours: Tool,
        peer: Tool,
        figure: fn(&Reading) -> f64,
    ) -> Option<Figure> {
        let series = |tool| self.series(workload, tool, figure);
        resampled(&series(ours), &series(Tool::Nobody), &series(peer), |ours, plain, peer| {
            let base = median(plain)?;
            let extra = median(peer)? - base;
            (extra > 0.0).then_some((median(ours)? - base) / extra)
        })
    }
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => Some(f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, *sorted.get(middle)?)),
        _ => sorted.get(middle).copied(),
    }
}

/// A figure of whole rounds, with the middle 90 % of what other draws of the rounds would have given.
fn resampled(
    first: &[f64],
    second: &[f64],
    third: &[f64],
    figure: impl Fn(&[f64], &[f64], &[f64]) -> Option<f64>,
) -> Option<Figure> {
    let rounds = first.len().min(second.len()).min(if third.is_empty() { usize::MAX } else { third.len() });
    let middle = figure(first, second, third)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draws = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let chosen: Vec<usize> = (0..rounds).map(|_| draw(&mut state, rounds)).collect();
        let pick =
            |of: &[f64]| chosen.iter().filter_map(|index| of.get(*index).copied()).collect::<Vec<f64>>();
        draws.extend(figure(&pick(first), &pick(second), &pick(third)));
    }
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws.get((share * draws.len() as f64) as usize).copied().unwrap_or(middle);
    Some(Figure { middle, low: at(0.05), high: at(0.95) })
}

fn draw(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(values: &[(Tool, f64)]) -> Readings {
        let reading = |(round, &(tool, cpu)): (usize, &(Tool, f64))| Reading {
            workload: "w",
            tool,
            round,
            own_cpu_s: cpu,
            own_wall_s: 0.0,
            peak_kib: 0.0,
            command_cpu_s: 0.0,
            command_wall_s: 0.0,
            record_bytes: 0,
        };
        Readings(values.iter().enumerate().map(reading).collect())
    }

    #[test]
    fn what_is_added_is_compared_and_has_an_interval() {
        let mut values = Vec::new();
        for round in 0..15 {
            let noise = f64::from(round % 3) * 0.01;
            values.extend([
                (Tool::Nobody, 1.0 + noise),
                (Tool::NiloAll, 1.2 + noise),
                (Tool::Heaptrack, 2.0 + noise),
            ]);
        }
        let readings = readings(&values);
        let figure = readings.of_extra("w", Tool::NiloAll, Tool::Heaptrack, |r| r.own_cpu_s).unwrap();
        assert!((figure.middle - 0.2).abs() < 1e-9 && figure.low <= 0.2 && figure.high >= 0.2);
        let ratio = readings.ratio("w", Tool::NiloAll, |r| r.own_cpu_s).unwrap();
        assert!((ratio.middle - 1.21 / 1.01).abs() < 1e-9);
        assert_eq!(readings.of_extra("w", Tool::NiloAll, Tool::Memray, |r| r.own_cpu_s), None);
    }
}
