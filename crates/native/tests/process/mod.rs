//! Programs that know their own heap: they print it, say READY, and wait for their stdin to end.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use nilometer_image::Modules;
use nilometer_image::live::{Capture, CaptureOptions, Mode, Peek, capture};

/// A program that stands at READY; ended when dropped.
pub struct Ready {
    child: Child,
    /// Its end releases the program.
    stdin: Option<ChildStdin>,
    pub lines: Vec<String>,
}

impl Ready {
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let lines = stdout.lines().map_while(Result::ok).take_while(|line| line != "READY").collect();
        let ready = Self { child, stdin, lines };
        assert!(!ready.lines.is_empty(), "the program said nothing");
        ready
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// It stands still by itself: nobody needs to stop it.
    pub fn capture(&self) -> (Capture, Modules) {
        self.capture_by(Mode::Off)
    }

    pub fn capture_by(&self, mode: Mode) -> (Capture, Modules) {
        let peek = Peek::open(self.pid()).unwrap();
        let modules = peek.modules();
        (capture(&peek, &CaptureOptions { mode, ..CaptureOptions::default() }, &[]).unwrap(), modules)
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a program of ours; each caller has its own name for it.
pub fn compile(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Other processes may be building the same: each its own, and the last one stays.
    let own = target.with_extension(std::process::id().to_string());
    run(Command::new("cc").args(["-O1", "-w", "-o"]).arg(&own).arg(programs().join(source)).args(options));
    std::fs::rename(&own, &target).unwrap();
    target
}
