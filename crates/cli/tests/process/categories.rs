//! What memory is for, against what torch says of its own tensors.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Lab, finish, py_program, skip, text};

/// An interpreter with that release of torch, where it is to be had.
fn torch(release: &str) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/tests/programs/torch_env.sh");
    let output = finish(Command::new("sh").arg(script).arg(release));
    if !output.status.success() {
        skip("torch", &text(&output.stderr));
        return None;
    }
    Some(text(&output.stdout).trim().to_owned())
}

struct Trained {
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
    let lab = Lab::new();
    let program = py_program("torch_train.py");
    let mut run = lab.nilo(["run", "--allocs=all", "-q", "-o", "out", "--", python, &program]);
    let output = finish(run.args(words));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let truth = told.lines().filter_map(|line| line.split_once(' '));
    let truth = truth.map(|(name, bytes)| (name.to_owned(), bytes.parse().unwrap())).collect();
    let shown = finish(&mut lab.nilo(["report", "out", "--view", "allocs", "--json", "--top", "1"]));
    Trained { truth, allocs: serde_json::from_slice(&shown.stdout).unwrap() }
}

#[test]
fn adamw_is_told_to_the_byte_in_each_release() {
    for release in ["1.13", "2.0", "2.15"] {
        let Some(python) = torch(release) else { continue };
        let trained = train(&python, &["mlp", "adamw"]);
        trained.check(release);
        assert_eq!(trained.category("optimizer state")["confidence"], "high", "{release}");
    }
}

#[test]
fn momentum_kept_gradients_accumulation_and_checkpoints_are_told_to_the_byte() {
    let Some(python) = torch("2.15") else { return };
    for words in [
        &["mlp", "momentum"][..],
        &["mlp", "sgd", "end"],
        &["mlp", "adamw", "keep"],
        &["mlp", "adamw", "accumulate"],
        &["mlp", "adamw", "checkpoint"],
        &["cnn", "adamw", "end"],
        &["lstm", "momentum"],
        &["attention", "adamw"],
    ] {
        train(&python, words).check(&words.join(" "));
    }
}
