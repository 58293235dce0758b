//! A target that counts its signals (`programs/signal_counter.c`) under `nilo`.

use std::process::{Command, Output};

use crate::harness::{Dialogue, c_program};
use crate::onlooker::{MARKER, send};

pub struct Counter {
    pub dialogue: Dialogue,
    pub target: i32,
    /// The target's parent.
    pub nilo: i32,
}

pub fn counter_program() -> String {
    c_program("signal_counter.c").display().to_string()
}

impl Counter {
    /// Starts `command`, whose last program is the counter, and waits until it is ready.
    pub fn start(command: &mut Command) -> Self {
        let mut dialogue = Dialogue::start(command);
        let (target, nilo) = ready(&dialogue.line());
        Self { dialogue, target, nilo }
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.dialogue.say(line);
        self.dialogue.line()
    }

    /// The counts once everything that was sent to `nilo` before has reached the target.
    pub fn counts(&mut self) -> String {
        send(self.nilo, MARKER);
        let answer = self.ask(&format!("wait {MARKER}"));
        without_marker(&answer)
    }

    pub fn exit(mut self, code: i32) -> Output {
        self.dialogue.say(&format!("exit {code}"));
        self.dialogue.end()
    }
}

/// The pids of `ready TARGET PARENT`.
#[track_caller]
pub fn ready(line: &str) -> (i32, i32) {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("ready"), "{line:?}");
    let mut pid = || words.next().and_then(|w| w.parse().ok()).unwrap_or_else(|| panic!("pids in {line:?}"));
    (pid(), pid())
}

pub fn without_marker(counts: &str) -> String {
    let marker = format!("{MARKER}=");
    let others: Vec<&str> = counts.split(' ').filter(|c| !c.starts_with(&marker)).collect();
    others.join(" ")
}
