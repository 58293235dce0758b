//! What the memory near the peak was made of: the `smaps` sums of each process nearest in time to the peak.
//!
//! The peak is known only at the end, and it only moves forward: of each process the latest sums and the nearest to
//! the peak so far are enough to have the nearest to the final one.

use std::collections::BTreeMap;

use nilometer_trace::record::{Kinds, MappingKind};

use crate::clock::Clock;
use crate::model::{MadeOf, Mapping, Part, Peak};
use crate::tracked::Tracked;
use crate::unit::{difference, kib};

const LARGEST: usize = 8;

#[derive(Debug)]
struct Candidates {
    latest: Kinds,
    nearest: Kinds,
    /// The peak that `nearest` is near to.
    peak_ns: u64,
}

impl Candidates {
    /// After the peak moved, everything seen lies before it: the latest is the nearest.
    fn nearest_to(&self, peak_ns: u64) -> &Kinds {
        if self.peak_ns == peak_ns { &self.nearest } else { &self.latest }
    }

    fn push(&mut self, reading: Kinds, peak_ns: u64) {
        self.nearest = self.nearest_to(peak_ns).clone();
        self.peak_ns = peak_ns;
        if reading.at_ns.abs_diff(peak_ns) < self.nearest.at_ns.abs_diff(peak_ns) {
            self.nearest = reading.clone();
        }
        self.latest = reading;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Composition {
    processes: BTreeMap<u32, Candidates>,
}

impl Composition {
    pub(crate) fn push(&mut self, kinds: &Kinds, peak_ns: u64) {
        if let Some(candidates) = self.processes.get_mut(&kinds.index) {
            return candidates.push(kinds.clone(), peak_ns);
        }
        let first = Candidates { latest: kinds.clone(), nearest: kinds.clone(), peak_ns };
        self.processes.insert(kinds.index, first);
    }

    /// Forgets processes that were gone before the peak so far.
    pub(crate) fn tidy<'a>(&mut self, ended: impl Iterator<Item = &'a Tracked>, peak_ns: u64) {
        for process in ended.filter(|process| process.end_ns.is_some_and(|end_ns| end_ns < peak_ns)) {
            self.processes.remove(&process.index);
        }
    }

    pub(crate) fn finish<'a>(
        &self,
        all: impl Iterator<Item = &'a Tracked>,
        peak: &Peak,
        peak_ns: u64,
        clock: &Clock,
    ) -> Option<MadeOf> {
        let alive: Vec<&Tracked> = all.filter(|process| process.alive_at(peak_ns)).collect();
        let readings: Vec<(&Tracked, &Kinds)> = alive
            .iter()
            .filter_map(|process| Some((*process, self.processes.get(&process.index)?.nearest_to(peak_ns))))
            .collect();
        let times = readings.iter().map(|(_, reading)| reading.at_ns);
        let nearest_ns = times.min_by_key(|at_ns| at_ns.abs_diff(peak_ns))?;
        let parts = parts(&readings);
        let sum = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        let at_s = clock.seconds(nearest_ns);
        Some(MadeOf {
            parts,
            total_bytes: peak.bytes,
            residual_bytes: difference(peak.bytes, sum),
            at_s,
            from_peak_s: at_s - peak.at_s,
            processes_missing: alive.len() - readings.len(),
            largest: largest(&readings),
        })
    }
}

/// By kind, largest first: RSS of one process, PSS of several, as the total beside it is.
fn parts(readings: &[(&Tracked, &Kinds)]) -> Vec<Part> {
    let mut sums: BTreeMap<MappingKind, u64> = BTreeMap::new();
    let alone = readings.len() == 1;
    for kind in readings.iter().flat_map(|(_, reading)| &reading.kinds) {
        let sum = sums.entry(kind.kind).or_default();
        *sum = sum.saturating_add(kib(if alone { kind.rss_kib } else { kind.pss_kib }));
    }
    let mut parts: Vec<Part> = sums
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(kind, bytes)| Part { name: name(kind).into(), bytes })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    parts
}

fn largest(readings: &[(&Tracked, &Kinds)]) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = readings
        .iter()
        .flat_map(|(process, reading)| {
            reading.largest.iter().map(|mapping| Mapping {
                pid: process.pid,
                name: mapping.name.clone(),
                rss_bytes: kib(mapping.rss_kib),
                pss_bytes: kib(mapping.pss_kib),
            })
        })
        .collect();
    mappings.sort_by_key(|mapping| std::cmp::Reverse(mapping.pss_bytes));
    mappings.truncate(LARGEST);
    mappings
}

fn name(kind: MappingKind) -> &'static str {
    match kind {
        MappingKind::Heap => "heap",
        MappingKind::Anonymous => "anonymous",
        MappingKind::Code => "code",
        MappingKind::File => "mapped files",
        MappingKind::Shared => "shared memory",
        MappingKind::Stack => "stacks",
        MappingKind::Device => "device",
        MappingKind::Kernel => "kernel",
    }
}
