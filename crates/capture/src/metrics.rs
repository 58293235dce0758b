//! The values of a tick, for monitoring systems: gathered here, told by threads of the `metrics` crate.
//!
//! The one invariant: what is published after a tick is what the log has of it.

use std::sync::Arc;
use std::time::Duration;

use nilometer_kernel::sys::limits::{own_usage, ticks_per_s};
use nilometer_metrics::{
    Bound, Ended, Exporter, Limit, MOST_PROCESSES, Machine, Outlets, Process, Run, Snapshot,
};
use nilometer_trace::Manifest;
use nilometer_trace::record::{Bounds, Exit, ProcessSample};

use crate::member::Member;
use crate::recorder::Recorder;
use crate::system::System;

/// How long the last values may take to be delivered, after everything else was done.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(crate) struct Teller {
    exporter: Exporter,
    run: Arc<Run>,
    peak: Option<Bound>,
    steps: u64,
    last_step: Option<u64>,
    /// Where scrapers find the page.
    pub url: Option<String>,
}

impl Teller {
    /// Starts the threads; signals are blocked by now. A relay that `--repeat` forks later has none of them, and an
    /// allocator that the C library keeps usable across `fork`.
    pub fn start(outlets: &Outlets, manifest: &Manifest, started_ns: u64) -> Self {
        let name = manifest.directory.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let run = Run {
            name: name.to_owned(),
            command: manifest.name.clone(),
            host: manifest.host.name.clone(),
            version: manifest.nilo_version.clone(),
            started_ns,
        };
        Self {
            exporter: outlets.start(),
            run: Arc::new(run),
            peak: None,
            steps: 0,
            last_step: None,
            url: outlets.listener.as_ref().map(nilometer_metrics::Listener::url),
        }
    }

    pub fn step(&mut self, number: u64) {
        self.steps += 1;
        self.last_step = Some(number);
    }

    pub fn tick(&mut self, recorder: &Recorder) {
        let snapshot = self.snapshot(recorder);
        self.exporter.publish(snapshot);
    }

    /// The last values; they are on their way when this returns.
    pub fn close(&mut self, recorder: &Recorder, exit: Option<&Exit>) {
        let ended = exit.map_or_else(Ended::default, |exit| Ended { code: exit.code, signal: exit.signal });
        let last = Snapshot { ended: Some(ended), ..self.snapshot(recorder) };
        self.exporter.close(Some(last));
    }

    /// What the manifest should say of it.
    pub fn finish(self) -> Vec<String> {
        self.exporter.finish(PATIENCE)
    }

    fn snapshot(&mut self, recorder: &Recorder) -> Snapshot {
        let (ticks, missed_ticks) = recorder.ticks();
        let usage = own_usage();
        let alive: Vec<&Member> = recorder.tree.members().iter().filter(|m| m.is_alive()).collect();
        let tree = (!alive.is_empty()).then(|| bound(recorder.last_tree));
        self.peak = tree.map_or(self.peak, |tree| Some(self.peak.map_or(tree, |peak| peak.max(tree))));
        let system = &recorder.system;
        let binding = system.binding();
        Snapshot {
            run: Arc::clone(&self.run),
            at_ns: recorder.last_tick_realtime_ns(),
            ticks,
            missed_ticks,
            tree,
            peak: self.peak,
            alive: alive.len() as u64,
            processes: largest(alive).into_iter().map(process).collect(),
            steps: self.steps,
            last_step: self.last_step,
            machine: machine(system),
            limit: Some(Limit {
                bytes: binding.limit,
                free: binding.headroom,
                source: system.limit().source,
            }),
            own_cpu_s: (usage.user_us + usage.system_us) as f64 / 1e6,
            ended: None,
        }
    }
}

fn bound(tree: Bounds) -> Bound {
    Bound { low: tree.low_kib * 1024, high: tree.high_kib * 1024 }
}

fn largest(mut alive: Vec<&Member>) -> Vec<&Member> {
    if alive.len() > MOST_PROCESSES {
        alive.sort_by_key(|m| (std::cmp::Reverse(m.sample.rss_kib()), m.index));
        alive.truncate(MOST_PROCESSES);
    }
    alive
}

fn process(member: &Member) -> Process {
    let ProcessSample { anon_kib, file_kib, shmem_kib, swap_kib, hwm_kib, .. } = member.sample;
    let seconds = |ticks: u64| ticks as f64 / ticks_per_s() as f64;
    Process {
        pid: member.pid,
        command: member.comm.to_text(),
        role: member.role.name.clone(),
        rank: member.role.name.strip_prefix("rank ").and_then(|rank| rank.parse().ok()),
        anon: anon_kib * 1024,
        file: file_kib * 1024,
        shmem: shmem_kib * 1024,
        swap: swap_kib * 1024,
        hwm: hwm_kib * 1024,
        address_space: member.address_space_bytes,
        pss: member.walk.map(|walk| walk.pss_kib * 1024),
        uss: member.walk.map(|walk| walk.uss_kib * 1024),
        user_s: seconds(member.sample.user_ticks),
        system_s: seconds(member.sample.system_ticks),
        minor_faults: member.sample.minor_faults,
        major_faults: member.sample.major_faults,
        threads: member.sample.threads.into(),
    }
}

fn machine(system: &System) -> Machine {
    let bytes = |name| system.meminfo_kib(name) * 1024;
    Machine {
        total: bytes("MemTotal"),
        free: bytes("MemFree"),
        available: bytes("MemAvailable"),
        cached: bytes("Cached"),
        buffers: bytes("Buffers"),
        swap_total: bytes("SwapTotal"),
        swap_free: bytes("SwapFree"),
        swap_cached: bytes("SwapCached"),
        pressure: system.has_pressure().then(|| system.pressure_centi() as f64 / 1e4),
    }
}
