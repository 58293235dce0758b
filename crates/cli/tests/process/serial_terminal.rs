//! A real bash in a real terminal: keys, job control, window size, hang-up.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use serde_json::Value;

use crate::counter::{counter_program, ready, without_marker};
use crate::harness::{Dialogue, Lab, c_program, nilo_binary, py_program};
use crate::onlooker::{INT, MARKER, WINCH, has_ended, is_stopped, send, until};
use crate::pty::{CTRL_BACKSLASH, CTRL_C, CTRL_Z, Terminal};

/// A bash with a counter in the foreground.
struct Desk {
    terminal: Terminal,
    lab: Lab,
    target: i32,
    nilo: i32,
}

impl Desk {
    fn new(options: &str) -> Self {
        let lab = Lab::new();
        let mut terminal = Terminal::bash(&lab.path(""));
        terminal.enter(&format!("{} run -q {options} -o run.nilo -- {}", nilo_binary(), counter_program()));
        let (target, nilo) = ready(&format!("ready{}", terminal.expect_line("ready")));
        Self { terminal, lab, target, nilo }
    }

    /// What the target got, once everything sent before has reached it.
    #[track_caller]
    fn counts(&mut self) -> String {
        // The terminal works through its keys in the background: after an answer it has done so, and whatever
        // nilo makes of them comes before the marker.
        self.ask("counts");
        send(self.nilo, MARKER);
        without_marker(&self.ask(&format!("wait {MARKER}")))
    }

    /// The target's answer to a line.
    #[track_caller]
    fn ask(&mut self, line: &str) -> String {
        self.terminal.enter(line);
        self.terminal.expect("\n"); // the terminal's echo
        self.terminal.expect("\n").trim().to_owned()
    }

    /// Ends the target, checks that its code arrives at the shell, and reads the report.
    #[track_caller]
    fn finish(mut self) -> Value {
        self.terminal.enter("exit 5");
        self.terminal.prompt();
        assert_eq!(self.terminal.code_of_last(), 5);
        self.lab.report(&self.lab.path("run.nilo"))
    }
}

fn gaps(report: &Value) -> Vec<&str> {
    let events = report["events"].as_array().expect("events");
    events.iter().filter(|e| e["kind"] == "gap").filter_map(|e| e["text"].as_str()).collect()
}

#[test]
fn ctrl_c_reaches_the_target_once() {
    let mut desk = Desk::new("");
    desk.terminal.press(CTRL_C);
    assert_eq!(desk.counts(), "2=1");
    desk.terminal.press(CTRL_C);
    assert_eq!(desk.counts(), "2=2");
    // The terminal's key must not hide a signal to nilo alone.
    send(desk.nilo, INT);
    assert_eq!(desk.counts(), "2=3");
    desk.finish();
}

#[test]
fn ctrl_backslash_reaches_the_target_once() {
    let mut desk = Desk::new("");
    desk.terminal.press(CTRL_BACKSLASH);
    assert_eq!(desk.counts(), "3=1");
    desk.finish();
}

#[test]
fn keys_that_end_the_target_give_its_code() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    for (keys, code) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
        let command = "sh -c 'ulimit -c 0; echo up$((1+1)); exec sleep 600'";
        terminal.enter(&format!("{} run --summary line --force -o run.nilo -- {command}", nilo_binary()));
        terminal.expect("up2");
        terminal.press(keys);
        let told = terminal.prompt();
        assert!(told.contains("nilo: "), "the verdict is told: {told}");
        assert_eq!(terminal.code_of_last(), code);
        assert_eq!(lab.report(&lab.path("run.nilo"))["exit"]["signal"], code - 128);
    }
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    let mut desk = Desk::new("");
    for round in 1..=4 {
        desk.terminal.press(CTRL_Z);
        desk.terminal.expect("Stopped");
        desk.terminal.prompt();
        until("both are stopped", || is_stopped(desk.nilo) && is_stopped(desk.target));
        desk.terminal.enter("fg");
        until("both go on", || !is_stopped(desk.nilo) && !is_stopped(desk.target));
        desk.terminal.expect("signal_counter"); // bash names the job
        desk.terminal.expect("\n");
        assert_eq!(desk.counts(), format!("18={round}"));
        assert!(!is_stopped(desk.nilo));
    }
    let report = desk.finish();
    let stopped = gaps(&report).iter().filter(|g| g.contains("stopped by job control")).count();
    assert_eq!(stopped, 4, "{:#}", report["events"]);
}

