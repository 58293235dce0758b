//! Steps from the output: every byte arrives as without nilo, a terminal stays a terminal, and the relay outlives
//! nilo.

use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, py_program, text};
use crate::onlooker::{KILL, has_ended, send, until};
use crate::pty::Terminal;

const STEPS: &str = r"^step (\d+)";

fn steps(report: &Value) -> Vec<u64> {
    let steps = report["steps"].as_array().expect("steps");
    steps.iter().map(|step| step["step"].as_u64().expect("a number")).collect()
}

fn nilo_words() -> [&'static str; 8] {
    ["run", "-q", "--force", "-o", "run.nilo", "--steps", STEPS, "--"]
}

/// Lines `WORD NUMBER`, all words for each number.
fn numbered(words: &[&str], numbers: RangeInclusive<u32>) -> String {
    let lines: Vec<String> =
        numbers.flat_map(|i| words.iter().map(move |word| format!("{word} {i}\n"))).collect();
    lines.concat()
}

#[test]
fn every_byte_arrives() {
    let lab = Lab::new();
    let program = py_program("blob.py");
    let bare = finish(Command::new("python3").arg(&program));
    let under = finish(lab.nilo(nilo_words()).args(["python3", &program]));
    assert!(bare.stdout.len() > 10_000_000 && bare.stderr.len() == 150_000);
    assert!(under.stdout == bare.stdout, "{} bytes of {}", under.stdout.len(), bare.stdout.len());
    assert!(under.stderr == bare.stderr, "{} bytes of {}", under.stderr.len(), bare.stderr.len());
    assert_eq!((bare.status.code(), under.status.code()), (Some(41), Some(41)));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(steps(&report), (1..=50).collect::<Vec<u64>>());
    assert_eq!(report["steps_seen"], 50);
}

#[test]
fn outputs_to_the_same_place_keep_their_order() {
    let lab = Lab::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" 2>&1", "sh", nilo_binary()]).args(nilo_words());
    let output = finish(shell.arg(c_program("alternate.c")).current_dir(lab.path("")));
    let expected = numbered(&["step", "warning"], 1..=1000);
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(lab.report(&lab.path("run.nilo"))["steps_seen"], 1000);
}

#[test]
fn outputs_to_files_are_appended_where_the_shell_said() {
    let lab = Lab::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo first > out; exec \"$@\" >> out 2> err", "sh", nilo_binary()]).args(nilo_words());
    let output = finish(shell.arg(c_program("alternate.c")).current_dir(lab.path("")));
    assert_eq!(output.status.code(), Some(0));
    let read = |name: &str| std::fs::read_to_string(lab.path(name)).expect("read");
    assert_eq!(read("out"), format!("first\n{}", numbered(&["step"], 1..=1000)));
    assert_eq!(read("err"), numbered(&["warning"], 1..=1000));
}

#[test]
fn steps_are_read_too_when_standard_output_carries_the_document() {
    let lab = Lab::new();
    let words = ["run", "-q", "-o", "run.nilo", "--json", "--steps", STEPS, "--"];
    let output = finish(lab.nilo(words).arg(c_program("alternate.c")));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["steps_seen"], 1000);
    let expected = numbered(&["step", "warning"], 1..=1000);
    assert_eq!(text(&output.stderr), expected);
}

/// In a terminal: `nilo run --steps STEPS -- COMMAND`.
fn in_terminal(lab: &Lab, steps: &str, command: &[&str]) -> Terminal {
    let words = [nilo_binary(), "run", "-q", "-o", "run.nilo", "--steps", steps, "--"];
    Terminal::start(&lab.path(""), &[&words, command].concat())
}

#[test]
fn a_terminal_stays_a_terminal_and_follows_its_size() {
    let lab = Lab::new();
    let program = c_program("window.c").display().to_string();
    let mut terminal = in_terminal(&lab, STEPS, &[&program]);
    terminal.expect("terminals 3");
    terminal.expect("0:size 24 80;");
    for (rows, columns) in [(40, 100), (50, 132), (24, 80)] {
        terminal.resize(rows, columns);
        // Told by a signal, and what it then reads is the new size: a second look is not needed.
        terminal.expect(&format!("28:size {rows} {columns};"));
    }
    terminal.enter("end");
    let (shown, code) = terminal.end();
    assert_eq!(code, 6, "{shown:?}");
}

#[test]
fn lines_on_a_terminal_look_as_without_nilo() {
    let lab = Lab::new();
    let program = c_program("alternate.c").display().to_string();
    let (bare, _) = Terminal::start(&lab.path(""), &[&program]).end();
    let (under, code) = in_terminal(&lab, STEPS, &[&program]).end();
    assert_eq!(under, bare);
    assert!(bare.contains("step 1000\r\nwarning 1000\r\n"));
    assert_eq!(code, 0);
    assert_eq!(lab.report(&lab.path("run.nilo"))["steps_seen"], 1000);
}

#[test]
fn progress_bars_are_steps() {
    let lab = Lab::new();
    let program = py_program("bars.py");
    let (bare, _) = Terminal::start(&lab.path(""), &["python3", &program]).end();
    let (under, code) = in_terminal(&lab, "tqdm", &["python3", &program]).end();
    assert_eq!(under, bare);
    assert!(bare.contains("terminals True True") && bare.contains("20/20 ["), "{bare:?}");
    assert_eq!(code, 0);
    // A second epoch counts on: its step 0 is where the first ended.
    assert_eq!(steps(&lab.report(&lab.path("run.nilo"))).into_iter().max(), Some(40));
    let mut seen = steps(&lab.report(&lab.path("run.nilo")));
    seen.dedup();
    assert_eq!(seen, (0..=40).collect::<Vec<u64>>());
}

