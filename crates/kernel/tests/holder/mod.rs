//! A child process that holds memory until it is told to go; it goes by itself when the test dies.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const VARIABLE: &str = "NILO_TEST_HOLD_BYTES";

pub struct Holder {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts this test binary again; it waits before it touches anything.
    pub fn start(bytes: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder::hold", "--ignored", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Lets it touch its memory, and waits until it has.
    pub fn touch(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        while !line.contains("touched") {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the child ended");
        }
    }

    pub fn end(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
#[ignore = "the child of other tests"]
fn hold() {
    let Some(bytes) = std::env::var(VARIABLE).ok().and_then(|v| v.parse().ok()) else { return };
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let memory = vec![1u8; bytes];
    println!("\ntouched {}", memory.iter().map(|b| usize::from(*b)).sum::<usize>());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}
