//! A recording while it lives: the loop that waits, ticks, and answers signals and marks.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nilometer_kernel::read::cgroup::OwnGroup;
use nilometer_kernel::sys::clock::{monotonic_ns, realtime_ns};
use nilometer_kernel::sys::limits::Usage;
use nilometer_kernel::sys::own_code;
use nilometer_kernel::sys::poll::{PollSet, WaitList};
use nilometer_kernel::sys::process::{Change, Wait, own_pid, wait_any};
use nilometer_kernel::sys::sentinel::Sentinel;
use nilometer_kernel::sys::signals::{self, Received, SignalFd};
use nilometer_trace::Manifest;
use nilometer_trace::record::{EventKind, Exit, Mark, MarkKind, Record, Waited};
use serde_json::json;

use crate::allocs::{AllocMode, Allocs};
use crate::control::{Control, Request};
use crate::forward::{self, Action, Arrival, decide, is_job_control_stop};
use crate::heap_watch::HeapWatch;
use crate::ledger_watch::LedgerWatch;
use crate::marks::{Marks, parse_line};
use crate::metrics::Teller;
use crate::options::Options;
use crate::pages::Watch;
use crate::recorder::Recorder;
use crate::shm::SharedMemory;
use crate::stop_after::Enough;

/// Who signals every process of a job or container one by one (systemd, Slurm, `timeout`) needs a moment for
/// it: only then the sentinel can tell whether the target got its own.
const SWEEP_NS: u64 = 5_000_000;
const SIGNALS_AT_ONCE: usize = 16;
/// Who connected to the control socket and has not said yet what it wants is looked at again after so long.
const LATE_NS: u64 = 20_000_000;
/// What looks at the target by itself is given a turn this often while nothing changes.
const CHORES_PACE_NS: u64 = 1_000_000_000;

/// Whose memory is recorded.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Our direct child.
    Child(i32),
    /// A process that was there before us; the descriptor tells its end.
    Attached(OwnedFd),
    /// The machine alone.
    Nobody,
}

/// A recording between its start and its end.
#[derive(Debug)]
pub(crate) struct Session {
    pub directory: PathBuf,
    pub options: Options,
    pub subject: Subject,
    pub signals: SignalFd,
    pub sentinel: Option<Sentinel>,
    pub relay_pid: Option<i32>,
    /// CPU time of helpers that have ended.
    pub helper_cpu_s: f64,
    pub marks: Option<Marks>,
    pub control: Option<Control>,
    /// What ends a wait: signals, marks, the end of the subject, clients. Made at the first wait.
    pub waits: Option<WaitList>,
    pub recorder: Recorder,
    pub manifest: Manifest,
    pub group: Option<OwnGroup>,
    pub shared_before: SharedMemory,
    pub launch_hwm_kib: u64,
    pub unsampled: Unsampled,
    pub exit: Option<Exit>,
    /// Somebody asked us to end (attach, record), or the subject is gone.
    pub stop_asked: bool,
    /// How many signals came that usually end a program.
    pub asked_to_end: u32,
    /// As many had come when the target was waited for: later ones can only be meant for us.
    pub asked_by_its_end: u32,
    /// A child may have ended that was not waited for yet.
    pub owes_reap: bool,
    /// How long the target stood still because of us.
    pub pause_ns: u64,
    pub heap: HeapWatch,
    pub enough: Enough,
    pub allocs: Option<Allocs>,
    pub ledger: LedgerWatch,
    pub pages: Option<Watch>,
    pub metrics: Option<Teller>,
    pub started_ns: u64,
    /// When all that follows a tick was last done.
    pub chores_ns: u64,
    /// Use of the binding limit when last words were last saved.
    pub last_words_bytes: u64,
}

/// Orphans that came and went between two ticks.
#[derive(Debug, Default)]
pub(crate) struct Unsampled {
    processes: u64,
    usage: Usage,
}

