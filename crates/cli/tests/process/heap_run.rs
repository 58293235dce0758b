//! Censuses within a run: tables (`--heap`), snapshots by the control socket, stacks in a post-mortem.

use serde_json::{Value, json};

use crate::control::{ask, socket_of};
use crate::harness::{Lab, py_program};
use crate::heap_target::document;
use crate::onlooker::{stat, until};
use crate::watched::{Watched, python};

fn nodes<'l>(lab: &'l Lab, options: &[&str]) -> (Watched<'l>, u64) {
    let mut watched = Watched::start(lab, options, &[&python(), &py_program("heap_nodes.py")]);
    assert_eq!(watched.dialogue.line(), "ready");
    let count = watched.order("grow 1000", "nodes");
    (watched, count)
}

fn kind<'r>(report: &'r Value, name: &str) -> &'r Value {
    let kinds = report["heap"]["kinds"].as_array().expect("kinds");
    kinds.iter().find(|kind| kind["kind"] == name).unwrap_or_else(|| panic!("no {name} in {kinds:#?}"))
}

#[test]
fn tables_count_what_the_program_made() {
    let lab = Lab::new();
    let (mut watched, before) = nodes(&lab, &["--heap=50ms"]);
    let socket = socket_of(&watched.directory);
    let tables = || ask(&socket, r#"{"do":"status"}"#)["heap_tables"].as_u64().expect("tables");
    // The one that is being taken may have begun before the order.
    let wait_for_two = || {
        let begin = tables();
        until("two more tables", || tables() >= begin + 2);
    };
    wait_for_two();
    let after = watched.order("grow 500", "nodes");
    wait_for_two();
    let run = watched.end();
    assert_eq!(run.code(), Some(0));
    let node = kind(&run.report, "__main__.Node");
    assert_eq!((before, after), (1000, 1500));
    assert_eq!(node["last"]["count"], after, "{node:#}");
    assert!(node["first"]["count"].as_u64() <= Some(before), "{node:#}");
    assert!(run.report["heap"]["pause_ms_total"].as_f64() > Some(0.0));
    assert!(run.number("cost/pause_s") > 0.0, "{:#}", run.report["cost"]);
}

#[test]
fn a_census_takes_neither_the_end_nor_the_exit_code() {
    let lab = Lab::new();
    for code in 1..=12 {
        let program = format!("import sys\nx = [object() for i in range({code}0000)]\nsys.exit({code})");
        let run = lab.run(&["--heap=1ms"], &[&python(), "-c", &program]);
        assert_eq!(run.code(), Some(code), "{}", run.stderr());
    }
}

#[test]
fn a_snapshot_is_taken_for_who_asks_the_socket() {
    let lab = Lab::new();
    let (watched, count) = nodes(&lab, &[]);
    let socket = socket_of(&watched.directory);
    let status = ask(&socket, r#"{"do":"status"}"#);
    let pid = &status["processes"][0]["pid"];
    let path = lab.path("asked.heap");
    assert_eq!(
        ask(&socket, &json!({"do": "heap", "pid": pid, "path": path}).to_string()),
        json!({"ok": true})
    );
    until("the snapshot is there", || path.exists());
    let census = document(&lab, &[path.to_str().expect("UTF-8"), "--kind", "*Node"]);
    assert_eq!(census["rows"][0]["count"], count, "{:#}", census["rows"]);
    let stranger = json!({"do": "heap", "pid": 1, "path": lab.path("other.heap")}).to_string();
    assert!(ask(&socket, &stranger)["error"].as_str().is_some_and(|error| error.contains("not of this")));
    assert_eq!(watched.end().code(), Some(0));
}

#[test]
fn what_a_census_needed_is_given_back() {
    let lab = Lab::new();
    let (mut watched, _) = nodes(&lab, &["--heap=1s", "--no-ledger"]);
    let socket = socket_of(&watched.directory);
    let status = || ask(&socket, r#"{"do":"status"}"#);
    let target = status()["processes"][0]["pid"].as_i64().expect("a number");
    let nilo = stat(i32::try_from(target).expect("a pid")).expect("it runs").parent;
    let before = anonymous_kib(nilo);
    watched.order("grow 300000", "nodes");
    // Rows of a table stay: they must not keep the arena in which they were made.
    until("some tables", || status()["heap_tables"].as_u64() >= Some(4));
    until("the recorder is as small as it was", || anonymous_kib(nilo) < before + 4096);
    assert_eq!(watched.end().code(), Some(0));
}

/// The private memory of a process that it really has.
fn anonymous_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

#[test]
fn a_post_mortem_tells_where_the_program_was() {
    let lab = Lab::new();
    let program =
        "def swell():\n    kept = []\n    while True:\n        kept.append(b'x' * (1 << 20))\nswell()";
    let run = lab.run(&["--max-rss", "100M", "--interval", "10ms"], &[&python(), "-c", program]);
    assert_eq!(run.code(), Some(75), "{}", run.stderr());
    let events = run.report["events"].as_array().expect("events");
    let stack = events.iter().find(|event| event["kind"] == "stack").unwrap_or_else(|| panic!("{events:#?}"));
    let text = stack["text"].as_str().expect("text");
    assert!(text.contains("swell (<string>:") && text.contains("< <module> (<string>:5)"), "{text}");
}
