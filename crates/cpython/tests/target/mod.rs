//! Real interpreters that run a program, say what is true of them, and wait.
//!
//! A program prints one line of JSON when everything stands still and ends when its input does.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests; each file uses a part"
)]

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A program that waits; dropped, it ends.
#[derive(Debug)]
pub struct Target {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// What it said.
    pub truth: Value,
}

impl Target {
    pub fn start(python: &Path, program: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
        Self::run(Command::new(python).arg(path))
    }

    pub fn run(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).env("PYTHONIOENCODING", "utf-8");
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let truth =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command:?}: {error}: {line:?}"));
        Self { child, input, output, truth }
    }

    /// Sends a line and waits for one.
    pub fn ask(&mut self, question: &str) -> Value {
        // At once: a program may take what one reading gives for the whole.
        self.input.as_mut().unwrap().write_all(format!("{question}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{question}: {error}: {line:?}"))
    }

    /// Of the process that speaks: a launcher may stand before it.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every CPython from 3.8 on that is installed here or was fetched by `cargo xtask interpreters`.
pub fn interpreters() -> Vec<PathBuf> {
    let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
    let pyenv = env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    let cache = env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let mut found = vec![PathBuf::from("/usr/bin/python3")];
    found.extend(entries(&pyenv.join("versions")).iter().map(|folder| folder.join("bin/python3")));
    found.extend(entries(&cache.join("nilometer/interpreters")).iter().map(|folder| folder.join("python")));
    found.retain(|python| is_supported(python));
    assert!(!found.is_empty(), "no interpreter to test with");
    found
}

#[allow(unused_imports, reason = "not every test crate skips")]
pub use nilometer_lab::skip;

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    found.sort();
    found
}

fn is_supported(python: &Path) -> bool {
    const TEST: &str = "import sys; sys.exit(sys.version_info < (3, 8))";
    python.exists()
        && Command::new(python).args(["-S", "-c", TEST]).status().is_ok_and(|status| status.success())
}