impl Session {
    /// A session without helpers; the launcher adds its own.
    pub fn new(
        options: &Options,
        subject: Subject,
        signals: SignalFd,
        recorder: Recorder,
        manifest: Manifest,
    ) -> Self {
        let heap = HeapWatch::new(options.heap, PathBuf::from(&manifest.directory));
        let metrics =
            options.outlets.as_ref().map(|outlets| Teller::start(outlets, &manifest, realtime_ns()));
        Self {
            directory: PathBuf::from(&manifest.directory),
            options: options.clone(),
            subject,
            signals,
            sentinel: None,
            relay_pid: None,
            helper_cpu_s: 0.0,
            marks: None,
            control: None,
            waits: None,
            recorder,
            manifest,
            group: None,
            shared_before: SharedMemory::default(),
            launch_hwm_kib: 0,
            unsampled: Unsampled::default(),
            exit: None,
            stop_asked: false,
            asked_to_end: 0,
            asked_by_its_end: 0,
            owes_reap: false,
            pause_ns: 0,
            enough: Enough::new(&options.stop_after),
            allocs: None,
            ledger: LedgerWatch::new(options.ledgers_in_force(), options.ledger_percent()),
            heap,
            pages: None,
            metrics,
            started_ns: 0,
            chores_ns: 0,
            last_words_bytes: 0,
        }
    }

    /// The next run of `--repeat` has a child of its own.
    pub fn adopt(&mut self, child: i32, relay_pid: Option<i32>) {
        self.subject = Subject::Child(child);
        self.exit = None;
        self.enough = Enough::new(&self.options.stop_after);
        self.relay_pid = relay_pid;
        if let Some(group) = &self.group {
            let _ = group.add(child);
        }
        self.recorder.tree.add_own(relay_pid);
    }

    /// Each run of several is a phase.
    pub fn begin_repeat(&mut self, number: u32, at_ns: u64) {
        if self.options.repeat != 1 {
            let what = MarkKind::Phase(format!("run {number}"));
            self.recorder.append(&Record::Mark(Mark { at_ns, error_ns: 0, pid: None, what }));
        }
    }

    pub fn is_over(&self) -> bool {
        self.exit.is_some() || self.stop_asked
    }

    /// The tick loop, until the subject has ended or we are asked to stop.
    pub fn watch(&mut self, started_ns: u64) {
        if self.started_ns == 0 {
            self.started_ns = started_ns;
            let _ = own_code::give_back(); // refused where memory is locked
        }
        let mut due_ns = started_ns;
        let end_ns = self.options.duration.map(|d| started_ns + crate::recorder::nanoseconds(d));
        while !self.is_over() {
            self.wait_and_answer(end_ns.map_or(due_ns, |end_ns| due_ns.min(end_ns)));
            if !self.is_over() && monotonic_ns() >= due_ns {
                self.recorder.tick();
                if self.has_chores() {
                    self.do_chores();
                }
                due_ns = next_due(due_ns, self.next_look_ns());
            }
            self.stop_when_enough(started_ns);
            let enough = self.options.samples.is_some_and(|samples| self.recorder.ticks().0 >= samples);
            self.stop_asked |= enough || end_ns.is_some_and(|end_ns| monotonic_ns() >= end_ns);
        }
        self.let_go();
        self.take_marks();
    }

    /// Is there more to do after a tick than to wait for the next one? What goes by time alone gets its turn every second.
    fn has_chores(&self) -> bool {
        let is_told = self.metrics.is_some() || self.allocs.is_some();
        let is_watched = self.options.limits.any() || self.enough.is_asked();
        let is_looked_at = self.heap.is_busy() || self.ledger.is_busy() || self.owes_reap;
        let has_news = self.recorder.has_news || self.recorder.system_is_new;
        let age_ns = self.recorder.last_tick_ns().saturating_sub(self.chores_ns);
        has_news || is_told || is_watched || is_looked_at || age_ns >= CHORES_PACE_NS
    }

    fn do_chores(&mut self) {
        self.chores_ns = self.recorder.last_tick_ns();
        self.tell_metrics();
        self.look_inside();
        self.look_for_silent();
        self.guard();
        self.enough.tick(self.peak_kib(), self.recorder.ticks().0);
    }

