//! The Pythons of this machine, and the environments that were made for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_lab::environment;

use crate::harness::text;

/// The repository's `python` folder.
pub fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python").canonicalize().expect("python/")
}

/// A program of `python/tests`.
pub fn program(name: &str) -> String {
    package().join("tests").join(name).display().to_string()
}

/// Each Python from 3.8 on, one of each minor version, oldest first.
pub fn pythons() -> Vec<(u32, PathBuf)> {
    let home = PathBuf::from(std::env::var_os("HOME").expect("HOME"));
    let cache =
        std::env::var_os("NILO_TEST_CACHE").map_or_else(|| home.join(".cache/nilometer"), PathBuf::from);
    let mut programs = vec![PathBuf::from("/usr/bin/python3")];
    programs.extend(entries(&home.join(".pyenv/versions")).map(|folder| folder.join("bin/python3")));
    programs.extend(entries(&cache.join("interpreters")).map(|folder| folder.join("python")));
    let mut found: Vec<(u32, PathBuf)> =
        programs.into_iter().filter_map(|program| Some((minor(&program)?, program))).collect();
    // A whole installation before one that was fetched.
    found.sort_by_key(|(minor, program)| (*minor, program.starts_with(&cache), program.clone()));
    found.dedup_by_key(|(minor, _)| *minor);
    assert!(!found.is_empty(), "no Python here");
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The minor version of a Python 3 that is new enough.
fn minor(program: &Path) -> Option<u32> {
    let words = ["-S", "-c", "import sys; print(*sys.version_info[:2])"];
    let output = Command::new(program).args(words).output().ok()?;
    let told = text(&output.stdout);
    let minor = told.trim().strip_prefix("3 ")?.parse().ok()?;
    (minor >= 8).then_some(minor)
}

pub fn torch(release: &str) -> Option<String> {
    environment(&[&format!("torch-{release}")])
}

pub fn framework(name: &str) -> Option<String> {
    environment(&[name])
}
