//! `--allocs`: the tracker in the target, the recorder here.
//!
//! ```text
//!  target(s): tracker -- rings, book (memfds) --+
//!                                               v
//!  marks, switches ------------------------> hear: accept, empty rings, add up     never waits
//!                                               | new sites, snapshots
//!                                               v
//!                                            keep: resolve stacks, write allocs.nal
//!                                            events: compress the stream (--events)
//! ```
//!
//! The one invariant: whatever happens here, the target goes on. It waits for us for some milliseconds at most.

mod block;
mod clock;
mod curve;
mod events;
mod hear;
mod inherit;
pub mod inject;
mod keep;
mod living;
mod meaning;
mod order;
mod patience;
mod phase;
mod range;
mod record;
mod site;
mod snapshot;
mod stacks;
mod step;
mod store;
mod tracked;
mod untracked;
mod weight;
mod window;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nilometer_kernel::sys::peer::lengthen_queue;
use nilometer_ring::event::Level;
use nilometer_trace::allocs::About;
use serde_json::{Value, json};

use crate::control::private_directory;
use record::{Message, Question, Recording};
pub use window::Act;

/// What is recorded of each allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocMode {
    /// One in so many bytes, and all large ones.
    #[default]
    Sampled,
    /// Every event of the C allocator.
    All,
    /// And of Python's own.
    Deep,
    /// Nothing until it is switched on.
    Later,
}

impl AllocMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sampled => "sampled",
            Self::All => "all",
            Self::Deep => "deep",
            Self::Later => "later",
        }
    }

    /// The mode of a name; `off` is that of a recording that waits.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "sampled" => Self::Sampled,
            "all" => Self::All,
            "deep" => Self::Deep,
            "later" | "off" => Self::Later,
            _ => return None,
        })
    }

    fn level(self) -> Level {
        match self {
            Self::Sampled => Level::Sampled,
            Self::All => Level::All,
            Self::Deep => Level::Deep,
            Self::Later => Level::Off,
        }
    }
}

/// How allocations are to be recorded.
#[derive(Debug, Clone)]
pub struct AllocOptions {
    pub mode: AllocMode,
    /// Mean distance of samples.
    pub mean_bytes: u64,
    /// Frames kept of a native stack.
    pub depth: u32,
    /// Keep the stream of events, too.
    pub events: bool,
    /// The tracker, as a file that the dynamic linker can load.
    pub library: PathBuf,
}

/// Blocks from this size on are always recorded: every tensor is.
pub const EXACT_BYTES: u64 = 256 << 10;

/// The socket on which tracked processes introduce themselves; it goes with the value.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Listens for the recording of `pid`.
    pub fn open(pid: i32) -> io::Result<Self> {
        let path = private_directory()?.join(format!("{pid}.allocs"));
        let _ = std::fs::remove_file(&path); // of a process that had our pid and was killed
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        lengthen_queue(listener.as_fd());
        Ok(Self { listener, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The recording of allocations, from outside.
#[derive(Debug)]
pub struct Allocs {
    messages: Sender<Message>,
    status: Arc<Mutex<Status>>,
    thread: JoinHandle<Outcome>,
    socket: PathBuf,
}

/// Where the recording stands; told by the thread a few times a second.
#[derive(Debug, Clone, Default)]
pub struct Status {
    pub mode: String,
    pub processes: usize,
    pub live_bytes: u64,
    pub peak_bytes: u64,
    pub events: u64,
    pub lost_events: u64,
    pub steps: u64,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub about: About,
    /// Sentences about what went wrong.
    pub notes: Vec<String>,
}

impl Allocs {
    pub fn start(
        options: &AllocOptions,
        socket: Socket,
        directory: &Path,
        most_event_bytes: u64,
    ) -> io::Result<Self> {
        let (messages, receiver) = channel();
        let status =
            Arc::new(Mutex::new(Status { mode: options.mode.name().to_owned(), ..Status::default() }));
        let Socket { listener, path } = socket;
        let recording =
            Recording::new(options, listener, directory, most_event_bytes, receiver, Arc::clone(&status))?;
        let thread = std::thread::Builder::new().name("nilo-allocs".to_owned()).spawn(|| recording.run())?;
        Ok(Self { messages, status, thread, socket: path })
    }

    fn send(&self, message: Message) {
        let _ = self.messages.send(message); // a thread that broke off is told of at the end
    }

    /// A step was marked.
    pub fn step(&self, number: u64, at_ns: u64) {
        self.send(Message::Step { number, at_ns });
    }

    /// Members of the tree: why are those silent that do not introduce themselves?
    pub fn saw(&self, pids: Vec<i32>) {
        self.send(Message::Saw(pids));
    }

    pub fn switch(&self, mode: AllocMode) {
        self.send(Message::Switch(mode.level()));
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        living::level_name(mode.level()).clone_into(&mut status.mode);
    }

    /// About the window of a process; the answer becomes a file.
    pub fn ask_window(&self, pid: i32, act: Act, top: usize, path: PathBuf) {
        self.send(Message::Window(Question { pid, act, top, path }));
    }

    pub fn status(&self) -> Value {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        json!({
            "mode": status.mode,
            "processes": status.processes,
            "live_bytes": status.live_bytes,
            "peak_bytes": status.peak_bytes,
            "events": status.events,
            "lost_events": status.lost_events,
            "steps": status.steps,
        })
    }

    /// The target has ended: what is left is read and stored.
    pub fn stop(&self) {
        self.send(Message::Stop);
    }

    /// Waits until it is stored. A disk that does not answer is not waited for longer than `patience`.
    pub fn finish(self, patience: Duration) -> Outcome {
        self.stop();
        let _ = std::fs::remove_file(&self.socket);
        let end = std::time::Instant::now() + patience;
        while !self.thread.is_finished() && std::time::Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        if !self.thread.is_finished() {
            let note = format!("allocations could not be stored within {} s", patience.as_secs());
            return Outcome { notes: vec![note], ..Outcome::default() };
        }
        let broke_off = || Outcome {
            notes: vec!["the thread that records allocations broke off".to_owned()],
            ..Outcome::default()
        };
        self.thread.join().unwrap_or_else(|_| broke_off())
    }
}
