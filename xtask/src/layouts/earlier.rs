//! Headers of releases that cannot be had any more, made from those of a later one.
//!
//! 3.14.0 to 3.14.4 have the incremental collector. 3.14.5 went back to generations and kept every offset within the
//! collector's state, but put three fields at its end, which moves what follows it in the interpreter's state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::interpreters::Interpreter;

const HEADER: &str = "internal/pycore_interp_structs.h";
const FIRST_WITH_GENERATIONS: [u8; 3] = [3, 14, 5];
/// Fields of 3.14.5, and what takes no room in their place.
const ADDED: [(&str, &str); 3] = [
    ("    Py_ssize_t long_lived_total;\n", ""),
    ("    Py_ssize_t long_lived_pending;\n", ""),
    // An inline function mentions this one.
    ("    PyGC_Head *generation0;\n", "    PyGC_Head generation0[0];\n"),
];

/// The release and where its headers are, if there is one to make from this interpreter's.
pub fn derive(interpreter: &Interpreter, scratch: &Path) -> Result<Option<([u8; 3], Vec<PathBuf>)>> {
    let version = interpreter.version;
    if version[..2] != FIRST_WITH_GENERATIONS[..2] || version < FIRST_WITH_GENERATIONS {
        return Ok(None);
    }
    let (own, rest) = interpreter.includes.split_first().context("no headers")?;
    let copy = scratch.join("headers");
    let status = Command::new("cp").arg("-rL").args([own, &copy]).status().context("cannot start cp")?;
    ensure!(status.success(), "cannot copy {}", own.display());
    let path = copy.join(HEADER);
    let mut text = fs::read_to_string(&path)?;
    for (line, instead) in ADDED {
        ensure!(text.matches(line).count() == 1, "{HEADER} of 3.14 has changed: {}", line.trim());
        text = text.replace(line, instead);
    }
    fs::write(&path, text)?;
    let moved = |include: &PathBuf| {
        include.strip_prefix(own).map_or_else(|_| include.clone(), |rest| copy.join(rest))
    };
    Ok(Some(([3, 14, 0], [copy.clone()].into_iter().chain(rest.iter().map(moved)).collect())))
}
