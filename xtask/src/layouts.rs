//! `cargo xtask generate layouts`: the offsets of CPython's structures, from the headers of every interpreter here.
//!
//! A table stands for all releases of a minor version that have the same layout; one that differs gets a table of
//! its own. Tables of interpreters that are not here stay as they are.

mod earlier;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use anyhow::{Context as _, Result, ensure};

use crate::interpreters::{self, Interpreter};
use crate::workspace;
use table::{Block, Tables};

const SOURCES: [(&str, &str); 3] = [
    ("offsets.c", include_str!("layouts/offsets.c")),
    ("state.h", include_str!("layouts/state.h")),
    ("objects.h", include_str!("layouts/objects.h")),
];
const TARGET: &str = "crates/cpython/src/layout/tables.rs";

/// Writes the tables, or with `check` says whether they are as the headers have it.
pub fn run(check: bool) -> Result<bool> {
    let path = workspace::root().join(TARGET);
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let mut tables = Tables::parse(&kept);
    let mut good = true;
    for interpreter in interpreters::find()?.iter().filter(|found| !found.includes.is_empty()) {
        for (version, printed) in read_offsets(interpreter)? {
            if !tables.add(version, Block::parse(&printed)?) && check {
                let [major, minor, micro] = version;
                println!(
                    "{TARGET}: {major}.{minor}.{micro} has another layout: cargo xtask generate layouts"
                );
                good = false;
            }
        }
    }
    let text = tables.render();
    if !check && text != kept {
        fs::write(&path, text).with_context(|| format!("cannot write {TARGET}"))?;
    }
    Ok(good)
}

/// What an interpreter's headers give, and what is derived from them.
fn read_offsets(interpreter: &Interpreter) -> Result<Vec<([u8; 3], String)>> {
    let scratch = env::temp_dir().join(format!("nilometer-layouts-{}", process::id()));
    fs::create_dir_all(&scratch)?;
    let printed = print_offsets(interpreter, &scratch);
    fs::remove_dir_all(&scratch).ok();
    printed.with_context(|| format!("the headers of {}", interpreter.program.display()))
}

fn print_offsets(interpreter: &Interpreter, scratch: &Path) -> Result<Vec<([u8; 3], String)>> {
    let mut printed = vec![(interpreter.version, compile(&interpreter.includes, scratch)?)];
    if let Some((version, includes)) = earlier::derive(interpreter, scratch)? {
        printed.push((version, compile(&includes, scratch)?));
    }
    Ok(printed)
}

/// Compiles the program against headers and runs it.
fn compile(includes: &[PathBuf], scratch: &Path) -> Result<String> {
    for (name, text) in SOURCES {
        fs::write(scratch.join(name), text)?;
    }
    let (source, program) = (scratch.join("offsets.c"), scratch.join("offsets"));
    let includes = includes.iter().map(|path| format!("-I{}", path.display()));
    let mut command = Command::new("cc");
    command.arg("-w").args(includes).arg("-o").args([&program, &source]);
    let output = command.output().context("cannot start cc")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let output = Command::new(&program).output()?;
    Ok(String::from_utf8(output.stdout)?)
}
