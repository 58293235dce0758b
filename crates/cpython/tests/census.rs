//! The census against what each interpreter says of itself, by address.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "census/truth.rs"]
mod truth;

mod target;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_cpython::{CensusOptions, Python, census, locate, mismatches};
use nilometer_image::Image;
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_trace::heap::Graph;
use target::{Target, interpreters};
use truth::Truth;

/// A process of the census program, stopped for good after its copy was made.
struct Look {
    target: Target,
    python: Python,
    image: Image,
    graph: Graph,
}

impl Look {
    fn at(command: &mut Command) -> Self {
        let target = Target::run(command.env("PYTHONDONTWRITEBYTECODE", "1"));
        let (python, image) = copy(target.truth["pid"].as_i64().unwrap() as i32);
        let graph = census(&python, &image, &CensusOptions::default());
        Self { target, python, image, graph }
    }

    fn of(python: &Path, parts: &[&str]) -> Self {
        Self::at(Command::new(python).arg(program("census.py")).args(parts))
    }

    fn truth(&mut self) -> Truth {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("truth");
        let answer = self.target.ask(&format!("truth {}", file.display()));
        Truth::read(&file, &answer)
    }

    /// So many of the reference counts are explained, and nothing dangles.
    fn adds_up(&self, share: f64) {
        let quality = &self.graph.quality;
        let exact = quality.refcount_exact as f64 / quality.refcount_checked as f64;
        let version = self.python.version;
        println!("{version}: {} objects, {:.3} % exact, {quality:?}", self.graph.len(), exact * 100.0);
        let worst = || mismatches(&self.python, &self.image);
        assert!(exact >= share, "{version}: {exact}: {:#?}", &worst()[..5]);
        assert!(quality.dangling <= 2, "{version}: {quality:?}");
    }
}

fn copy(pid: i32) -> (Python, Image) {
    let peek = Peek::open(pid).unwrap();
    let python = locate(&peek, &peek.modules()).unwrap();
    (python, capture(&peek, &CaptureOptions::default(), &[]).unwrap().image)
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn of_minor(minor: u8) -> Vec<PathBuf> {
    let is_minor = |python: &PathBuf| {
        let test = format!("import sys; sys.exit(sys.version_info[1] != {minor})");
        Command::new(python).args(["-S", "-c", &test]).status().is_ok_and(|status| status.success())
    };
    let found: Vec<_> = interpreters().into_iter().filter(is_minor).collect();
    if found.is_empty() {
        println!("skipped: needs CPython 3.{minor}");
    }
    found
}

fn holds_for(minor: u8) {
    for python in of_minor(minor) {
        let mut look = Look::of(&python, &["plain", "loop"]);
        let truth = look.truth();
        let (graph, version) = (&look.graph, look.python.version);
        assert!(truth.objects.len() > 150_000, "{version}: {} objects", truth.objects.len());
        assert_eq!(truth.absent(graph), [""; 0], "{version}: absent");
        assert_eq!(truth.misnamed(graph), BTreeMap::new(), "{version}: misnamed");
        assert_eq!(truth.bogus(graph), [""; 0], "{version}: bogus");
        assert_eq!(truth.wrong_referents(graph), [""; 0], "{version}: referents");
        assert_eq!(truth.unexplained_sizes(graph), BTreeMap::new(), "{version}: sizes");
        let unconfirmed = truth.unconfirmed(graph).len();
        assert!(unconfirmed * 100 < graph.len(), "{version}: {unconfirmed} of {} not confirmed", graph.len());
        look.adds_up(0.999);
    }
}

#[test]
fn the_truth_holds_on_3_8() {
    holds_for(8);
}

#[test]
fn the_truth_holds_on_3_9() {
    holds_for(9);
}

#[test]
fn the_truth_holds_on_3_10() {
    holds_for(10);
}

#[test]
fn the_truth_holds_on_3_11() {
    holds_for(11);
}

#[test]
fn the_truth_holds_on_3_12() {
    holds_for(12);
}

#[test]
fn the_truth_holds_on_3_13() {
    holds_for(13);
}

#[test]
fn the_truth_holds_on_3_14() {
    holds_for(14);
}

#[test]
fn the_truth_holds_on_3_15() {
    holds_for(15);
}
