//! Launchers of Python, for real: torchrun inside and outside, accelerate, `DeepSpeed`; one rank leaks, and it is named.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{Lab, finish, nilo_binary, py_program, text};
use crate::ranks::{assert_leak_is_named, document, job_in, launcher, python, system_ticks};

/// The interpreter of a test environment, and programs beside it.
fn environment(name: &str) -> Option<PathBuf> {
    nilometer_lab::environment(&[name]).map(PathBuf::from)
}

/// A meeting point of our own: tests run in parallel. Below those that the kernel gives to clients.
fn port() -> String {
    (10_000 + std::process::id() % 20_000).to_string()
}

fn torchrun(torch: &Path, ranks: u32) -> Vec<String> {
    let words =
        ["-m", "torch.distributed.run", "--master-port", &port(), "--nproc-per-node", &ranks.to_string()];
    let torch = torch.display().to_string();
    [torch.as_str()].into_iter().chain(words).map(str::to_owned).collect()
}

fn start(lab: &Lab, words: &[String], more: &[&str]) -> Output {
    let (program, options) = words.split_first().unwrap();
    let mut command: Command = launcher(lab, program);
    finish(command.args(options).args(more).env("OMP_NUM_THREADS", "1"))
}

/// `nilo VERB … -- python rank_steps.py …`: what stands behind the launcher's own words.
fn inner<'a>(verb: &[&'a str], program: &[&'a str]) -> Vec<&'a str> {
    [&[nilo_binary()], verb, &["--interval", "20ms", "--"], program].concat()
}

#[test]
fn torchrun_tells_eight_ranks_that_meet_at_every_step() {
    let Some(torch) = environment("torch-2.15") else { return };
    let lab = Lab::new();
    let (script, python) = (py_program("rank_steps.py"), torch.display().to_string());
    let mut words = torchrun(&torch, 8);
    words.push("--no-python".to_owned());
    let output = start(&lab, &words, &inner(&["run"], &[&python, &script, "5", "4", "12", "torch"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let job = job_in(&lab.path(""));
    let name = job.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("rank_steps.torchrun-"), "{name}");
    assert_leak_is_named(&document(&lab, &job), 8, 5, 4.0);
    let said = text(&output.stderr);
    assert!(said.contains("8 ranks on 1 node") && said.contains("rank 5 grows 4.0 MiB/step"), "{said}");
    let sampled: Vec<u64> = (0..8).map(|rank| system_ticks(&lab, &job, rank)).collect();
    let most = sampled.iter().max().unwrap();
    let seldom = sampled.iter().filter(|count| *count * 3 < *most).count();
    assert_eq!(seldom, 7, "one samples the node: {sampled:?}");
}

#[test]
fn the_outer_form_of_torchrun_gives_the_same_table() {
    let Some(torch) = environment("torch-2.15") else { return };
    let lab = Lab::new();
    let script = py_program("rank_steps.py");
    let words = torchrun(&torch, 3);
    let command: Vec<&str> =
        words.iter().map(String::as_str).chain([script.as_str(), "2", "4", "12", "torch"]).collect();
    let outer = lab.run(&["--interval", "20ms"], &command);
    assert_eq!(outer.code(), Some(0), "{}", outer.stderr());
    let rows = outer.report["ranks"].as_array().expect("ranks");
    assert_eq!(rows.iter().filter_map(|row| row["rank"].as_u64()).collect::<Vec<_>>(), [0, 1, 2]);
    let rate = rows[2]["growth"]["bytes"].as_f64().expect("a rate") / f64::from(1 << 20);
    assert!((rate / 4.0 - 1.0).abs() < 0.1, "{rate}");
    let said = outer.stderr();
    assert!(said.contains("rank 2 grows 4.0 MiB/step"), "the same sentence: {said}");
    let row = |rank: u32| said.lines().any(|line| line.trim_start().starts_with(&format!("{rank} ")));
    assert!((0..3).all(row), "the same rows: {said}");
}

/// A launcher from the environment of trainers, whose ranks are plain Python.
fn check(lab: &Lab, program: &str, options: &[&str]) {
    let Some(trainers) = environment("trainers") else { return };
    let words = vec![trainers.with_file_name(program).display().to_string()];
    let script = py_program("rank_steps.py");
    let own = inner(&["run"], &[python(), &script, "1", "2", "16"]);
    let output = start(lab, &words, &[options, &own].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_leak_is_named(&document(lab, &job_in(&lab.path(""))), 3, 1, 2.0);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert_eq!(said.matches("rank 1 grows 2.0 MiB/step").count(), 1, "one rank speaks: {said}");
}

#[test]
fn accelerate_tells_ranks() {
    let plain = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"];
    let ranks =
        ["launch", "--multi_gpu", "--num_processes", "3", "--main_process_port", &port(), "--no_python"];
    check(&Lab::new(), "accelerate", &[&ranks[..], &plain].concat());
}

#[test]
fn deepspeed_tells_ranks() {
    let ranks = ["--num_gpus", "3", "--master_port", &port(), "--no_python", "--no_local_rank"];
    check(&Lab::new(), "deepspeed", &ranks);
}

#[test]
fn of_ranks_that_are_judged_one_speaks_and_has_the_exit_code() {
    let Some(torch) = environment("torch-2.15") else { return };
    let lab = Lab::new();
    let script = py_program("rank_steps.py");
    let mut words = torchrun(&torch, 3);
    words.push("--no-python".to_owned());
    let own = inner(&["leak", "--json=verdict.json"], &[python(), &script, "1", "2", "60"]);
    let output = start(&lab, &words, &own);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(" verdict ").count(), 1, "{said}");
    let parts = ["3 ranks on 1 node", "rank 1 grows 2.0 MiB/step", "nilo: rank 1:", "GROWS +"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(said.contains("rank      : 0 (local_rank: 0)"), "the one that speaks: {said}");
    let verdict: serde_json::Value =
        serde_json::from_slice(&std::fs::read(lab.path("verdict.json")).unwrap()).unwrap();
    assert_eq!(verdict["class"], "grows", "{verdict:#}");
    let mib = verdict["rate_bytes_per_step"].as_f64().unwrap() / f64::from(1 << 20);
    assert!((mib / 2.0 - 1.0).abs() < 0.02, "{verdict:#}");
}
