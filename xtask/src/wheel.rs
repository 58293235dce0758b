//! `cargo xtask wheel`: the wheels that `pip install nilometer` gets, in `target/wheels`, and what must be true of them.
//!
//! maturin packs, zig links for an old C library. The tracker inside needs no zig: it asks for so little that what the
//! machine's own linker makes is old enough; that is checked on the file that the finished binary unpacks.

pub mod elf;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// The C library of RHEL 8 and Debian 10: what torch's own wheels ask for.
const FLOOR: (u32, u32) = (2, 28);
const MOST_BYTES: u64 = 12 << 20;
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.13.0"];

/// Builds both wheels, checks them, and installs them into each Python here if `install`.
pub fn run(install: bool) -> Result<bool> {
    let wheel = build()?;
    let pure = make_pure(&wheel)?;
    let good = check(&wheel)? & check_pure(&pure)?;
    Ok(good && (!install || install_everywhere(&wheel)?))
}

/// The wheels that are there.
pub fn built() -> Result<Vec<PathBuf>> {
    Ok(wheels(&folder()?))
}

/// The wheel for Linux.
fn build() -> Result<PathBuf> {
    let tools = ensure_tools()?;
    let (target, out) = (workspace::read_target_dir()?, folder()?);
    for old in wheels(&out) {
        fs::remove_file(old)?;
    }
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.current_dir(workspace::root().join("python")).env("CARGO_TARGET_DIR", target);
    maturin.env("PATH", path_with(&tools));
    maturin.args(["build", "--release", "--locked", "--zig", "--target", TRIPLE, "--out"]).arg(&out);
    maturin.args(["--compatibility", &format!("manylinux_{}_{}", FLOOR.0, FLOOR.1)]);
    ensure!(maturin.status().context("cannot start maturin")?.success(), "maturin failed");
    wheels(&out).pop().context("maturin left no wheel")
}

/// Where wheels are left.
fn folder() -> Result<PathBuf> {
    let out = workspace::read_target_dir()?.join("wheels");
    fs::create_dir_all(&out)?;
    Ok(out)
}

fn wheels(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "whl")).collect()
}

/// An environment of our own with the packagers, made once.
fn ensure_tools() -> Result<PathBuf> {
    let folder = workspace::cache_folder()?.join("envs/wheel-build");
    let (bin, ready) = (folder.join("bin"), folder.join("ready"));
    if fs::read_to_string(&ready).is_ok_and(|made| made == TOOLS.join(" ")) {
        return Ok(bin);
    }
    run_to_end(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(bin.join("python"));
    run_to_end(pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(TOOLS))?;
    fs::write(ready, TOOLS.join(" "))?;
    Ok(bin)
}

fn path_with(first: &Path) -> std::ffi::OsString {
    let mut path = first.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

pub fn run_to_end(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Size, symbol versions of the binary and of the tracker that it unpacks.
fn check(wheel: &Path) -> Result<bool> {
    let bytes = fs::metadata(wheel)?.len();
    let mut good = judge(&format!("{}: {bytes} bytes", wheel.display()), bytes <= MOST_BYTES);
    let place = tempfile::tempdir()?;
    let nilo = unpack(wheel, place.path())?;
    good &= check_symbols("nilo", &nilo)?;
    good &= check_symbols("the tracker in it", &unpack_tracker(&nilo, place.path())?)?;
    Ok(good)
}

/// The binary of a wheel.
pub fn unpack(wheel: &Path, folder: &Path) -> Result<PathBuf> {
    run_to_end(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder))?;
    let data = fs::read_dir(folder)?.flatten().map(|entry| entry.path().join("scripts/nilo"));
    let nilo = data.into_iter().find(|path| path.exists()).context("no nilo in the wheel")?;
    let mut permissions = fs::metadata(&nilo)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&nilo, permissions)?;
    Ok(nilo)
}

/// What the binary itself puts into a command.
pub fn unpack_tracker(nilo: &Path, folder: &Path) -> Result<PathBuf> {
    let mut run = Command::new(nilo);
    run.args(["run", "-q", "--allocs", "-o"]).arg(folder.join("run.nilo")).args(["--", "/bin/true"]);
    run_to_end(run.env("XDG_CACHE_HOME", folder.join("cache")).env_remove("LD_PRELOAD"))?;
    let places = fs::read_dir(folder.join("cache/nilometer/tracker"))?.flatten();
    let mut files = places.map(|entry| entry.path().join("x86_64/nilo-tracker.so"));
    files.find(|path| path.exists()).context("no tracker was unpacked")
}

fn check_symbols(what: &str, file: &Path) -> Result<bool> {
    let highest = elf::read_highest_glibc(file)?;
    let (major, minor) = highest.unwrap_or_default();
    let words = format!("{what} needs GLIBC_{major}.{minor}, the floor is {}.{}", FLOOR.0, FLOOR.1);
    Ok(judge(&words, highest.is_none_or(|highest| highest <= FLOOR)))
}

fn judge(what: &str, is_good: bool) -> bool {
    println!("{} {what}", if is_good { "good" } else { "BAD " });
    is_good
}

/// The wheel for all other machines.
fn make_pure(wheel: &Path) -> Result<PathBuf> {
    let script = workspace::root().join("xtask/src/wheel/pure.py");
    run_to_end(Command::new("python3").arg(script).arg(wheel).arg(folder()?)).map(PathBuf::from)
}

/// It imports, does nothing, and says so.
fn check_pure(wheel: &Path) -> Result<bool> {
    let code = "import nilometer as n, nilometer.elsewhere as e; n.step(1); n.note('x')\n\
                with n.phase('x'): pass\nprint(n.is_recorded(), e.main())";
    let mut python = Command::new("python3");
    let said = run_to_end(python.args(["-c", code]).env("PYTHONPATH", wheel).env_remove("NILO_MARKS"))?;
    Ok(judge(&format!("{}: imports, does nothing, says so", wheel.display()), said == "False 5"))
}

/// The tests of installing, with this wheel.
fn install_everywhere(wheel: &Path) -> Result<bool> {
    let mut test = workspace::cargo();
    test.args(["test", "-p", "nilometer", "--test", "python", "wheel::", "--", "--nocapture"]);
    Ok(test.env("NILO_WHEEL", wheel).status()?.success())
}
