//! Programs to be read: compiled here, started, spoken to by lines.
#![allow(dead_code)] // each test file uses a part of it

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Compiles a C program of `tests/programs` once for each set of flags.
pub fn c_program(name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let mut code = std::fs::read(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    code.extend(flags.join(" ").bytes());
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{:016x}", fingerprint(&code)));
    if built.exists() {
        return built;
    }
    // Tests run in parallel: each builds under its own name, the rename is atomic.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let fresh = directory.path().join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-pthread"]).args(flags).arg("-o").arg(&fresh).arg(&source);
    assert!(compiler.status().expect("cc (Debian: apt-get install gcc)").success(), "cc {name}");
    std::fs::rename(&fresh, &built).unwrap();
    built
}

/// Copies a program so that it can be executed at once: a file that we ourselves write to would be busy as long as any
/// process that another test starts meanwhile holds it open.
pub fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-m", "755"]).arg(from).arg(to).status().unwrap().success());
}

/// FNV-1a.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A running program; killed at the end.
pub struct Target {
    pub child: Child,
    lines: BufReader<ChildStdout>,
    /// What it told before it was ready: names with address and length.
    pub areas: HashMap<String, (u64, usize)>,
}

impl Target {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut areas = HashMap::new();
        loop {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before it was ready");
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, address, bytes] = words[..] else { break };
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            areas.insert(name.to_owned(), (address, bytes.parse().unwrap()));
        }
        Self { child, lines, areas }
    }

    pub fn patterns() -> Self {
        Self::start(&mut Command::new(c_program("patterns.c", &[])))
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn address(&self, name: &str) -> u64 {
        self.areas[name].0
    }

    /// A line and its answer.
    pub fn ask(&mut self) -> String {
        self.say();
        self.answer()
    }

    pub fn say(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap(), "go on").unwrap();
    }

    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Asks once, and waits until it is back in its reading: nothing of it changes any more.
    pub fn settle(&mut self) {
        self.ask();
        let reading = |task: std::io::Result<std::fs::DirEntry>| {
            let call = std::fs::read_to_string(task.unwrap().path().join("syscall")).unwrap_or_default();
            call.starts_with("0 0x0 ") // read(0, …)
        };
        let tasks = || std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        while !tasks().any(reading) {
            std::thread::yield_now();
        }
    }

    /// The line of `/proc/PID/status` that begins so.
    pub fn status(&self, field: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        text.lines().find(|line| line.starts_with(field)).unwrap().to_owned()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Order of `fill` in patterns.c: it is part of the pattern.
pub const FILLED: [&str; 9] =
    ["data", "bss", "heap", "mmap", "shared", "excluded", "sparse", "readonly", "stack"];

/// What the program wrote.
pub fn pattern(name: &str, bytes: usize) -> Vec<u8> {
    let order = FILLED.iter().position(|other| *other == name).unwrap() as u64;
    let word = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(order);
    (0..bytes as u64 / 8).flat_map(|i| word(i).to_le_bytes()).collect()
}

#[allow(unused_imports, reason = "not every test crate skips")]
pub use nilometer_lab::skip;
