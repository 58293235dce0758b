//! What memory is for, against what torch, MXNet, JAX and TensorFlow say of their own tensors.

use std::collections::BTreeMap;

use nilometer_lab::environment;
use serde_json::Value;

use crate::harness::{Lab, finish, py_program, text};

struct Trained {
    lab: Lab,
    truth: BTreeMap<String, u64>,
    allocs: Value,
}

impl Trained {
    fn category(&self, name: &str) -> Value {
        let all = self.allocs["by_category"].as_array().unwrap();
        all.iter().find(|it| it["category"] == name).cloned().unwrap_or_default()
    }

    fn kept(&self, name: &str) -> u64 {
        self.category(name)["kept_bytes"].as_u64().unwrap_or(0)
    }

    /// Parameters, gradients and the optimizer's state to the byte, and all adds up.
    fn check(&self, what: &str) {
        let found = ["parameters", "gradients", "optimizer state"].map(|name| self.kept(name));
        let truth = ["parameters", "gradients", "state"].map(|name| self.truth[name]);
        assert_eq!(found, truth, "{what}: {:#}", self.allocs["by_category"]);
        let all = self.allocs["by_category"].as_array().unwrap();
        let sum: u64 = all.iter().map(|it| it["peak_bytes"].as_u64().unwrap()).sum();
        assert_eq!(sum, self.allocs["peak"]["bytes"], "{what}");
        let other = self.category("other")["peak_bytes"].as_u64().unwrap_or(0);
        assert!(other * 20 <= sum, "{what}: other is {other} of {sum}");
        assert_eq!(
            self.category("gradients")["confidence"],
            "high",
            "{what}: {:#}",
            self.category("gradients")
        );
    }
}

fn train(python: &str, words: &[&str]) -> Trained {
    train_with(python, "torch_train.py", words)
}

fn train_with(python: &str, program: &str, words: &[&str]) -> Trained {
    let lab = Lab::new();
    let program = py_program(program);
    let mut run = lab.nilo(["run", "--allocs=all", "-q", "-o", "out", "--", python, &program]);
    let output = finish(run.args(words).env("MEMORY_PROFILE", lab.path("memory.prof")));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let truth = told.lines().filter_map(|line| line.split_once(' '));
    let truth = truth.map(|(name, bytes)| (name.to_owned(), bytes.parse().unwrap())).collect();
    let allocs = document(&lab, "out");
    Trained { lab, truth, allocs }
}

fn document(lab: &Lab, run: &str) -> Value {
    let shown = finish(&mut lab.nilo(["report", run, "--view", "allocs", "--json", "--top", "1"]));
    serde_json::from_slice(&shown.stdout).unwrap()
}

fn check_torch(release: &str, words: &[&str]) -> Option<Trained> {
    let trained = train(&environment(&[&format!("torch-{release}")])?, words);
    trained.check(&format!("{release} {}", words.join(" ")));
    Some(trained)
}

#[test]
fn adamw_is_told_to_the_byte() {
    let Some(trained) = check_torch("2.15", &["mlp", "adamw"]) else { return };
    assert_eq!(trained.category("optimizer state")["evidence"], "sizes are those of parameters, 2 for each");
    let layers = trained.category("parameters")["layers"].to_string();
    assert!(layers.contains("embedding") && layers.contains("linear"), "{layers}");
    let peaks = trained.allocs["phase_peaks"].to_string();
    assert!(["forward", "backward", "optimizer"].iter().all(|phase| peaks.contains(phase)), "{peaks}");
}

#[test]
fn adamw_is_told_to_the_byte_in_torch_1() {
    check_torch("1.13", &["mlp", "adamw"]);
}

#[test]
fn momentum_is_told_to_the_byte_in_torch_2_0() {
    check_torch("2.0", &["mlp", "momentum"]);
}

#[test]
fn gradients_that_are_kept_are_told_to_the_byte() {
    check_torch("2.15", &["mlp", "momentum", "keep"]);
}

#[test]
fn gradients_that_go_without_an_optimizer_of_memory_are_told_to_the_byte() {
    check_torch("2.15", &["cnn", "sgd", "end"]);
}

#[test]
fn accumulated_gradients_are_told_to_the_byte() {
    check_torch("2.15", &["lstm", "adamw", "accumulate"]);
}

#[test]
fn a_forward_pass_inside_a_backward_one_is_told_to_the_byte() {
    check_torch("2.15", &["mlp", "adamw", "checkpoint"]);
}

