//! `cargo xtask fuzz`: every reader of bytes that others wrote, under libFuzzer for a while. The programs are in `fuzz/`; the
//! stable compiler builds them, with coverage.
//!
//! What was found interesting is kept in the cache folder, so that the next time goes on from there; what breaks a reader is
//! written to `fuzz/artifacts`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// What libFuzzer listens to: edges, how often each was taken, and what is compared with what.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// Named, so that the flags are not those of build scripts and macros.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const MANIFEST: [&str; 2] = ["--manifest-path", "fuzz/Cargo.toml"];
const SEEDS: &str = "seeds";
/// One input must not take longer than this, nor more memory.
const MOST_SECONDS: u32 = 20;
const MOST_MIB: u32 = 2048;

/// Each of `only` (all, if none), for so many seconds. False where one of them broke.
pub fn run(only: &[String], seconds: u32) -> Result<bool> {
    let programs = build()?;
    let targets = targets(&programs, only)?;
    let corpus = workspace::cache_folder()?.join("fuzz/corpus");
    let seeded = Command::new(programs.join(SEEDS)).arg(&corpus).status()?;
    ensure!(seeded.success(), "{SEEDS}: {seeded}");
    let mut broken = Vec::new();
    for target in &targets {
        println!("== {target}: {seconds} s");
        let tries = fuzz(&programs.join(target), &corpus.join(target), seconds)?;
        match tries {
            Some(tries) => println!("   {tries} inputs, none broke it"),
            None => broken.push(target.as_str()),
        }
    }
    if !broken.is_empty() {
        println!("broken: {} (inputs in fuzz/artifacts)", broken.join(", "));
    }
    Ok(broken.is_empty())
}

/// They are formatted and compile without a warning. Nothing is linked, so libFuzzer itself, which is C++, is not compiled.
pub fn check() -> Result<bool> {
    let format = workspace::cargo().args(["fmt", "--check"]).args(MANIFEST).status()?;
    let mut clippy = workspace::cargo();
    clippy.args(["clippy", "--locked"]).args(MANIFEST).arg("--target-dir").arg(folder());
    clippy.args(["--", "-D", "warnings"]).env("CUSTOM_LIBFUZZER_PATH", "/nonexistent/libFuzzer.a");
    Ok(clippy.status()?.success() && format.success())
}

fn build() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--target", TRIPLE]).args(MANIFEST);
    let status = cargo.arg("--target-dir").arg(folder()).env("RUSTFLAGS", COVERAGE).status()?;
    ensure!(status.success(), "the fuzzers do not build: {status}");
    Ok(folder().join(TRIPLE).join("release"))
}

fn folder() -> PathBuf {
    workspace::root().join("target/fuzz")
}

/// Every file of `fuzz/targets` is one.
fn targets(programs: &Path, only: &[String]) -> Result<Vec<String>> {
    let folder = workspace::root().join("fuzz/targets");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let names = files.flatten().filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned()));
    let mut all: Vec<String> = names.collect();
    all.sort();
    for name in only {
        ensure!(all.contains(name), "there is no target {name}: {}", all.join(", "));
    }
    all.retain(|name| only.is_empty() || only.contains(name));
    ensure!(all.iter().all(|name| programs.join(name).exists()), "fuzz/Cargo.toml does not name all targets");
    Ok(all)
}

/// How many inputs were tried; `None` if one broke the program.
fn fuzz(program: &Path, corpus: &Path, seconds: u32) -> Result<Option<u64>> {
    let artifacts = workspace::root().join("fuzz/artifacts");
    fs::create_dir_all(&artifacts)?;
    fs::create_dir_all(corpus)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = Command::new(program)
        .arg(corpus)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={MOST_SECONDS}"))
        .arg(format!("-rss_limit_mb={MOST_MIB}"))
        .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
        .args(["-print_final_stats=1", "-use_value_profile=1"])
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = told.lines().collect();
        println!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        return Ok(None);
    }
    let tries = told.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    Ok(Some(tries.and_then(|number| number.trim().parse().ok()).context("libFuzzer told no number")?))
}