#[test]
fn a_target_that_ignores_ctrl_z_is_not_stopped_and_neither_is_nilo() {
    let mut desk = Desk::new("");
    assert_eq!(desk.ask("ignore 20"), "ignored");
    desk.terminal.press(CTRL_Z);
    assert_eq!(desk.counts(), "");
    assert!(!is_stopped(desk.nilo) && !is_stopped(desk.target));
    let report = desk.finish();
    assert_eq!(gaps(&report), [""; 0]);
}

#[test]
fn ctrl_z_before_the_start_stops_the_job_too() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    let counter = counter_program();
    terminal.enter(&format!("{} run -q --before 600s -o run.nilo -- {counter}", nilo_binary()));
    until("the run has begun", || lab.path("run.nilo/manifest.json").exists());
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.prompt();
    terminal.enter("fg");
    let (target, nilo) = ready(&format!("ready{}", terminal.expect_line("ready")));
    assert!(!is_stopped(nilo) && !is_stopped(target));
    terminal.enter("exit 5");
    terminal.prompt();
    assert_eq!(terminal.code_of_last(), 5);
}

#[test]
fn a_new_window_size_reaches_the_target_once() {
    let mut desk = Desk::new("");
    desk.terminal.resize(40, 100);
    assert_eq!(desk.counts(), "28=1");
    desk.terminal.resize(24, 80);
    assert_eq!(desk.counts(), "28=2");
    send(desk.nilo, WINCH);
    assert_eq!(desk.counts(), "28=3");
    desk.finish();
}

#[test]
fn the_target_is_in_front_and_sees_the_size_of_the_window() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    let program = c_program("terminal.c");
    terminal.enter(&format!("{} run -q -o run.nilo -- {}", nilo_binary(), program.display()));
    assert_eq!(terminal.expect_line("terminal "), "111 foreground 1 group 1 session 1");
    for (rows, columns) in [(40, 100), (50, 120)] {
        terminal.resize(rows, columns);
        terminal.enter("size");
        assert_eq!(terminal.expect_line("rows "), format!("{rows} columns {columns}"));
    }
    terminal.press(b"\x04");
    terminal.prompt();
    assert_eq!(terminal.code_of_last(), 0);
}

#[test]
fn the_target_reads_from_the_terminal() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    terminal.enter(&format!("{} run -q -o run.nilo -- python3 -u {}", nilo_binary(), py_program("ask.py")));
    terminal.expect("who is? ");
    terminal.enter("olin");
    terminal.expect("hello nilo");
    terminal.prompt();
    assert_eq!(terminal.code_of_last(), 0);
}

#[test]
fn a_background_job_that_reads_is_stopped_until_it_is_in_front() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    let target = "sh -c 'read answer; echo got-$answer; exit 6'";
    terminal.enter(&format!("{} run -q -o run.nilo -- {target} &", nilo_binary()));
    terminal.prompt();
    terminal.enter("echo job=$!");
    let nilo = terminal.expect_line("job=").parse().expect("a pid");
    terminal.prompt();
    until("nilo stops with the target", || is_stopped(nilo));
    terminal.enter("jobs");
    terminal.expect("Stopped");
    terminal.prompt();
    terminal.enter("fg");
    until("it goes on", || !is_stopped(nilo));
    terminal.enter("word");
    terminal.expect("got-word");
    terminal.prompt();
    assert_eq!(terminal.code_of_last(), 6);
    let report = lab.report(&lab.path("run.nilo"));
    assert!(gaps(&report).iter().any(|g| g.contains("stopped by job control")), "{:#}", report["events"]);
}

