//! The workspace as cargo describes it: root, target directory, members.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

/// The repository's root: the directory above this crate.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that started us, running in the root.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs with our own streams; an error unless it exits with 0.
pub fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// `cargo metadata` of the members alone.
pub fn read_metadata() -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cannot start cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

/// Where cargo builds, with `CARGO_TARGET_DIR` and the configuration applied.
pub fn read_target_dir() -> Result<PathBuf> {
    let metadata = read_metadata()?;
    let text = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(text))
}

/// Outside the tree, so that a clean does not download again.
pub fn cache_folder() -> Result<PathBuf> {
    let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = xdg.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?.join("nilometer");
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    Ok(cache)
}

/// One process at a time changes the folder; the kernel lets go when it ends.
pub fn lock(folder: &Path) -> Result<Flock<File>> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let locked = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno);
    locked.with_context(|| format!("cannot lock {}", folder.display()))
}

/// The interpreter of a virtual environment at `folder`, made if need be, with these packages.
pub fn install(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    let mut pip = Command::new(&python);
    succeed(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    Ok(python)
}

/// The interpreter of an environment for tests, made if need be.
pub fn environment(name: &str) -> Result<String> {
    let script = root().join("crates/lab/environment/make.sh");
    let made = Command::new("sh").arg(script).arg(name).output().context("cannot start sh")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr).trim());
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}
