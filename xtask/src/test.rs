//! `cargo xtask test`: everything that must be green before a commit, as titled and timed steps.
//!
//! A failed step does not hide the later ones; only a failed build does. The last line is always
//! `N passed, N failed, N skipped`: the runner's numbers, where a test that wrote a skip line counts as
//! skipped and not as passed, and each failed step besides the tests counts as one failure.

mod count;
mod environment;
pub mod frameworks;
mod skip;
mod step;
pub(crate) mod tool;
pub mod web;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{arrows, docs, fuzz, guest, interpreters, layouts, wheel, workspace};
use count::Counts;
use step::Steps;

/// Runs all steps; true when all are good.
pub fn run(quick: bool, with_wheel: bool) -> Result<bool> {
    let target = workspace::read_target_dir()?;
    let mut steps = Steps::default();
    steps.run("tools", tool::ensure_all)?;
    steps.run("interpreters", interpreters::ensure)?;
    steps.run("environments", environment::ensure_all)?;
    check_code(&mut steps, quick)?;
    let skips = target.join("nilo-skips.txt");
    start_skips(&skips)?;
    let built = steps.run("build", build)?;
    let counts = if built { run_tests(&mut steps, quick, &skips)? } else { Counts::default() };
    let mut lines = skip::read(&skips)?;
    let mut counts = counts.with_skips(lines.len() as u64);
    if built {
        run_web(&mut steps, &mut counts, &mut lines, &target)?;
    }
    if built && !quick {
        run_guest(&mut steps, &mut counts, &mut lines)?;
    }
    if built && with_wheel {
        steps.run("wheel", || wheel::run(true))?;
    }
    if !lines.is_empty() {
        let nilo = target.join("debug/nilo");
        steps.run("skips", || skip::judge(&lines, &nilo))?;
    }
    Ok(print_result(&steps, &counts))
}

/// Only the script of the report and its pages.
pub fn run_web_alone() -> Result<bool> {
    let target = workspace::read_target_dir()?;
    let (mut steps, mut counts, mut skips) = (Steps::default(), Counts::default(), Vec::new());
    if steps.run("build", || succeeds(workspace::cargo().arg("build")))? {
        run_web(&mut steps, &mut counts, &mut skips, &target)?;
    }
    for line in &skips {
        println!("{line}");
    }
    Ok(print_result(&steps, &counts))
}

/// The script of the report and its pages count as tests; where they cannot run, it is one skip.
fn run_web(steps: &mut Steps, counts: &mut Counts, skips: &mut Vec<String>, target: &Path) -> Result<()> {
    let mut missing = None;
    steps.run("web packages", || {
        missing = web::missing()?;
        Ok(true)
    })?;
    if let Some(reason) = missing {
        counts.skipped += 1;
        skips.push(format!("skipped: {reason}"));
        return Ok(());
    }
    steps.run("web bundle", || web::check(target))?;
    steps.run_uncounted("web pages", || {
        let found = web::test(target)?;
        counts.add(found);
        Ok(found.failed == 0)
    })?;
    Ok(())
}

/// The cases of the guest count as tests; where it cannot run, it is one skip.
fn run_guest(steps: &mut Steps, counts: &mut Counts, skips: &mut Vec<String>) -> Result<()> {
    steps.run_uncounted("guest", || {
        let verdict = match guest::try_all() {
            Ok(guest::Outcome::Ran(verdict)) => verdict,
            Ok(guest::Outcome::Skipped(reason)) => {
                counts.skipped += 1;
                skips.push(format!("skipped: needs guest-kernel: {reason}"));
                return Ok(true);
            }
            Err(error) => {
                println!("error: {error:#}");
                counts.failed += 1;
                return Ok(false);
            }
        };
        counts.passed += verdict.passed;
        counts.failed += verdict.failed.max(u64::from(!verdict.is_good()));
        Ok(verdict.is_good())
    })?;
    Ok(())
}

fn check_code(steps: &mut Steps, quick: bool) -> Result<()> {
    steps.run("format", || succeeds(workspace::cargo().args(["fmt", "--all", "--check"])))?;
    steps.run("lints", || {
        let mut clippy = workspace::cargo();
        succeeds(clippy.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    })?;
    steps.run("fuzzers", fuzz::check)?;
    steps.run("arrows", arrows::run)?;
    steps.run("layouts", || layouts::run(true))?;
    if !quick {
        steps.run("book", || docs::run(true))?;
        steps.run("documentation", || {
            let mut doc = workspace::cargo();
            doc.args(["doc", "--no-deps", "--document-private-items", "--workspace"]);
            succeeds(doc.env("RUSTDOCFLAGS", "-D warnings"))
        })?;
    }
    Ok(())
}

/// Compiles with the runner's own selection, so that the tests compile nothing again.
pub fn build() -> Result<bool> {
    let mut command = workspace::cargo();
    if has_nextest() {
        command.args(["nextest", "run", "--workspace", "--no-run"]);
    } else {
        command.args(["test", "--workspace", "--no-run"]);
    }
    succeeds(&mut command)
}

fn run_tests(steps: &mut Steps, quick: bool, skips: &Path) -> Result<Counts> {
    let mut counts = Counts::default();
    if !has_nextest() {
        counts.add(run_runner(
            steps,
            "tests (cargo test)",
            &["test", "--workspace", "--no-fail-fast"],
            skips,
        )?);
        return Ok(counts);
    }
    let nextest = ["nextest", "run", "--workspace", "--profile", "ci"];
    counts.add(run_runner(steps, "tests (nextest)", &nextest, skips)?);
    if !quick {
        let doc = ["test", "--workspace", "--doc", "--no-fail-fast"];
        counts.add(run_runner(steps, "documentation's examples", &doc, skips)?);
    }
    Ok(counts)
}

/// Runs a test runner and reads its numbers; a failure without numbers counts as one.
fn run_runner(steps: &mut Steps, title: &str, args: &[&str], skips: &Path) -> Result<Counts> {
    let mut counts = Counts::default();
    steps.run_uncounted(title, || {
        let mut command = workspace::cargo();
        let (status, output) = step::tee(command.args(args).env("NILO_SKIPS", skips))?;
        counts = count::parse(&output).unwrap_or_default();
        if !status.success() && counts.failed == 0 {
            counts.failed = 1;
        }
        Ok(status.success() && counts.failed == 0)
    })?;
    Ok(counts)
}

/// An empty file, so that nothing of an earlier run is counted.
fn start_skips(path: &Path) -> Result<()> {
    fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))
}

fn has_nextest() -> bool {
    workspace::cargo().args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// Runs with our own streams; true when it exits with 0.
fn succeeds(command: &mut Command) -> Result<bool> {
    let status =
        command.status().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok(status.success())
}

fn print_result(steps: &Steps, counts: &Counts) -> bool {
    steps.print_times();
    let failed = counts.failed + steps.failed_checks();
    println!("\n{} passed, {failed} failed, {} skipped", counts.passed, counts.skipped);
    failed == 0
}
