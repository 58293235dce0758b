//! A process of the census program, looked at.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_cpython::{CensusOptions, Python, census, locate, mismatches};
use nilometer_image::Image;
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_trace::heap::Graph;

use crate::target::{Target, interpreters};
use crate::truth::Truth;

/// A process of the census program, stopped for good after its copy was made.
pub struct Look {
    pub target: Target,
    pub python: Python,
    pub image: Image,
    pub graph: Graph,
}

impl Look {
    pub fn at(command: &mut Command) -> Self {
        let target = Target::run(command.env("PYTHONDONTWRITEBYTECODE", "1"));
        let (python, image) = copy(target.truth["pid"].as_i64().unwrap() as i32);
        let graph = census(&python, &image, &CensusOptions::default());
        Self { target, python, image, graph }
    }

    pub fn of(python: &Path, parts: &[&str]) -> Self {
        Self::at(Command::new(python).arg(program("census.py")).args(parts))
    }

    pub fn truth(&mut self) -> Truth {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("truth");
        let answer = self.target.ask(&format!("truth {}", file.display()));
        Truth::read(&file, &answer)
    }

    /// So many of the reference counts are explained, and nothing dangles.
    pub fn adds_up(&self, share: f64) {
        let quality = &self.graph.quality;
        let exact = quality.refcount_exact as f64 / quality.refcount_checked as f64;
        let version = self.python.version;
        println!("{version}: {} objects, {:.3} % exact, {quality:?}", self.graph.len(), exact * 100.0);
        let worst = || mismatches(&self.python, &self.image);
        assert!(exact >= share, "{version}: {exact}: {:#?}", &worst()[..5]);
        assert!(quality.dangling <= 2, "{version}: {quality:?}");
    }
}

pub fn copy(pid: i32) -> (Python, Image) {
    let peek = Peek::open(pid).unwrap();
    let python = locate(&peek, &peek.modules()).unwrap();
    (python, capture(&peek, &CaptureOptions::default(), &[]).unwrap().image)
}

pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// All interpreters of a minor version.
pub fn of_minor(minor: u8) -> Vec<PathBuf> {
    let is_minor = |python: &PathBuf| {
        let test = format!("import sys; sys.exit(sys.version_info[1] != {minor})");
        Command::new(python).args(["-S", "-c", &test]).status().is_ok_and(|status| status.success())
    };
    let found: Vec<_> = interpreters().into_iter().filter(is_minor).collect();
    if found.is_empty() {
        nilometer_lab::skip(&format!("CPython 3.{minor}"), "none was found; cargo xtask interpreters");
    }
    found
}

/// One interpreter of each minor version.
pub fn newest_of_each() -> Vec<PathBuf> {
    (8..=15).filter_map(|minor| of_minor(minor).pop()).collect()
}
