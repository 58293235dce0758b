//! A Python that is looked at, and what `nilo heap` says of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Dialogue, Lab, finish, py_program, skip, text};
use crate::watched::python;

/// A program that obeys line by line.
pub struct Target {
    pub dialogue: Dialogue,
}

impl Target {
    /// `heap_nodes.py` in the usual interpreter.
    pub fn start() -> Self {
        Self::start_in(&python())
    }

    pub fn start_in(interpreter: &str) -> Self {
        Self::start_command(Command::new(interpreter).arg(py_program("heap_nodes.py")))
    }

    pub fn start_command(command: &mut Command) -> Self {
        let mut dialogue = Dialogue::start(command);
        let line = dialogue.line();
        assert_eq!(line, "ready", "{}", text(&dialogue.end().stderr));
        Self { dialogue }
    }

    pub fn pid(&self) -> String {
        self.dialogue.pid().to_string()
    }

    /// An order, and the number it answers with.
    pub fn order(&mut self, words: &str) -> u64 {
        self.dialogue.say(words);
        crate::watched::number_of(&self.dialogue.line(), "nodes")
    }

    /// It lives, nobody traces it, it obeys, and it ends well.
    #[track_caller]
    pub fn end_unharmed(mut self) {
        assert_eq!(tracer(self.dialogue.pid()), Some(0));
        let nodes = self.order("grow 1");
        assert_eq!(self.order("grow 1"), nodes + 1);
        let output = self.dialogue.end();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

/// Who traces a process; none when it is gone.
pub fn tracer(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok())
}

/// `nilo heap WORDS…`
pub fn heap(lab: &Lab, words: &[&str]) -> Output {
    finish(lab.nilo(["heap"]).args(words).env("LC_ALL", "C.UTF-8"))
}

/// The screen of a reading that must work.
#[track_caller]
pub fn screen(lab: &Lab, words: &[&str]) -> String {
    let output = heap(lab, words);
    assert_eq!(output.status.code(), Some(0), "nilo heap {words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The document of a reading that must work; it follows the schema.
#[track_caller]
pub fn document(lab: &Lab, words: &[&str]) -> Value {
    let words = [words, &["--json"]].concat();
    let document: Value = serde_json::from_str(&screen(lab, &words)).expect("one JSON document");
    let schema = serde_json::from_str(nilometer_report::heap::json::SCHEMA).expect("the schema");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{words:?}: {errors:#?}");
    document
}

/// What is said on standard error of a reading that must fail with `code`.
#[track_caller]
pub fn refusal(lab: &Lab, words: &[&str], code: i32) -> String {
    let output = heap(lab, words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "nilo heap {words:?}: {said}");
    assert_eq!(text(&output.stdout), "", "no data with a refusal");
    assert!(said.starts_with("nilo: ") && said.lines().next().is_some_and(|line| line.len() > 10), "{said}");
    said
}

/// The row of a document by its kind.
#[track_caller]
pub fn row<'a>(document: &'a Value, kind: &str) -> &'a Value {
    find_row(document, kind).unwrap_or_else(|| panic!("no row {kind} in {:#}", document["rows"]))
}

pub fn find_row<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    document["rows"].as_array()?.iter().find(|row| row["kind"] == kind)
}

/// A core of a process that goes on, by gdb's program.
pub fn dump_core(lab: &Lab, pid: &str) -> Option<PathBuf> {
    let prefix = lab.path("core");
    let Ok(output) = Command::new("gcore").arg("-o").arg(&prefix).arg(pid).output() else {
        skip("gcore", "gdb is not installed");
        return None;
    };
    let core = lab.path(&format!("core.{pid}"));
    assert!(core.exists(), "gcore: {}{}", text(&output.stdout), text(&output.stderr));
    Some(core)
}

/// A folder with numpy for the usual interpreter, made once; nothing where it cannot be had.
pub fn numpy() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numpy-2.3.5");
    if place.exists() {
        return Some(place);
    }
    // Tests run in parallel processes: each fetches under its own name, the rename is atomic.
    let fresh = place.with_extension(std::process::id().to_string());
    let mut pip = Command::new(python());
    pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&fresh).arg("numpy==2.3.5");
    let output = pip.output().expect("python runs");
    if !output.status.success() {
        skip("numpy", &text(&output.stderr));
        return None;
    }
    let _ = std::fs::rename(&fresh, &place); // somebody may have been faster
    let _ = std::fs::remove_dir_all(&fresh);
    Some(place)
}
