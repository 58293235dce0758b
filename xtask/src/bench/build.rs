//! `cargo xtask bench build`: what a stranger waits for after cloning.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::bar::{Bar, Limit, all_hold, render_bars};
use super::{machine, process, write_folder};
use crate::workspace;

/// The bar is set for two cores; a larger machine is held to two jobs.
const JOBS: &str = "2";
const WALL_LIMIT_S: f64 = 300.0;

struct Build {
    wall_s: f64,
    cpu_s: f64,
    crates: usize,
    binary_bytes: u64,
}

/// Builds once from nothing, with the sources already fetched.
pub fn run(out: Option<PathBuf>) -> Result<bool> {
    let build = measure()?;
    let bar = Bar {
        what: "cold release build, two jobs".to_owned(),
        measured: Some(build.wall_s),
        limit: Limit::AtMost(WALL_LIMIT_S),
        unit: " s",
    };
    let versions =
        [machine::read_output("rustc", &["--version"])?, machine::read_output("cargo", &["--version"])?];
    let page = render(&build, &bar, &versions)?;
    let readings = json!({
        "date": machine::read_date()?, "machine": machine::read_machine()?, "versions": versions,
        "commit": machine::read_commit(), "wall_s": build.wall_s, "cpu_s": build.cpu_s,
        "crates": build.crates, "binary_bytes": build.binary_bytes, "bars": [bar.to_json()],
    });
    println!("{page}");
    write_folder(out, "build", &page, &readings)?;
    Ok(all_hold(&[bar]))
}

fn measure() -> Result<Build> {
    let fetched =
        workspace::cargo().args(["fetch", "--locked"]).status().context("cannot start cargo fetch")?;
    ensure!(fetched.success(), "cargo fetch failed");
    let fresh = workspace::read_target_dir()?.join(format!("bench-build-{}", std::process::id()));
    let build = measure_into(&fresh);
    fs::remove_dir_all(&fresh).ok(); // nothing depends on it being gone
    build
}

fn measure_into(fresh: &PathBuf) -> Result<Build> {
    let (start, cpu_before) = (Instant::now(), process::read_children_cpu_s()?);
    let output = workspace::cargo()
        .args(["build", "--release", "--locked", "--jobs", JOBS, "--target-dir"])
        .arg(fresh)
        .env_remove("RUSTFLAGS")
        .output()
        .context("cannot start cargo build")?;
    let wall_s = start.elapsed().as_secs_f64();
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the build failed:\n{talk}");
    Ok(Build {
        wall_s,
        cpu_s: process::read_children_cpu_s()? - cpu_before,
        crates: talk.lines().filter(|line| line.trim_start().starts_with("Compiling ")).count(),
        binary_bytes: fs::metadata(fresh.join("release/nilo")).context("the build made no nilo")?.len(),
    })
}

fn render(build: &Build, bar: &Bar, versions: &[String]) -> Result<String> {
    Ok(format!(
        "# Cold release build, {date}\n\n\
         Machine: {machine}  \nVersions: {versions}; commit {commit}  \n\
         Command: `cargo build --release --locked --jobs {JOBS} --target-dir FRESH` after `cargo fetch`; \
         repeat with `cargo xtask bench build`\n\n\
         | wall | CPU | crates | binary with line tables |\n|---:|---:|---:|---:|\n\
         | {:.1} s | {:.1} s | {} | {:.1} MiB |\n\n{bars}\n\
         CPU is user + system of cargo and every compiler it waited for. One reading: a cold build is long enough \
         for noise not to matter against the bar.\n",
        build.wall_s,
        build.cpu_s,
        build.crates,
        build.binary_bytes as f64 / f64::from(1 << 20),
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        versions = versions.join(", "),
        commit = machine::read_commit(),
        bars = render_bars(std::slice::from_ref(bar)),
    ))
}
