//! A program under `nilo run` that is told what to do line by line, and the truths to compare with.
//!
//! Synchronisation: programs speak through pipes; ticks are awaited by watching the file that each one writes.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_trace::log::SLOT_BYTES;
use serde_json::Value;

use crate::harness::{Dialogue, Lab, Run, c_program, finish, text};
use crate::onlooker::until;

pub const MIB: u64 = 1 << 20;
const DEADLINE_NS: u64 = 30_000_000_000;

/// `nilo run` with a program whose standard streams are ours.
pub struct Watched<'l> {
    lab: &'l Lab,
    pub dialogue: Dialogue,
    pub directory: PathBuf,
}

impl<'l> Watched<'l> {
    /// `nilo run -q -o run.nilo OPTIONS -- COMMAND`.
    pub fn start(lab: &'l Lab, options: &[&str], command: &[&str]) -> Self {
        let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo"]);
        nilo.args(options).arg("--").args(command);
        Self { lab, dialogue: Dialogue::start(&mut nilo), directory: lab.path("run.nilo") }
    }

    /// A program of `tests/programs`.
    pub fn start_program(lab: &'l Lab, options: &[&str], name: &str, arguments: &[&str]) -> Self {
        let program = c_program(name);
        let command: Vec<&str> =
            std::iter::once(program.to_str().expect("UTF-8")).chain(arguments.iter().copied()).collect();
        Self::start(lab, options, &command)
    }

    /// The next line, which must be `NAME NUMBER`.
    pub fn number(&mut self, name: &str) -> u64 {
        number_of(&self.dialogue.line(), name)
    }

    /// Tells the program to do something and gives the number it answers with.
    pub fn order(&mut self, words: &str, answer: &str) -> u64 {
        self.dialogue.say(words);
        self.number(answer)
    }

    /// Until a whole tick has been taken and stored after now (and one that had begun before).
    pub fn ticks_pass(&self) {
        wait_for_ticks(&self.directory, 2);
    }

    /// Closes the program's input and waits for the end.
    pub fn end(self) -> Run {
        let output = self.dialogue.end();
        let report = self.lab.report(&self.directory);
        Run { output, report, directory: self.directory }
    }
}

pub fn number_of(line: &str, name: &str) -> u64 {
    let (word, number) = line.split_once(' ').unwrap_or((line, ""));
    assert_eq!(word, name, "the program said {line:?}");
    number.parse().unwrap_or_else(|_| panic!("the program said {line:?}"))
}

/// Each tick rewrites the open block (but the few that close it), by stores into a mapping: no event tells of it.
pub fn wait_for_ticks(run: &Path, count: usize) {
    let open = std::fs::File::open(run.join("open.nlog")).expect("a recording is under way");
    until("both slots are there", || open.metadata().is_ok_and(|file| file.len() >= 2 * SLOT_BYTES));
    let checksums = || [0, SLOT_BYTES].map(|slot| checksum_at(&open, slot));
    for _ in 0..count {
        let before = checksums();
        until("a tick was taken", || checksums() != before);
    }
}

/// That of the frame in a slot.
fn checksum_at(open: &std::fs::File, slot: u64) -> [u8; 4] {
    let mut checksum = [0; 4];
    open.read_exact_at(&mut checksum, slot + 8).expect("two slots");
    checksum
}

pub fn wait_readable(descriptor: i32, otherwise: &str) {
    let mut poll = PollSet::default();
    poll.add(descriptor);
    assert_eq!(poll.wait_until(monotonic_ns() + DEADLINE_NS).count(), 1, "{otherwise}");
}

/// How far one of the kernel's memory counters may lag: `percpu_counter_batch` pages on each CPU.
pub fn counter_slack() -> u64 {
    let cpus = std::thread::available_parallelism().expect("CPUs").get() as u64;
    cpus * (2 * cpus).max(32) * 4096
}

/// How far RSS and its marks may lag: they are the sum of two such counters, anonymous and file pages (a third,
/// shared memory, is zero in the programs here). `ru_maxrss` is summed from lagging ones, VmHWM from exact ones.
pub fn rss_slack() -> u64 {
    2 * counter_slack()
}

pub fn assert_near(what: &str, found: u64, truth: u64, tolerance: u64) {
    assert!(found.abs_diff(truth) <= tolerance, "{what}: {found}, the truth is {truth} ± {tolerance}");
}

/// A process of a report.
pub fn process(report: &Value, pid: u64) -> &Value {
    let all = report["processes"].as_array().expect("processes");
    all.iter().find(|p| p["pid"] == pid).unwrap_or_else(|| panic!("no process {pid} in {all:#?}"))
}

pub fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no size"))
}

/// The interpreter itself, not a shim that starts it.
pub fn python() -> String {
    let output = finish(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]));
    assert!(output.status.success(), "python3 is needed: {}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// Is this user root?
pub fn is_root() -> bool {
    nilometer_kernel::sys::limits::effective_uid() == 0
}
