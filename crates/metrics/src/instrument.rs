//! What is told, under which name: one table for both formats.
//!
//! Names and units are OpenTelemetry's where its conventions have one (`process.*`, `system.*`), ours begin with `nilo.`.
//! The Prometheus name follows from it by OpenTelemetry's rules: dots become underscores, the unit is appended, and
//! `_total` to what only grows; `.count` becomes a plural, because Prometheus keeps `_count` for histograms.

/// What a value does over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stands for itself: adding it up over processes means nothing.
    Gauge,
    /// An amount that may shrink.
    Amount,
    /// Only grows.
    Counter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Seconds,
    /// A share of one.
    Ratio,
    /// Things, named as the conventions do: `{process}`.
    Count(&'static str),
    /// A number that names something.
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instrument {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub help: &'static str,
}

impl Unit {
    /// UCUM, as OTLP wants it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Bytes => "By",
            Self::Seconds => "s",
            Self::Ratio | Self::Number => "1",
            Self::Count(what) => what,
        }
    }

    /// The word at the end of a Prometheus name.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Bytes => Some("bytes"),
            Self::Seconds => Some("seconds"),
            Self::Ratio => Some("ratio"),
            Self::Count(_) | Self::Number => None,
        }
    }
}

impl Instrument {
    pub fn prometheus_name(&self) -> String {
        let plural = self.name.strip_suffix(".count").map(|one| format!("{one}s"));
        let mut name = plural.unwrap_or_else(|| self.name.to_owned()).replace('.', "_");
        if let Some(word) = self.unit.word() {
            name = format!("{name}_{word}");
        }
        if self.kind == Counter { format!("{name}_total") } else { name }
    }
}

const fn told(name: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Instrument {
    Instrument { name, kind, unit, help }
}

use Kind::{Amount, Counter, Gauge};
use Unit::{Bytes, Count, Number, Ratio, Seconds};

pub const PROCESS_USAGE: Instrument = told(
    "process.memory.usage",
    Amount,
    Bytes,
    "Resident memory (RSS); shared pages count fully in each process",
);
pub const PROCESS_VIRTUAL: Instrument =
    told("process.memory.virtual", Amount, Bytes, "Address space, touched or not");
pub const PROCESS_CPU: Instrument = told("process.cpu.time", Counter, Seconds, "CPU time by mode");
pub const PROCESS_THREADS: Instrument =
    told("process.thread.count", Amount, Count("{thread}"), "Threads of the process");
pub const PROCESS_FAULTS: Instrument =
    told("process.paging.faults", Counter, Count("{fault}"), "Page faults by type");
pub const PROCESS_PARTS: Instrument = told(
    "nilo.process.memory.part",
    Amount,
    Bytes,
    "Parts of resident memory: anonymous, file, shared memory",
);
pub const PROCESS_PEAK: Instrument =
    told("nilo.process.memory.peak", Gauge, Bytes, "The kernel's high-water mark (VmHWM)");
pub const PROCESS_SWAP: Instrument = told("nilo.process.memory.swap", Amount, Bytes, "Swapped out");
pub const PROCESS_PSS: Instrument =
    told("nilo.process.memory.pss", Amount, Bytes, "Proportional share (PSS) at the last page-table walk");
pub const PROCESS_USS: Instrument =
    told("nilo.process.memory.uss", Amount, Bytes, "Private memory (USS) at the last page-table walk");
pub const TREE: Instrument = told(
    "nilo.tree.memory",
    Gauge,
    Bytes,
    "Memory of the whole process tree, shared pages counted once: between low and high",
);
pub const TREE_PEAK: Instrument =
    told("nilo.tree.memory.peak", Gauge, Bytes, "The highest nilo_tree_memory so far");
pub const TREE_PROCESSES: Instrument =
    told("nilo.tree.processes", Amount, Count("{process}"), "Processes of the tree that are alive");
pub const TREE_UNLISTED: Instrument = told(
    "nilo.tree.processes.unlisted",
    Amount,
    Count("{process}"),
    "Those of them, the smallest, that have no series of their own",
);
pub const STEPS: Instrument = told("nilo.steps", Counter, Count("{step}"), "Steps that were marked");
pub const LAST_STEP: Instrument =
    told("nilo.step.number", Gauge, Number, "The number that the last mark of a step told");
pub const LIMIT: Instrument =
    told("nilo.limit.memory", Gauge, Bytes, "The memory limit that binds: of a cgroup or the machine");
pub const LIMIT_FREE: Instrument =
    told("nilo.limit.free", Gauge, Bytes, "What is left below it, reclaimable cache counted as free");
pub const PRESSURE: Instrument = told(
    "nilo.memory.pressure",
    Gauge,
    Ratio,
    "Share of the last ten seconds in which somebody waited for memory (PSI some)",
);
pub const SYSTEM_USAGE: Instrument =
    told("system.memory.usage", Amount, Bytes, "Memory of the machine by state");
pub const SYSTEM_LIMIT: Instrument = told("system.memory.limit", Amount, Bytes, "Memory of the machine");
pub const SYSTEM_AVAILABLE: Instrument = told(
    "system.linux.memory.available",
    Amount,
    Bytes,
    "What new programs could have without swapping (MemAvailable)",
);
pub const SYSTEM_PAGING: Instrument =
    told("system.paging.usage", Amount, Bytes, "Swap of the machine by state");
pub const TICKS: Instrument = told("nilo.ticks", Counter, Count("{tick}"), "Samples taken");
pub const MISSED: Instrument =
    told("nilo.ticks.missed", Counter, Count("{tick}"), "Samples that could not be taken in time");
pub const TICK_TIME: Instrument =
    told("nilo.tick.time", Gauge, Seconds, "When these values were read, in seconds since 1970");
pub const STARTED: Instrument =
    told("nilo.run.start.time", Gauge, Seconds, "When the recording began, in seconds since 1970");
pub const RUNNING: Instrument =
    told("nilo.run.running", Gauge, Number, "1 while it is recorded, 0 after the end");
pub const EXIT_CODE: Instrument = told("nilo.run.exit.code", Gauge, Number, "Exit code of the command");
pub const EXIT_SIGNAL: Instrument =
    told("nilo.run.exit.signal", Gauge, Number, "Signal that ended the command");
pub const OWN_CPU: Instrument = told("nilo.cost.cpu.time", Counter, Seconds, "CPU time of nilo itself");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_names_follow_from_kind_and_unit() {
        assert_eq!(PROCESS_USAGE.prometheus_name(), "process_memory_usage_bytes");
        assert_eq!(PROCESS_CPU.prometheus_name(), "process_cpu_time_seconds_total");
        assert_eq!(PROCESS_FAULTS.prometheus_name(), "process_paging_faults_total");
        assert_eq!(PRESSURE.prometheus_name(), "nilo_memory_pressure_ratio");
        assert_eq!(PROCESS_THREADS.prometheus_name(), "process_threads");
        assert_eq!(LAST_STEP.prometheus_name(), "nilo_step_number");
    }
}
