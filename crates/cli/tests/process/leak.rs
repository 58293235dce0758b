//! `nilo leak` on real programs of the corpus (`bench/leaks`), shortened; the whole corpus is judged by `cargo xtask bench leaks`.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{Lab, finish, text};
use crate::schema::validate;
use crate::watched::python;

/// Steps of 25 ms with a mark each; `{}` is what a step does.
const PROGRAM: &str = "import os, time
marks = open(os.environ['NILO_MARKS'], 'a', buffering=1)
kept = []
for step in range(160):
    marks.write(f'step {step}\\n')
    {}
    time.sleep(0.025)
";

struct Judged {
    code: Option<i32>,
    verdict: Value,
    screen: String,
    directory: PathBuf,
}

fn judge(lab: &Lab, options: &[&str], command: &[&str]) -> Judged {
    let mut nilo = lab.nilo(["leak", "-o", "run.nilo", "--force", "--json=verdict.json"]);
    nilo.args(options).arg("--").args(command);
    let output = finish(nilo.stdin(Stdio::null()));
    let screen = text(&output.stderr);
    let document =
        std::fs::read_to_string(lab.path("verdict.json")).unwrap_or_else(|_| panic!("no verdict: {screen}"));
    let verdict: Value = serde_json::from_str(&document).expect("JSON");
    validate(nilometer_report::leak::json::SCHEMA, &verdict);
    Judged { code: output.status.code(), verdict, screen, directory: lab.path("run.nilo") }
}

fn python_steps(lab: &Lab, options: &[&str], step: &str) -> Judged {
    judge(lab, options, &[&python(), "-c", &PROGRAM.replace("{}", step)])
}

#[test]
fn a_growing_list_is_a_leak_with_rate_and_holder() {
    let lab = Lab::new();
    let judged = python_steps(&lab, &["--junit", "leak.xml"], "kept.append(bytearray(b'x' * 200_000))");
    assert_eq!(judged.code, Some(1), "{}", judged.screen);
    assert_eq!(judged.verdict["class"], "grows", "{}", judged.screen);
    let rate = judged.verdict["rate_bytes_per_step"].as_f64().expect("a rate");
    assert!((rate / 200_000.0 - 1.0).abs() < 0.1, "{rate}: {}", judged.screen);
    assert!(judged.screen.contains("GROWS +19") && judged.screen.contains("forecast"), "{}", judged.screen);
    let xml = std::fs::read_to_string(lab.path("leak.xml")).expect("a file");
    assert!(xml.contains("failures=\"1\"") && xml.contains("grows: +19"), "{xml}");
    // The same run again, and allowed.
    let run = judged.directory.display().to_string();
    let again = finish(&mut lab.nilo(["leak", &run, "--allow", "1MB/step"]));
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).contains("GROWS"), "{}", text(&again.stdout));
    let gate =
        finish(&mut lab.nilo(["leak", &run, "-q", "--allow", "1MB/step", "--fail-if", "rate > 100K/step"]));
    assert_eq!((gate.status.code(), text(&gate.stdout)), (Some(1), String::new()));
}

/// As deep as the data goes: the line that allocates what stays, with its rate.
#[test]
fn with_allocations_the_line_of_code_is_a_place() {
    let lab = Lab::new();
    let program = PROGRAM.replace("{}", "kept.append(bytearray(b'x' * 200_000)); other = bytearray(300_000)");
    std::fs::write(lab.path("train.py"), program).expect("a file");
    let judged = judge(&lab, &["--allocs=all"], &[&python(), "train.py"]);
    assert_eq!(
        (judged.code, &judged.verdict["class"]),
        (Some(1), &Value::from("grows")),
        "{}",
        judged.screen
    );
    let places = judged.verdict["places"].as_array().expect("places");
    let sites: Vec<&Value> = places.iter().filter(|place| place["depth"] == "site").collect();
    assert_eq!(sites.len(), 1, "{places:#?}");
    assert!(sites[0]["name"].as_str().is_some_and(|name| name.contains("train.py:6")), "{places:#?}");
    let rate = sites[0]["rate_bytes_per_step"].as_f64().expect("a rate");
    assert!((rate / 200_001.0 - 1.0).abs() < 0.01, "{rate}");
    assert!(
        judged.screen.contains("allocated by") && judged.screen.contains("train.py:6"),
        "{}",
        judged.screen
    );
    assert!(!judged.screen.contains("which code allocates it"), "{}", judged.screen);
}

