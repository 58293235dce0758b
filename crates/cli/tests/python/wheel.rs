//! The wheel in a fresh environment of each Python: `pip install`, the first verdict, `import nilometer`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::harness::{Lab, finish, nilo_binary, skip, text};
use crate::interpreter::{framework, program, pythons};

/// The wheel to install: `$NILO_WHEEL`, else one that is packed from the binary under test.
fn wheel(lab: &Lab, python: &Path) -> PathBuf {
    if let Some(wheel) = std::env::var_os("NILO_WHEEL") {
        return PathBuf::from(wheel);
    }
    let stripped = lab.path("nilo");
    done(Command::new("strip").arg("-o").arg(&stripped).arg(nilo_binary()));
    let made = done(Command::new(python).arg(program("pack.py")).arg(&stripped).arg(lab.path("")));
    PathBuf::from(text(&made.stdout).trim())
}

#[track_caller]
fn done(command: &mut Command) -> Output {
    let output = finish(command);
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

/// A Python with the wheel in it.
struct Installed {
    python: PathBuf,
    nilo: PathBuf,
    path: Option<OsString>,
}

/// A fresh environment with the wheel.
fn install(lab: &Lab, minor: u32, python: &Path, wheel: &Path, pip: &Path) -> Installed {
    let quiet = ["install", "--no-index", "--no-deps", "--quiet", "--disable-pip-version-check"];
    let folder = lab.path(&format!("3.{minor}"));
    // One that was fetched with its own C library has no environments: the files are put into a folder.
    if python.with_file_name("root").is_dir() {
        done(Command::new(pip).args(["-m", "pip"]).args(quiet).arg("--target").arg(&folder).arg(wheel));
        let nilo = folder.join("bin/nilo");
        return Installed { python: python.to_owned(), nilo, path: Some(folder.into_os_string()) };
    }
    done(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&folder));
    let own = folder.join("bin/python");
    done(Command::new(pip).args(["-m", "pip", "--python"]).arg(&own).args(quiet).arg(wheel));
    Installed { python: own, nilo: folder.join("bin/nilo"), path: None }
}

const IMPORT: &str = "import nilometer, importlib.metadata as m; print(nilometer.__version__ == \
                      m.version('nilometer'), nilometer.step(1), nilometer.is_recorded())";

fn check(lab: &Lab, installed: &Installed) {
    let with_path = |command: &mut Command| {
        command.current_dir(lab.path("")).env_remove("NILO_MARKS").env_remove("PYTHONPATH");
        command.envs(installed.path.iter().map(|path| ("PYTHONPATH", path)));
    };
    let mut import = Command::new(&installed.python);
    with_path(import.args(["-c", IMPORT]));
    assert_eq!(text(&done(&mut import).stdout).trim(), "True None False", "{}", installed.python.display());
    let mut run = Command::new(&installed.nilo);
    run.args(["run", "-o", "run.nilo", "--force", "--"]).arg(&installed.python);
    with_path(run.args(["-c", "import nilometer; nilometer.step(7); print(nilometer.is_recorded())"]));
    let output = done(&mut run);
    let verdict = text(&output.stderr);
    assert_eq!(text(&output.stdout).trim(), "True", "{}", installed.python.display());
    assert!(verdict.contains(" peak ") && verdict.contains("exit 0"), "{verdict}");
    assert_eq!(lab.report(&lab.path("run.nilo"))["steps"][0]["step"], 7);
}

/// Into each of these minor versions that is here.
fn install_into(minors: RangeInclusive<u32>) {
    let Some(tools) = framework("tools") else { return };
    let lab = Lab::new();
    let pip = Path::new(&tools);
    let wheel = wheel(&lab, pip);
    for (minor, python) in pythons().into_iter().filter(|(minor, _)| minors.contains(minor)) {
        let begin = Instant::now();
        let installed = install(&lab, minor, &python, &wheel, pip);
        check(&lab, &installed);
        eprintln!(
            "3.{minor}: installed, imported and its verdict read in {:.1} s",
            begin.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn older_pythons_install_it_and_have_their_verdict() {
    install_into(8..=11);
}

#[test]
fn newer_pythons_install_it_and_have_their_verdict() {
    install_into(12..=99);
}

#[test]
fn the_first_verdict_comes_soon_after_pip_install() {
    let lab = Lab::new();
    let found = pythons();
    let with_pip = |python: &PathBuf| {
        let made = finish(Command::new(python).args(["-m", "venv"]).arg(lab.path("fresh")));
        made.status.success()
    };
    let Some((_, python)) = found.iter().find(|(_, python)| with_pip(python)) else {
        skip("python3-venv", "no Python here has ensurepip");
        return;
    };
    let wheel = wheel(&lab, python);
    let begin = Instant::now();
    let own = lab.path("fresh/bin/python");
    done(Command::new(&own).args(["-m", "pip", "install", "--no-index", "--quiet"]).arg(wheel));
    let nilo = lab.path("fresh/bin/nilo");
    let mut run = Command::new(nilo);
    run.args(["run", "-o", "run.nilo", "--"]).arg(&own).args(["-c", "0"]);
    let verdict = done(run.current_dir(lab.path("")));
    let took = begin.elapsed();
    eprintln!("from pip install to the first verdict: {:.1} s", took.as_secs_f64());
    assert!(text(&verdict.stderr).contains(" peak "));
    assert!(took < Duration::from_secs(20), "{took:?}");
}
