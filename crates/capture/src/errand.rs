//! A thread that goes and looks at the target, so that ticks go on.
//!
//! The one invariant: one errand at a time, and while it holds the target everybody can know ([`Errands::is_holding`]):
//! the main loop must not wait for children then. The kernel would give it the stop that the thread waits for
//! (`wait_consider_task`, `kernel/exit.c`: a child traced by its parent's own group).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use nilometer_kernel::sys::limits::{give_back_freed_memory, keep_little_freed_memory};

use crate::census::{Progress, Stage};

/// Set while the target is held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holding(Arc<AtomicBool>);

impl Holding {
    /// Told by a census or a ledger that stops the target while it copies.
    pub fn progress(&self) -> Progress {
        let flag = Arc::clone(&self.0);
        Progress::new(move |stage| flag.store(stage == Stage::Copy, Ordering::Release))
    }

    /// Whatever went wrong: nobody holds it any more.
    pub fn release(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The thread that held the target has come to its end, by a panic too: the kernel lets go what it traced.
struct Ending<'a>(&'a Holding);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The thread, if it is out.
#[derive(Debug)]
pub(crate) struct Errands<T> {
    out: Option<Receiver<T>>,
    holding: Holding,
}

impl<T> Default for Errands<T> {
    fn default() -> Self {
        Self { out: None, holding: Holding::default() }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Came<T> {
    Back(T),
    /// The thread broke off.
    Lost,
}

impl<T: Send + 'static> Errands<T> {
    pub fn is_out(&self) -> bool {
        self.out.is_some()
    }

    /// True while the target is held by the thread: nobody else may wait for it.
    pub fn is_holding(&self) -> bool {
        self.holding.0.load(Ordering::Acquire)
    }

    pub fn send(&mut self, name: &str, work: impl FnOnce(&Holding) -> T + Send + 'static) {
        let (sender, receiver) = channel();
        let holding = self.holding.clone();
        // A look needs many times what the recorder needs between two of them.
        keep_little_freed_memory();
        let work = move || {
            let brought = {
                let _ending = Ending(&holding);
                work(&holding)
            };
            // Whoever waits may have gone: then nobody needs the answer.
            let _ = sender.send(brought);
            give_back_freed_memory();
        };
        if std::thread::Builder::new().name(name.to_owned()).spawn(work).is_ok() {
            self.out = Some(receiver);
        }
    }

    /// What was brought back since; none while it is out.
    pub fn collect(&mut self) -> Option<Came<T>> {
        let came = match self.out.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Came::Lost,
            Ok(brought) => Came::Back(brought),
        };
        self.out = None;
        Some(came)
    }

    /// Waits for the thread, no longer than this, and sends it no more.
    pub fn wait(&mut self, patience: Duration) -> Option<T> {
        self.out.take()?.recv_timeout(patience).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_out_until_it_is_back() {
        let mut errands: Errands<u32> = Errands::default();
        assert!(errands.collect().is_none() && !errands.is_out());
        let (go, wait) = channel::<()>();
        errands.send("nilo-test", move |_| {
            let _ = wait.recv();
            7
        });
        assert!(errands.is_out() && errands.collect().is_none());
        go.send(()).unwrap();
        assert_eq!(errands.wait(Duration::from_secs(20)), Some(7));
        assert!(!errands.is_out());
    }

    #[test]
    fn a_thread_that_breaks_off_is_lost() {
        let mut errands: Errands<u32> = Errands::default();
        errands.send("nilo-test", |holding| {
            holding.progress().tell(Stage::Copy);
            std::panic::resume_unwind(Box::new(()))
        });
        let came = loop {
            match errands.collect() {
                Some(came) => break came,
                None => std::thread::yield_now(),
            }
        };
        assert!(matches!(came, Came::Lost));
        assert!(!errands.is_holding(), "nobody would wait for children any more");
    }
}
