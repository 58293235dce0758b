//! One look at one heap.

use serde_json::{Value, json};

/// Who looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Look {
    #[default]
    Nilo,
    /// With the labelled graph and the dominators.
    Retained,
    Guppy,
    Pympler,
}

impl Look {
    pub const ALL: [Self; 4] = [Self::Nilo, Self::Retained, Self::Guppy, Self::Pympler];

    /// As it is called on the page; for those inside the target also the order.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nilo => "nilo heap",
            Self::Retained => "nilo heap --retained",
            Self::Guppy => "guppy",
            Self::Pympler => "pympler",
        }
    }

    /// None for those that run inside the target.
    pub fn arguments(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Nilo => Some(&[]),
            Self::Retained => Some(&["--retained"]),
            Self::Guppy | Self::Pympler => None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub look: Look,
    pub per_mille: u32,
    pub round: usize,
    pub rss_bytes: u64,
    pub objects: Option<u64>,
    pub cpu_s: Option<f64>,
    pub wall_s: Option<f64>,
    /// Of the tool outside, or added inside.
    pub peak_bytes: Option<u64>,
    pub copied_bytes: Option<u64>,
    /// As the tool tells it.
    pub stopped_ms: Option<f64>,
    /// RSS the look left in the target.
    pub added_bytes: Option<f64>,
    /// Longest gap a busy target saw, in the first and in the second look at it.
    pub stalls_ms: [Option<f64>; 2],
    pub copied_busy_bytes: u64,
}

impl Reading {
    pub fn take_inside(&mut self, answer: &Value) {
        if !self.is_cheapest(answer) {
            return;
        }
        self.peak_bytes = answer["peak_added_bytes"].as_u64();
        self.added_bytes = answer["left_bytes"].as_f64();
        // The program stands still for as long as the look takes.
        self.stopped_ms = self.wall_s.map(|seconds| seconds * 1e3);
    }

    /// Of several looks at one process the one with the least CPU counts.
    fn is_cheapest(&mut self, cost: &Value) -> bool {
        let cpu_s = cost["cpu_s"].as_f64();
        let is_less = self.cpu_s.is_none_or(|known| cpu_s.is_some_and(|cpu_s| cpu_s < known));
        if is_less {
            self.cpu_s = cpu_s;
            self.wall_s = cost["wall_s"].as_f64();
        }
        is_less
    }

    pub fn take_outside(&mut self, cost: &Value, census: &Value) {
        if !self.is_cheapest(cost) {
            return;
        }
        self.peak_bytes = cost["peak_bytes"].as_u64();
        self.objects = census["objects"].as_u64();
        self.copied_bytes = census["copied_bytes"].as_u64();
        self.stopped_ms = census["pause_ms"].as_f64();
    }

    pub fn take_added(&mut self, before: &Value, after: &Value) {
        let rss = |status: &Value| status["rss_bytes"].as_f64();
        self.added_bytes = rss(after).zip(rss(before)).map(|(after, before)| after - before);
    }

    /// Of 30 ms + 130 ms per GB that was copied.
    pub fn stall_share(&self, look: usize) -> Option<f64> {
        Some(self.stalls_ms[look]? / (30.0 + 130.0 * self.copied_busy_bytes as f64 / 1e9))
    }

    pub fn memory_share(&self) -> Option<f64> {
        Some(self.peak_bytes? as f64 / self.copied_bytes? as f64)
    }

    pub fn summary(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
        format!(
            "round {}, {} ‰: {}: {} s CPU, stopped {} ms, gaps {} and {} ms",
            self.round,
            self.per_mille,
            self.look.name(),
            number(self.cpu_s),
            number(self.stopped_ms),
            number(self.stalls_ms[0]),
            number(self.stalls_ms[1]),
        )
    }

    pub fn to_json(&self) -> Value {
        json!({
            "look": self.look.name(), "per_mille": self.per_mille, "round": self.round, "rss_bytes": self.rss_bytes,
            "objects": self.objects, "cpu_s": self.cpu_s, "wall_s": self.wall_s, "peak_bytes": self.peak_bytes,
            "copied_bytes": self.copied_bytes, "stopped_ms": self.stopped_ms, "added_bytes": self.added_bytes,
            "stalls_ms": self.stalls_ms, "copied_busy_bytes": self.copied_busy_bytes,
        })
    }
}
