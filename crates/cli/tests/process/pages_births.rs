//! `nilo pages --births` against a program that says where its memory is, and how often it faulted.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::process::{Child, Command, Stdio};

use nilometer_kernel::sys::faults::FaultStream;
use nilometer_trace::pages::{Births, Line, PAGES_FILE, Process, read_lines};
use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, finish_child, skip, text};
use crate::onlooker::{INT, send, until};
use crate::watched::number_of;

const PAGE: u64 = 4096;
const PAGES: u64 = 1000;
/// The call in which `nilo` waits for the end of a window.
const PPOLL: &str = "271";

/// A program, and one window of it that is open until it is looked at.
struct Window {
    lab: Lab,
    program: Dialogue,
    nilo: Child,
    sees_system_calls: bool,
}

/// What was told of the window.
struct Seen {
    document: Value,
    processes: Vec<Process>,
    pid: i32,
}

impl Window {
    fn open(options: &[&str]) -> Option<Self> {
        let mut program = Dialogue::start(&mut Command::new(c_program("births.c")));
        let pid = number_of(&program.line(), "ready").to_string();
        let sees_system_calls = match FaultStream::open(program.pid()) {
            Ok(stream) => stream.sees_system_calls(),
            Err(error) => {
                skip("perf-faults", &error.to_string());
                return None;
            }
        };
        let lab = Lab::new();
        let words = ["pages", &pid, "--births", "--window", "1h", "--no-names", "--json", "-o", "look"];
        let mut nilo = lab.nilo(words);
        nilo.args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
        let nilo = nilo.spawn().expect("nilo");
        let waits = || {
            let call = std::fs::read_to_string(format!("/proc/{}/syscall", nilo.id())).unwrap_or_default();
            call.starts_with(PPOLL) && lab.path("look").join(PAGES_FILE).exists()
        };
        until("the window is open", waits);
        Some(Self { lab, program, nilo, sees_system_calls })
    }

    /// Where the memory is, and how many faults the program had meanwhile.
    fn make(&mut self, how: &str) -> (u64, u64) {
        self.program.say(&format!("{how} {PAGES}"));
        (number_of(&self.program.line(), how), number_of(&self.program.line(), "faults"))
    }

    fn close(self) -> Seen {
        send(self.nilo.id() as i32, INT);
        let output = finish_child(self.nilo);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let document = serde_json::from_slice(&output.stdout).expect("one document");
        let file = std::fs::File::open(self.lab.path("look").join(PAGES_FILE)).expect("a recording");
        let mut processes = Vec::new();
        let bad = read_lines(&mut BufReader::new(file), |line| {
            if let Line::Look(look) = line {
                processes = look.processes;
            }
        });
        assert_eq!(bad.expect("readable"), 0);
        let pid = self.program.pid();
        self.program.end();
        Seen { document, processes, pid }
    }
}

impl Seen {
    fn births(&self) -> &Births {
        let own = self.processes.iter().find(|process| process.pid == self.pid);
        own.and_then(|process| process.births.as_ref()).expect("births of the program")
    }

    /// How many pages from this address on were born, of as many.
    fn born(&self, address: u64, pages: u64) -> u64 {
        let range = address / PAGE..address / PAGE + pages;
        let born: BTreeSet<u64> =
            self.births().pages.iter().flat_map(|(first, count)| *first..first + count).collect();
        born.range(range).count() as u64
    }
}

#[test]
fn every_page_that_is_touched_first_in_a_window_is_told() {
    let Some(mut window) = Window::open(&["--backend", "mappings"]) else { return };
    let made = ["fresh", "thread", "churn"].map(|how| window.make(how));
    let by_call = window.make("call");
    let sees_system_calls = window.sees_system_calls;
    let seen = window.close();
    for (address, _) in made {
        assert_eq!(seen.born(address, PAGES), PAGES);
    }
    assert_eq!(seen.born(by_call.0, PAGES), if sees_system_calls { PAGES } else { 0 });
    let noted = seen.document["notes"].to_string().contains("inside of system calls");
    assert_eq!(noted, !sees_system_calls, "{:#}", seen.document["notes"]);
    // The program's own count, of what it made; its words in and out are a few more.
    let own: u64 = made.iter().map(|(_, faults)| faults).sum::<u64>() + by_call.1;
    let counted = if sees_system_calls { own } else { own - PAGES };
    let births = seen.births();
    assert!(
        (counted..counted + 64).contains(&births.faults),
        "{} faults, the program had {own}",
        births.faults
    );
    assert_eq!((births.lost, births.elsewhere), (0, 0));
    let least = 4 * PAGES - if sees_system_calls { 0 } else { PAGES };
    // Memory that was given back at once may have its place in the memory that came after it.
    let told = seen.document["windows"][0]["born_bytes"].as_u64().expect("a size") / PAGE;
    assert!((least - PAGES..least + 64).contains(&told), "{told} pages of {least}");
    assert_eq!(seen.document["windows"][0]["faults"], births.faults);
    let code = seen.document["births"]["code"].to_string();
    assert!(code.contains("births"), "the program's own code touched them: {code}");
}

#[test]
fn births_of_a_process_that_came_and_went_are_counted() {
    let Some(mut window) = Window::open(&["--backend", "mappings"]) else { return };
    window.make("fork");
    let seen = window.close();
    assert!(seen.births().elsewhere >= PAGES, "{:?}", seen.births());
    assert_eq!(seen.document["births"]["elsewhere"], seen.births().elsewhere);
}

#[test]
fn a_huge_page_is_born_whole() {
    let Some(mut window) = Window::open(&["--backend", "mappings"]) else { return };
    let (address, _) = window.make("huge");
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", window.program.pid())).unwrap();
    let huge = smaps.lines().any(|line| line.starts_with("AnonHugePages:") && line.ends_with(" 2048 kB"));
    let seen = window.close();
    if !huge {
        return skip("huge pages", "the kernel gave none");
    }
    assert_eq!(seen.born(address, 512), 512);
}

#[test]
fn written_pages_are_not_looked_for_beside_births() {
    let Some(window) = Window::open(&["--split"]) else { return };
    let seen = window.close();
    assert_eq!(seen.document["windows"][0]["written_bytes"], Value::Null);
    assert!(seen.document["written_why_not"].to_string().contains("--births"), "{:#}", seen.document);
    let refused = finish(&mut Lab::new().nilo(["pages", "1", "--births", "--written", "always"]));
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}
