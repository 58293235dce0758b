//! Ledgers within a run: taken as a process grows, told near the peak, and never by stopping it unless asked.

use std::path::Path;

use serde_json::{Value, json};

use crate::control::{ask, socket_of};
use crate::harness::{Lab, finish, py_program, text};
use crate::onlooker::until;
use crate::watched::{MIB, Watched, assert_near, python};

fn start<'l>(lab: &'l Lab, options: &[&str]) -> Watched<'l> {
    // Unoptimized and on a loaded machine they cost more than 1 % of these seconds.
    let options = [options, &["--budget", "90%", "--interval", "20ms"][..]].concat();
    let mut watched = Watched::start(lab, &options, &[&python(), &py_program("where_grow.py")]);
    assert_eq!(watched.dialogue.line(), "ready");
    watched
}

/// Until so many ledgers were taken.
fn ledgers(watched: &Watched<'_>, count: u64) {
    let socket = socket_of(&watched.directory);
    until("ledgers", || ask(&socket, r#"{"do":"status"}"#)["ledgers"].as_u64() >= Some(count));
}

#[track_caller]
fn place(lab: &Lab, words: &[&str]) -> String {
    let output = finish(lab.nilo(["where"]).args(words).env("LC_ALL", "C.UTF-8"));
    assert_eq!(output.status.code(), Some(0), "nilo where {words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn document(lab: &Lab, words: &[&str]) -> Value {
    serde_json::from_str(&place(lab, &[words, &["--json"]].concat())).expect("one JSON document")
}

fn line(parts: &Value, name: &str) -> u64 {
    let parts = parts.as_array().expect("parts");
    parts.iter().filter(|part| part["name"] == name).filter_map(|part| part["bytes"].as_u64()).sum()
}

/// Adds up to the byte, and the residual is that of an estimate at most.
#[track_caller]
fn check_closes(ledger: &Value) {
    let sum: i64 =
        ledger["parts"].as_array().expect("parts").iter().filter_map(|p| p["bytes"].as_i64()).sum();
    let (rss, residual) = (ledger["rss_bytes"].as_i64().unwrap(), ledger["residual_bytes"].as_i64().unwrap());
    assert_eq!(sum + residual, rss);
    assert!(residual.abs() * 20 <= rss, "residual {residual} of {rss}");
}

fn check_schema(document: &Value) {
    let schema = serde_json::from_str(nilometer_report::ledger::json::SCHEMA).expect("the schema");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(document).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn a_run_keeps_ledgers_as_it_grows_and_never_stops_for_them() {
    let lab = Lab::new();
    let mut watched = start(&lab, &[]);
    watched.order("buffers 96", "bytes");
    ledgers(&watched, 1);
    let floats = watched.order("floats 3000000", "bytes");
    ledgers(&watched, 2);
    let run = watched.end();
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert!(run.number("cost/pause_s").abs() < 1e-9, "{:#}", run.report["cost"]);
    let curve = &run.report["ledgers"]["curve"];
    assert!(curve.as_array().is_some_and(|curve| curve.len() >= 2), "{curve:#}");

    let found = document(&lab, &["run.nilo"]);
    check_schema(&found);
    check_closes(&found);
    found["ledgers"].as_array().expect("all of them").iter().for_each(check_closes);
    assert_eq!(found["badge"], "estimated");
    assert_near("buffers", line(&found["parts"], "arrays"), 96 * MIB, MIB);
    // The last look may have come while the floats were still being made: at most 64 MiB, or a tenth, are missing.
    let objects = line(&found["parts"], "python_objects");
    assert!(objects > floats / 4 && objects < floats * 2, "{objects} of {floats}: {:#}", found["parts"]);
    assert!(found["from_peak_s"].as_f64().is_some_and(f64::is_finite));

    let screen = place(&lab, &["run.nilo"]);
    assert!(screen.contains("the peak") && screen.contains("(estimated: read"), "{screen}");
    assert!(place(&lab, &["run.nilo", "--curve"]).contains("* nearest to the peak"));
    assert!(place(&lab, &["run.nilo", "--line"]).contains("= code"));
    let first = document(&lab, &["run.nilo", "--at", "0s"]);
    assert_eq!(first["at_s"], found["ledgers"][0]["at_s"]);
    let report = text(&finish(&mut lab.nilo(["report", "run.nilo"])).stdout);
    assert!(report.contains("made of") && report.contains("nilo where"), "{report}");
    // The verdict tells it by the ledger only where that shows most of the peak, and this program may end before.
    assert!(report.contains("Made of, MiB") && report.contains("arrays"), "{report}");
}

#[test]
fn exact_ledgers_stop_it_for_one_percent_at_most_and_none_is_none() {
    let lab = Lab::new();
    let mut watched = start(&lab, &["--ledger=exact"]);
    watched.order("buffers 96", "bytes");
    ledgers(&watched, 1);
    let run = watched.end();
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let found = document(&lab, &["run.nilo"]);
    assert_eq!(found["badge"], "exact", "{:#}", found["notes"]);
    assert_near("buffers", line(&found["parts"], "arrays"), 96 * MIB, MIB);
    assert!(run.number("cost/pause_s") > 0.0, "{:#}", run.report["cost"]);
}

#[test]
fn without_ledgers_the_run_says_so() {
    let lab = Lab::new();
    let mut watched = start(&lab, &["--no-ledger"]);
    watched.order("buffers 96", "bytes");
    watched.ticks_pass();
    assert_eq!(watched.end().code(), Some(0));
    let output = finish(&mut lab.nilo(["where", "run.nilo"]));
    assert_eq!(output.status.code(), Some(5));
    let told = text(&output.stderr);
    assert!(told.contains("no ledger") && told.contains("hint: ") && told.contains("nilo report"), "{told}");
}

#[test]
fn a_ledger_is_taken_for_who_asks_the_socket() {
    let lab = Lab::new();
    let mut watched = start(&lab, &["--no-ledger"]);
    watched.order("buffers 16", "bytes");
    let socket = socket_of(&watched.directory);
    let status = ask(&socket, r#"{"do":"status"}"#);
    let path = lab.path("asked.ledger");
    let request = |pid: &Value, path: &Path| json!({"do": "ledger", "pid": pid, "path": path}).to_string();
    assert_eq!(ask(&socket, &request(&status["processes"][0]["pid"], &path)), json!({"ok": true}));
    until("the ledger is there", || path.exists());
    let ledger: Value = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
    check_closes(&ledger);
    assert_eq!(ledger["badge"], "exact");
    assert_near("buffers", line(&ledger["parts"], "arrays"), 16 * MIB, MIB);
    let refused = ask(&socket, &request(&json!(1), &lab.path("other.ledger")));
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("not of this")), "{refused}");
    assert_eq!(watched.end().code(), Some(0));
}
