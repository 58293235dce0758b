//! A tracked command and its recorder, for tests: what was said, what it adds up to.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nilometer_ring::definition::{Code, Module};
use nilometer_ring::event::{Mode, Source, Stacks};
use nilometer_ring::reader::{Book, Facts, Process, Totals, receive};
use nilometer_ring::{Decoder, Event};
use tempfile::TempDir;

/// Events kept as they are; beyond that only sums.
const KEPT_EVENTS: usize = 300_000;

/// A place for one command: socket, library, recorder.
pub struct Session {
    pub folder: TempDir,
    pub library: PathBuf,
    recorder: Option<Recorder>,
}

/// A block that lives, as far as the events tell.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    pub ticks: u64,
    pub bytes: u64,
    pub weight: f64,
    pub source: Source,
    pub stacks: Stacks,
}

/// What one process image said.
#[derive(Default)]
pub struct Told {
    pub facts: Option<Facts>,
    pub totals: Totals,
    pub evaluations: Vec<(u64, u64)>,
    pub mode: u32,
    pub book: u64,
    pub events: Vec<(u32, u64, Event)>,
    /// Allocations minus frees of an address, and its last block. Lanes are read one after the other, so that a free in one
    /// may come before its allocation in another, and many a block of an address after the one that lives.
    balance: HashMap<u64, (i64, Option<Block>), BuildHasherDefault<Multiply>>,
    pub allocations: u64,
    pub frees: u64,
    pub python: u64,
    pub weight: f64,
    pub gap: u64,
    pub begins: u64,
    pub ends: u64,
    pub bytes: u64,
    pub undone: u64,
    /// By thread: lanes are read in turns, and what a failed `realloc` takes back is its own thread's.
    last_freed: HashMap<u32, Option<Block>>,
}

/// What a session's processes said, and their books.
#[derive(Default)]
pub struct Heard {
    pub processes: Vec<Told>,
    pub books: HashMap<u64, Book>,
}

impl Heard {
    pub fn only(&self) -> &Told {
        assert_eq!(self.processes.len(), 1, "processes");
        &self.processes[0]
    }

    pub fn book(&self, told: &Told) -> &Book {
        self.books.get(&told.book).expect("the book of the process")
    }

    /// Code objects of a book by number: file, name, first line, version and line table.
    pub fn codes(&self, told: &Told) -> HashMap<u32, (String, String, u32, u32, Vec<u8>)> {
        let mut codes = HashMap::new();
        self.book(told).definitions(|raw| {
            if let Some(code) = Code::from_raw(raw) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let value =
                    (text(code.file), text(code.name), code.first_line, code.python, code.lines.to_vec());
                codes.insert(raw.id, value);
            }
        });
        codes
    }

    /// Libraries of a book: path, start, end, bias, build id's length.
    pub fn modules(&self, told: &Told) -> Vec<(String, u64, u64, u64, usize)> {
        let mut modules = Vec::new();
        self.book(told).definitions(|raw| {
            if let Some(m) = Module::from_raw(raw) {
                let path = String::from_utf8_lossy(m.path).into_owned();
                modules.push((path, m.start, m.end, m.bias, m.build_id.len()));
            }
        });
        modules
    }
}

impl Told {
    pub fn pid(&self) -> u32 {
        self.facts.expect("facts").pid
    }

    /// Frees whose allocation was never told.
    pub fn unknown_frees(&self) -> u64 {
        self.balance.values().map(|(count, _)| count.min(&0).unsigned_abs()).sum()
    }

    fn take(&mut self, decoder: &Decoder, event: Event) {
        if self.events.len() < KEPT_EVENTS {
            self.events.push((decoder.tid(), decoder.ticks(), event));
        }
        match event {
            Event::Alloc { address, bytes, source, stacks } => {
                self.allocations += 1;
                self.python += u64::from(matches!(source, Source::Python | Source::PythonRealloc));
                let weight = decoder.weight_bytes(bytes);
                self.weight += weight;
                self.change(
                    address,
                    1,
                    Some(Block { ticks: decoder.ticks(), bytes, weight, source, stacks }),
                );
            }
            Event::Free { address } => {
                self.frees += 1;
                let block = self.change(address, -1, None);
                self.last_freed.insert(decoder.tid(), block);
            }
            Event::Unfree { address } => {
                self.undone += 1;
                let block = self.last_freed.remove(&decoder.tid()).flatten();
                self.change(address, 1, block);
            }
            Event::Gap { events } => self.gap += events,
            Event::Begin { .. } => self.begins += 1,
            Event::End => self.ends += 1,
            _ => {}
        }
    }

