//! Other releases of CPython, unpacked beside their own C library.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::folder;
use crate::apt::{self, Apt, Packages};
use crate::workspace;

/// By role, so that they stay right when names move on.
const SUITES: [&str; 4] = ["unstable", "testing", "stable", "oldoldstable"];

const LAUNCHER: &str = r#"#!/bin/sh
# Starts this interpreter through its own loader and C library.
here=$(dirname "$(readlink -f "$0")")/root
export PYTHONHOME="$here/usr"
exec "$here/@LOADER@" --library-path "$here/usr/lib/x86_64-linux-gnu:$here/lib/x86_64-linux-gnu" "$here/usr/bin/@PYTHON@" "$@"
"#;

/// Fetches what the suites offer and the cache does not have; one process at a time.
pub fn run() -> Result<()> {
    let home = folder()?;
    let _lock = workspace::lock(&home)?;
    let mut failures = Vec::new();
    for suite in SUITES {
        if let Err(error) = fetch_suite(&home, suite) {
            println!("{suite}: {error:#}");
            failures.push(suite);
        }
    }
    ensure!(failures.len() < SUITES.len(), "no suite could be read");
    Ok(())
}

fn fetch_suite(home: &Path, suite: &str) -> Result<()> {
    let apt = Apt::open(home.join(".apt").join(suite), suite, Packages::Binary)?;
    for (package, version) in apt.interpreters()? {
        // `3.13.5-2+deb13u5` is the fifth package of 3.13.5: the release names the folder.
        let release = version.split(['-', '~', '+']).next().unwrap_or(&version);
        let place = home.join(release);
        if !place.join("python").exists() {
            println!("fetching {package} {version} from {suite}");
            fetch(&apt, &package, &place).with_context(|| format!("{package} {version}"))?;
        }
    }
    Ok(())
}

fn fetch(apt: &Apt, package: &str, place: &Path) -> Result<()> {
    // The next one clears up after a killed one.
    let scratch = place.with_file_name(".partial");
    fs::remove_dir_all(&scratch).ok();
    let done = assemble(apt, package, &scratch).and_then(|()| {
        fs::rename(&scratch, place).with_context(|| format!("cannot rename to {}", place.display()))
    });
    fs::remove_dir_all(&scratch).ok();
    done
}

fn assemble(apt: &Apt, package: &str, scratch: &Path) -> Result<()> {
    let archives = scratch.join("archives");
    fs::create_dir_all(&archives)?;
    let roots = [format!("{package}-minimal"), format!("lib{package}-stdlib"), format!("lib{package}")];
    let mut packages = apt.closure(&roots)?;
    packages.push(format!("lib{package}-dev"));
    apt.download(&packages, &archives)?;
    let root = scratch.join("root");
    apt::unpack_all(&archives, &root)?;
    fs::remove_dir_all(&archives)?;
    write_launcher(scratch, &root, package)?;
    check(&scratch.join("python"))
}

fn write_launcher(scratch: &Path, root: &Path, package: &str) -> Result<()> {
    let loader = find_loader(root).context("no loader among the packages")?;
    let text = LAUNCHER.replace("@LOADER@", &loader).replace("@PYTHON@", package);
    write_program(&scratch.join("python"), &text)
}

pub fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Not the link in `/lib64`: it is absolute in older packages.
fn find_loader(root: &Path) -> Option<String> {
    let places = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
    places.iter().map(|place| format!("{place}/ld-linux-x86-64.so.2")).find(|path| root.join(path).is_file())
}

/// It starts, and has what the tests use.
pub fn check(program: &Path) -> Result<()> {
    let output = Command::new(program).args(["-c", "import threading, ctypes, traceback"]).output()?;
    ensure!(output.status.success(), "does not start: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
