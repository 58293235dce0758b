//! The recorder's loop: a turn over everybody, orders from outside, a copy to store now and then.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_ring::event::Level;
use nilometer_trace::allocs::{About, SWITCHED};
use serde_json::json;

use super::events::Events;
use super::hear::{Effort, Hearing};
use super::keep::Keeper;
use super::snapshot::{self, Copying};
use super::untracked::Silent;
use super::window::Act;
use super::{AllocOptions, EXACT_BYTES, Outcome, Status};
use crate::answer::publish;

/// Between two turns when there is little to read. The targets use our beat as a clock.
const NAP_NS: u64 = 1_000_000;
const SHORT_NAP_NS: u64 = 300_000;
/// A turn that had this much to understand is followed by the next at once.
const BUSY_BYTES: usize = 64 << 10;
/// Between two looks at counters.
const LOOK_NS: u64 = 100_000_000;
/// The first copy that is stored while the run goes on, and the longest time between two.
const FIRST_COPY_NS: u64 = 2_000_000_000;
const MOST_BETWEEN_COPIES_NS: u64 = 60_000_000_000;
/// Storing a copy may take one part in so many of the time.
const COPY_SHARE: u64 = 30;
/// Turns at the end, should a process that outlives the run never stop talking.
const LAST_TURNS: usize = 50;

/// What the thread is told.
#[derive(Debug)]
pub enum Message {
    Step { number: u64, at_ns: u64 },
    Switch(Level),
    Saw(Vec<i32>),
    Window(Question),
    Stop,
}

/// About the window of a process; the answer becomes a file.
#[derive(Debug)]
pub struct Question {
    pub pid: i32,
    pub act: Act,
    /// How many sites are wanted, with their stacks.
    pub top: usize,
    pub path: PathBuf,
}

/// The thread's own state.
#[derive(Debug)]
pub struct Recording {
    hearing: Hearing,
    keeper: Keeper,
    messages: Receiver<Message>,
    status: Arc<Mutex<Status>>,
    about: About,
    silent: Silent,
    copying: Option<Copying>,
    copied_ns: u64,
    copy_every_ns: u64,
    looked_ns: u64,
    notes: Vec<String>,
}

impl Recording {
    pub fn new(
        options: &AllocOptions,
        listener: UnixListener,
        directory: &Path,
        most_event_bytes: u64,
        messages: Receiver<Message>,
        status: Arc<Mutex<Status>>,
    ) -> std::io::Result<Self> {
        let started_ns = monotonic_ns();
        let events = options.events.then(|| Events::start(directory, most_event_bytes)).transpose()?;
        let about = About {
            mode: options.mode.name().to_owned(),
            mean_bytes: options.mean_bytes,
            exact_bytes: EXACT_BYTES,
            depth: options.depth,
            started_ns,
            ..About::default()
        };
        Ok(Self {
            hearing: Hearing::new(listener, events),
            keeper: Keeper::start(directory.to_owned())?,
            messages,
            status,
            about,
            silent: Silent::new(&options.library),
            copying: None,
            copied_ns: started_ns,
            copy_every_ns: FIRST_COPY_NS,
            looked_ns: 0,
            notes: Vec::new(),
        })
    }

    pub fn run(mut self) -> Outcome {
        while self.obey() {
            let there = self.hearing.turn(&self.keeper, Effort::Usual);
            let now_ns = monotonic_ns();
            if now_ns.saturating_sub(self.looked_ns) >= LOOK_NS {
                self.look(now_ns);
            }
            self.copy(now_ns);
            self.hearing.wait(if self.hearing.is_waiting() { NAP_NS } else { nap_after(there) });
        }
        self.finish()
    }

