//! The initramfs: busybox, `nilo`, the programs of the cases, and nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::package::{BUSYBOX, PYTHON};
use crate::workspace::succeed;
use crate::{test, workspace};

const INIT: &str = include_str!("../../guest/init.sh");
/// Programs of the cases, compiled to the last part of their names.
const PROGRAMS: &[&str] = &[
    "xtask/guest/access.c",
    "xtask/guest/enter.c",
    "xtask/guest/pages.c",
    "crates/cli/tests/programs/hog.c",
    "crates/cli/tests/programs/hot_pages.c",
];
/// Where our own Python package is in the guest.
pub const PACKAGES: &str = "/opt/python";
/// In the guest anybody may execute anything.
const MODE: u32 = 0o755;

/// Builds everything below `place` and gives the initramfs.
pub fn build(place: &Path) -> Result<PathBuf> {
    let root = place.join("root");
    fs::remove_dir_all(&root).ok(); // not there the first time
    for directory in ["bin", "proc", "sys", "dev", "tmp", "etc", "root", "home/user"] {
        fs::create_dir_all(root.join(directory))?;
    }
    let bin = root.join("bin");
    install_ours(&root)?;
    install(Path::new(BUSYBOX), &bin.join("busybox"))?;
    symlink("busybox", bin.join("sh"))?; // for init.sh, which makes the others
    for source in PROGRAMS {
        compile(&workspace::root().join(source), &bin)?;
    }
    install_python(&root)?;
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")?;
    fs::write(root.join("init"), INIT)?;
    fs::set_permissions(root.join("init"), PermissionsExt::from_mode(MODE))?;
    pack(&root, &place.join("initramfs.cpio"))
}

/// `nilo` as the tests have it, and this program as the one that runs the cases; what they need beside them.
fn install_ours(root: &Path) -> Result<()> {
    ensure!(test::build()?, "nilo cannot be built");
    let nilo = workspace::read_target_dir()?.join("debug/nilo");
    let ours = std::env::current_exe().context("this program has no path")?;
    for (from, name) in [(nilo, "nilo"), (ours, "cases")] {
        strip(&from, &root.join("bin").join(name))?;
        for library in libraries_of(&from)? {
            install(&library, &below(root, &library)?)?;
        }
    }
    Ok(())
}

/// A copy without what only a debugger reads: the guest has little memory.
fn strip(from: &Path, to: &Path) -> Result<()> {
    succeed(Command::new("strip").arg("-o").arg(to).arg(from))
}

/// The system's interpreter with the libraries it needs and as much of its own as it starts with.
fn install_python(root: &Path) -> Result<()> {
    let program = fs::canonicalize(PYTHON)?;
    for file in libraries_of(&program)?.into_iter().chain([PathBuf::from(PYTHON)]) {
        install(&file, &below(root, &file)?)?;
    }
    let name = program.file_name().context("the interpreter has a name")?;
    let library = Path::new("/usr/lib").join(name);
    fs::create_dir_all(below(root, &library.join("lib-dynload"))?)?; // it is missed aloud
    for folder in ["", "encodings", "collections", "json", "re", "importlib"] {
        install_modules(&library.join(folder), &below(root, &library.join(folder).join("x"))?)?;
    }
    install_ctypes(root, &library)?;
    let package = workspace::root().join("python/nilometer");
    install_modules(&package, &below(root, &Path::new(PACKAGES).join("nilometer/x"))?)
}

/// All modules of a folder, beside `place`.
fn install_modules(folder: &Path, place: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "py") {
            install(&file, &place.with_file_name(file.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}

/// Calls of the C library from Python, where this machine has them: they are in another package than the interpreter.
fn install_ctypes(root: &Path, library: &Path) -> Result<()> {
    let entries = fs::read_dir(library.join("lib-dynload")).into_iter().flatten().flatten();
    let extension =
        entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("/_ctypes."));
    let Some(extension) = extension else { return Ok(()) };
    install_modules(&library.join("ctypes"), &below(root, &library.join("ctypes/x"))?)?;
    for file in libraries_of(&extension)?.into_iter().chain([extension]) {
        install(&file, &below(root, &file)?)?;
    }
    Ok(())
}

/// What a program or library needs, as the dynamic linker finds it.
fn libraries_of(file: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(file).output().context("cannot start ldd")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

/// The same place in the guest; its directory is made.
fn below(root: &Path, file: &Path) -> Result<PathBuf> {
    let place = root.join(file.strip_prefix("/").context("an absolute path")?);
    fs::create_dir_all(place.parent().context("a file is in a directory")?)?;
    Ok(place)
}

fn compile(source: &Path, bin: &Path) -> Result<()> {
    let name = source.file_stem().context("a source has a name")?;
    let mut cc = Command::new("cc");
    cc.args(["-static", "-O1", "-Wall", "-Werror", "-pthread", "-s", "-o"]).arg(bin.join(name)).arg(source);
    succeed(&mut cc)
}

fn install(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    fs::set_permissions(to, PermissionsExt::from_mode(MODE))?;
    Ok(())
}

/// Not compressed: unpacking costs more under emulation than loading.
fn pack(root: &Path, archive: &Path) -> Result<PathBuf> {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"find . | cpio --quiet -o -H newc -R 0:0 -O "$0""#]).arg(archive).current_dir(root);
    succeed(&mut shell)?;
    Ok(archive.to_owned())
}
