//! The book: mdBook, built once into the cache folder, makes `target/book` of `docs/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::workspace;

/// Without its search, server and watcher it builds in a minute or two.
const VERSION: &str = "0.5.4";

/// True when the book was made without a complaint.
pub fn build() -> Result<bool> {
    let Some(mdbook) = ensure()? else { return Ok(false) };
    let out = workspace::read_target_dir()?.join("book");
    let made =
        Command::new(mdbook).arg("build").arg(workspace::root()).arg("--dest-dir").arg(&out).output()?;
    let said = String::from_utf8_lossy(&made.stderr);
    let complaints: Vec<&str> =
        said.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    if !made.status.success() || !complaints.is_empty() {
        println!("mdbook: {}", said.trim());
        return Ok(false);
    }
    println!("the book: {}", out.join("index.html").display());
    Ok(true)
}

fn ensure() -> Result<Option<PathBuf>> {
    let folder = workspace::cache_folder()?.join(format!("mdbook-{VERSION}"));
    let program = folder.join("bin/mdbook");
    if !program.exists() && !install(&folder)? {
        println!("mdbook could not be installed; by hand: cargo install --locked mdbook@{VERSION}");
        return Ok(None);
    }
    Ok(Some(program))
}

fn install(folder: &Path) -> Result<bool> {
    let mut cargo = workspace::cargo();
    cargo
        .args(["install", "--locked", "--no-default-features", &format!("mdbook@{VERSION}"), "--root"])
        .arg(folder);
    // Its own folder: the workspace's flags and target are not for it.
    cargo.current_dir(folder.parent().context("a folder below the cache")?);
    Ok(cargo.status().context("cannot start cargo install")?.success())
}
