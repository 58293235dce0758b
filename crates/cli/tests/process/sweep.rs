//! `nilo sweep`: real runs of a program whose memory is known.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{Lab, finish, finish_child, py_program, text};
use crate::schema::validate;
use crate::watched::python;

const MIB: f64 = 1_048_576.0;

fn sweep(lab: &Lab, options: &[&str], command: &[&str]) -> (Output, Value) {
    let mut nilo = lab.nilo(["sweep"]);
    nilo.args(options).arg("--json").arg("--").args(command).env("NILO_RUNS", lab.path("runs"));
    let output = finish(nilo.stdin(Stdio::null()));
    let document = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, document)
}

fn outcomes(document: &Value) -> Vec<&str> {
    document["points"]
        .as_array()
        .expect("points")
        .iter()
        .filter_map(|point| point["outcome"].as_str())
        .collect()
}

fn runs(lab: &Lab) -> Vec<String> {
    fs::read_to_string(lab.path("runs")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_law_of_a_known_program_predicts_what_was_not_run() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    let (output, document) =
        sweep(&lab, &["--set", "batch=10,40,80,20", "--at", "step=0,2"], &["python3", &program, "{batch}"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, &document);
    assert_eq!(outcomes(&document), ["ok"; 4]);
    let batches: Vec<f64> =
        document["points"].as_array().unwrap().iter().filter_map(|p| p["params"]["batch"].as_f64()).collect();
    assert_eq!(batches, [10.0, 20.0, 40.0, 80.0], "smallest first");
    let per_batch = document["fit"]["coefficients"]["batch"].as_f64().expect("a slope");
    assert!((per_batch / MIB - 1.0).abs() < 0.03, "{per_batch}");
    assert!(
        document["fit"]["ci95"]["batch"][0].as_f64() <= Some(MIB)
            && document["fit"]["ci95"]["batch"][1].as_f64() >= Some(MIB)
    );
    assert_eq!(document["points"][0]["at"].as_array().map(Vec::len), Some(2));

    let asked = finish(&mut lab.nilo([
        "sweep",
        "batch.sweep",
        "--predict",
        "batch=60",
        "--predict",
        "batch=400",
        "--json",
    ]));
    let asked: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    let told = &asked["groups"][0]["predictions"];
    let held_out = lab.run(&["-q"], &["python3", &program, "60"]).number("peak/bytes");
    let number = |place: usize, name: &str| told[place]["prediction"][name].as_f64();
    assert!((number(0, "value").unwrap() / held_out - 1.0).abs() < 0.05, "{told} {held_out}");
    assert!(
        number(0, "low").unwrap() <= held_out && held_out <= number(0, "high").unwrap(),
        "{told} {held_out}"
    );
    assert_eq!((number(0, "beyond"), number(1, "beyond")), (None, Some(5.0)));
    let screen = finish(&mut lab.nilo(["sweep", "batch.sweep", "--predict", "batch=400"]));
    assert!(text(&screen.stdout).contains("5.0× outside what was measured"), "{}", text(&screen.stdout));
}

#[test]
fn every_outcome_is_a_result() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    let options = ["--set", "batch=5,7,13,400", "--limit", "200M"];
    let (output, document) = sweep(&lab, &options, &["python3", &program, "{batch}"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, &document);
    assert_eq!(outcomes(&document), ["ok", "failed", "oom", "stopped"]);
    let said = text(&output.stderr);
    assert!(said.contains("a batch of seven") && said.contains("--max-pss"), "{said}");
    assert!(document["notes"].to_string().contains("3 of 4 runs did not end well"), "{}", document["notes"]);
    let (output, _) =
        sweep(&lab, &["--set", "batch=7", "-o", "seven.sweep"], &["python3", &program, "{batch}"]);
    assert_eq!(output.status.code(), Some(4), "the command failed everywhere");
    let shown = text(&finish(&mut lab.nilo(["sweep", "seven.sweep"])).stdout);
    let (_, why) = shown.trim_end().rsplit_once("→ tail ").unwrap_or_else(|| panic!("{shown}"));
    assert!(fs::read_to_string(lab.path(why)).expect(why).contains("a batch of seven"), "{why}");
}

#[test]
fn points_end_early_when_enough_was_seen() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    let options = ["--set", "batch=5,10,20", "--stop-after", "settled", "--with=--interval", "--with=20ms"];
    let (output, document) = sweep(&lab, &options, &["python3", &program, "{batch}", "1000000"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(outcomes(&document), ["enough"; 3]);
    let per_batch = document["fit"]["coefficients"]["batch"].as_f64().expect("a slope");
    assert!((per_batch / MIB - 1.0).abs() < 0.1, "{per_batch}");
    let notes = document["notes"].to_string();
    assert!(notes.contains("no checkpoint or evaluation seen"), "{notes}");
}

#[test]
fn the_largest_that_fits_is_found_and_has_run() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    let options = ["--find", "batch=1..2000", "--limit", "150M"];
    let (output, document) = sweep(&lab, &options, &["python3", &program, "{batch}"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, &document);
    let fits = &document["fits"];
    let largest = fits["largest"].as_f64().expect("something fits");
    // Truth: what the program itself has beside the batch, measured at the smallest.
    let base = document["points"][0]["peak_bytes"].as_f64().unwrap() / MIB - 1.0;
    let truth = (150.0 - base).floor();
    assert!((truth - largest).abs() <= 2.0, "{largest} of {truth}: {fits}");
    assert_eq!(fits["verified"], true);
    assert!(fits["low"].as_f64() <= Some(truth) && Some(truth) <= fits["high"].as_f64(), "{truth}: {fits}");
    assert!(runs(&lab).len() <= 6, "{:?}", runs(&lab));
    let peaks = document["points"].as_array().unwrap().iter().filter_map(|p| p["peak_bytes"].as_f64());
    assert!(peaks.fold(0.0, f64::max) < 250.0 * MIB, "the watchdog keeps the limit");

    let (output, document) =
        sweep(&lab, &["--find", "batch=1..9", "--limit", "10M"], &["python3", &program, "{batch}"]);
    assert_eq!((output.status.code(), document["fits"]["largest"].clone()), (Some(1), Value::Null));
}

/// The coefficient of a term in the law of a figure.
fn coefficient(document: &Value, metric: &str, term: &str) -> f64 {
    let laws = document["groups"][0]["laws"].as_array().expect("laws");
    let law = laws.iter().find(|law| law["metric"] == metric);
    let law = law.unwrap_or_else(|| panic!("a law of {metric}: {laws:#?}"));
    law["coefficients"][term].as_f64().unwrap_or_else(|| panic!("{term} of {law:#}"))
}

#[test]
fn the_working_set_of_each_point_is_what_it_touches() {
    let lab = Lab::new();
    let program = py_program("touch.py");
    let options = ["--set", "batch=32,64,128", "--wss=150ms"];
    let (output, document) = sweep(&lab, &options, &[&python(), &program, "{batch}", "4"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, &document);
    // One MiB is touched for each unit of batch; the 60 MiB that nobody touches are in the peak only. Python itself touches
    // 1 to 2 MiB, which a law without a constant term has in its coefficient.
    let per_batch = coefficient(&document, "wss", "batch");
    assert!((per_batch / MIB - 1.0).abs() < 0.05, "{per_batch}");
    for point in document["points"].as_array().expect("points") {
        let batch = point["params"]["batch"].as_f64().expect("a batch");
        let wss = point["metrics"]["wss"].as_f64().expect("a working set") / MIB;
        assert!(wss >= batch * 0.95 && wss < batch + 8.0, "{batch} MiB and some of Python's own: {wss}");
        assert!(point["peak_bytes"].as_f64().expect("a peak") / MIB > batch + 60.0, "{point:#}");
    }
    let screen = finish(&mut lab.nilo(["sweep", "touch.sweep"]));
    let screen = text(&screen.stdout);
    assert!(screen.contains(" wss ") && screen.contains("law      wss = "), "{screen}");
    // Each run shows its windows again.
    let pages = finish(&mut lab.nilo(["pages", "touch.sweep/003.batch=128.r1", "--json"]));
    let pages: Value = serde_json::from_slice(&pages.stdout).expect("JSON");
    assert_eq!((&pages["backend"], &pages["injects"]), (&"mappings".into(), &Value::Null));
    assert!(pages["windows"].as_array().is_some_and(|windows| windows.len() >= 5), "{pages:#}");
}

#[test]
fn categories_of_each_point_are_those_that_torch_counts() {
    let Some(torch) = nilometer_lab::environment(&["torch-2.15"]) else { return };
    let lab = Lab::new();
    let program = py_program("torch_batch.py");
    let (output, document) =
        sweep(&lab, &["--set", "batch=2048,6144", "--allocs"], &[&torch, &program, "{batch}"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, &document);
    let mut saved = Vec::new();
    for (place, point) in document["points"].as_array().expect("points").iter().enumerate() {
        let batch = point["params"]["batch"].as_u64().expect("a batch");
        let said = lab.path(&format!("torch_batch.sweep/{:03}.batch={batch}.r1.out", place + 1));
        let said = fs::read_to_string(said).expect("its output");
        let truth = |name: &str| {
            let mut lines = said.lines();
            lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).expect(name)
        };
        // To the byte.
        for (category, name) in
            [("parameters", "parameters"), ("optimizer-state", "state"), ("activations", "saved")]
        {
            let found = point["metrics"][format!("category.{category}")].as_f64();
            assert_eq!(found, Some(truth(name)), "{category}: {point:#}");
        }
        saved.push((batch as f64, truth("saved")));
    }
    let slope = (saved[1].1 - saved[0].1) / (saved[1].0 - saved[0].0);
    let told = coefficient(&document, "category.activations", "batch");
    assert!((told / slope - 1.0).abs() < 0.01, "{told} B per example, torch saves {slope}");
    let screen = text(&finish(&mut lab.nilo(["sweep", "torch_batch.sweep"])).stdout);
    assert!(screen.contains(" batch=2048  batch=6144  part"), "{screen}");
    assert!(screen.contains("law      category.activations = "), "{screen}");
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let lab = Lab::new();
    let program = py_program("batch.py");
    for name in ["ready", "go"] {
        assert!(Command::new("mkfifo").arg(lab.path(name)).status().expect("mkfifo").success());
    }
    let command = |lab: &Lab| {
        let mut nilo = lab.nilo(["sweep", "--set", "batch=1,2,3", "--", "python3", &program, "{batch}"]);
        nilo.env("NILO_RUNS", lab.path("runs"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        nilo
    };
    let first = command(&lab)
        .env("NILO_READY", lab.path("ready"))
        .env("NILO_GO", lab.path("go"))
        .spawn()
        .expect("spawn");
    let mut said = String::new();
    fs::File::open(lab.path("ready")).expect("ready").read_to_string(&mut said).expect("read");
    assert_eq!(said, "ready\n");
    assert!(Command::new("kill").args(["-INT", &first.id().to_string()]).status().expect("kill").success());
    let first = finish_child(first);
    assert_eq!(first.status.code(), Some(130), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("--resume"), "{}", text(&first.stderr));
    assert_eq!(runs(&lab), ["1 -", "2 -"]);
    let asked = finish(&mut lab.nilo(["sweep", "batch.sweep", "--predict", "batch=3"]));
    assert_eq!(asked.status.code(), Some(3), "one run makes no law: {}", text(&asked.stdout));
    assert!(text(&asked.stdout).contains("→ nilo sweep batch.sweep --resume"), "{}", text(&asked.stdout));

    let second = finish(&mut command(&lab));
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert!(text(&second.stderr).contains("going on with"), "{}", text(&second.stderr));
    assert_eq!(runs(&lab), ["1 -", "2 -", "2 -", "3 -"], "what was there is not run again");
    let whole = finish(&mut lab.nilo(["sweep", "batch.sweep", "--json"]));
    let whole: Value = serde_json::from_slice(&whole.stdout).expect("JSON");
    assert_eq!(outcomes(&whole), ["ok"; 3]);
}

#[test]
fn sets_come_from_files_and_variables_and_are_printed() {
    let lab = Lab::new();
    fs::write(lab.path("sets.csv"), "batch,steps\n4,2\n2,1\n").expect("write");
    let words = [
        "sweep",
        "--sets",
        "sets.csv",
        "--set",
        "threads=1,2",
        "--on",
        "print",
        "--",
        "python3",
        "t.py",
        "{batch}",
        "{steps}",
    ];
    let printed = finish(&mut lab.nilo(words));
    let lines = text(&printed.stdout);
    assert_eq!(lines.lines().count(), 4, "{lines}");
    assert_eq!(lines.lines().next(), Some("OMP_NUM_THREADS=1 python3 t.py 2 1"));
    let program = py_program("batch.py");
    let (output, document) =
        sweep(&lab, &["--set", "threads=1,2", "--set", "batch=1"], &["python3", &program, "{batch}"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(runs(&lab), ["1 1", "1 2"]);
    assert_eq!(document["points"][1]["params"]["threads"], 2);
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let lab = Lab::new();
    for (words, why) in [
        (&["--set", "batch=1", "--", "true"][..], "{batch}"),
        (&["--set", "batch", "--", "true", "{batch}"], "has no ="),
        (&["--", "true"], "no parameter"),
        (&["--set", "batch=1"], "which command"),
        (&["--set", "b=1..9000", "--set", "c=1..9", "--", "true", "{b}", "{c}"], "--random"),
        (&["--set", "b=1", "--stop-after", "soon", "--", "true", "{b}"], "settled"),
        (&["--find", "b=x,y", "--limit", "1G", "--", "true", "{b}"], "only numbers"),
        (&["--set", "b=1", "--at", "noon", "--", "true", "{b}"], "step=0,100"),
    ] {
        let mut nilo = lab.nilo(["sweep"]);
        let output = finish(nilo.args(words));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let output = finish(&mut lab.nilo(["sweep", "--set", "b=1", "--", "no-such-command-at-all", "{b}"]));
    assert_eq!(output.status.code(), Some(127));
    let left: Vec<_> = fs::read_dir(lab.path("")).expect("lab").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".sweep")), "{left:?}");
}