    fn tell_metrics(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.tick(&self.recorder);
        }
    }

    /// Waits until `due_ns` or until something needs an answer, and gives it.
    pub fn wait_and_answer(&mut self, due_ns: u64) {
        let mut ready = [false; 4];
        let has_late = self.control.as_ref().is_some_and(Control::has_late);
        let due_ns = if has_late { due_ns.min(monotonic_ns() + LATE_NS) } else { due_ns };
        let waits = self.waits.take().or_else(|| self.list_waits().ok());
        match &waits {
            Some(waits) => waits.wait_until(due_ns, |position| ready[position] = true),
            None => poll_until(due_ns, self.descriptors(), &mut ready),
        }
        self.waits = waits;
        if ready[0] {
            self.take_signals();
        }
        if ready[1] {
            self.take_marks();
        }
        self.stop_asked |= ready[2];
        if ready[3] || has_late {
            self.answer_clients();
        }
    }

    /// Signals, marks, the end of the subject, clients; those that are not there are left out.
    fn descriptors(&self) -> [Option<i32>; 4] {
        let subject =
            if let Subject::Attached(pidfd) = &self.subject { Some(pidfd.as_raw_fd()) } else { None };
        [
            Some(signals::raw(&self.signals)),
            self.marks.as_ref().and_then(Marks::descriptor),
            subject,
            self.control.as_ref().map(Control::descriptor),
        ]
    }

    fn list_waits(&self) -> std::io::Result<WaitList> {
        let list = WaitList::new()?;
        for (position, fd) in self.descriptors().into_iter().enumerate() {
            fd.map_or(Ok(()), |fd| list.add(fd, position))?;
        }
        Ok(list)
    }

    fn answer_clients(&mut self) {
        let Some(mut control) = self.control.take() else { return };
        control.answer(|request| match request {
            Request::Status => self.status(),
            Request::Mark { line } => self.mark(&line),
            Request::Heap { pid, path } => self.ask_for_heap(pid, path),
            Request::Mode { mode } => self.switch_allocs(&mode),
            Request::Ledger { pid, path } => self.ask_for_ledger(pid, path),
            Request::Peak { pid } => self.reset_peak(pid),
            Request::Window { pid, act, path, top } => self.ask_for_window(pid, act, path, top),
        });
        self.control = Some(control);
    }

    /// Where the recording stands, for the control socket.
    fn status(&self) -> serde_json::Value {
        let members = self.recorder.tree.members().iter();
        let processes: Vec<_> = members
            .map(|m| json!({"pid": m.pid, "role": m.role.name, "rss_bytes": m.sample.rss_kib() * 1024}))
            .collect();
        let (ticks, missed_ticks) = self.recorder.ticks();
        let tree = self.recorder.last_tree;
        json!({
            "directory": self.directory,
            "command": self.manifest.command,
            "ticks": ticks,
            "missed_ticks": missed_ticks,
            "heap_tables": self.heap.tables(),
            "allocs": self.allocs.as_ref().map(Allocs::status),
            "ledgers": self.ledger.taken(),
            "metrics": self.metrics.as_ref().and_then(|metrics| metrics.url.as_ref()),
            "tree": {"low_bytes": tree.low_kib * 1024, "high_bytes": tree.high_kib * 1024},
            "processes": processes,
        })
    }

    fn mark(&mut self, line: &str) -> serde_json::Value {
        let now_ns = monotonic_ns();
        match parse_line(line.as_bytes(), now_ns, now_ns) {
            Some(mark) => {
                self.take_mark(mark);
                json!({"ok": true})
            }
            None => json!({"error": "no mark", "hint": "step N, phase NAME or note TEXT"}),
        }
    }

    /// Waits for signals and answers them, until `due_ns` or until `other` is readable; true when it is, and
    /// then signals wait.
    pub fn wait_for_signals(&mut self, other: Option<BorrowedFd<'_>>, due_ns: u64) -> bool {
        let mut poll = PollSet::default();
        poll.add(signals::raw(&self.signals));
        poll.add(other.map_or(-1, |fd| fd.as_raw_fd()));
        let mut ready = [false; 2];
        poll.wait_until(due_ns).for_each(|position| ready[position] = true);
        if ready[0] && !ready[1] {
            self.take_signals();
        }
        ready[1]
    }

    /// Some of the waiting signals: a flood of them must not keep us from sampling.
    pub fn take_signals(&mut self) {
        for _ in 0..SIGNALS_AT_ONCE {
            let Some(received) = self.signals.next() else { return };
            self.take_signal(received);
        }
    }

    fn take_signal(&mut self, received: Received) {
        let number = received.number;
        if number == forward::SIGXFSZ && received.sender == own_pid() {
            return; // a limit on our files: a note of it would be the next write that is refused
        }
        if number == forward::SIGCONT && self.sentinel.as_ref().is_some_and(|s| s.pid == received.sender) {
            return; // we were to go on because the target does
        }
        let Subject::Child(child) = self.subject else {
            self.stop_asked |= forward::asks_to_end(number);
            if is_job_control_stop(number) {
                self.stop(number);
            }
            return;
        };
        let arrival = self.judge(received);
        match decide(arrival) {
            Action::Reap => self.reap(),
            Action::Ignore => self.note_signal(number, false),
            Action::Forward => {
                // Once it has been waited for, its number may be anybody's.
                let forwarded = self.exit.is_none() && signals::send(child, number).is_ok();
                self.note_signal(number, forwarded);
            }
        }
        self.asked_to_end += u32::from(forward::asks_to_end(number) || is_job_control_stop(number));
    }

    fn judge(&mut self, received: Received) -> Arrival {
        let Received { number, from_kernel, sender } = received;
        let from_us = sender == own_pid();
        if number == forward::SIGCHLD {
            return Arrival { number, from_kernel, to_group: None, from_tree: false, from_us };
        }
        if !from_kernel && !signals::is_queued(number) {
            PollSet::default().wait_until(monotonic_ns() + SWEEP_NS).for_each(drop);
        }
        let to_group = self.went_to_group(number);
        let started = !self.recorder.tree.members().is_empty();
        if started && !self.recorder.tree.contains(sender) {
            self.recorder.tree.discover(monotonic_ns()); // the sender may be a child of an instant ago
        }
        let from_tree = self.is_child(sender) || self.recorder.tree.contains(sender);
        Arrival { number, from_kernel, to_group, from_tree, from_us }
    }

    fn went_to_group(&mut self, number: i32) -> Option<bool> {
        let sentinel = self.sentinel.as_mut()?;
        let to_group = sentinel.saw(number)?;
        // One more of its kind since we read it is in the same answer.
        while to_group && !signals::is_queued(number) && signals::discard(number) {
            sentinel.saw(number)?;
        }
        Some(to_group)
    }

    fn stop(&mut self, signal: i32) {
        let since_ns = monotonic_ns();
        if let (Some(sentinel), Subject::Child(child)) = (&mut self.sentinel, &self.subject) {
            sentinel.guard(*child);
        }
        signals::stop_by(signal);
        if let Some(sentinel) = &mut self.sentinel {
            sentinel.relieve();
        }
        self.recorder.was_stopped(since_ns);
    }

    fn note_signal(&mut self, number: i32, forwarded: bool) {
        self.recorder.event(monotonic_ns(), EventKind::Signal { number, forwarded });
    }

    fn is_child(&self, pid: i32) -> bool {
        matches!(self.subject, Subject::Child(child) if child == pid)
    }

    pub fn reap(&mut self) {
        self.owes_reap = self.is_held();
        if self.owes_reap {
            return; // the stops that a census waits for would come to us; the next tick looks again
        }
        while let Some(wait) = wait_any() {
            match wait.change {
                Change::Stopped(signal) if self.is_child(wait.pid) && is_job_control_stop(signal) => {
                    self.stop(signal);
                }
                Change::Stopped(_) | Change::Continued => {}
                Change::Exited(_) | Change::Killed { .. } => self.child_ended(&wait),
            }
        }
    }

    pub fn child_ended(&mut self, wait: &Wait) {
        let waited = self.waited(wait);
        let now_ns = monotonic_ns();
        if self.is_child(wait.pid) {
            self.exit = Some(exit_of(wait.change));
            self.asked_by_its_end = self.asked_to_end;
        } else if self.sentinel.as_ref().is_some_and(|s| s.pid == wait.pid) {
            self.sentinel = None;
            return;
        } else if self.relay_pid == Some(wait.pid) {
            self.relay_pid = None;
            self.helper_cpu_s += (wait.usage.user_us + wait.usage.system_us) as f64 / 1e6;
            return;
        } else if !self.recorder.tree.contains(wait.pid) {
            self.unsampled.add(wait.usage);
        }
        self.recorder.tree.reaped(wait.pid, waited, now_ns);
    }

    fn waited(&self, wait: &Wait) -> Waited {
        let (code, signal) = match wait.change {
            Change::Exited(code) => (Some(code), None),
            Change::Killed { signal, .. } => (None, Some(signal)),
            Change::Stopped(_) | Change::Continued => (None, None),
        };
        let usage = wait.usage;
        // `ru_maxrss` begins with the launcher's own high water: not above it, it says nothing.
        let tells = usage.maxrss_kib > self.launch_hwm_kib;
        Waited {
            code,
            signal,
            maxrss_kib: if tells { usage.maxrss_kib } else { 0 },
            launcher_kib: self.launch_hwm_kib,
            user_us: usage.user_us,
            system_us: usage.system_us,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
        }
    }

    /// Who does not introduce itself to the recorder of allocations is asked why, while it can be.
    fn look_for_silent(&self) {
        if let Some(allocs) = &self.allocs {
            let members = self.recorder.tree.members().iter().filter(|m| m.is_alive());
            allocs.saw(members.map(|m| m.pid).collect());
        }
    }

    fn switch_allocs(&mut self, mode: &str) -> serde_json::Value {
        let Some(allocs) = &self.allocs else {
            return json!({"error": "this run does not record allocations", "hint": "nilo run --allocs=later -- …"});
        };
        let Some(mode) = AllocMode::from_name(mode) else {
            return json!({"error": format!("no mode `{mode}`"), "hint": "off, sampled, all or deep"});
        };
        allocs.switch(mode);
        json!({"ok": true})
    }

    pub fn take_marks(&mut self) {
        let Some(marks) = &mut self.marks else { return };
        let mut arrived = Vec::new();
        marks.look(monotonic_ns(), |mark| arrived.push(mark));
        for mark in arrived {
            self.take_mark(mark);
        }
    }

    fn take_mark(&mut self, mark: Mark) {
        let step = match mark.what {
            MarkKind::Step(step) if self.options.exact_step_peaks => Some(step),
            _ => None,
        };
        if let MarkKind::Step(number) = mark.what {
            self.heap.step();
            if let Some(metrics) = &mut self.metrics {
                metrics.step(number);
            }
            self.enough.step(mark.pid);
            if let Some(allocs) = &self.allocs {
                allocs.step(number, mark.at_ns);
            }
        }
        let at_ns = mark.at_ns;
        self.recorder.append(&Record::Mark(mark));
        self.recorder.look_closely();
        if let Some(step) = step {
            self.recorder.reset_peaks(step, at_ns);
        }
    }
}

