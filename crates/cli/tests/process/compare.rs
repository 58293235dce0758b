//! `nilo compare`: real runs, gates, revisions; unchanged code is never called changed.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{Dialogue, Lab, finish, finish_child, py_program, text};
use crate::schema::validate;
use crate::watched::python;

/// Repeats of the known program into `FOLDER/N.nilo`. By the interpreter itself: of a wrapper that had children of its
/// own the last mark is not known for certain.
fn repeats(lab: &Lab, folder: &str, count: usize, arguments: &[&str]) {
    let python = python();
    for number in 0..count {
        let mut nilo = lab.nilo([
            "run",
            "-q",
            "--interval",
            "20ms",
            "-o",
            &format!("{folder}/{number}.nilo"),
            "--",
            &python,
        ]);
        let output = finish(nilo.arg(py_program("batch.py")).args(arguments).stdin(Stdio::null()));
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

fn compare(lab: &Lab, words: &[&str]) -> Output {
    let mut nilo = lab.nilo(["compare"]);
    finish(nilo.args(words).stdin(Stdio::null()))
}

fn json(output: &Output) -> Value {
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    validate(nilometer_report::compare::SCHEMA, &document);
    document
}

fn change<'a>(document: &'a Value, metric: &str) -> &'a Value {
    let changes = document["others"][0]["changes"].as_array().expect("changes");
    changes
        .iter()
        .find(|change| change["metric"] == metric)
        .unwrap_or_else(|| panic!("{metric} in {changes:?}"))
}

