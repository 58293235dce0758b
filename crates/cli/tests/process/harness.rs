//! Starting `nilo` and reading what it found.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

/// Longer than any test needs; a hang becomes a failure with words.
const DEADLINE: Duration = Duration::from_secs(60);

/// A private place with the binary under test.
pub struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `nilo ARGUMENTS…` in the lab, with nothing of the caller's environment that would change it.
    pub fn nilo<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(nilo_binary());
        command.args(arguments).current_dir(self.directory.path());
        command.env_remove("NILO_DIR").env_remove("NO_COLOR").env_remove("COLUMNS");
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// Runs `nilo run -o run.nilo OPTIONS -- COMMAND` to its end and reads the report.
    pub fn run(&self, options: &[&str], command: &[&str]) -> Run {
        let directory = self.path("run.nilo");
        let mut nilo = self.nilo(["run", "-o", "run.nilo", "--force"]);
        nilo.args(options).arg("--").args(command);
        let output = finish(nilo.stdin(Stdio::null()));
        let report = if directory.exists() { self.report(&directory) } else { Value::Null };
        Run { output, report, directory }
    }

    pub fn report(&self, run: &Path) -> Value {
        let output = finish(&mut self.nilo(["report".as_ref(), run.as_os_str(), "--json".as_ref()]));
        assert!(output.status.success(), "report failed: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("report --json prints JSON")
    }
}

/// A finished run.
pub struct Run {
    pub output: Output,
    pub report: Value,
    pub directory: PathBuf,
}

impl Run {
    pub fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    pub fn stdout(&self) -> String {
        text(&self.output.stdout)
    }

    pub fn stderr(&self) -> String {
        text(&self.output.stderr)
    }

    /// A number of the report by its path, for example `peak/bytes`.
    pub fn number(&self, path: &str) -> f64 {
        let pointer = format!("/{path}");
        let value = self.report.pointer(&pointer).unwrap_or_else(|| panic!("{path} in {:#}", self.report));
        value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
    }
}

pub fn nilo_binary() -> &'static str {
    env!("CARGO_BIN_EXE_nilo")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs to the end, killed at the deadline.
pub fn finish(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    finish_child(child)
}

pub fn finish_child(child: Child) -> Output {
    let pid = child.id();
    let (done, wait) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = done.send(());
        output
    });
    if wait.recv_timeout(DEADLINE).is_err() {
        Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("kill");
        panic!("process {pid} was still running after {DEADLINE:?}");
    }
    waiter.join().expect("waiter").expect("output")
}

/// A program that tells on its standard output when it is ready and goes on when it gets a line.
pub struct Dialogue {
    pub child: Child,
}

impl Dialogue {
    pub fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self { child: child.expect("spawn") }
    }

    /// The next line it prints.
    pub fn line(&mut self) -> String {
        let out = self.child.stdout.as_mut().expect("stdout is piped");
        let mut line = Vec::new();
        let mut byte = [0u8; 1];
        while out.read(&mut byte).expect("read") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        text(&line)
    }

    pub fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(input, "{line}").expect("the program reads");
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn end(mut self) -> Output {
        drop(self.child.stdin.take());
        finish_child(self.child)
    }
}

/// Compiles a C program of `tests/programs` once and gives its path.
pub fn c_program(name: &str) -> PathBuf {
    compile(name, &["-pthread"])
}

/// The same of one that is loaded into others.
pub fn c_library(name: &str) -> PathBuf {
    compile(name, &["-shared", "-fPIC"])
}

fn compile(name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let mut code = std::fs::read(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    code.extend(std::fs::read(source.with_file_name("own.h")).expect("own.h"));
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{:016x}", fingerprint(&code)));
    if built.exists() {
        return built;
    }
    // Tests run in parallel processes: each builds under its own name, the rename is atomic.
    let fresh = built.with_extension(std::process::id().to_string());
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror"])
        .args(options)
        .arg("-o")
        .arg(&fresh)
        .arg(&source)
        .status()
        .expect("cc (Debian: apt-get install gcc)");
    assert!(compiled.success(), "cc {} failed", source.display());
    std::fs::rename(&fresh, &built).expect("rename");
    built
}

/// The path of a Python program of `tests/programs`.
pub fn py_program(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).display().to_string()
}

/// FNV-1a.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

pub use nilometer_lab::skip;
