//! `cargo xtask arrows`: the rules of ARCHITECTURE.md that a machine can check.
//!
//! Each violation is one line `file: what`. The rules stand in two tables: who may depend on whom in
//! [`graph`], which word may occur where in [`source`].

mod graph;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Prints the violations; true when there are none.
pub fn run() -> Result<bool> {
    let violations = find_violations()?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("arrows: no violations");
    }
    Ok(violations.is_empty())
}

fn find_violations() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut violations = graph::check(&workspace::read_metadata()?, &root);
    for path in read_sources(&root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let short = path.strip_prefix(&root).unwrap_or(&path);
        violations.extend(source::check(&short.to_string_lossy(), &text));
    }
    Ok(violations)
}

/// Every Rust file of the workspace, sorted.
fn read_sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![root.join("crates"), root.join("xtask")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
