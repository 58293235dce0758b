//! The thread that resolves stacks and writes files, so that listening never waits for either.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_native::symbol;
use nilometer_ring::reader::Book;
use nilometer_trace::allocs::{Recording, special};
use rustc_hash::FxHashMap;

use super::snapshot::Snapshot;
use super::stacks::{Pages, Stacks};
use super::store::{self, Resolved};

/// Sites that wait for their stacks before they are resolved without need: a book may end with its process.
const MANY: usize = 4096;

/// The time for names at the end of a run: the command's user waits.
const NAMING: Duration = Duration::from_millis(500);

/// A site's stacks, by number of its book. Sites are told in the order of their rows.
#[derive(Debug, Clone, Copy)]
pub struct NewSite {
    pub book: u64,
    pub native: u32,
    pub python: u32,
}

/// A process ended; with `is_last` nobody will write to its book any more.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub book: u64,
    pub is_last: bool,
}

#[derive(Debug)]
enum Message {
    Book(Arc<Book>),
    Sites(Vec<NewSite>),
    Ended(Ended),
    Evaluations(u64, Vec<(u64, u64)>),
    Store(Box<Snapshot>),
}

/// The thread, from outside. Hanging up ends it after its last message.
#[derive(Debug)]
pub struct Keeper {
    messages: Sender<Message>,
    /// A snapshot is being stored.
    busy: Arc<AtomicBool>,
    /// How long the last one took.
    last_ns: Arc<AtomicU64>,
    thread: JoinHandle<Kept>,
}

/// What the thread leaves behind.
#[derive(Debug, Default)]
pub struct Kept {
    /// Why the last snapshot could not be stored.
    pub failure: Option<String>,
}

impl Keeper {
    pub fn start(directory: PathBuf) -> std::io::Result<Self> {
        let (messages, receiver) = channel();
        let busy = Arc::new(AtomicBool::new(false));
        let last_ns = Arc::new(AtomicU64::new(0));
        let work = Work::new(directory, Arc::clone(&busy), Arc::clone(&last_ns));
        let thread =
            std::thread::Builder::new().name("nilo-keep".to_owned()).spawn(move || work.run(&receiver))?;
        Ok(Self { messages, busy, last_ns, thread })
    }

    fn send(&self, message: Message) {
        let _ = self.messages.send(message); // it only hangs up when it has died; then the end says so
    }

    pub fn book(&self, book: &Arc<Book>) {
        self.send(Message::Book(Arc::clone(book)));
    }

    pub fn sites(&self, sites: Vec<NewSite>) {
        self.send(Message::Sites(sites));
    }

    pub fn ended(&self, ended: Ended) {
        self.send(Message::Ended(ended));
    }

    /// Parts of the interpreter's loop in a process of this book.
    pub fn evaluations(&self, book: u64, parts: Vec<(u64, u64)>) {
        if !parts.is_empty() {
            self.send(Message::Evaluations(book, parts));
        }
    }

    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// How long the last snapshot took to be stored.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.load(Ordering::Relaxed)
    }

    pub fn store(&self, snapshot: Box<Snapshot>) {
        self.busy.store(true, Ordering::Release);
        self.send(Message::Store(snapshot));
    }

    /// Waits for the last snapshot to be stored.
    pub fn finish(self) -> Kept {
        drop(self.messages);
        let broke_off = || Kept { failure: Some("the thread that stores allocations broke off".to_owned()) };
        self.thread.join().unwrap_or_else(|_| broke_off())
    }
}

struct Work {
    directory: PathBuf,
    busy: Arc<AtomicBool>,
    last_ns: Arc<AtomicU64>,
    stacks: Stacks,
    books: FxHashMap<u64, Pages>,
    resolved: Vec<Resolved>,
    /// Rows that wait for their stacks, by book.
    waiting: FxHashMap<u64, Vec<(u32, NewSite)>>,
    kept: Kept,
}

impl Work {
    fn new(directory: PathBuf, busy: Arc<AtomicBool>, last_ns: Arc<AtomicU64>) -> Self {
        Self {
            directory,
            busy,
            last_ns,
            stacks: Stacks::default(),
            books: FxHashMap::default(),
            resolved: Vec::new(),
            waiting: FxHashMap::default(),
            kept: Kept::default(),
        }
    }

    fn run(mut self, messages: &Receiver<Message>) -> Kept {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Book(book) => {
                    self.books.entry(book.inode()).or_insert_with(|| Pages::new(book));
                }
                Message::Sites(sites) => self.note(sites),
                Message::Ended(Ended { book, is_last }) => {
                    if is_last {
                        self.resolve(book);
                        self.books.remove(&book);
                    }
                }
                Message::Evaluations(book, parts) => {
                    if let Some(pages) = self.books.get_mut(&book) {
                        pages.read_definitions(&mut self.stacks);
                        pages.note_evaluations(&mut self.stacks, &parts);
                    }
                }
                Message::Store(snapshot) => self.store(*snapshot),
            }
        }
        self.kept
    }

    fn note(&mut self, sites: Vec<NewSite>) {
        for site in sites {
            let row = self.resolved.len() as u32;
            self.resolved.push((special::DROPPED, special::NONE));
            let waiting = self.waiting.entry(site.book).or_default();
            waiting.push((row, site));
            if waiting.len() >= MANY.max(self.resolved.len() / 2) {
                self.resolve(site.book);
            }
        }
    }

    fn resolve(&mut self, book: u64) {
        let waiting = self.waiting.remove(&book).unwrap_or_default();
        let Some(pages) = self.books.get_mut(&book).filter(|_| !waiting.is_empty()) else { return };
        pages.read_definitions(&mut self.stacks);
        for (row, site) in waiting {
            let native = pages.translate(&mut self.stacks, site.native);
            let python = pages.translate(&mut self.stacks, site.python);
            if let Some(resolved) = self.resolved.get_mut(row as usize) {
                *resolved = (native, python);
            }
        }
    }

    /// Names of native code, while the files are there as they were loaded. What is not reached in time is left to
    /// the first report; a single library may take longer than that, so it is not waited for.
    fn name(&self, recording: Recording) {
        let directory = self.directory.clone();
        let (done, wait) = channel();
        let work = move || {
            let mut names = symbol::Store::open(&directory);
            names.read(symbol::wanted(&recording), Some(Instant::now() + NAMING));
            let _ = names.write(); // whole or not at all
            let _ = done.send(());
        };
        if std::thread::Builder::new().name("nilo-names".to_owned()).spawn(work).is_ok() {
            let _ = wait.recv_timeout(NAMING);
        }
    }

    fn store(&mut self, mut snapshot: Snapshot) {
        let begun_ns = monotonic_ns();
        for book in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.resolve(book);
        }
        snapshot.sites.catch_up();
        self.kept.failure = None;
        let stored = store::write(&snapshot, &self.stacks, &self.resolved, &self.directory);
        match stored {
            Ok(recording) if snapshot.about.finished => self.name(recording),
            Ok(_) => {}
            Err(error) => self.kept.failure = Some(error.to_string()),
        }
        self.last_ns.store(monotonic_ns().saturating_sub(begun_ns), Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
    }
}
