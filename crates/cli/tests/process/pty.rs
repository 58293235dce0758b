//! A real terminal: a program at the far end of a pty, and what it has shown so far.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::harness::text;

const PATIENCE: Duration = Duration::from_secs(30);
/// What bash is told to prompt with; typed text never contains it.
const PROMPT: &str = "\u{2023}prompt\u{2023} ";

pub const CTRL_C: &[u8] = b"\x03";
pub const CTRL_Z: &[u8] = b"\x1a";
pub const CTRL_BACKSLASH: &[u8] = b"\x1c";

pub struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Screen>,
    /// How much of the screen was expected already.
    read: usize,
}

#[derive(Default)]
struct Screen {
    shown: Mutex<Shown>,
    changed: Condvar,
}

#[derive(Default)]
struct Shown {
    bytes: Vec<u8>,
    closed: bool,
}

impl Terminal {
    /// An interactive bash that has prompted, in `directory`.
    pub fn bash(directory: &Path) -> Self {
        let mut terminal = Self::start(directory, &["bash", "--norc", "--noprofile", "-i"]);
        terminal.expect(PROMPT);
        terminal
    }

    /// Any command, as leader of a session with this terminal.
    pub fn start(directory: &Path, command: &[&str]) -> Self {
        let pair = native_pty_system().openpty(size(24, 80)).expect("a pty");
        let mut builder = CommandBuilder::new(command[0]);
        builder.args(&command[1..]);
        builder.cwd(directory);
        for (name, value) in [("PS1", PROMPT), ("TERM", "dumb"), ("LC_ALL", "C.UTF-8"), ("HISTFILE", "")] {
            builder.env(name, value);
        }
        builder.env("XDG_STATE_HOME", directory.join("state"));
        builder.env_remove("NILO_DIR");
        builder.env_remove("PROMPT_COMMAND");
        let child = pair.slave.spawn_command(builder).expect("spawn in the pty");
        let screen = Arc::new(Screen::default());
        let reader = pair.master.try_clone_reader().expect("reader");
        let writes = Arc::clone(&screen);
        std::thread::spawn(move || writes.fill(reader));
        let keys = pair.master.take_writer().expect("writer");
        Self { master: pair.master, keys, child, screen, read: 0 }
    }

    pub fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).and_then(|()| self.keys.flush()).expect("the terminal is open");
    }

    pub fn enter(&mut self, line: &str) {
        self.press(format!("{line}\n").as_bytes());
    }

    /// Waits for `wanted` and gives everything shown up to its end since the last call.
    #[track_caller]
    pub fn expect(&mut self, wanted: &str) -> String {
        let begin = Instant::now();
        let mut shown = self.screen.shown.lock().expect("screen");
        loop {
            let news = text(&shown.bytes[self.read..]);
            if let Some(at) = news.find(wanted) {
                let until = at + wanted.len();
                // Lossy text may be longer than the bytes; programs of these tests write UTF-8.
                self.read += until;
                return news[..until].to_owned();
            }
            let left = PATIENCE.saturating_sub(begin.elapsed());
            assert!(!left.is_zero() && !shown.closed, "{wanted:?} did not come; the terminal shows {news:?}");
            shown = self.screen.changed.wait_timeout(shown, left).expect("screen").0;
        }
    }

    /// The first line that starts with `word` (which was not typed), without it.
    #[track_caller]
    pub fn expect_line(&mut self, word: &str) -> String {
        self.expect(&format!("\n{word}"));
        self.expect("\n").trim_end().to_owned()
    }

    /// Waits for the next prompt; what came before it.
    #[track_caller]
    pub fn prompt(&mut self) -> String {
        self.expect(PROMPT)
    }

    /// The exit code of the shell's last command.
    #[track_caller]
    pub fn code_of_last(&mut self) -> i32 {
        self.enter("echo code=$?");
        let code = self.expect_line("code=").parse().expect("a code");
        self.prompt();
        code
    }

    /// The process at the far end.
    pub fn pid(&self) -> i32 {
        self.child.process_id().expect("it runs") as i32
    }

    /// Every byte that was shown so far.
    pub fn shown(&self) -> Vec<u8> {
        self.screen.shown.lock().expect("screen").bytes.clone()
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        self.master.resize(size(rows, columns)).expect("resize");
    }

    /// Waits for the program itself to end; everything it showed and its exit code.
    pub fn end(mut self) -> (String, u32) {
        let code = self.child.wait().expect("wait").exit_code();
        let mut shown = self.screen.shown.lock().expect("screen");
        while !shown.closed {
            let (next, late) = self.screen.changed.wait_timeout(shown, PATIENCE).expect("screen");
            assert!(!late.timed_out(), "somebody still holds the terminal");
            shown = next;
        }
        (text(&shown.bytes), code)
    }
}

impl Screen {
    fn fill(&self, mut reader: Box<dyn Read + Send>) {
        let mut bytes = [0u8; 4096];
        loop {
            // A pty whose far end is closed reads as EIO.
            let count = reader.read(&mut bytes).unwrap_or(0);
            let mut shown = self.shown.lock().expect("screen");
            shown.bytes.extend_from_slice(&bytes[..count]);
            shown.closed = count == 0;
            self.changed.notify_all();
            if shown.closed {
                return;
            }
        }
    }
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}