    /// Returns the block that was there.
    fn change(&mut self, address: u64, by: i64, block: Option<Block>) -> Option<Block> {
        let entry = self.balance.entry(address).or_default();
        entry.0 += by;
        let before = entry.1;
        // Of two that were read in the wrong order the later one lives.
        if block.is_some_and(|new| before.is_none_or(|old| old.ticks <= new.ticks)) {
            entry.1 = block;
        }
        before
    }

    /// The events around an address that was freed more often than handed out, to explain a failure.
    pub fn oddities(&self) -> Vec<Vec<(usize, u32, Event)>> {
        let odd = self.balance.iter().filter(|(_, (count, _))| *count < 0).map(|(&address, _)| address);
        odd.take(5).map(|odd| self.events_of(odd)).collect()
    }

    fn events_of(&self, wanted: u64) -> Vec<(usize, u32, Event)> {
        let all = self.events.iter().enumerate();
        let found = all.filter(|(_, (_, _, event))| block_of(event) == Some(wanted)).take(4);
        found.map(|(n, (tid, _, event))| (n, *tid, *event)).collect()
    }

    /// All that was said of an address, in the order of time, to explain a failure: where in what was read, by whom, when.
    pub fn story_of(&self, wanted: u64) -> Vec<(usize, u32, u64, Event)> {
        let told =
            self.events.iter().enumerate().filter(|(_, (_, _, event))| block_of(event) == Some(wanted));
        let mut story: Vec<_> = told.map(|(n, (tid, ticks, event))| (n, *tid, *ticks, *event)).collect();
        story.sort_by_key(|(_, _, ticks, _)| *ticks);
        story
    }

    /// Blocks handed out and not given back.
    pub fn live(&self) -> HashMap<u64, Block> {
        self.balance
            .iter()
            .filter(|(_, (count, _))| *count > 0)
            .filter_map(|(&address, (_, block))| block.map(|block| (address, block)))
            .collect()
    }

    /// Live blocks of this size.
    pub fn live_of(&self, bytes: u64) -> usize {
        self.live().values().filter(|block| block.bytes == bytes).count()
    }
}

fn block_of(event: &Event) -> Option<u64> {
    match event {
        Event::Alloc { address, .. } | Event::Free { address } | Event::Unfree { address } => Some(*address),
        _ => None,
    }
}

/// Addresses need no protection from an attacker, and the recorder must keep up.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only addresses are hashed")
    }

    fn write_u64(&mut self, address: u64) {
        self.0 = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

struct Recorder {
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Heard>>,
    switch: Arc<Mutex<Option<Mode>>>,
    thread: JoinHandle<()>,
}

impl Session {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = nilometer_embed::unpack(folder.path()).unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        Self { recorder: Some(Recorder::start(listener)), folder, library }
    }

    /// A place where nobody listens.
    pub fn deaf() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = nilometer_embed::unpack(folder.path()).unwrap();
        Self { folder, library, recorder: None }
    }

    /// The library itself; `library` is what belongs into `LD_PRELOAD`.
    pub fn file(&self) -> PathBuf {
        nilometer_embed::file_of(&self.library)
    }

    /// `settings` as in `NILO_TRACKER`, without the socket.
    pub fn settings(&self, settings: &str) -> String {
        format!("{settings},socket={}", self.folder.path().join("socket").display())
    }

    pub fn command(&self, program: impl AsRef<Path>, settings: &str) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("LD_PRELOAD", &self.library).env("NILO_TRACKER", self.settings(settings));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a C program of `programs/` to its end and returns its output.
    pub fn run(&self, name: &str, settings: &str, args: &[&str]) -> Output {
        let output = self.command(program(name), settings).args(args).output().unwrap();
        assert!(output.status.success(), "{name} {args:?}: {}", describe(&output));
        output
    }

    pub fn switch(&self, mode: Mode) {
        *self.recorder.as_ref().unwrap().switch.lock().unwrap() = Some(mode);
    }

    /// Waits until `done` says so of what was heard; fails after half a minute.
    pub fn until(&self, done: impl Fn(&Heard) -> bool) {
        let start = std::time::Instant::now();
        while !done(&self.heard()) {
            assert!(start.elapsed() < Duration::from_secs(30), "not heard in time");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// What was heard until now.
    pub fn heard(&self) -> MutexGuard<'_, Heard> {
        self.recorder.as_ref().unwrap().heard.lock().unwrap()
    }

    /// Everything: after the command has ended.
    pub fn finish(mut self) -> Heard {
        let recorder = self.recorder.take().unwrap();
        recorder.stop.store(true, Ordering::SeqCst);
        recorder.thread.join().unwrap();
        Arc::into_inner(recorder.heard).unwrap().into_inner().unwrap()
    }
}