#[test]
fn bars_of_the_real_tqdm_are_steps() {
    let Some(python) = nilometer_lab::environment(&["tools"]) else { return };
    let lab = Lab::new();
    let code = "import tqdm\nfor i in tqdm.tqdm(range(30), mininterval=0): pass";
    let (shown, code) = in_terminal(&lab, "tqdm", &[&python, "-c", code]).end();
    assert_eq!(code, 0);
    assert!(shown.contains("30/30"), "{shown:?}");
    assert_eq!(steps(&lab.report(&lab.path("run.nilo"))).into_iter().max(), Some(30));
}

#[test]
fn killing_nilo_cuts_no_output() {
    let lab = Lab::new();
    let inner = "echo step 1; read go; i=2; while [ $i -le 3000 ]; do echo step $i; i=$((i+1)); done; exit 7";
    let outer = format!("echo target $$; sh -c '{inner}'; echo $? > code.new; mv code.new code");
    let mut dialogue = Dialogue::start(lab.nilo(nilo_words()).args(["sh", "-c", &outer]));
    let target = dialogue.line().strip_prefix("target ").expect("a pid").parse().expect("a pid");
    assert_eq!(dialogue.line(), "step 1");
    let mut input = dialogue.child.stdin.take().expect("stdin");
    send(dialogue.pid(), KILL);
    dialogue.child.wait().expect("wait");
    writeln!(input, "go").expect("the target reads");
    let mut rest = String::new();
    dialogue.child.stdout.take().expect("stdout").read_to_string(&mut rest).expect("read");
    assert_eq!(rest, numbered(&["step"], 2..=3000));
    until("the target has ended", || has_ended(target));
    assert_eq!(std::fs::read_to_string(lab.path("code")).expect("code"), "7\n", "it ended as it wanted");
    assert_eq!(lab.report(&lab.path("run.nilo"))["data_end"]["clean"], false);
}

/// The exit code of the first command of `COMMAND | head -1`.
fn into_head(lab: &Lab, command: &[&str]) -> String {
    let script = "\"$@\" | head -1; echo ${PIPESTATUS[0]}";
    let mut bash = Command::new("bash");
    text(&finish(bash.args(["-c", script, "bash"]).args(command).current_dir(lab.path(""))).stdout)
}

#[test]
fn a_closed_reader_ends_the_target_by_sigpipe() {
    let lab = Lab::new();
    let command = ["yes", "step 1"];
    let bare = into_head(&lab, &command);
    assert_eq!(bare, "step 1\n141\n");
    assert_eq!(into_head(&lab, &[&[nilo_binary()][..], &nilo_words(), &command].concat()), bare);
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!((&report["exit"]["signal"], &report["exit"]["cause"]), (&13.into(), &"signal".into()));
}

#[test]
fn a_closed_reader_is_noticed_by_a_target_that_does_not_write() {
    let lab = Lab::new();
    let program = py_program("notices.py");
    let command = ["python3", &program];
    let bare = into_head(&lab, &command);
    assert_eq!(bare, "step 1\n9\n");
    assert_eq!(into_head(&lab, &[&[nilo_binary()][..], &nilo_words(), &command].concat()), bare);
}

#[test]
fn a_reader_that_stays_closed_from_the_start_is_no_surprise() {
    let lab = Lab::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" >&-", "sh", nilo_binary()]).args(nilo_words());
    let output = finish(shell.args(["sh", "-c", "echo step 1 >&2; exit 5"]).current_dir(lab.path("")));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(5), "step 1\n"));
    assert_eq!(steps(&lab.report(&lab.path("run.nilo"))), [1]);
}

#[test]
fn no_regular_expression_is_an_error_before_anything_runs() {
    let lab = Lab::new();
    let words = ["run", "-o", "run.nilo", "--steps", "step (", "--", "touch", "ran"];
    let output = finish(lab.nilo(words).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output.stderr);
    assert!(said.contains("step (") && said.contains("hint:"), "{said}");
    assert!(!lab.path("ran").exists() && !lab.path("run.nilo").exists());
}

#[test]
fn a_name_that_is_none_is_refused_and_steps_that_never_came_are_said() {
    let lab = Lab::new();
    for words in [
        &["run", "--steps", "tourch", "--", "touch", "ran"][..],
        &["sweep", "--set", "n=1", "--steps", "tourch", "--", "touch", "ran"],
    ] {
        let output = finish(lab.nilo(words).stdin(Stdio::null()));
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains("tourch") && said.contains("torch, keras"),
            "{said}"
        );
    }
    assert!(!lab.path("ran").exists());
    for (steps, told) in
        [("torch", "told one by torch"), (STEPS, "no line of the output fits"), ("marks", "NILO_MARKS")]
    {
        let words = ["run", "--force", "-o", "run.nilo", "--steps", steps, "--", "true"];
        let said = text(&finish(lab.nilo(words).stdin(Stdio::null())).stderr);
        let line = said.lines().find(|line| line.starts_with(" steps    none"));
        assert!(line.is_some_and(|line| line.contains(told) && line.contains('→')), "{said}");
    }
    let marked = ["run", "--force", "-o", "run.nilo", "--steps", "marks", "--", "sh", "-c"];
    let output = finish(lab.nilo(marked).arg("echo step 3 >> $NILO_MARKS").stdin(Stdio::null()));
    assert!(!text(&output.stderr).contains(" steps    none"), "{}", text(&output.stderr));
}
