//! Processes that stand still, held by a thread of its own.
//!
//! The tracer is a thread: what it could not let go (a thread in an uninterruptible sleep, which stops when that ends) is
//! freed by the kernel when it ends. So it must end with the standstill, and not with the whole recording.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::stop::Stopped;

/// Over when dropped.
#[derive(Debug)]
pub struct Standstill {
    /// How many threads stand still.
    pub threads: usize,
    /// Why some could not be stopped.
    pub refused: Option<io::Error>,
    /// Its end lets them go.
    line: Option<Sender<()>>,
    holder: Option<JoinHandle<()>>,
}

impl Standstill {
    /// Returns when all threads of `pids` stand still, or at the deadline.
    pub fn begin(pids: Vec<i32>, deadline_ns: u64) -> Self {
        let (line, release) = channel::<()>();
        let (tell, told) = channel();
        let holder = Builder::new().name("nilo-holder".to_owned()).spawn(move || {
            let proc = Proc::default();
            let mut stopped =
                Stopped::stop(&pids, |pid| proc.list_threads(pid).unwrap_or_default(), deadline_ns);
            let _ = tell.send((stopped.count(), stopped.refused.take()));
            let _ = release.recv(); // nothing is ever sent: the line ends
            drop(stopped);
        });
        match holder {
            Ok(holder) => {
                let (threads, refused) = told.recv().unwrap_or_default();
                Self { threads, refused, line: Some(line), holder: Some(holder) }
            }
            Err(error) => Self { threads: 0, refused: Some(error), line: None, holder: None },
        }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.line = None;
        if let Some(holder) = self.holder.take() {
            let _ = holder.join();
        }
    }
}