pub fn describe(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\nstdout: {}\nstderr: {}", output.status, text(&output.stdout), text(&output.stderr))
}

impl Recorder {
    fn start(listener: UnixListener) -> Self {
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Heard::default()));
        let switch = Arc::new(Mutex::new(None));
        let thread = {
            let (stop, heard, switch) = (Arc::clone(&stop), Arc::clone(&heard), Arc::clone(&switch));
            thread::spawn(move || record(&listener, &stop, &heard, &switch))
        };
        Self { stop, heard, switch, thread }
    }
}

fn record(listener: &UnixListener, stop: &AtomicBool, heard: &Mutex<Heard>, switch: &Mutex<Option<Mode>>) {
    let mut open: Vec<Process> = Vec::new();
    let mut buffer = Vec::new();
    loop {
        let last = stop.load(Ordering::SeqCst);
        let mut guard = heard.lock().unwrap();
        accept(listener, &mut open, &mut guard);
        let mode = switch.lock().unwrap().take();
        let mut taken = 0;
        for (process, told) in open.iter_mut().zip(&mut guard.processes) {
            if let Some(mode) = mode {
                process.set_mode(mode).unwrap();
            }
            process.beat().unwrap();
            let bytes = process.drain(&mut buffer, |_, decoder, event| told.take(decoder, event));
            told.bytes += bytes as u64;
            taken += bytes;
            told.totals = process.totals().unwrap();
            told.facts = process.facts().ok();
            told.evaluations = process.evaluations().unwrap();
            told.mode = process.mode().unwrap().0;
        }
        drop(guard);
        if last && taken == 0 {
            return;
        }
        if taken == 0 {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

fn accept(listener: &UnixListener, open: &mut Vec<Process>, heard: &mut Heard) {
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false).unwrap();
                // One that could not make its files hangs up without a word.
                let Ok(introduced) = receive(socket.as_fd()) else { continue };
                let process = Process::open(&introduced.control).unwrap();
                if let Some(book) = introduced.book {
                    let book = Book::open(&book).unwrap();
                    heard.books.entry(book.inode()).or_insert(book);
                }
                let book = introduced.hello.book_inode;
                heard.processes.push(Told { book, ..Told::default() });
                open.push(process);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => panic!("accept: {error}"),
        }
    }
}

/// Compiles a program of `programs/`, once per content. C++ by its ending.
pub fn program(name: &str) -> PathBuf {
    build(name, &["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"])
}

pub fn build(name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let text = std::fs::read(&source).unwrap();
    let key = text.iter().chain(flags.join(" ").as_bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{key:016x}", name.replace('.', "-")));
    if !built.exists() {
        let compiler = if Path::new(name).extension().is_some_and(|end| end == "cc") { "g++" } else { "gcc" };
        let temporary = built.with_extension(format!("{}-{:?}", std::process::id(), thread::current().id()));
        let status =
            Command::new(compiler).args(flags).arg("-o").arg(&temporary).arg(&source).arg("-ldl").status();
        assert!(status.unwrap().success(), "compiling {name}");
        std::fs::rename(temporary, &built).unwrap();
    }
    built
}

/// Kills a child that a failing test would leave behind.
pub struct Reaper(pub Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
