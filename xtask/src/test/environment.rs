//! Python environments that tests need and that take minutes to make: made here, because a slow test is killed.

use std::process::Command;

use anyhow::Result;

use crate::workspace;

/// Releases of torch whose layouts differ.
const TORCH: [&str; 3] = ["1.13", "2.0", "2.15"];

/// Other frameworks whose allocations are sorted or whose steps are told; engines that read our tables; a cluster; pytest and notebooks.
const FRAMEWORKS: [&str; 6] = ["mxnet", "jax", "fleet", "ray", "keras", "tools"];

/// Programs that read exported files.
const READERS: [&str; 3] = ["heaptrack", "pprof", "speedscope"];

/// Made once, in the cache folder. Without them the tests say what they skip.
pub fn ensure_all() -> Result<bool> {
    for release in TORCH {
        make("crates/native/tests/programs/torch_env.sh", "torch ", release)?;
    }
    for name in FRAMEWORKS {
        make("crates/cli/tests/programs/framework_env.sh", "", name)?;
    }
    make("crates/cli/tests/programs/monitoring.sh", "", "monitoring")?;
    make("crates/cli/tests/programs/exports_env.sh", "", "exports")?;
    for name in READERS {
        make("crates/cli/tests/programs/exports_tools.sh", "", name)?;
    }
    make("crates/cli/tests/programs/science_env.sh", "", "science")?;
    Ok(true)
}

fn make(script: &str, what: &str, name: &str) -> Result<()> {
    let made = Command::new("sh").arg(workspace::root().join(script)).arg(name).output()?;
    let told = if made.status.success() { &made.stdout } else { &made.stderr };
    println!("{what}{name}: {}", String::from_utf8_lossy(told).trim());
    Ok(())
}
