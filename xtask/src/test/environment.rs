//! Python environments that tests need and that take minutes to make: made here, because a slow test is killed.

use std::process::Command;

use anyhow::Result;

use crate::workspace;

/// Releases of torch whose layouts differ.
const TORCH: [&str; 3] = ["1.13", "2.0", "2.15"];

/// Made once, in the cache folder. Without them the tests say what they skip.
pub fn ensure_all() -> Result<bool> {
    let script = workspace::root().join("crates/native/tests/programs/torch_env.sh");
    for release in TORCH {
        let made = Command::new("sh").arg(&script).arg(release).output()?;
        let told = if made.status.success() { &made.stdout } else { &made.stderr };
        println!("torch {release}: {}", String::from_utf8_lossy(told).trim());
    }
    Ok(true)
}
