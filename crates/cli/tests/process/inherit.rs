//! The target gets what `nilo` was given, and `nilo` holds nothing back; strange targets and what they leave.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::counter::{Counter, counter_program, ready};
use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, skip, text};
use crate::onlooker::{KILL, TERM, after_some_ticks, has_ended, send, stat};
use crate::pty::Terminal;

const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\u{8}";

/// What a program sees of itself, started after `setup` directly or under `nilo`.
fn seen(lab: &Lab, setup: &str, environment: &[(&str, &str)], under_nilo: bool) -> String {
    let out = lab.path(if under_nilo { "under" } else { "bare" });
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{setup}\nexec $with \"$@\""), "sh"]).current_dir(lab.path(""));
    shell.env_clear().env("PATH", std::env::var_os("PATH").expect("PATH")).envs(environment.iter().copied());
    if under_nilo {
        shell.args([nilo_binary(), "run", "-q", "--force", "-o"]).arg(lab.path("run.nilo")).arg("--");
    }
    shell.arg(c_program("inherited.c")).arg(&out).args(["a b", "", "--", "-q"]);
    let output = finish(shell.stdin(Stdio::piped()));
    assert!(output.status.success(), "{setup}: {}", text(&output.stderr));
    text(&std::fs::read(out).expect("what it saw"))
}

#[track_caller]
fn compare(lab: &Lab, setup: &str, environment: &[(&str, &str)], telling: &[&str]) {
    let bare = seen(lab, setup, environment, false);
    for line in telling {
        assert!(bare.contains(line), "{setup} has no effect: {line} in {bare}");
    }
    let under = seen(lab, setup, environment, true);
    for (bare, under) in bare.lines().zip(under.lines()) {
        assert_eq!(bare, under, "after {setup:?}");
    }
    assert_eq!(bare.lines().count(), under.lines().count(), "after {setup:?}: {under}");
}

/// The same for a signal mask of which `setup` sets `bits`.
#[track_caller]
fn compare_mask(lab: &Lab, setup: &str, mask: &str, bits: u64) {
    let bare = seen(lab, setup, &[], false);
    let line = bare.lines().find_map(|l| l.strip_prefix(mask)).expect("the mask");
    let value = u64::from_str_radix(line.trim(), 16).expect("a mask");
    assert_eq!(value & bits, bits, "{setup} has no effect: {bare}");
    compare(lab, setup, &[], &[mask]);
}

fn bits(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |bits, signal| bits | 1 << (signal - 1))
}

#[test]
fn signals_are_inherited_unchanged() {
    let lab = Lab::new();
    compare(&lab, "", &[], &["SigIgn:", "SigBlk:"]);
    compare_mask(&lab, "trap '' HUP PIPE", "SigIgn:", bits(&[1, 13]));
    compare_mask(&lab, "trap '' INT QUIT TSTP TTOU USR1", "SigIgn:", bits(&[2, 3, 20, 22, 10]));
    compare_mask(&lab, "with='env --block-signal=TERM,USR2,CHLD'", "SigBlk:", bits(&[15, 12, 17]));
}

#[test]
fn an_ignored_sigchld_neither_hangs_us_nor_is_lost() {
    let lab = Lab::new();
    compare_mask(&lab, "with='env --ignore-signal=CHLD'", "SigIgn:", bits(&[17]));
}

#[test]
fn descriptors_are_inherited_unchanged() {
    let lab = Lab::new();
    compare(&lab, "exec 7</dev/null 9>>extra", &[], &["fd 7 kind 20000 flags", "fd 9 kind 100000"]);
    compare(&lab, "exec 0<&-", &[], &["fd 1 "]);
    compare(&lab, "exec 1>&-", &[], &["fd 2 "]);
    compare(&lab, "exec 0<&- 1>&- 2>&- 5</dev/null", &[], &["fd 5 "]);
    assert!(!seen(&lab, "exec 0<&-", &[], true).contains("fd 0 "));
}

#[test]
fn limits_and_places_are_inherited_unchanged() {
    let lab = Lab::new();
    compare(&lab, "ulimit -Sn 333; ulimit -c 0; ulimit -v 99999999", &[], &["limit 7 333 "]);
    compare(&lab, "umask 037; cd /usr; with='nice -n 5'", &[], &["Umask:\t0037", "cwd /usr", "nice 5"]);
}

