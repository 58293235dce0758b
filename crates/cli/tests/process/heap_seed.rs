//! The leak of the `TreeLSTM` post, found from outside: which attributes grow, by how much with their buffers, and
//! who holds them. The program prints its own truth.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Dialogue, Lab, py_program, text};
use crate::heap_target::{document, dump_core, numpy, screen};
use crate::watched::python;

const ACTIVATIONS: [&str; 9] = ["i", "f_l", "f_r", "o", "u", "c", "ct", "hActs1", "mask"];

/// How many nodes hold an array under a name, and its bytes.
type Truth = BTreeMap<String, (i64, i64)>;

struct Training {
    dialogue: Dialogue,
}

impl Training {
    fn start(numpy: &Path, leak: bool) -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tree_lstm.py");
        let mut command = Command::new(python());
        command.arg(py_program("tree_lstm_steps.py")).arg(example).env("PYTHONPATH", numpy);
        command.args(leak.then_some("--leak")).env("OPENBLAS_NUM_THREADS", "1");
        let mut dialogue = Dialogue::start(&mut command);
        assert_eq!(dialogue.line(), "ready numpy");
        Self { dialogue }
    }

    fn step(&mut self) -> Truth {
        self.dialogue.say("step");
        let line = |_: &&str| {
            let said = self.dialogue.line();
            let words: Vec<&str> = said.split(' ').collect();
            (words[0].to_owned(), (words[1].parse().expect("a count"), words[2].parse().expect("bytes")))
        };
        ACTIVATIONS.iter().map(line).collect()
    }

    fn pid(&self) -> String {
        self.dialogue.pid().to_string()
    }

    fn end(self) {
        let output = self.dialogue.end();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

fn attribute<'a>(diff: &'a Value, name: &str) -> Option<&'a Value> {
    let wanted = format!("Node.{name}");
    let is_it = |row: &&Value| {
        let kind = row["kind"].as_str().unwrap_or_default();
        kind == wanted || kind.ends_with(&format!(".{wanted}"))
    };
    diff["rows"].as_array().expect("rows").iter().find(is_it)
}

/// The last batch is held by a variable as well; the treebank holds all of them.
fn names_treebank(found: &Value) -> bool {
    let paths = found["paths"].as_array().expect("paths");
    paths.iter().filter_map(|path| path["text"].as_str()).any(|path| path.starts_with("__main__.treebank["))
}

fn assert_told(diff: &Value, before: &Truth, after: &Truth) {
    for name in ACTIVATIONS {
        let row = attribute(diff, name).unwrap_or_else(|| panic!("no {name} in {:#}", diff["rows"]));
        let (count, bytes) = (after[name].0 - before[name].0, after[name].1 - before[name].1);
        assert!(count > 50, "the program leaks {count} of {name}");
        assert_eq!((&row["count"], &row["payload_bytes"]), (&count.into(), &bytes.into()), "{name}");
    }
}

#[test]
fn a_leaking_tree_lstm_is_ranked_by_attribute_with_true_payload() {
    let Some(numpy) = numpy() else { return };
    let lab = Lab::new();
    let mut training = Training::start(&numpy, true);
    training.step();
    let mut truths = Vec::new();
    for name in ["a", "b", "c"] {
        truths.push(training.step());
        screen(&lab, &[&training.pid(), "-o", &format!("{name}.heap")]);
    }
    let first = document(&lab, &["diff", "a.heap", "b.heap", "--by", "attribute", "--top", "all"]);
    assert_told(&first, &truths[0], &truths[1]);
    let second = document(&lab, &["diff", "b.heap", "c.heap", "--by", "attribute", "--top", "all"]);
    assert_told(&second, &truths[1], &truths[2]);
    // They are the nine largest rows: nothing else grows so.
    let top: Vec<&str> =
        second["rows"].as_array().expect("rows")[..9].iter().filter_map(|row| row["kind"].as_str()).collect();
    for name in ACTIVATIONS {
        assert!(top.iter().any(|kind| kind.ends_with(&format!("Node.{name}"))), "{name} in {top:?}");
    }
    let shown = screen(&lab, &["diff", "b.heap", "c.heap", "--by", "attribute"]);
    assert!(shown.contains("Node.hActs1") && shown.contains("--since b.heap --by attribute"), "{shown}");
    // Who holds them.
    let holder = document(&lab, &["paths", "c.heap", "--since", "b.heap", "--kind", "numpy.ndarray"]);
    assert!(names_treebank(&holder), "{:#}", holder["paths"]);
    // The same from a core of the same moment.
    if let Some(core) = dump_core(&lab, &training.pid()) {
        let core = core.to_str().expect("UTF-8");
        let dead = document(&lab, &["diff", "b.heap", core, "--by", "attribute", "--top", "all"]);
        assert_told(&dead, &truths[1], &truths[2]);
        let holder = document(&lab, &["paths", core, "--since", "b.heap", "--kind", "numpy.ndarray"]);
        assert!(names_treebank(&holder), "{:#}", holder["paths"]);
    }
    training.end();
}

#[test]
fn the_fixed_program_is_flat_twice() {
    let Some(numpy) = numpy() else { return };
    let lab = Lab::new();
    let mut training = Training::start(&numpy, false);
    for _ in 0..3 {
        training.step(); // words get their vectors when they are first met
    }
    for name in ["a", "b", "c"] {
        training.step();
        screen(&lab, &[&training.pid(), "-o", &format!("{name}.heap")]);
    }
    for (before, after) in [("a.heap", "b.heap"), ("b.heap", "c.heap")] {
        let diff = document(&lab, &["diff", before, after, "--by", "attribute", "--top", "all"]);
        for name in ACTIVATIONS {
            assert!(attribute(&diff, name).is_none(), "{name} in {:#}", diff["rows"]);
        }
        // A word met for the first time brings its vector of 100 numbers; a step of five trees holds some 90 words.
        let grown = diff["total"]["payload_bytes"].as_i64().expect("bytes");
        assert!((-100_000..90 * 800).contains(&grown), "{grown}");
    }
    training.end();
}
