//! `cargo xtask dist`: what a release consists of, in `target/dist`: archives with completions and man pages, the wheels,
//! and their sums. Nothing is put into an archive that was not seen to work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::wheel::{elf, run_to_end};
use crate::{wheel, workspace};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const PAPERS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// Shell, and the file that it looks for.
const SHELLS: [(&str, &str); 3] = [("bash", "nilo.bash"), ("zsh", "_nilo"), ("fish", "nilo.fish")];
/// What the trial allocates, in one piece.
const BLOCK: u64 = 50_000_000;

/// Builds what is not built, checks all of it, and packs.
pub fn run() -> Result<bool> {
    if !wheel::run(false)? {
        return Ok(false);
    }
    let dist = workspace::read_target_dir()?.join("dist");
    let _ = fs::remove_dir_all(&dist);
    fs::create_dir_all(&dist)?;
    let place = tempfile::tempdir()?;
    let nilo = copy_wheels(&dist, place.path())?;
    archive(&dist, "linux-glibc2.28", &nilo)?;
    let tracker = wheel::unpack_tracker(&nilo, place.path())?;
    let nilo = build_static(&tracker)?;
    let needed = elf::read_needed(&nilo)?;
    ensure!(needed.is_empty(), "the static binary needs {needed:?}");
    archive(&dist, "linux-static", &nilo)?;
    write_sums(&dist)?;
    Ok(true)
}

/// The wheels, and the `nilo` of the one that has it.
fn copy_wheels(dist: &Path, place: &Path) -> Result<PathBuf> {
    let mut nilo = None;
    for wheel in wheel::built()? {
        let name = wheel.file_name().context("a wheel has a name")?;
        fs::copy(&wheel, dist.join(name))?;
        if name.to_string_lossy().contains("manylinux") {
            nilo = Some(wheel::unpack(&wheel, place)?);
        }
    }
    nilo.context("no wheel for Linux")
}

/// A binary that needs no C library at all. Its tracker is the wheel's: it goes into other programs.
fn build_static(tracker: &Path) -> Result<PathBuf> {
    let target = workspace::read_target_dir()?;
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--locked", "-p", "nilometer", "--target", TRIPLE, "--target-dir"]);
    cargo.arg(&target).env("RUSTFLAGS", "-C target-feature=+crt-static").env("NILO_TRACKER_LIB", tracker);
    ensure!(cargo.status()?.success(), "the static binary could not be built");
    Ok(target.join(TRIPLE).join("release/nilo"))
}

/// One archive with a binary that was seen to work.
fn archive(dist: &Path, name: &str, nilo: &Path) -> Result<()> {
    let place = tempfile::tempdir()?;
    try_out(nilo, place.path()).with_context(|| format!("{name} does not work"))?;
    let folder = format!("nilometer-{}-x86_64-{name}", env!("CARGO_PKG_VERSION"));
    let root = place.path().join(&folder);
    fs::create_dir_all(root.join("bin"))?;
    fs::copy(nilo, root.join("bin/nilo"))?;
    for paper in PAPERS {
        fs::copy(workspace::root().join(paper), root.join(paper))?;
    }
    write_pages(nilo, &root.join("share"))?;
    let file = dist.join(format!("{folder}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--sort=name", "-czf"]).arg(&file).arg("-C").arg(place.path());
    run_to_end(tar.arg(&folder))?;
    println!("good {} ({} bytes)", file.display(), fs::metadata(&file)?.len());
    Ok(())
}

/// Completions where shells look for them, man pages where `man` does; bash must take its own.
fn write_pages(nilo: &Path, share: &Path) -> Result<()> {
    let folder = share.join("nilometer/completions");
    fs::create_dir_all(&folder)?;
    for (shell, file) in SHELLS {
        let script = run_to_end(Command::new(nilo).args(["completions", shell]))?;
        ensure!(script.contains("sweep") && script.contains("allocs"), "{shell}: {script}");
        fs::write(folder.join(file), script + "\n")?;
    }
    run_to_end(Command::new("bash").arg("-n").arg(folder.join("nilo.bash")))?;
    run_to_end(Command::new(nilo).args(["man", "-o"]).arg(share.join("man/man1")))?;
    Ok(())
}

/// It records each allocation of a dynamic program, with its own tracker, and tells the line and the size.
fn try_out(nilo: &Path, place: &Path) -> Result<()> {
    let (run, script) = (place.join("trial.nilo"), place.join("trial.py"));
    fs::write(&script, format!("block = bytearray({BLOCK})\n"))?;
    let mut record = Command::new(nilo);
    record.args(["run", "-q", "--allocs=all", "-o"]).arg(&run).args(["--", "python3"]).arg(&script);
    run_to_end(record.env("XDG_CACHE_HOME", place.join("cache")).env_remove("LD_PRELOAD"))?;
    let mut report = Command::new(nilo);
    let told = run_to_end(report.arg("report").arg(&run).args(["--allocs", "--json", "--top", "all"]))?;
    let document: Value = serde_json::from_str(&told)?;
    let sites = document["sites"].as_array().context("no sites")?;
    let is_ours = |site: &&Value| {
        let frames = site["stack"].as_array().into_iter().flatten();
        frames.into_iter().any(|frame| frame["file"].as_str().is_some_and(|file| file.ends_with("trial.py")))
    };
    let Some(largest) = sites.iter().filter(is_ours).filter_map(|site| site["peak_bytes"].as_u64()).max()
    else {
        bail!("no site of the script: {told}");
    };
    ensure!((BLOCK..BLOCK + 1_000_000).contains(&largest), "it allocated {BLOCK} and {largest} are told");
    Ok(())
}

fn write_sums(dist: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(dist)?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let sums = run_to_end(Command::new("sha256sum").args(names).current_dir(dist))?;
    fs::write(dist.join("SHA256SUMS"), sums + "\n").context("cannot write the sums")
}