#[test]
fn the_environment_is_inherited_unchanged() {
    let lab = Lab::new();
    let variables =
        [("EMPTY", ""), ("LINES_", "a\nb=c"), ("RUST_BACKTRACE", "full"), ("LD_LIBRARY_PATH", "/nowhere")];
    compare(&lab, "", &variables, &["env EMPTY=\n"]);
}

#[test]
fn a_megabyte_of_environment_is_inherited_unchanged() {
    let lab = Lab::new();
    let value = "x".repeat(120_000);
    let names: Vec<String> = (0..9).map(|i| format!("BIG{i}")).collect();
    let variables: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), value.as_str())).collect();
    compare(&lab, "", &variables, &["env BIG8=xxx"]);
    assert_eq!(lab.report(&lab.path("run.nilo"))["exit"]["code"], 0);
}

#[test]
fn a_long_argument_arrives_whole_and_is_told_short() {
    let lab = Lab::new();
    let long = "y".repeat(100_000);
    let run = lab.run(&[], &["printf", "%s", &long]);
    assert_eq!(run.code(), Some(0));
    assert_eq!(run.stdout(), long);
    assert!(run.stderr().lines().all(|l| l.chars().count() <= 200), "{}", run.stderr());
    assert!(run.stderr().len() < 5_000);
}

#[test]
fn arguments_and_names_need_not_be_text() {
    let lab = Lab::new();
    let odd = OsStr::from_bytes(b"ev\xffil\xc3");
    let program = lab.path("").join(odd);
    std::fs::copy("/bin/echo", &program).expect("copy");
    let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--"]);
    let output = finish(nilo.arg(&program).arg(OsStr::from_bytes(b"\xfe\x80\xff")));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(output.stdout, b"\xfe\x80\xff\n");
    let report = lab.report(&lab.path("run.nilo"));
    assert!(report["command"].to_string().contains('\u{fffd}'), "{}", report["command"]);
    let mut unnamed = lab.nilo(["run", "-q", "--"]);
    assert_eq!(finish(unnamed.arg(&program)).status.code(), Some(0), "a run directory named after it");
}

#[track_caller]
fn is_harmless(bytes: &[u8], what: &str) {
    let control = |c: char| c.is_control() && c != '\n';
    let found = text(bytes).chars().find(|c| control(*c));
    assert!(found.is_none(), "{what} contains {found:?}: {:?}", text(bytes));
}

#[test]
fn a_hostile_name_does_not_reach_the_terminal() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--", "sh", "-c", "read x; exec \"$1\"", "sh"]);
    let mut dialogue = Dialogue::start(nilo.args([&counter_program(), HOSTILE]));
    dialogue.say("go");
    let (target, nilo) = ready(&dialogue.line());
    dialogue.say("name");
    assert_eq!(dialogue.line(), "named");
    assert!(stat(target).is_some_and(|s| s.name.contains('\u{1b}')));
    after_some_ticks(nilo);
    dialogue.say("exit 0");
    is_harmless(&dialogue.end().stderr, "the verdict");
    for words in [&["report", "run.nilo"][..], &["list"]] {
        let output = finish(&mut lab.nilo(words));
        is_harmless(&output.stdout, words[0]);
        is_harmless(&output.stderr, words[0]);
    }
    let document = finish(&mut lab.nilo(["report", "run.nilo", "--json"])).stdout;
    assert!(!document.contains(&0x1b), "JSON escapes it");
    let missing = format!("/nonexistent/{HOSTILE}");
    is_harmless(&finish(&mut lab.nilo(["run", "--", &missing])).stderr, "the error of exec");
    is_harmless(&finish(&mut lab.nilo(["report", &missing])).stderr, "the error of report");
    is_harmless(&finish(&mut lab.nilo(["run", HOSTILE])).stderr, "the error of a name");
}

