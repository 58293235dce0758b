//! What the tests of several crates need; never part of the binary.
#![allow(clippy::print_stderr, reason = "a skip must be seen")]

use std::fs::OpenOptions;
use std::io::Write as _;

/// Says why a test did not run, and has it counted: `needs` names the capability as `nilo doctor` does, or the program.
pub fn skip(needs: &str, reason: &str) {
    let line = format!("skipped: needs {needs}: {}\n", reason.trim().replace('\n', " · "));
    eprint!("{line}");
    if let Some(file) = std::env::var_os("NILO_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
