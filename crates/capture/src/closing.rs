//! The end of a recording: what stays behind, what it cost, the last words of the manifest.

use std::time::Duration;

use nilometer_kernel::read::cgroup::OwnGroup;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_trace::manifest::ManifestEnd;
use nilometer_trace::record::{Cost, EventKind, Exit, Phase, Remains};

use crate::launch::MARKS_FILE;
use crate::recorder::{clock_offset, nanoseconds};
use crate::session::{Session, Subject};
use crate::shm::SharedMemory;

/// How long the relay of the output may take to pass on the last lines.
const RELAY_NS: u64 = 300_000_000;
/// How long the recorder of allocations may take to store them.
const ALLOCS_PATIENCE: Duration = Duration::from_secs(10);
/// How long the last look at touched pages may take.
const PAGES_PATIENCE: Duration = Duration::from_secs(5);
/// Distance of the samples before the start and after the end.
const LOOK_NS: u64 = 10_000_000;

impl Session {
    /// Samples of the system alone, at least two. A signal that asks to end cuts it short, if the target has not had it.
    pub fn look_at_system(&mut self, phase: Phase, span_ns: u64) {
        let end_ns = monotonic_ns() + span_ns;
        let step_ns = LOOK_NS.max(span_ns / 1000).min(span_ns.max(1));
        self.recorder.system_tick(phase);
        while monotonic_ns() < end_ns && self.asked_to_end == self.asked_by_its_end {
            self.wait_for_signals(None, (monotonic_ns() + step_ns).min(end_ns));
            self.recorder.system_tick(phase);
        }
    }

    /// After one of several runs: what the machine is like now, and what this run left by name.
    pub fn end_repeat(&mut self, run: u64, began_ns: u64, before: &SharedMemory) -> SharedMemory {
        let ended_ns = monotonic_ns();
        self.recorder.log_changes(); // whoever ended belongs to this run, not to the phase of the next
        self.look_at_system(Phase::During, nanoseconds(self.options.settle));
        let now = SharedMemory::read();
        let remains = before.growth(&now, clock_offset());
        let exit = self.exit.clone().unwrap_or_default();
        self.recorder.event(ended_ns, EventKind::RunEnded { run, began_ns, exit, remains });
        now
    }

    /// Looks at what is left, writes the last records, and tells how the target ended.
    pub fn close(mut self, started_ns: u64, ended_ns: u64) -> Option<Exit> {
        if let Some(allocs) = &self.allocs {
            allocs.stop(); // it stores what it has while we look at the system
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.close(&self.recorder, self.exit.as_ref()); // they too
        }
        if matches!(self.subject, Subject::Child(_)) {
            self.drain_relay();
            self.name_left_behind(ended_ns);
            self.look_at_system(Phase::After, nanoseconds(self.options.settle));
            self.note_remains();
        }
        self.collect_allocs();
        let pages = self.pages.take().and_then(|pages| pages.finish(PAGES_PATIENCE));
        self.manifest.notes.extend(pages);
        if let Some(metrics) = self.metrics.take() {
            self.manifest.notes.extend(metrics.finish());
        }
        let helpers = self.retire_sentinel();
        let mut cost = self.recorder.cost(helpers);
        cost.pause_s = self.pause_ns as f64 / 1e9;
        cost.cpu_s += self.helper_cpu_s;
        let peak = self.group.as_ref().and_then(OwnGroup::peak_bytes);
        self.remove_group();
        let (ticks, missed_ticks) = self.recorder.ticks();
        let duration_s = ended_ns.saturating_sub(started_ns) as f64 / 1e9;
        self.describe(Some(ManifestEnd {
            duration_s,
            exit: self.exit.clone(),
            cost,
            interval_achieved_ms: if ticks > 1 { duration_s * 1e3 / ticks as f64 } else { 0.0 },
            ticks,
            missed_ticks,
        }));
        self.recorder.finish(self.exit.clone(), cost, peak);
        self.exit
    }

    fn collect_allocs(&mut self) {
        let Some(outcome) = self.allocs.take().map(|allocs| allocs.finish(ALLOCS_PATIENCE)) else { return };
        if let Some(allocs) = &mut self.manifest.allocs {
            allocs.lost_events = Some(outcome.about.lost_events);
        }
        self.manifest.notes.extend(outcome.notes);
    }

    /// The last lines of the target should stand before ours; a daemon that holds the stream is not waited for.
    fn drain_relay(&mut self) {
        let end_ns = monotonic_ns() + RELAY_NS;
        while self.relay_pid.is_some() && monotonic_ns() < end_ns {
            self.wait_and_answer(end_ns);
        }
        self.take_marks();
    }

    /// Nothing was started: leaves no trace.
    pub fn abandon(mut self) {
        self.retire_sentinel();
        self.remove_group();
    }

    fn remove_group(&mut self) {
        if let Some(mut group) = self.group.take()
            && let Err(why) = group.remove()
        {
            self.manifest.notes.push(why);
        }
    }

    /// Daemons: named, not waited for.
    fn name_left_behind(&mut self, now_ns: u64) {
        self.recorder.tree.discover_anew(now_ns);
        self.recorder.tree.look(now_ns);
        self.recorder.log_changes();
        let alive = self.recorder.tree.members().iter().filter(|m| m.is_alive());
        let indexes: Vec<u32> = alive.map(|m| m.index).collect();
        if !indexes.is_empty() {
            self.recorder.event(now_ns, EventKind::LeftBehind { indexes });
        }
    }

    fn note_remains(&mut self) {
        let now_ns = monotonic_ns();
        for Remains { what, bytes, births } in
            self.shared_before.growth(&SharedMemory::read(), clock_offset())
        {
            self.recorder.event(now_ns, EventKind::Remains { what, bytes, births });
        }
        if let Some(event) = self.unsampled.event() {
            self.recorder.event(now_ns, event);
        }
        let malformed = self.marks.as_ref().map_or(0, |m| m.malformed);
        if malformed > 0 {
            let text =
                format!("{malformed} lines of the marks file are no marks (step N, phase NAME, note TEXT)");
            self.recorder.event(now_ns, EventKind::Note { text });
        }
    }

    pub fn describe(&mut self, end: Option<ManifestEnd>) {
        self.manifest.end = end;
        self.manifest.control_socket = self.control.as_ref().map(|c| c.path().display().to_string());
        self.manifest.marks_file = self.marks.as_ref().map(|_| MARKS_FILE.to_owned());
        // A manifest that cannot be written (full disk) leaves the one of the start.
        let _ = self.manifest.write(&self.directory);
    }

    /// Ends our helper and adds up what it cost.
    fn retire_sentinel(&mut self) -> Cost {
        let Some(sentinel) = self.sentinel.take() else { return Cost::default() };
        let private = Proc::default().read_rollup(sentinel.pid, &mut Vec::new());
        let rss_bytes = private.map_or(0, |rollup| rollup.usage.uss_kib() * 1024);
        let usage = sentinel.retire();
        Cost { cpu_s: (usage.user_us + usage.system_us) as f64 / 1e6, rss_bytes, ..Cost::default() }
    }
}
