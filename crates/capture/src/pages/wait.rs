//! Waiting for the end of a window, of the target, of our time, or for a step.

use std::os::fd::OwnedFd;
use std::path::Path;

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_kernel::sys::process::pidfd;
use nilometer_kernel::sys::signals::{self, Mask, SignalFd};
use nilometer_trace::record::MarkKind;

use super::Error;
use crate::marks::Marks;

const SIGTSTP: i32 = 20;
const ASKING: [i32; 4] = [1, 2, 3, 15];

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Time,
    Step,
    Ended,
    Interrupted,
}

/// Knows the target's end, marks, and signals to us.
#[derive(Debug)]
pub struct Waiter {
    /// Nothing where somebody else of this process answers signals.
    asking: Option<Asking>,
    target: Option<(i32, OwnedFd)>,
    marks: Option<Marks>,
    /// Whether the target is ours, so that a signal is passed on to it.
    is_child: bool,
    pub(super) steps: u64,
}

/// Signals to us.
#[derive(Debug)]
struct Asking {
    mask: Mask,
    inherited: Mask,
    signals: SignalFd,
}

impl Waiter {
    /// From here on signals are read, not suffered.
    pub fn new() -> std::io::Result<Self> {
        let mask = Mask::taken();
        let inherited = mask.block()?;
        let signals = SignalFd::new(&mask)?;
        Ok(Self { asking: Some(Asking { mask, inherited, signals }), ..Self::beside_a_run() })
    }

    /// For a thread of a recording that answers signals itself.
    pub(super) fn beside_a_run() -> Self {
        Self { asking: None, target: None, marks: None, is_child: false, steps: 0 }
    }

    /// Starts a child with the signal mask that we were given.
    pub fn spawn<T>(&mut self, start: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
        let Some(asking) = &self.asking else { return start() };
        asking.inherited.restore();
        let started = start();
        asking.mask.block()?;
        self.is_child = true;
        started
    }

    /// Follows the file in which steps are told.
    pub fn follow_marks(&mut self, path: &Path) {
        self.marks = Marks::create(path, monotonic_ns()).ok();
    }

    pub fn watch(&mut self, pid: i32) -> Result<(), Error> {
        let descriptor = pidfd(pid).map_err(|error| Error::of_io(pid, error))?;
        self.target = Some((pid, descriptor));
        Ok(())
    }

    pub(super) fn wait_until(&mut self, deadline_ns: u64, steps: Option<u64>) -> Event {
        loop {
            let mut poll = PollSet::default();
            poll.add(self.asking.as_ref().map_or(-1, |asking| signals::raw(&asking.signals)));
            poll.add(self.target.as_ref().map_or(-1, |(_, descriptor)| signals::raw(descriptor)));
            poll.add(self.marks.as_ref().and_then(Marks::descriptor).unwrap_or(-1));
            let ready: Vec<usize> = poll.wait_until(deadline_ns).collect();
            self.take_marks();
            if ready.contains(&0) && self.take_signals() {
                return Event::Interrupted;
            }
            if ready.contains(&1) {
                return Event::Ended;
            }
            if steps.is_some_and(|steps| self.steps >= steps) {
                return Event::Step;
            }
            if monotonic_ns() >= deadline_ns {
                return Event::Time;
            }
        }
    }

    /// Until the child has ended, whatever signals come.
    pub fn wait_for_end(&mut self) {
        while self.target.is_some() && self.wait_until(u64::MAX / 2, None) != Event::Ended {}
    }

    fn take_marks(&mut self) {
        let steps = &mut self.steps;
        if let Some(marks) = &mut self.marks {
            marks.look(monotonic_ns(), |mark| *steps += u64::from(matches!(mark.what, MarkKind::Step(_))));
        }
    }

    /// Whether somebody asked us to end. The terminal's own reach the child too; others are passed on.
    fn take_signals(&mut self) -> bool {
        let Some(asking) = &self.asking else { return false };
        let mut asked = false;
        while let Some(received) = asking.signals.next() {
            if received.number == SIGTSTP {
                signals::stop_by(SIGTSTP);
            }
            if ASKING.contains(&received.number) {
                asked = true;
                if let (true, false, Some((pid, _))) = (self.is_child, received.from_kernel, &self.target) {
                    let _ = signals::send(*pid, received.number);
                }
            }
        }
        asked
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.inherited.restore();
    }
}
