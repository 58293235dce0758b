//! The control socket of a recording, asked by a stranger.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Dialogue, Lab, c_program, finish};
use crate::onlooker::{KILL, send, until};
use crate::watched::{MIB, Watched, bytes, number_of};

fn manifest(run: &Path) -> Value {
    let text = std::fs::read(run.join("manifest.json")).expect("a manifest");
    serde_json::from_slice(&text).expect("JSON")
}

pub fn socket_of(run: &Path) -> PathBuf {
    manifest(run)["control_socket"].as_str().expect("a socket").into()
}

/// Waits until `count` ticks were taken from begin to end; what one tick stores comes in several writes.
pub fn after_ticks(run: &Path, count: u64) {
    let socket = socket_of(run);
    let ticks = || ask(&socket, r#"{"do":"status"}"#)["ticks"].as_u64().expect("ticks");
    let begin = ticks();
    until("ticks pass", || ticks() > begin + count);
}

/// One line to the socket, one line back.
pub fn ask(socket: &Path, line: &str) -> Value {
    let stream = UnixStream::connect(socket).expect("it listens");
    writeln!(&stream, "{line}").expect("it reads");
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).expect("it answers");
    serde_json::from_str(&answer).unwrap_or_else(|e| panic!("{answer:?}: {e}"))
}

#[test]
fn the_status_of_a_recording_is_told() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    let pid = puppet.number("ready");
    let rss = puppet.order("grow 100", "rss") * 1024;
    after_ticks(&puppet.directory, 1);
    let socket = socket_of(&puppet.directory);
    let status = ask(&socket, r#"{"do":"status"}"#);
    assert_eq!(status["directory"], json!(puppet.directory));
    assert!(status["command"][0].as_str().is_some_and(|word| word.contains("puppet.c")), "{status:#}");
    assert!(status["ticks"].as_u64() >= Some(2), "{status:#}");
    let processes = status["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 1);
    assert_eq!(processes[0]["pid"], pid);
    let near = |found: &Value| assert!(bytes(found).abs_diff(rss) <= MIB, "{found}, it says {rss}");
    near(&processes[0]["rss_bytes"]);
    near(&status["tree"]["low_bytes"]);
    near(&status["tree"]["high_bytes"]);
    let later = ask(&socket, r#"{"do":"status"}"#);
    assert!(later["ticks"].as_u64() >= status["ticks"].as_u64());
    assert_eq!(puppet.end().code(), Some(0));
}

#[test]
fn a_mark_by_socket_is_a_step() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    puppet.number("ready");
    let socket = socket_of(&puppet.directory);
    for line in ["step 7", "step 8", "phase warm up", "note half time"] {
        assert_eq!(ask(&socket, &json!({"do": "mark", "line": line}).to_string()), json!({"ok": true}));
    }
    let run = puppet.end();
    let steps: Vec<&Value> =
        run.report["steps"].as_array().expect("steps").iter().map(|s| &s["step"]).collect();
    assert_eq!(steps, [7, 8]);
    assert_eq!(run.report["phases"][0]["name"], "warm up");
    assert_eq!(run.report["notes"][0]["text"], "half time");
}

#[test]
fn what_is_not_understood_gets_an_error_with_a_hint() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    puppet.number("ready");
    let socket = socket_of(&puppet.directory);
    let bad = [
        "garbage",
        "",
        "{}",
        "[1]",
        r#"{"do":"fly"}"#,
        r#"{"do":"mark"}"#,
        r#"{"do":"mark","line":"stop 3"}"#,
    ];
    for line in bad {
        let answer = ask(&socket, line);
        for word in ["error", "hint"] {
            assert!(answer[word].as_str().is_some_and(|text| !text.is_empty()), "{line:?}: {answer}");
        }
    }
    // Somebody who says nothing, says too much, or is no text, is not waited for.
    let silent = UnixStream::connect(&socket).expect("connect");
    let long = UnixStream::connect(&socket).expect("connect");
    long.set_nonblocking(true).expect("nonblocking");
    let _ = (&long).write(&vec![b'x'; 300_000]);
    let binary = UnixStream::connect(&socket).expect("connect");
    (&binary).write_all(b"\xff\xfe\n").expect("write");
    assert!(ask(&socket, r#"{"do":"status"}"#)["ticks"].is_number());
    drop((silent, long, binary));
    let run = puppet.end();
    assert_eq!(run.code(), Some(0));
    assert_eq!(run.report["steps"], json!([]));
}

#[test]
fn the_socket_is_private_and_removed_at_the_end() {
    let lab = Lab::new();
    let runtime = lab.path("runtime");
    for inside in [true, false] {
        let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--force", "--", "sh", "-c"]);
        nilo.arg("echo control=$NILO_CONTROL; echo marks=$NILO_MARKS; stat -c '%a %F' $NILO_CONTROL $(dirname $NILO_CONTROL)");
        if inside {
            std::fs::create_dir(&runtime).expect("mkdir");
            nilo.env("XDG_RUNTIME_DIR", &runtime);
        } else {
            nilo.env_remove("XDG_RUNTIME_DIR");
        }
        let output = finish(&mut nilo);
        let said = crate::harness::text(&output.stdout);
        let lines: Vec<&str> = said.lines().collect();
        let control = lines[0].strip_prefix("control=").expect("NILO_CONTROL");
        assert_eq!(lines[1], format!("marks={}", lab.path("run.nilo/marks").display()));
        assert_eq!(lines[2..], ["600 socket", "700 directory"]);
        assert_eq!(Path::new(control), socket_of(&lab.path("run.nilo")));
        assert_eq!(control.starts_with(&runtime.display().to_string()), inside, "{control}");
        assert!(!Path::new(control).exists(), "it is removed");
    }
}

#[test]
fn a_directory_that_others_could_use_is_not_used() {
    let lab = Lab::new();
    let runtime = lab.path("runtime");
    std::fs::create_dir_all(runtime.join("nilo")).expect("mkdir");
    std::fs::set_permissions(runtime.join("nilo"), PermissionsExt::from_mode(0o777)).expect("chmod");
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--", "sh", "-c", "echo control=$NILO_CONTROL"]);
    let output = finish(nilo.env("XDG_RUNTIME_DIR", &runtime).env_remove("NILO_CONTROL"));
    assert_eq!(output.status.code(), Some(0), "the run goes on without");
    assert_eq!(output.stdout, b"control=\n");
    assert_eq!(manifest(&lab.path("run.nilo"))["control_socket"], Value::Null);
}

#[test]
fn a_socket_left_by_a_killed_nilo_is_removed_by_the_next() {
    let lab = Lab::new();
    let runtime = lab.path("runtime"); // not where the recordings of other tests sweep
    std::fs::create_dir(&runtime).expect("mkdir");
    let words = ["run", "-q", "-o", "run.nilo", "--"];
    let mut puppet =
        Dialogue::start(lab.nilo(words).arg(c_program("puppet.c")).env("XDG_RUNTIME_DIR", &runtime));
    number_of(&puppet.line(), "ready");
    let socket = socket_of(&lab.path("run.nilo"));
    send(puppet.pid(), KILL);
    puppet.end();
    let left = std::fs::symlink_metadata(&socket).expect("nobody was there to remove it");
    assert!(left.file_type().is_socket());
    assert!(UnixStream::connect(&socket).is_err(), "nobody listens");
    let words = ["run", "-q", "-o", "next.nilo", "--", "true"];
    assert_eq!(finish(lab.nilo(words).env("XDG_RUNTIME_DIR", &runtime)).status.code(), Some(0));
    assert!(!socket.exists());
}
