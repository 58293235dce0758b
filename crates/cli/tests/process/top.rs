//! `nilo top` on a real terminal, read back by a real terminal's rules; its numbers against the target's own.

use std::path::Path;
use std::process::{Command, Stdio};

use vt100::Parser;

use crate::control::{after_ticks, ask, socket_of};
use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, text};
use crate::onlooker::{CONT, HUP, INT, QUIT, TERM, TSTP, send, stat, until};
use crate::pty::{CTRL_C, CTRL_Z, Terminal};
use crate::watched::{MIB, Watched, assert_near, number_of, python};

const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";
const BEGIN_FRAME: &[u8] = b"\x1b[?2026h";
const END_FRAME: &[u8] = b"\x1b[?2026l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// A shell in a terminal, in which `nilo top` is started.
struct Session {
    terminal: Terminal,
    parser: Parser,
    fed: usize,
    modes: String,
}

impl Session {
    fn start(directory: &Path) -> Self {
        let mut terminal = Terminal::bash(directory);
        terminal.resize(24, 80);
        let modes = modes(&mut terminal);
        Self { terminal, parser: Parser::new(24, 80, 0), fed: 0, modes }
    }

    /// Starts `nilo top WORDS` and waits for its first frame.
    fn top(&mut self, words: &str) {
        let (rows, columns) = self.parser.screen().size();
        self.parser = Parser::new(rows, columns, 0); // nothing of an earlier one stands on it
        self.fed = self.terminal.shown().len();
        self.terminal.enter(&format!("TERM=xterm-256color {} top {words}", nilo_binary()));
        self.until_shown("q quit");
    }

    /// What stands on the screen now. As in a terminal that knows frames, one that is not whole is not shown.
    fn screen(&mut self) -> String {
        let shown = self.terminal.shown();
        let last = |mark: &[u8]| shown.windows(mark.len()).rposition(|bytes| bytes == mark);
        let whole = match (last(BEGIN_FRAME), last(END_FRAME)) {
            (Some(begin), end) if end.is_none_or(|end| end < begin) => begin.max(self.fed),
            _ => shown.len(),
        };
        self.parser.process(&shown[self.fed..whole]);
        self.fed = whole;
        self.parser.screen().contents()
    }