#[test]
fn a_change_is_measured_named_and_gated() {
    let lab = Lab::new();
    repeats(&lab, "base", 3, &["10"]);
    repeats(&lab, "new", 3, &["18"]);
    let gates =
        ["--fail-if", "peak > +5%", "--fail-if", "peak > 1GiB", "--fail-if", "category.activations > 2GiB"];
    let output = compare(&lab, &[&["base", "new", "--json"], &gates[..]].concat());
    assert_eq!(output.status.code(), Some(1), "a broken gate outweighs one without evidence");
    let document = json(&output);
    let peak = change(&document, "peak");
    assert_eq!((peak["verdict"].as_str(), &peak["assumed"]), (Some("grew"), &Value::Bool(false)));
    let mib = f64::from(8 << 20);
    assert!(peak["low"].as_f64().unwrap() <= mib && mib <= peak["high"].as_f64().unwrap(), "{peak}");
    let judged: Vec<_> = document["others"][0]["gates"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|g| g["judgement"].as_str())
        .collect();
    assert_eq!(judged, ["broken", "kept", "not-enough-evidence"]);
    let differences = document["others"][0]["differences"].to_string();
    assert!(differences.contains("\"10\"") && differences.contains("\"18\""), "{differences}");

    let unknown = compare(&lab, &["base", "new", "--fail-if", "category.activations > 2GiB"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert!(text(&unknown.stdout).contains("no figure `category.activations`"), "{}", text(&unknown.stdout));
    let markdown = compare(&lab, &["base", "new", "--markdown", "--fail-if", "peak > +5%"]);
    assert!(text(&markdown.stdout).contains("| peak |") && text(&markdown.stdout).contains("**broken**"));
}

#[test]
fn unchanged_code_keeps_its_gates() {
    let lab = Lab::new();
    repeats(&lab, "all", 12, &["10"]);
    for round in 0..5 {
        let sides = ["a", "b"].map(|side| format!("{side}{round}"));
        for (place, side) in sides.iter().enumerate() {
            fs::create_dir(lab.path(side)).expect("create");
            for number in 0..3 {
                let from = lab.path("all").join(format!("{}.nilo", (round + 2 * number + place * 6) % 12));
                std::os::unix::fs::symlink(from, lab.path(side).join(format!("{number}.nilo")))
                    .expect("link");
            }
        }
        let output =
            compare(&lab, &[&sides[0], &sides[1], "--fail-if", "peak > +5%", "--fail-if", "largest > +5%"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    }
    let single = compare(&lab, &["all/0.nilo", "all/1.nilo", "--fail-if", "peak > +5%"]);
    assert_eq!(single.status.code(), Some(0));
    assert!(text(&single.stdout).contains("single runs"), "{}", text(&single.stdout));
}

#[test]
fn repeats_in_one_recording_tell_the_noise() {
    let lab = Lab::new();
    for (name, batch) in [("a.nilo", "10"), ("b.nilo", "30")] {
        let mut nilo =
            lab.nilo(["run", "-q", "--interval", "10ms", "--repeat", "3", "-o", name, "--", "python3"]);
        assert!(finish(nilo.args([&py_program("batch.py"), batch]).stdin(Stdio::null())).status.success());
    }
    let document = json(&compare(&lab, &["a.nilo", "b.nilo", "--json"]));
    let peak = change(&document, "peak");
    assert_eq!(
        (&peak["base"]["runs"], &peak["verdict"], &peak["assumed"]),
        (&3.into(), &"grew".into(), &false.into())
    );
}

/// Steps of 20 ms with a mark each; the word says what a step does with one MiB: nothing, keep it, or map one more file. (Of
/// one file that is there already the kernel may map far more than is touched.)
const STEPS: &str = "import mmap, os, sys, time
marks = open(os.environ['NILO_MARKS'], 'a', buffering=1)
MIB, steps, kept = 1 << 20, 120, []
for step in range(steps):
    marks.write(f'step {step}\\n')
    if sys.argv[1] == 'keep':
        kept.append(bytearray(b'x') * MIB)
    if sys.argv[1] == 'file':
        with open(f'{sys.argv[2]}.{step}', 'w+b') as file:
            file.write(b'x' * MIB)
            file.flush()
            kept.append(mmap.mmap(file.fileno(), MIB, prot=mmap.PROT_READ))
        sum(kept[-1][::mmap.PAGESIZE])
    time.sleep(0.02)
marks.write(f'step {steps}\\n')
os._exit(0)
";

/// The gate asks the leak verdict: what grows and is no leak keeps it.
#[test]
fn only_what_leaks_breaks_a_gate_on_leaks() {
    let lab = Lab::new();
    for name in ["base", "keep", "file"] {
        let place = format!("{name}.nilo");
        let mut nilo =
            lab.nilo(["run", "-q", "--interval", "10ms", "-o", &place, "--", &python(), "-c", STEPS]);
        let output = finish(nilo.args([name, "pages.bin"]).stdin(Stdio::null()));
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let gates = ["--fail-if", "leak > 700KB/step", "--fail-if", "leak > 1500KB/step", "--json"];
    let judged = |name: &str| {
        let output = compare(&lab, &[&["base", name], &gates[..]].concat());
        let document = json(&output);
        let all = document["others"][0]["gates"].as_array().expect("gates").clone();
        let words = |gate: &Value| (gate["judgement"].to_string(), gate["reason"].to_string());
        (output.status.code(), all.iter().map(words).collect::<Vec<_>>(), document)
    };
    let (code, gates, document) = judged("keep");
    let quoted = |judgement: &str, reason: &str| (format!("{judgement:?}"), format!("{reason:?}"));
    assert_eq!(gates, [quoted("broken", "grows"), quoted("kept", "grows")], "{document:#}");
    assert_eq!(code, Some(1));
    let rate = change(&document, "leak")["other"]["mean"].as_f64().expect("a rate") / f64::from(1 << 20);
    assert!((rate - 1.0).abs() < 0.1, "one MiB a step: {rate}");

    let (code, gates, document) = judged("file");
    assert_eq!((code, &gates[0]), (Some(0), &quoted("kept", "page cache")), "{document:#}");
    let report = finish(&mut lab.nilo(["report", "file", "--json"]));
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let trend = report["growth"]["bytes"].as_f64().expect("a trend");
    assert!(trend > 700e3, "its memory does grow, by {trend} B a step");
}

#[test]
fn sweeps_are_compared_point_by_point() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    for (name, extra) in [("one", "3"), ("two", "4")] {
        let words =
            ["sweep", "-q", "-o", name, "--set", "batch=4,8", "--", "python3", &program, "{batch}", extra];
        assert!(finish(lab.nilo(words).stdin(Stdio::null())).status.success());
    }
    let document = json(&compare(&lab, &["one", "two", "--json", "--fail-if", "peak > +20%"]));
    assert_eq!(document["others"][0]["points"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["others"][0]["gates"].as_array().map(Vec::len), Some(2));
    assert!(document["others"][0]["gates"][0]["gate"].as_str().unwrap().contains("batch=4"));
}

/// What grew between two snapshots is named by its kind.
#[test]
fn heap_snapshots_name_the_kind_that_grew() {
    let lab = Lab::new();
    let script = "import sys\nclass Node:\n    __slots__ = ('a', 'b')\nkept = []\nprint('ready', flush=True)\n\
                  sys.stdin.readline()\nfor _ in range(50_000):\n    node = Node()\n    kept.append(node)\nprint('grown', flush=True)\nsys.stdin.readline()\n";
    let mut target = Dialogue::start(Command::new("python3").args(["-c", script]));
    assert_eq!(target.line(), "ready");
    let pid = target.pid().to_string();
    let snapshot = |name: &str| finish(&mut lab.nilo(["heap", &pid, "-o", name]));
    let first = snapshot("before.heap");
    if !first.status.success() {
        nilometer_lab::skip("reading another process's memory", &text(&first.stderr));
        return;
    }
    target.say("grow");
    assert_eq!(target.line(), "grown");
    assert!(snapshot("after.heap").status.success());
    target.say("end");
    target.end();
    let document = json(&compare(&lab, &["before.heap", "after.heap", "--json", "--fail-if", "heap > +10%"]));
    let kinds = document["others"][0]["kinds"].as_array().expect("kinds");
    let node = kinds
        .iter()
        .find(|kind| kind["kind"].as_str().is_some_and(|k| k.contains("Node")))
        .unwrap_or_else(|| panic!("{kinds:?}"));
    assert_eq!((node["what"].as_str(), node["other_count"].as_f64()), (Some("new"), Some(50_000.0)));
}

/// The line that allocates more is named, though an edit above it moved every line.
#[test]
fn the_one_changed_line_is_named() {
    let lab = Lab::new();
    let program = |above: &str, size: &str| {
        format!(
            "{above}\ndef load():\n    return bytearray(b'd') * (30 << 20)\n\ndef forward():\n    return bytearray(b'a') * ({size} << 20)\n\ndata = load()\nkept = forward()\n"
        )
    };
    for (folder, text_of) in [("one", program("", "10")), ("two", program("import os\nimport sys\n", "24"))] {
        fs::create_dir(lab.path(folder)).expect("create");
        fs::write(lab.path(folder).join("train.py"), text_of).expect("write");
        let mut nilo =
            lab.nilo(["run", "-q", "--allocs=all", "-o", &format!("{folder}.nilo"), "--", "python3"]);
        let output = finish(nilo.arg(lab.path(folder).join("train.py")).stdin(Stdio::null()));
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let output = compare(&lab, &["one.nilo", "two.nilo", "--json"]);
    let document = json(&output);
    let sites = document["others"][0]["sites"].as_array().expect("sites");
    assert_eq!(sites.len(), 1, "{sites:#?}");
    assert_eq!(
        (sites[0]["place"].as_str(), sites[0]["what"].as_str()),
        (Some("forward (train.py:8)"), Some("grew"))
    );
    assert_eq!(sites[0]["base_line"], 6);
    let more = sites[0]["other_bytes"].as_f64().unwrap() - sites[0]["base_bytes"].as_f64().unwrap();
    assert!((more / f64::from(14 << 20) - 1.0).abs() < 0.01, "{more}");
}

fn git(directory: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@b.c"])
        .args(words)
        .current_dir(directory)
        .output()
        .expect("git");
    assert!(output.status.success(), "git {words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Two commits of the known program: the second needs 30 MiB more.
fn repository(lab: &Lab) -> std::path::PathBuf {
    let place = lab.path("repository");
    fs::create_dir(&place).expect("create");
    git(&place, &["init", "-q"]);
    let program = fs::read_to_string(py_program("batch.py")).expect("read");
    for (size, subject) in [("20 * MIB", "one"), ("50 * MIB", "two")] {
        fs::write(place.join("train.py"), program.replace("20 * MIB", size)).expect("write");
        git(&place, &["add", "."]);
        git(&place, &["commit", "-q", "-m", subject]);
    }
    place
}

fn worktrees(place: &Path) -> usize {
    git(place, &["worktree", "list"]).lines().count()
}

#[test]
fn revisions_run_in_worktrees_that_are_gone_afterwards() {
    let lab = Lab::new();
    let place = repository(&lab);
    let words = [
        "compare",
        "--rev",
        "HEAD~1",
        "--rev",
        "HEAD",
        "--repeat",
        "2",
        "-o",
        "kept",
        "--fail-if",
        "peak > +5%",
        "--json",
        "--",
        "python3",
        "train.py",
        "10",
    ];
    let output = finish(lab.nilo(words).current_dir(&place).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let document = json(&output);
    let more = change(&document, "peak")["change"].as_f64().unwrap();
    assert!((more / f64::from(30 << 20) - 1.0).abs() < 0.1, "{more}");
    assert!(document["others"][0]["differences"].to_string().contains("two"), "the commit's subject");
    assert_eq!(worktrees(&place), 1);
    assert!(place.join("kept").is_dir());
    assert_eq!(git(&place, &["status", "--porcelain"]), "");
}

#[test]
fn an_interrupted_comparison_leaves_no_worktree() {
    let lab = Lab::new();
    let place = repository(&lab);
    for name in ["ready", "go"] {
        assert!(Command::new("mkfifo").arg(lab.path(name)).status().expect("mkfifo").success());
    }
    let words = ["compare", "--rev", "HEAD~1", "--rev", "HEAD", "--", "python3", "train.py", "2"];
    let mut nilo = lab.nilo(words);
    nilo.current_dir(&place).env("NILO_READY", lab.path("ready")).env("NILO_GO", lab.path("go"));
    let child =
        nilo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    let mut said = String::new();
    fs::File::open(lab.path("ready")).expect("ready").read_to_string(&mut said).expect("read");
    assert_eq!(worktrees(&place), 3);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    let output = finish_child(child);
    assert_eq!(output.status.code(), Some(143), "{}", text(&output.stderr));
    assert_eq!(worktrees(&place), 1);
}

#[test]
fn mistakes_are_told() {
    let lab = Lab::new();
    for (words, code, why) in [
        (&["a.nilo"][..], 125, "does not exist"),
        (&[][..], 2, "two sides"),
        (&["a", "b", "--fail-if", "peak"], 2, "no > or <"),
        (&["a", "b", "--fail-if", "peak > 5%"], 2, "+5%"),
        (&["--rev", "x", "--", "true"], 2, "two revisions"),
        (&["--rev", "x", "--rev", "y", "--", "true"], 125, "git"),
    ] {
        let output = compare(&lab, words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
}
