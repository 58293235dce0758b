//! An interpreter as other distributors build theirs: static, link-time optimised, position-independent, stripped.
//!
//! From the source package of this machine's own Python. Takes some minutes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context as _, Result, ensure};

use super::{fetch, folder, probe};
use crate::apt::{self, Apt, Packages};
use crate::workspace;

const LAUNCHER: &str = "#!/bin/sh
here=$(dirname \"$(readlink -f \"$0\")\")
PYTHONHOME=\"$here\" exec \"$here/bin/python\" \"$@\"
";

/// Builds it if it is not there.
pub fn run() -> Result<()> {
    let home = folder()?;
    let _lock = workspace::lock(&home)?;
    let system = probe(PathBuf::from("/usr/bin/python3"))
        .context("no /usr/bin/python3 whose source could be built")?;
    let [major, minor, micro] = system.version;
    let place = home.join(format!("lto-{major}.{minor}.{micro}"));
    if place.join("python").exists() {
        return Ok(());
    }
    let scratch = home.join(".building");
    fs::remove_dir_all(&scratch).ok();
    // After a failure it stays for whoever wants to know why.
    build(&home, &format!("python{major}.{minor}"), &scratch)?;
    fs::rename(scratch.join("done"), &place)
        .with_context(|| format!("cannot rename to {}", place.display()))?;
    fs::remove_dir_all(&scratch).context("cannot remove what was built")
}

fn build(home: &Path, package: &str, scratch: &Path) -> Result<()> {
    println!("building {package} from its source, some minutes");
    let (source, needs) = (scratch.join("source"), scratch.join("needs"));
    fs::create_dir_all(&source)?;
    fetch_parts(home, package, scratch, &needs)?;
    let archive = find_archive(scratch)?;
    run_in(&source, "tar", &["-xf", &archive.display().to_string(), "--strip-components=1"])?;
    let headers = format!("CPPFLAGS=-I{}", needs.join("usr/include/x86_64-linux-gnu").display());
    let link = format!("LDFLAGS=-L{}", needs.join("usr/lib/x86_64-linux-gnu").display());
    // Position-independent is what Debian's compiler makes unasked.
    let configure = ["-q", "--with-lto", "--without-ensurepip", "CFLAGS=-g0", &headers, &link];
    run_in(&source, "./configure", &configure)?;
    let jobs = available_parallelism().map_or(1, usize::from);
    run_in(&source, "make", &["-s", &format!("-j{jobs}"), "python", "sharedmods"])?;
    run_in(&source, "strip", &["python"])?;
    assemble(&source, &scratch.join("done"), package)
}

/// The source, and what `ctypes` is made of.
fn fetch_parts(home: &Path, package: &str, scratch: &Path, needs: &Path) -> Result<()> {
    let suite = apt::read_codename()?;
    let folder = |kind: &str| home.join(".apt").join(format!("{suite}-{kind}"));
    Apt::open(folder("source"), &suite, Packages::Source)?.download_source(package, scratch)?;
    let archives = scratch.join("archives");
    fs::create_dir_all(&archives)?;
    let apt = Apt::open(folder("binary"), &suite, Packages::Binary)?;
    apt.download(&["libffi-dev".to_owned(), "libffi8".to_owned()], &archives)?;
    apt::unpack_all(&archives, needs)
}

/// Program, library and modules where an installation would have them.
fn assemble(source: &Path, done: &Path, package: &str) -> Result<()> {
    let library = done.join("lib").join(package);
    fs::create_dir_all(done.join("bin"))?;
    fs::create_dir_all(done.join("lib"))?;
    fs::rename(source.join("python"), done.join("bin/python"))?;
    fs::remove_dir_all(source.join("Lib/test"))?;
    fs::rename(source.join("Lib"), &library)?;
    let built =
        fs::read_to_string(source.join("pybuilddir.txt")).context("the build names no folder of modules")?;
    fs::rename(source.join(built.trim()), library.join("lib-dynload"))?;
    fetch::write_program(&done.join("python"), LAUNCHER)?;
    fetch::check(&done.join("python"))
}

fn find_archive(folder: &Path) -> Result<PathBuf> {
    let paths = fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let is_source =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".orig.tar"));
    paths.filter(|path| path.is_file()).find(is_source).context("no source archive among what apt fetched")
}

fn run_in(folder: &Path, program: &str, args: &[&str]) -> Result<()> {
    let mut command = Command::new("nice");
    command.args(["-n", "10", program]).args(args).current_dir(folder).stdin(Stdio::null());
    let log = folder.with_file_name("log");
    let output = File::options().create(true).append(true).open(&log)?;
    // A make of ours inside somebody's make would look for its job server.
    command.env_remove("MAKEFLAGS").stderr(output.try_clone()?).stdout(output);
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} failed: see {}", log.display());
    Ok(())
}
