//! Python environments that tests need and that take minutes to make: made here, because a slow test is killed.

use std::process::Command;

use anyhow::Result;

use crate::workspace;

/// Releases of torch whose layouts differ, other frameworks and trainers, engines that read our tables, a cluster, pytest and
/// its other plugin, notebooks, readers of exported files.
const ENVIRONMENTS: [&str; 14] = [
    "torch-1.13",
    "torch-2.0",
    "torch-2.15",
    "trainers",
    "mxnet",
    "jax",
    "keras",
    "tensorflow",
    "science",
    "fleet",
    "ray",
    "tools",
    "memray",
    "exports",
];

/// Programs that read exported files.
const READERS: [&str; 3] = ["heaptrack", "pprof", "speedscope"];

/// Made once, in the cache folder. Without them the tests say what they skip.
pub fn ensure_all() -> Result<bool> {
    for name in ENVIRONMENTS {
        make("crates/lab/environment/make.sh", name)?;
    }
    make("crates/cli/tests/programs/monitoring.sh", "monitoring")?;
    for name in READERS {
        make("crates/cli/tests/programs/exports_tools.sh", name)?;
    }
    Ok(true)
}

fn make(script: &str, name: &str) -> Result<()> {
    let made = Command::new("sh").arg(workspace::root().join(script)).arg(name).output()?;
    let told = if made.status.success() { &made.stdout } else { &made.stderr };
    println!("{name}: {}", String::from_utf8_lossy(told).trim());
    Ok(())
}
