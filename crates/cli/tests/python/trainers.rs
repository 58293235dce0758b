//! Real trainers, keepers of metrics and launchers of Python: what they are told, read back by their own readers.

use crate::harness::{Lab, finish, text};
use crate::interpreter::{framework, package, program};

/// A training in an environment; the steps that the recording has are those that the trainer counts.
fn check(which: &str, environment: &str) {
    let Some(python) = framework(environment) else { return };
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--", &python, &program("trainers.py"), which]);
    nilo.env("PYTHONPATH", package()).env("HOME", lab.path("")).env("OMP_NUM_THREADS", "1");
    let output = finish(&mut nilo);
    assert!(output.status.success(), "{which}: {}{}", text(&output.stdout), text(&output.stderr));
    let said = text(&output.stdout);
    let report = lab.report(&lab.path("run.nilo"));
    let counted = said.lines().find_map(|line| line.strip_prefix("steps ")).expect("steps");
    assert_eq!(report["steps_seen"].to_string(), counted, "{which}: {}", report["steps"]);
    if which == "lightning" {
        assert_eq!(report["phases"][0]["name"], "validation", "{}", report["phases"]);
    }
}

#[test]
fn lightning_counts_the_steps_of_its_optimizer_and_keeps_memory_beside_its_metrics() {
    check("lightning", "trainers");
}

#[test]
fn the_trainer_of_transformers_has_memory_in_its_logs_and_in_its_reporters() {
    check("huggingface", "trainers");
}

#[test]
fn keras_has_memory_in_its_history() {
    check("keras", "keras");
}

#[test]
fn weights_and_biases_mlflow_and_tensorboard_keep_what_is_forwarded() {
    check("keepers", "trainers");
}