impl Unsampled {
    fn add(&mut self, usage: Usage) {
        self.processes += 1;
        self.usage.user_us += usage.user_us;
        self.usage.system_us += usage.system_us;
        self.usage.minor_faults += usage.minor_faults;
        self.usage.maxrss_kib = self.usage.maxrss_kib.max(usage.maxrss_kib);
    }

    pub fn event(&self) -> Option<EventKind> {
        let Usage { user_us, system_us, minor_faults, maxrss_kib, .. } = self.usage;
        let processes = self.processes;
        let event = EventKind::Unsampled { processes, user_us, system_us, minor_faults, maxrss_kib };
        (processes > 0).then_some(event)
    }
}

/// Where no list can be made (no descriptor is left).
fn poll_until(due_ns: u64, descriptors: [Option<i32>; 4], ready: &mut [bool; 4]) {
    let mut poll = PollSet::default();
    for fd in descriptors {
        poll.add(fd.unwrap_or(-1));
    }
    poll.wait_until(due_ns).for_each(|position| ready[position] = true);
}

/// The next tick on the grid; ticks that could not be held are skipped, not made up for in a burst.
fn next_due(due_ns: u64, interval_ns: u64) -> u64 {
    let now_ns = monotonic_ns();
    let next = due_ns + interval_ns;
    if next > now_ns { next } else { now_ns + interval_ns - (now_ns - due_ns) % interval_ns }
}

fn exit_of(change: Change) -> Exit {
    match change {
        Change::Killed { signal, core_dumped } => {
            Exit { signal: Some(signal), core_dumped, ..Exit::default() }
        }
        Change::Exited(code) => Exit { code: Some(code), ..Exit::default() },
        Change::Stopped(_) | Change::Continued => Exit::default(),
    }
}