#[test]
fn what_is_freed_is_none() {
    let lab = Lab::new();
    let judged = python_steps(&lab, &[], "kept = [bytearray(b'x' * 200_000)]");
    assert_eq!(judged.code, Some(0), "{}", judged.screen);
    let class = judged.verdict["class"].as_str().expect("a class");
    assert!(matches!(class, "steady" | "warm-up then flat"), "{class}");
    assert!(judged.verdict["smallest_detectable"].as_f64() < Some(100_000.0));
}

#[test]
fn a_failing_command_is_told_and_a_short_one_cannot_be_judged() {
    let lab = Lab::new();
    let failed = judge(&lab, &[], &["sh", "-c", "exit 7"]);
    assert_eq!((failed.code, &failed.verdict["target"]["code"]), (Some(4), &Value::from(7)));
    let short = judge(&lab, &[], &["true"]);
    assert_eq!((short.code, &short.verdict["class"]), (Some(3), &Value::from("cannot tell")));
    let refused = judge(&lab, &["--fail-if", "cannot tell"], &["true"]);
    assert_eq!(refused.code, Some(1));
}

#[test]
fn serial_runs_that_leave_a_file_in_memory_are_named() {
    let lab = Lab::new();
    let name = format!("/dev/shm/nilo-leak-test-{}", std::process::id());
    let leave = format!("head -c 2000000 /dev/zero > {name}-$(date +%s%N)");
    let judged = judge(&lab, &["--repeat", "8"], &["sh", "-c", &leave]);
    let left: Vec<PathBuf> = std::fs::read_dir("/dev/shm")
        .expect("/dev/shm")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.display().to_string().starts_with(&name))
        .collect();
    for path in &left {
        std::fs::remove_file(path).expect("ours");
    }
    assert_eq!(left.len(), 8);
    assert_eq!(judged.code, Some(1), "{}", judged.screen);
    assert_eq!(judged.verdict["class"], "outlives the process");
    let rate = judged.verdict["rate_bytes_per_step"].as_f64().expect("a rate");
    assert!((rate / 2_000_000.0 - 1.0).abs() < 0.1, "{rate}");
    let runs = judged.verdict["runs"].as_array().expect("runs");
    assert_eq!((runs.len(), &runs[7]["n"], &runs[7]["exit"]), (8, &Value::from(8), &Value::from(0)));
    assert!(
        runs.iter().all(|run| run["remains"].as_str().is_some_and(|what| what.starts_with(&name))),
        "{runs:#?}"
    );
    let log = std::fs::read_to_string(judged.directory.join("run.log")).expect("run.log");
    assert_eq!(log.lines().count(), 9);
    assert!(log.starts_with("n,start,seconds,exit,peak_bytes,left_behind_bytes\n1,20"), "{log}");
}

#[test]
fn wrong_words_are_answered() {
    let lab = Lab::new();
    let told = |arguments: &[&str]| {
        let output = finish(&mut lab.nilo([&["leak"], arguments].concat()));
        (output.status.code(), text(&output.stderr))
    };
    let (code, words) = told(&["--allow", "1MB", "@last"]);
    assert!(code == Some(2) && words.contains("1MB/step"), "{words}");
    let (code, words) = told(&["python"]);
    assert!(code == Some(125) && words.contains("nilo leak -- python"), "{words}");
    let (code, words) = told(&["--allocs", "@last"]);
    assert!(code == Some(125) && words.contains("nilo leak --allocs -- python"), "{words}");
    let (code, words) = told(&["--repeat", "3"]);
    assert!(code == Some(2) && words.contains("COMMAND"), "{words}");
    let (code, words) = told(&["999999999"]);
    assert!(code == Some(125) && words.contains("no process 999999999"), "{words}");
    assert!(!words.contains("watching"), "{words}");
}