#[test]
fn a_background_job_that_does_not_read_runs_on() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    terminal.enter(&format!("{} run -q -o run.nilo -- sh -c 'echo from-$((40+2)); exit 3' &", nilo_binary()));
    terminal.enter("wait $!");
    terminal.expect("from-42");
    terminal.enter("echo end=$?");
    assert_eq!(terminal.expect_line("end="), "3");
}

#[test]
fn bash_times_and_pipes_it_like_any_command() {
    let lab = Lab::new();
    let mut terminal = Terminal::bash(&lab.path(""));
    let nilo = nilo_binary();
    terminal.enter(&format!("time {nilo} run -q -o a.nilo -- true"));
    terminal.expect("\nreal");
    terminal.prompt();
    terminal.enter(&format!("{nilo} run -q -o b.nilo -- echo xenon | tr x X; echo ends=${{PIPESTATUS[*]}}"));
    terminal.expect("\nXenon");
    assert_eq!(terminal.expect_line("ends="), "0 0");
    terminal.enter(&format!("echo seven | {nilo} run -q -o c.nilo -- tr s S | cat"));
    terminal.expect("\nSeven");
    terminal.prompt();
}

#[test]
fn a_hang_up_reaches_a_target_whose_nilo_leads_the_session() {
    let lab = Lab::new();
    for name in ["in", "out"] {
        assert!(Command::new("mkfifo").arg(lab.path(name)).status().expect("mkfifo").success());
    }
    let mut python = Command::new("python3");
    python.args([&py_program("hang_up.py"), nilo_binary(), "run", "-q", "-o", "run.nilo", "--"]);
    python.args(["sh", "-c", "exec \"$0\" <in >out", &counter_program()]).current_dir(lab.path(""));
    let mut line = Dialogue::start(&mut python);
    let leader = line.line();
    let mut input = File::create(lab.path("in")).expect("in");
    let mut output = BufReader::new(File::open(lab.path("out")).expect("out")).lines();
    let mut answer = || output.next().expect("an answer").expect("text");
    let (target, nilo) = ready(&answer());
    assert_eq!(leader, format!("leader {nilo}"));
    line.say("hang up");
    line.end();
    // The kernel sends the leader SIGHUP and SIGCONT, and nobody else.
    writeln!(input, "wait 1").expect("in");
    answer();
    send(nilo, MARKER);
    writeln!(input, "wait {MARKER}").expect("in");
    assert_eq!(without_marker(&answer()), "1=1 18=1");
    writeln!(input, "exit 0").expect("in");
    until("both end", || has_ended(target) && has_ended(nilo));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(report["exit"]["code"], 0);
}

#[test]
fn ctrl_z_stops_an_attached_recording_and_ctrl_c_ends_it() {
    let lab = Lab::new();
    let mut sleeper = Command::new("sleep").arg("600").spawn().expect("sleep");
    let mut terminal = Terminal::bash(&lab.path(""));
    terminal.enter(&format!("{} attach {} -q -o run.nilo", nilo_binary(), sleeper.id()));
    until("the run has begun", || lab.path("run.nilo/manifest.json").exists());
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.prompt();
    terminal.enter("echo job=$(jobs -p)");
    let nilo = terminal.expect_line("job=").parse().expect("a pid");
    terminal.prompt();
    terminal.enter("fg");
    until("it goes on", || !is_stopped(nilo));
    terminal.press(CTRL_C);
    terminal.prompt();
    assert_eq!(terminal.code_of_last(), 0);
    sleeper.kill().expect("kill");
    sleeper.wait().expect("wait");
}