    #[track_caller]
    fn until_shown(&mut self, words: &str) -> String {
        let mut screen = String::new();
        let mut found = false;
        let begin = std::time::Instant::now();
        while !found && begin.elapsed().as_secs() < 30 {
            screen = self.screen();
            found = screen.contains(words);
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        assert!(found, "{words:?} is not on the screen:\n{screen}");
        screen
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.screen();
        self.parser.screen_mut().set_size(rows, columns);
        self.terminal.resize(rows, columns);
    }

    /// The process of `nilo top`, a child of the shell.
    fn nilo(&self) -> i32 {
        let shell = self.terminal.pid();
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.into_iter()
            .find(|pid| stat(*pid).is_some_and(|stat| stat.parent == shell && stat.name == "nilo"))
            .expect("nilo runs in the shell")
    }

    /// The shell prompts again, in a terminal as it was before; the exit code.
    #[track_caller]
    fn is_left_clean(&mut self) -> i32 {
        self.terminal.prompt();
        let code = self.terminal.code_of_last();
        assert_eq!(modes(&mut self.terminal), self.modes, "the modes of the terminal");
        let shown = text(&self.terminal.shown());
        let (entered, left) = (shown.rfind(ENTER_SCREEN).expect("entered"), shown.rfind(LEAVE_SCREEN));
        assert!(left.is_some_and(|left| left > entered), "the other screen is left");
        let frames =
            |mark: &[u8]| shown.as_bytes().windows(mark.len()).filter(|bytes| *bytes == mark).count();
        assert!(frames(BEGIN_FRAME) > 0 && frames(END_FRAME) >= frames(BEGIN_FRAME), "whole frames");
        assert!(shown.rfind(SHOW_CURSOR).is_some_and(|shown| shown > entered), "the cursor is shown");
        code
    }
}

fn modes(terminal: &mut Terminal) -> String {
    terminal.enter("echo modes=$(stty -g)");
    let modes = terminal.expect_line("modes=");
    terminal.prompt();
    modes
}

/// A program that is told what to do, and was not started by nilo.
fn puppet() -> (Dialogue, u64) {
    let mut puppet = Dialogue::start(&mut Command::new(c_program("puppet.c")));
    let pid = number_of(&puppet.line(), "ready");
    (puppet, pid)
}

/// The size in the column `RSS` of a row: `  rate   RSS   VmHWM   pid  name`.
fn rss_of(screen: &str, pid: u64) -> u64 {
    let row = screen
        .lines()
        .find(|line| line.contains(&format!(" {pid} ")))
        .unwrap_or_else(|| panic!("{pid} in {screen}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    // The rate is `-` or `+1.00 MiB/s`.
    let at = if words[0] == "-" { 1 } else { 2 };
    size(words[at], words[at + 1])
}

fn size(number: &str, unit: &str) -> u64 {
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => MIB as f64,
        "GiB" => (MIB << 10) as f64,
        _ => panic!("{number} {unit}"),
    };
    (number.parse::<f64>().expect("a number") * factor) as u64
}

#[test]
fn a_process_is_shown_with_the_numbers_it_has() {
    let lab = Lab::new();
    let (mut puppet, pid) = puppet();
    puppet.say("grow 100");
    let rss = number_of(&puppet.line(), "rss") * 1024;
    let mut session = Session::start(&lab.path(""));
    session.top(&format!("{pid} --interval 100ms"));
    let screen = session.until_shown("[processes 1]");
    assert_near("RSS", rss_of(&screen, pid), rss, MIB);
    assert!(screen.contains("peak ") && screen.contains("limit ") && screen.contains("growth "), "{screen}");
    puppet.say("grow 200");
    let rss = number_of(&puppet.line(), "rss") * 1024;
    let mut screen = String::new();
    until("the screen follows", || {
        screen = session.screen();
        rss_of(&screen, pid).abs_diff(rss) <= MIB
    });
    session.until_shown("MiB/s"); // a rate, after a second
    puppet.end();
    session.until_shown("attached"); // what is known of an end that is its parent's to know
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
}

#[test]
fn keys_do_what_the_foot_says() {
    let lab = Lab::new();
    let (puppet, pid) = puppet();
    let mut session = Session::start(&lab.path(""));
    session.top(&format!("{pid} --interval 100ms"));
    session.terminal.press(b"\t");
    session.until_shown("none: nilo run --heap");
    session.terminal.press(b"\x1b[Z");
    session.until_shown("[processes 1]");
    session.terminal.press(b"o");
    session.until_shown("RSS▼");
    session.terminal.press(b"<");
    session.until_shown("rate▼");
    session.terminal.press(b"/nothing");
    session.until_shown("filter: nothing_");
    session.terminal.press(b"\r");
    session.until_shown("nothing contains `nothing`");
    session.terminal.press(b"\x1b");
    session.until_shown("main: ");
    session.terminal.press(b" ");
    session.until_shown("paused");
    session.terminal.press(b"p?");
    session.until_shown("any key leaves it");
    session.terminal.press(b"x");
    let screen = session.until_shown("q quit");
    assert!(!screen.contains("paused"), "{screen}");
    session.terminal.press(CTRL_C);
    assert_eq!(session.is_left_clean(), 0);
    puppet.end();
    let documented = std::fs::read_to_string(docs("top-session.txt")).expect("docs");
    let foot = screen.lines().last().expect("a foot").trim();
    assert!(
        documented.contains(foot),
        "docs/top-session.txt is of another version; its head says how to record it anew"
    );
}

fn docs(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// The session that is shown in the documentation: `cargo test -p nilometer --test process -- --ignored records_the_session`.
#[test]
#[ignore = "writes docs/top-session.txt"]
fn records_the_session_of_the_docs() {
    let lab = Lab::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tree_lstm.py");
    std::fs::copy(&example, lab.path("tree_lstm.py")).expect("the example");
    let mut nilo =
        lab.nilo(["run", "-q", "-o", "tree.nilo", "--heap=1s", "--", &python(), "tree_lstm.py", "--leak"]);
    let training =
        nilo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("spawn");
    until("the recording has begun", || lab.path("tree.nilo/manifest.json").exists());
    let mut session = Session::start(&lab.path(""));
    session.resize(30, 100);
    session.top("tree.nilo");
    let mut frames = Vec::new();
    let mut keep = |told: &str, screen: String| {
        let indented = screen.lines().map(|line| format!("    {}", line.trim_end()));
        let screen: Vec<String> = indented.map(|line| line.trim_end().to_owned()).collect();
        frames.push(format!("{told}\n\n{}\n", screen.join("\n")));
    };
    keep("Some steps after the start. There is no verdict on growth yet.", session.until_shown("· step "));
    session.terminal.press(b"\t");
    session.until_shown("/step ±");
    session.until_shown("· step 2");
    keep("tab: kinds of objects. The verdict is there.", session.until_shown("float"));
    session.until_shown("· step 4");
    session.terminal.press(b"\x1b[Z/main\r");
    keep("/main: rows that contain a text.", session.until_shown("main: "));
    session.terminal.press(b"\x1b");
    keep("The end: the whole verdict.", session.until_shown("exit 0"));
    session.terminal.press(b"q");
    crate::harness::finish_child(training);
    let title = "A session of `nilo top tree.nilo`, 100 columns and 30 rows, recorded by the real binary from a terminal, while\n\
                 `nilo run -o tree.nilo --heap=1s -- python3 tree_lstm.py --leak` ran. Recorded anew by\n\
                 `cargo test -p nilometer --test process -- --ignored records_the_session`.\n\n";
    std::fs::write(docs("top-session.txt"), format!("{title}{}", frames.join("\n"))).expect("written");
}

#[test]
fn every_size_of_the_terminal_is_drawn() {
    let lab = Lab::new();
    let (puppet, pid) = puppet();
    let mut session = Session::start(&lab.path(""));
    session.top(&format!("{pid} --interval 100ms"));
    for (rows, columns) in [(40, 120), (5, 20), (2, 10), (1, 1), (10, 40)] {
        session.resize(rows, columns);
        if rows > 1 {
            session.until_shown("q quit");
        } else {
            until("something is drawn", || !session.screen().trim().is_empty());
        }
    }
    let screen = session.until_shown("q quit");
    assert_eq!(screen.lines().count(), 10, "{screen}");
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
    puppet.end();
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_clean() {
    let lab = Lab::new();
    let (puppet, pid) = puppet();
    let mut session = Session::start(&lab.path(""));
    for signal in [TERM, INT, HUP, QUIT] {
        session.top(&format!("{pid}"));
        send(session.nilo(), signal);
        assert_eq!(session.is_left_clean(), 128 + signal);
    }
    puppet.end();
}

#[test]
fn it_stops_and_goes_on_as_any_program() {
    let lab = Lab::new();
    let (puppet, pid) = puppet();
    let mut session = Session::start(&lab.path(""));
    for by_key in [true, false] {
        session.top(&format!("{pid} --interval 100ms"));
        let nilo = session.nilo();
        if by_key {
            session.terminal.press(CTRL_Z);
        } else {
            send(nilo, TSTP);
        }
        session.terminal.expect("Stopped");
        assert!(session.is_left_clean() > 128, "stopped");
        assert_eq!(stat(nilo).map(|stat| stat.state), Some('T'));
        session.parser = Parser::new(24, 80, 0);
        session.fed = session.terminal.shown().len();
        session.terminal.enter("fg");
        session.until_shown("q quit");
        send(nilo, CONT); // to one that runs: drawn anew, nothing else
        session.until_shown("[processes 1]");
        session.terminal.press(b"q");
        assert_eq!(session.is_left_clean(), 0);
    }
    puppet.end();
}

#[test]
fn my_processes_are_a_list_to_choose_from() {
    let lab = Lab::new();
    let (mut puppet, pid) = puppet();
    puppet.say("grow 64");
    let rss = number_of(&puppet.line(), "rss") * 1024;
    let mut session = Session::start(&lab.path(""));
    session.top("--interval 100ms");
    session.terminal.press(format!("/{pid}\r").as_bytes());
    let screen = session.until_shown("puppet.c");
    assert_near("RSS", rss_of(&screen, pid), rss, MIB);
    session.terminal.press(b"\r");
    session.until_shown("[processes 1]");
    session.terminal.press(b"\x1b");
    session.until_shown("enter look at it");
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
    puppet.end();
}

#[test]
fn a_run_is_followed_to_its_end() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    let pid = puppet.number("ready");
    let rss = puppet.order("grow 100", "rss") * 1024;
    after_ticks(&puppet.directory, 2);
    let mut session = Session::start(&lab.path(""));
    session.top("run.nilo --interval 100ms");
    let screen = session.until_shown("[processes 1]");
    assert_near("RSS", rss_of(&screen, pid), rss, MIB);
    let mark = r#"{"do":"mark","line":"step 7"}"#;
    ask(&socket_of(&puppet.directory), mark);
    session.until_shown("step 7");
    assert_eq!(puppet.end().code(), Some(0));
    let screen = session.until_shown("exit 0");
    assert!(screen.contains("saved    run.nilo"), "{screen}");
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
}

#[test]
fn a_process_that_is_recorded_is_followed_by_its_log() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    let pid = puppet.number("ready");
    ask(&socket_of(&puppet.directory), r#"{"do":"mark","line":"step 41"}"#);
    after_ticks(&puppet.directory, 2);
    let mut session = Session::start(&lab.path(""));
    session.top(&format!("{pid} --interval 100ms"));
    session.until_shown("step 41");
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
    puppet.end();
}

#[test]
fn a_recorder_that_was_killed_is_told() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    puppet.number("ready");
    after_ticks(&puppet.directory, 1);
    let mut session = Session::start(&lab.path(""));
    session.top("run.nilo --interval 100ms");
    send(puppet.dialogue.pid(), crate::onlooker::KILL);
    puppet.end();
    session.until_shown("no longer recorded");
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
}

#[test]
fn a_snapshot_is_a_census_in_a_file() {
    let lab = Lab::new();
    let code = "import sys\nkept = [bytearray(1000) for _ in range(5000)]\nprint('ready', flush=True)\nsys.stdin.read()";
    for recorded in [false, true] {
        let mut program = if recorded {
            let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--"]);
            nilo.args([&python(), "-c", code]);
            nilo
        } else {
            let mut plain = Command::new(python());
            plain.args(["-c", code]);
            plain
        };
        let mut program = Dialogue::start(&mut program);
        assert_eq!(program.line(), "ready");
        let mut session = Session::start(&lab.path(""));
        let target = if recorded { "run.nilo".to_owned() } else { program.pid().to_string() };
        session.top(&format!("{target} --interval 100ms"));
        session.until_shown("[processes 1]");
        session.terminal.press(b"s");
        session.until_shown("wrote ");
        session.terminal.press(b"q");
        assert_eq!(session.is_left_clean(), 0);
        let files = std::fs::read_dir(lab.path("")).expect("here").flatten().map(|entry| entry.path());
        let file =
            files.into_iter().find(|path| path.extension().is_some_and(|end| end == "heap")).expect("a file");
        let output = finish(&mut lab.nilo(["heap".as_ref(), file.as_os_str()]));
        assert!(text(&output.stdout).contains("bytearray"), "{}", text(&output.stderr));
        std::fs::remove_file(file).expect("remove");
        program.end();
    }
}

/// A run of Python that goes on until its input ends, and what `nilo top` shows of it.
fn followed(lab: &Lab, options: &[&str], code: &str, shown: impl FnOnce(&mut Session, &mut Dialogue)) {
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo"]);
    nilo.args(options).args(["--", &python(), "-c", code]);
    let mut program = Dialogue::start(&mut nilo);
    assert_eq!(program.line(), "ready");
    let mut session = Session::start(&lab.path(""));
    session.top("run.nilo --interval 100ms");
    shown(&mut session, &mut program);
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
    program.end();
}

#[test]
fn kinds_of_objects_come_from_the_tables_of_the_heap() {
    let lab = Lab::new();
    let code = "import sys\nkept = []\nprint('ready', flush=True)\nfor line in sys.stdin:\n \
                kept.extend(bytearray(1000) for _ in range(20000))\n print('grown', flush=True)";
    followed(&lab, &["--heap=200ms"], code, |session, program| {
        program.say("");
        assert_eq!(program.line(), "grown");
        session.terminal.press(b"\to");
        // 20,000 of 1,000 bytes: 57 of header each, and the payload.
        let screen = session.until_shown("20,000 bytearray");
        let row = screen.lines().find(|line| line.contains("20,000 bytearray")).expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        let at = if words[0] == "-" { 1 } else { 2 };
        let bytes = size(words[at], words[at + 1]);
        assert!((20_000 * 1_001..20_000 * 1_150).contains(&bytes), "{row}");
    });
}

#[test]
fn sites_come_from_the_recorder_of_allocations() {
    let lab = Lab::new();
    let code = "import sys\nprint('ready', flush=True)\nkept = bytearray(64 << 20)\nsys.stdin.read()";
    followed(&lab, &["--allocs"], code, |session, _| {
        session.terminal.press(b"\t\to");
        let screen = session.until_shown("<string>:3");
        assert!(screen.contains("64.0 MiB") && screen.contains("[sites "), "{screen}");
    });
}

#[test]
fn without_a_terminal_there_is_a_hint_and_no_escape_sequence() {
    let lab = Lab::new();
    let own = std::process::id().to_string();
    let attach = format!("nilo attach {own} --duration 10s");
    let cases: [(&[&str], &str); 3] =
        [(&["top"], "nilo\n"), (&["top", &own], &attach), (&["top", "@last"], "nilo report @last")];
    for (words, hint) in cases {
        let output = finish(lab.nilo(words).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(5));
        assert!(output.stdout.is_empty());
        assert!(
            text(&output.stderr).contains("needs a terminal") && text(&output.stderr).contains(hint),
            "{}",
            text(&output.stderr)
        );
    }
    let gone = text(&finish(lab.nilo(["top", "999999999"]).stdin(Stdio::null())).stderr);
    assert!(gone.contains("no process 999999999") && !gone.contains("nilo attach"), "{gone}");
    let mut terminal = Terminal::bash(&lab.path(""));
    terminal.enter(&format!("{} top 1; echo; {0} top --interval 1", nilo_binary()));
    terminal.expect("nilo top needs a terminal"); // TERM=dumb
    terminal.expect("a time needs its unit");
    terminal.prompt();
    terminal.enter(&format!("export TERM=xterm; {} top 999999999; {0} top no.nilo", nilo_binary()));
    terminal.expect("process 999999999");
    terminal.expect("no.nilo does not exist");
    let shown = text(&terminal.shown());
    assert!(!shown.contains(ENTER_SCREEN), "{shown}");
}

#[test]
fn without_colour_there_is_none() {
    let lab = Lab::new();
    let (puppet, pid) = puppet();
    let mut session = Session::start(&lab.path(""));
    session.terminal.enter("export NO_COLOR=1");
    session.terminal.prompt();
    session.top(&format!("{pid} --interval 100ms"));
    session.until_shown("[processes 1]");
    session.terminal.press(b"q");
    assert_eq!(session.is_left_clean(), 0);
    let shown = text(&session.terminal.shown());
    let colours = (30..=37).chain(90..=97).map(|colour| format!("\x1b[{colour}m"));
    for code in colours.chain(["38;5;".to_owned(), "38;2;".to_owned()]) {
        assert!(!shown.contains(&code), "{code:?}");
    }
    puppet.end();
}