#[test]
fn serial_a_hostile_name_does_not_reach_a_real_terminal() {
    let lab = Lab::new();
    let words = [nilo_binary(), "run", "-o", "run.nilo", "--", "sh", "-c", "exit 0", "sh", HOSTILE];
    let (shown, code) = Terminal::start(&lab.path(""), &words).end();
    assert_eq!(code, 0);
    assert!(shown.contains("saved"), "{shown:?}");
    for raw in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\u{9b}", "\u{8}"] {
        assert!(!shown.contains(raw), "{raw:?} in {shown:?}");
    }
}

#[test]
fn a_nested_nilo_is_a_command_like_any_other() {
    let lab = Lab::new();
    let words = ["run", "-q", "-o", "outer.nilo", nilo_binary(), "run", "-q", "-o", "inner.nilo", "--"];
    let output = finish(lab.nilo(words).args(["sh", "-c", "exit 9"]));
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    for run in ["outer.nilo", "inner.nilo"] {
        assert_eq!(lab.report(&lab.path(run))["exit"]["code"], 9, "{run}");
    }
}

#[test]
fn standard_input_passes_through() {
    let lab = Lab::new();
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--", "cat"]);
    let mut child = nilo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("spawn");
    let mut input = child.stdin.take().expect("stdin");
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let output = crate::harness::finish_child(child);
    writer.join().expect("writer").expect("cat reads all");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
}

#[test]
fn a_stream_that_the_target_closes_is_closed() {
    let lab = Lab::new();
    let code = "echo ready; exec <&- >&-; exec sleep 600";
    let mut dialogue =
        Dialogue::start(&mut lab.nilo(["run", "-q", "-o", "run.nilo", "--", "sh", "-c", code]));
    assert_eq!(dialogue.line(), "ready");
    let mut rest = Vec::new();
    dialogue.child.stdout.as_mut().expect("stdout").read_to_end(&mut rest).expect("its end");
    assert_eq!(rest, b"");
    let input = dialogue.child.stdin.as_mut().expect("stdin");
    assert_eq!(input.write_all(b"anybody?").map_err(|e| e.kind()), Err(ErrorKind::BrokenPipe));
    assert!(dialogue.child.try_wait().expect("wait").is_none(), "nilo and the target go on");
    send(dialogue.pid(), TERM);
    assert_eq!(dialogue.end().status.code(), Some(143));
}

#[test]
fn a_target_that_closes_everything_is_measured() {
    let lab = Lab::new();
    let program = c_program("close_all.c").display().to_string();
    let run = lab.run(&[], &[&program]);
    assert_eq!(run.code(), Some(9));
    assert!(run.number("peak/bytes") >= f64::from(24 << 20), "{:#}", run.report["peak"]);
}

#[test]
fn an_exec_renames_the_process() {
    let lab = Lab::new();
    let mut nilo =
        lab.nilo(["run", "-q", "-o", "run.nilo", "--", "sh", "-c", "echo shell $$; read x; exec \"$0\""]);
    let mut dialogue = Dialogue::start(nilo.arg(counter_program()));
    let shell = dialogue.line();
    after_some_ticks(dialogue.pid());
    dialogue.say("go");
    let (target, nilo) = ready(&dialogue.line());
    assert_eq!(shell, format!("shell {target}"), "the same process");
    after_some_ticks(nilo);
    dialogue.say("exit 8");
    assert_eq!(dialogue.end().status.code(), Some(8));
    let report = lab.report(&lab.path("run.nilo"));
    let process = process(&report, target);
    assert_eq!(process["role"], "main");
    assert_eq!(process["command"], counter_program());
    assert_eq!(report["processes_seen"], 1);
}

/// A shell that becomes another shell: nothing that a tick reads of it says so but where its stack is.
#[test]
fn an_exec_that_keeps_the_name_is_noticed_by_the_next_ticks() {
    let lab = Lab::new();
    let first = "echo $$; read x; exec sh -c 'echo there; read y' second";
    let mut nilo = lab.nilo(["run", "-q", "--interval", "10ms", "-o", "run.nilo", "--", "sh", "-c", first]);
    let mut dialogue = Dialogue::start(&mut nilo);
    let shell: i32 = dialogue.line().parse().expect("a pid");
    after_some_ticks(dialogue.pid());
    dialogue.say("go");
    assert_eq!(dialogue.line(), "there");
    after_some_ticks(dialogue.pid());
    dialogue.say("end");
    assert_eq!(dialogue.end().status.code(), Some(0));
    let report = lab.report(&lab.path("run.nilo"));
    assert_eq!(process(&report, shell)["command"], "sh -c echo there; read y second");
}