#[test]
fn mxnet_has_its_parameters_to_the_byte_and_the_rest_by_sizes() {
    let Some(python) = environment(&["mxnet"]) else { return };
    let trained = train_with(&python, "mxnet_train.py", &[]);
    // A stand-in of one byte for what is not known yet is copied, too.
    let (found, truth) = (trained.kept("parameters"), trained.truth["parameters"]);
    assert!((truth..truth + 64).contains(&found), "{found} of {truth}: {:#}", trained.allocs["by_category"]);
    // Its engine takes memory on threads without Python; tensors below 1 KiB are not looked at.
    for (name, truth) in [("gradients", "gradients"), ("optimizer state", "state")] {
        let (found, truth) = (trained.kept(name), trained.truth[truth]);
        let off = found.abs_diff(truth);
        assert!(off * 1000 <= truth, "{name}: {found} of {truth}: {:#}", trained.allocs["by_category"]);
    }
}

#[test]
fn jax_has_what_it_carries_from_step_to_step() {
    let Some(python) = environment(&["jax"]) else { return };
    let trained = train_with(&python, "jax_train.py", &[]);
    // The batch lives on, too: 128 × 512 numbers and 128 labels.
    let truth = trained.truth["parameters"] + trained.truth["state"] + 128 * 513 * 4;
    let found = trained.kept("train state");
    assert!(found.abs_diff(truth) * 100 <= truth, "{found} of {truth}: {:#}", trained.allocs["by_category"]);
    // JAX's own profile of the same moment says the same, with the loss and a key.
    let said = finish(&mut trained.lab.nilo(["import", "memory.prof", "-o", "profile"]));
    assert!(text(&said.stderr).contains("memory.prof is a jax profile"), "{}", text(&said.stderr));
    let profile =
        Trained { truth: trained.truth, allocs: document(&trained.lab, "profile"), lab: trained.lab };
    let found = profile.kept("train state");
    assert!(
        (truth..truth + 1024).contains(&found),
        "{found} of {truth}: {:#}",
        profile.allocs["by_category"]
    );
}

/// Within one part in a thousand: Keras makes some numbers beside its weights (seeds, counters).
fn check_tensorflow(trained: &Trained, categories: &[(&str, &str)]) {
    let told = &trained.allocs["by_category"];
    for (name, truth) in categories {
        let (found, truth) = (trained.kept(name), trained.truth[*truth]);
        assert!(found.abs_diff(truth) * 1000 <= truth, "{name}: {found} of {truth}: {told:#}");
    }
    let sum = trained.allocs["peak"]["bytes"].as_u64().unwrap();
    let other = trained.category("other")["peak_bytes"].as_u64().unwrap_or(0);
    assert!(other * 20 <= sum, "other is {other} of {sum}: {told:#}");
}

#[test]
fn an_eager_keras_training_is_told_by_its_frames() {
    let Some(python) = environment(&["tensorflow"]) else { return };
    let trained = train_with(&python, "tensorflow_train.py", &["eager"]);
    let categories =
        [("parameters", "parameters"), ("gradients", "parameters"), ("optimizer state", "state")];
    check_tensorflow(&trained, &categories);
}

/// Its steps run on threads without Python: what they take is not told apart, and nothing is told wrongly.
#[test]
fn a_compiled_keras_training_has_its_parameters_and_no_wrong_state() {
    let Some(python) = environment(&["tensorflow"]) else { return };
    let trained = train_with(&python, "tensorflow_train.py", &["compiled"]);
    check_tensorflow(&trained, &[("parameters", "parameters")]);
    let few = trained.truth["parameters"] / 1000;
    assert!(trained.kept("optimizer state") <= few, "{:#}", trained.allocs["by_category"]);
    assert!(trained.kept("gradients") <= few, "{:#}", trained.allocs["by_category"]);
}

#[test]
fn a_pool_of_tensorflow_is_not_taken_for_parameters() {
    let Some(python) = environment(&["tensorflow"]) else { return };
    let trained = train_with(&python, "tensorflow_train.py", &["pooled"]);
    check_tensorflow(&trained, &[]);
    let (found, truth) = (trained.kept("parameters"), trained.truth["parameters"]);
    assert!(found <= truth, "{found} of {truth}: {:#}", trained.allocs["by_category"]);
    let pool = trained.category("workspace")["peak_bytes"].as_u64().unwrap_or(0);
    assert!(pool >= trained.truth["parameters"] + trained.truth["state"], "{pool}");
}
