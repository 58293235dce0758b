//! The script of the HTML report: its packages, its types, its bundle (which is checked in), and its pages in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::count::Counts;
use super::{step, tool};
use crate::workspace;

const BUNDLE: [&str; 2] = ["report.js", "report.css"];
const CHROMIUM: &str = "/usr/bin/chromium";

fn folder() -> PathBuf {
    workspace::root().join("web")
}

/// A program in the folder of the script.
fn here(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder()).args(args).stdin(Stdio::null());
    command
}

/// What stands in the way, if something does; a browser is installed where we may.
pub fn missing() -> Result<Option<String>> {
    let works = |program: &str| {
        here(program, &["--version"]).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !works("node") || !works("npm") {
        return Ok(Some("needs node: Node.js and npm are not here".to_owned()));
    }
    if !Path::new(CHROMIUM).exists() && tool::can_install()? {
        tool::install_packages(&["chromium"])?;
    }
    if !Path::new(CHROMIUM).exists() {
        return Ok(Some(format!("needs chromium: {CHROMIUM} is not here")));
    }
    Ok((!packages()?).then(|| "needs npm: its packages cannot be had here".to_owned()))
}

/// Installed once for each lock file.
fn packages() -> Result<bool> {
    let stamp = folder().join("node_modules/.nilo-lock");
    let lock = fs::read(folder().join("package-lock.json")).context("cannot read web/package-lock.json")?;
    if fs::read(&stamp).is_ok_and(|known| known == lock) {
        return Ok(true);
    }
    let installed = here("npm", &["ci", "--no-audit", "--no-fund"]).status().context("cannot start npm")?;
    if installed.success() {
        fs::write(&stamp, &lock)?;
    }
    Ok(installed.success())
}

/// Types hold, the parts do what they say, and the bundle is what its sources give.
pub fn check(target: &Path) -> Result<bool> {
    let fresh = target.join("web-dist");
    let fresh_name = fresh.to_string_lossy().into_owned();
    let good = here("node", &["node_modules/typescript/bin/tsc", "--noEmit", "-p", "tsconfig.json"])
        .status()?
        .success()
        && here("node", &["build.mjs", &fresh_name]).status()?.success();
    Ok(good && is_current(&fresh)?)
}

fn is_current(fresh: &Path) -> Result<bool> {
    for name in BUNDLE {
        let kept = folder().join("dist").join(name);
        if fs::read(&kept)? != fs::read(fresh.join(name))? {
            println!("{} is not what web/src gives: cd web && npm run build", kept.display());
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tests of the parts, and of the pages of real runs.
pub fn test(target: &Path) -> Result<Counts> {
    let mut command = here("node", &["--test", "--test-reporter=tap", "test/unit.mjs", "test/page.mjs"]);
    command.env("NILO", target.join("debug/nilo")).env("NILO_SCREENS", target.join("nilo-screens"));
    let (status, output) = step::tee(&mut command)?;
    let mut counts = parse(&output);
    counts.failed = counts.failed.max(u64::from(!status.success()));
    Ok(counts)
}

/// `# pass 7`, `# fail 0`, `# skipped 1`, the last of each.
fn parse(output: &str) -> Counts {
    let number = |word: &str| {
        let found = output.lines().rev().find_map(|line| line.strip_prefix(&format!("# {word} ")));
        found.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Counts {
        passed: number("pass"),
        failed: number("fail") + number("cancelled"),
        skipped: number("skipped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_count() {
        let output = "# pass 99\nok 1 - a\n# tests 3\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 0\n";
        assert_eq!(parse(output), Counts { passed: 2, failed: 1, skipped: 0 });
        assert_eq!(parse("nothing"), Counts::default());
    }
}