fn process(report: &Value, pid: i32) -> &Value {
    let processes = report["processes"].as_array().expect("processes");
    processes.iter().find(|p| p["pid"] == pid).unwrap_or_else(|| panic!("{pid} in {processes:#?}"))
}

#[test]
fn a_target_that_changes_its_user_is_still_measured() {
    if !nilometer_kernel::sys::limits::effective_uid().eq(&0) {
        return skip("root", "setuid needs it");
    }
    let lab = Lab::new();
    let mut counter = Counter::start(lab.nilo(["run", "-q", "-o", "run.nilo", "--"]).arg(counter_program()));
    assert_eq!(counter.ask("nobody"), "uid 65534 0");
    assert_eq!(counter.ask("touch 64"), "touched");
    after_some_ticks(counter.nilo);
    let target = counter.target;
    send(counter.nilo, TERM);
    assert_eq!(counter.ask(&format!("wait {TERM}")), "15=1", "it still gets its signals");
    assert_eq!(counter.exit(2).status.code(), Some(2));
    let report = lab.report(&lab.path("run.nilo"));
    assert!(process(&report, target)["hwm_bytes"].as_u64() >= Some(64 << 20));
    assert!(report["peak"]["bytes"].as_u64() >= Some(64 << 20), "{:#}", report["peak"]);
}

/// A target that leaves a daemon of this kind: its pid, and how long `nilo` took to end.
fn leave(lab: &Lab, kind: &str) -> (i32, Duration, Dialogue) {
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--"]);
    let mut dialogue = Dialogue::start(nilo.arg(c_program("offspring.c")));
    ready(&dialogue.line());
    dialogue.say(kind);
    let daemon = dialogue.line().strip_prefix("daemon ").expect("a daemon").parse().expect("its pid");
    let begin = Instant::now();
    dialogue.say("exit 3");
    let status = dialogue.child.wait().expect("wait");
    let took = begin.elapsed();
    assert_eq!(status.code(), Some(3));
    (daemon, took, dialogue)
}

#[track_caller]
fn check_left(lab: &Lab, daemon: i32, took: Duration) {
    let alive = !has_ended(daemon);
    send(daemon, KILL);
    assert!(alive, "the daemon is left alone");
    assert!(took < Duration::from_secs(1), "nilo took {took:?}");
    let report = lab.report(&lab.path("run.nilo"));
    let events = report["events"].as_array().expect("events");
    let named = events.iter().filter(|e| e["kind"] == "left-behind").filter_map(|e| e["text"].as_str());
    assert!(named.into_iter().any(|t| t.contains(&format!("({daemon})"))), "{events:#?}");
    assert_eq!(process(&report, daemon)["end_s"], Value::Null);
}

#[test]
fn serial_a_daemon_is_named_and_not_waited_for() {
    // Each is over within some milliseconds, in which the daemon's parent comes and goes: it must be found whenever that is.
    for _ in 0..25 {
        let lab = Lab::new();
        let (daemon, took, dialogue) = leave(&lab, "daemon");
        check_left(&lab, daemon, took);
        dialogue.end();
    }
}

#[test]
fn serial_a_daemon_that_holds_the_output_delays_nobody() {
    let lab = Lab::new();
    let (daemon, took, dialogue) = leave(&lab, "clinging");
    check_left(&lab, daemon, took);
    dialogue.end();
}

#[test]
fn the_lab_is_clean() {
    // The comparison of `seen` is only worth something if the bare program sees anything at all.
    let lab = Lab::new();
    let bare = seen(&lab, "", &[("A", "1")], false);
    for word in ["fd 0 ", "fd 1 ", "fd 2 ", "SigIgn:", "limit 7 ", "cwd ", "env A=1", "argument a b"] {
        assert!(bare.contains(word), "{word} in {bare}");
    }
    assert!(!Path::new(&lab.path("run.nilo")).exists());
}
