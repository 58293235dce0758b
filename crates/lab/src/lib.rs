//! What the tests of several crates need; never part of the binary.
#![allow(clippy::print_stderr, reason = "a skip must be seen")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Says why a test did not run, and has it counted: `needs` names the capability as `nilo doctor` does, or the program.
pub fn skip(needs: &str, reason: &str) {
    let line = format!("skipped: needs {needs}: {}\n", reason.trim().replace('\n', " · "));
    eprint!("{line}");
    if let Some(file) = std::env::var_os("NILO_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// The interpreter of an environment that `environment/make.sh` makes; where it cannot, that is said and counted.
pub fn environment(words: &[&str]) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("environment/make.sh");
    let made = Command::new("sh").arg(script).args(words).output();
    let reason = match made {
        Ok(made) if made.status.success() => {
            return Some(String::from_utf8_lossy(&made.stdout).trim().to_owned());
        }
        Ok(made) => String::from_utf8_lossy(&made.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    skip(&words.join(" "), &reason);
    None
}