    /// Does what it was told; false when that is to stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.messages.try_recv() {
                Ok(Message::Step { number, at_ns }) => self.hearing.step(number, at_ns),
                Ok(Message::Switch(level)) => {
                    self.note_switch(level);
                    self.hearing.switch(level);
                }
                Ok(Message::Saw(pids)) => {
                    self.silent.heard(self.hearing.programs());
                    let replaced = self.silent.look(&pids);
                    self.hearing.replaced(&replaced);
                }
                Ok(Message::Window(question)) => self.answer(question),
                Err(TryRecvError::Empty) => return true,
                Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Everything that the process did before it asked is read first. Names take time, which is not ours.
    fn answer(&mut self, question: Question) {
        let Question { pid, act, top, path } = question;
        for _ in 0..2 {
            self.hearing.turn(&self.keeper, Effort::Whole); // frees that waited for their allocation are settled by the second
        }
        let answer = self.hearing.window(pid, act, top);
        let (_, lost) = self.hearing.counts();
        let mode = self.status.lock().unwrap_or_else(PoisonError::into_inner).mode.clone();
        let write = move || {
            let mut document = answer.map_or_else(
                || json!({"error": format!("process {pid} is not tracked, or has no open window")}),
                |answer| answer.told.document(&answer.sites, answer.book.filter(|_| top > 0)),
            );
            document["lost_events"] = lost.into();
            document["mode"] = mode.into();
            // Who waits for it gives up when it does not come.
            let _ = publish(&path, |mut file| file.write_all(document.to_string().as_bytes()));
        };
        if top == 0 {
            write();
        } else if let Err(error) = std::thread::Builder::new().name("nilo-window".to_owned()).spawn(write) {
            self.notes.push(format!("a window could not be told: {error}"));
        }
    }

    fn note_switch(&mut self, level: Level) {
        let seconds = monotonic_ns().saturating_sub(self.about.started_ns) as f64 / 1e9;
        let name = super::living::level_name(level);
        self.about.notes.push(format!("{SWITCHED}{name} after {seconds:.1} s"));
    }

    fn look(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        self.hearing.look();
        self.silent.heard(self.hearing.programs());
        let sites = &self.hearing.sums.sites;
        let (events, lost_events) = self.hearing.counts();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        *status = Status {
            mode: std::mem::take(&mut status.mode),
            processes: self.hearing.programs().count(),
            live_bytes: sites.live.bytes,
            peak_bytes: sites.peak.bytes,
            events,
            lost_events,
            steps: sites.steps.count().into(),
        };
    }

    /// A copy is begun when it is time, and goes on for some turns.
    fn copy(&mut self, now_ns: u64) {
        if self.copying.is_none() && now_ns.saturating_sub(self.copied_ns) >= self.copy_every_ns {
            if self.keeper.is_busy() {
                return;
            }
            self.copying = Some(Copying::default());
            self.copied_ns = now_ns;
        }
        let Some(copying) = &mut self.copying else { return };
        if let Some(snapshot) = copying.go_on(&mut self.hearing, &self.about) {
            self.copying = None;
            self.keeper.store(snapshot);
            let share = self.keeper.last_ns().saturating_mul(COPY_SHARE);
            self.copy_every_ns = (self.copy_every_ns * 2).max(share).min(MOST_BETWEEN_COPIES_NS.max(share));
        }
    }

    fn finish(mut self) -> Outcome {
        for _ in 0..LAST_TURNS {
            self.hearing.wait(0);
            if self.hearing.turn(&self.keeper, Effort::Last) == 0 {
                break;
            }
        }
        self.silent.heard(self.hearing.programs());
        self.hearing.turn(&self.keeper, Effort::Last); // frees that waited for their allocation are settled
        self.hearing.tell_evaluations(&self.keeper);
        if let Some(events) = self.hearing.events.take() {
            let written = events.finish();
            self.about.event_bytes = Some(written.bytes);
            if written.lost_bytes > 0 || written.why.is_some() {
                let why = written.why.unwrap_or_else(|| "it could not be written fast enough".to_owned());
                self.notes
                    .push(format!("{} bytes of the event stream are missing: {why}", written.lost_bytes));
            }
        }
        self.about.notes.extend(self.notes.iter().cloned());
        self.about.untracked = self.silent.reasons();
        let snapshot = snapshot::last(self.hearing, &self.about);
        let about = snapshot.about.clone();
        self.keeper.store(snapshot);
        let kept = self.keeper.finish();
        let mut notes = self.notes;
        notes.extend(kept.failure.map(|why| format!("allocations could not be stored: {why}")));
        Outcome { about, notes }
    }
}

fn nap_after(there: usize) -> u64 {
    match there {
        0 => NAP_NS,
        1..BUSY_BYTES => SHORT_NAP_NS,
        _ => 0,
    }
}
