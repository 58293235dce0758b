//! Looks at touched pages as part of a run: a thread beside the tick loop, whole mappings, nothing injected, nobody stopped.
//!
//! The one invariant: it ends with the target, and what it has stored by then is readable.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nilometer_kernel::sys::clock::{monotonic_ns, realtime_ns};
use nilometer_trace::pages::{About, Line, PAGES_FILE, write_line};

use super::{Error, PageOptions, Session, Waiter, Way, choose};

/// Between two rounds lies one part in so many of the time so far: some hundred looks a day, and as little of our time.
const SPREAD: u32 = 50;

/// Whose pages, and where they are told.
#[derive(Debug)]
pub(crate) struct Task {
    pub pid: i32,
    pub command: String,
    pub window: Duration,
    pub directory: PathBuf,
    /// When the command was started.
    pub started_ns: u64,
}

/// The thread of one run.
#[derive(Debug)]
pub(crate) struct Watch {
    done: Receiver<Option<String>>,
}

impl Watch {
    pub fn start(task: Task) -> std::io::Result<Self> {
        let (sender, done) = channel();
        let work = move || {
            let note = look(&task).err().map(|error| note(&task, &error));
            // Whoever waits may have gone: then nobody needs the answer.
            let _ = sender.send(note);
        };
        std::thread::Builder::new().name("nilo-pages".into()).spawn(work)?;
        Ok(Self { done })
    }

    /// Waits for the thread, no longer than this; what went wrong.
    pub fn finish(self, patience: Duration) -> Option<String> {
        let late = || Some("the last look at touched pages took too long: it is not stored".to_owned());
        self.done.recv_timeout(patience).unwrap_or_else(|_| late())
    }
}

fn note(task: &Task, error: &Error) -> String {
    let hint = match error {
        Error::TooShort { .. } => format!(" (--wss={}ms, or shorter)", task.window.as_millis() / 4 + 1),
        _ => String::new(),
    };
    format!("no working set: {error}{hint}")
}

fn look(task: &Task) -> Result<(), Error> {
    let options = PageOptions {
        windows: vec![task.window],
        way: Some(Way::Mappings),
        spread: Some(SPREAD),
        written: false,
        names: false,
        ..PageOptions::default()
    };
    let choice = choose(task.pid, &options)?;
    let mut waiter = Waiter::beside_a_run();
    waiter.watch(task.pid)?;
    let mut file = create(&task.directory)?;
    let about = About {
        command: task.command.clone(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        realtime_ns: realtime_ns(),
        after_start_ns: Some(monotonic_ns().saturating_sub(task.started_ns)),
        ..choice.describe(task.pid, &options)
    };
    let mut sink = |line: &Line| write_line(&mut file, line);
    let mut session = Session::new(task.pid, &options, &choice, &mut waiter, &mut sink);
    let ended = session.run(about)?;
    session.close(ended, None)
}

fn create(directory: &Path) -> std::io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(directory.join(PAGES_FILE))
}
