//! One measured cell.

use serde_json::{Value, json};

use super::Cell;

/// What one sampler cost in one window, and what it delivered.
#[derive(Debug, Clone)]
pub struct Reading {
    pub cell: Cell,
    pub round: usize,
    pub command: String,
    pub window_s: f64,
    /// CPU of the sampler process in the window, by `schedstat`.
    pub cpu_s: f64,
    /// Rounds over the tree in the window.
    pub ticks: f64,
    /// Readings of single processes in the window.
    pub process_samples: f64,
    /// `VmHWM` of the sampler at the end of the window.
    pub peak_bytes: u64,
    /// Bytes on disk per reading of a single process, over the whole run.
    pub bytes_per_sample: f64,
    /// CPU of the whole run by `/proc/PID/stat` just before the end (steps of 10 ms).
    pub whole_cpu_s: f64,
    /// CPU of the whole run as the sampler itself reports it.
    pub own_cpu_s: Option<f64>,
}

impl Reading {
    pub fn core_percent(&self) -> f64 {
        100.0 * self.cpu_s / self.window_s
    }

    pub fn us_per_sample(&self) -> f64 {
        1e6 * self.cpu_s / self.process_samples
    }

    pub fn rate_hz(&self) -> f64 {
        self.ticks / self.window_s
    }

    pub fn peak_mb(&self) -> f64 {
        self.peak_bytes as f64 / 1e6
    }

    /// One line for the terminal.
    pub fn summary(&self) -> String {
        let Cell { tree, tool, interval_ms } = self.cell;
        format!(
            "{:<22} {:<15} {interval_ms:>3} ms: {:>7.3} % of a core, {:>8.2} µs per process-sample, {:.1} Hz",
            tree.to_string(),
            tool.label(),
            self.core_percent(),
            self.us_per_sample(),
            self.rate_hz(),
        )
    }

    pub fn to_json(&self) -> Value {
        json!({
            "processes": self.cell.tree.processes, "mib_each": self.cell.tree.mib_each,
            "neighbours": self.cell.tree.neighbours,
            "sampler": self.cell.tool.label(), "interval_ms": self.cell.interval_ms, "round": self.round,
            "command": self.command, "window_s": self.window_s, "cpu_s": self.cpu_s, "ticks": self.ticks,
            "process_samples": self.process_samples, "peak_bytes": self.peak_bytes,
            "bytes_per_process_sample": self.bytes_per_sample, "whole_cpu_s": self.whole_cpu_s,
            "own_cpu_s": self.own_cpu_s, "core_percent": self.core_percent(),
            "us_per_process_sample": self.us_per_sample(), "rate_hz": self.rate_hz(),
        })
    }
}

/// For each cell its round with the least CPU per process-sample, with the highest peak of all its rounds.
pub fn best_of(readings: &[Reading]) -> Vec<Reading> {
    let mut best: Vec<Reading> = Vec::new();
    for reading in readings {
        let Some(known) = best.iter_mut().find(|known| known.cell == reading.cell) else {
            best.push(reading.clone());
            continue;
        };
        let peak_bytes = known.peak_bytes.max(reading.peak_bytes);
        if reading.us_per_sample() < known.us_per_sample() {
            *known = reading.clone();
        }
        known.peak_bytes = peak_bytes;
    }
    best
}

#[cfg(test)]
pub mod tests {
    use super::super::{Tool, Tree};
    use super::*;

    /// A reading of ten seconds.
    pub fn reading(tree: Tree, tool: Tool, interval_ms: u64, cpu_s: f64) -> Reading {
        let ticks = 10_000.0 / interval_ms as f64;
        Reading {
            cell: Cell { tree, tool, interval_ms },
            round: 1,
            command: "x".to_owned(),
            window_s: 10.0,
            cpu_s,
            ticks,
            process_samples: ticks * tree.processes as f64,
            peak_bytes: 8_000_000,
            bytes_per_sample: 10.0,
            whole_cpu_s: cpu_s,
            own_cpu_s: None,
        }
    }

    #[test]
    fn the_best_round_counts_but_the_worst_peak() {
        let slow = reading(super::super::SMALL, Tool::NiloFast, 100, 0.05);
        let mut quick = reading(super::super::SMALL, Tool::NiloFast, 100, 0.02);
        quick.peak_bytes = 1;
        let best = best_of(&[slow, quick]);
        assert_eq!(best.len(), 1);
        assert!((best[0].core_percent() - 0.2).abs() < 1e-9);
        assert!((best[0].us_per_sample() - 20.0).abs() < 1e-9);
        assert_eq!(best[0].peak_bytes, 8_000_000);
    }
}
