//! `cargo xtask interpreters`: CPython as this machine has it, and releases fetched to test against.
//!
//! Fetched ones come from the distribution's other suites through apt, with apt directories of our own, and live in the
//! cache folder with their own C library; nothing is installed. A folder there is whole: it appears by a rename.

mod build;
mod fetch;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result};

use crate::workspace;

/// Minor versions that no stable distribution has yet.
const NEWEST: [u8; 2] = [14, 15];

/// A CPython that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Three numbers: order of the list.
    pub version: [u8; 3],
    pub program: PathBuf,
    /// Where its headers are; empty without them.
    pub includes: Vec<PathBuf>,
}

/// Fetches what is missing, builds one if asked, and prints what there is.
pub fn run(offline: bool, build: bool) -> Result<bool> {
    let fetched = if offline { Ok(()) } else { fetch::run() };
    let fetched = fetched.and_then(|()| if build { build::run() } else { Ok(()) });
    for interpreter in find()? {
        let version = interpreter.version.map(|part| part.to_string()).join(".");
        let headers = if interpreter.includes.is_empty() { "no headers" } else { "headers" };
        println!("{version:<8} {headers:<10} {}", interpreter.program.display());
    }
    fetched.map(|()| true)
}

/// For the tests: fetches where one of the newest versions is missing. Without them the tests say what they skip.
pub fn ensure() -> Result<bool> {
    let found = find()?;
    let missing = NEWEST.iter().any(|minor| found.iter().all(|interpreter| interpreter.version[1] != *minor));
    if missing && let Err(error) = fetch::run() {
        println!("{error:#}");
    }
    Ok(true)
}

/// All interpreters from 3.8 on that start, oldest first.
pub fn find() -> Result<Vec<Interpreter>> {
    let mut programs = vec![PathBuf::from("/usr/bin/python3")];
    programs.extend(read_entries(&pyenv()).into_iter().map(|folder| folder.join("bin/python3")));
    programs.extend(read_entries(&folder()?).into_iter().map(|folder| folder.join("python")));
    let mut found: Vec<_> = programs.into_iter().filter_map(probe).collect();
    found.sort_by(|a, b| (a.version, &a.program).cmp(&(b.version, &b.program)));
    Ok(found)
}

/// Where fetched interpreters live.
pub fn folder() -> Result<PathBuf> {
    let folder = workspace::cache_folder()?.join("interpreters");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn pyenv() -> PathBuf {
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    root.or_else(home).unwrap_or_default().join("versions")
}

fn read_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).collect()
}

const PROBE: &str = "import sys, sysconfig as s; print(*sys.version_info[:3]); print(s.get_path('include'))";

fn probe(program: PathBuf) -> Option<Interpreter> {
    let output = Command::new(&program).args(["-S", "-c", PROBE]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let numbers: Vec<u8> = lines.next()?.split(' ').filter_map(|number| number.parse().ok()).collect();
    let version = <[u8; 3]>::try_from(numbers).ok().filter(|version| *version >= [3, 8, 0])?;
    let includes = find_includes(&program, version, Path::new(lines.next()?));
    Some(Interpreter { version, program, includes })
}

/// Headers: where the interpreter says, or in its own tree.
fn find_includes(program: &Path, version: [u8; 3], said: &Path) -> Vec<PathBuf> {
    let tree = program.with_file_name("root").join("usr/include");
    let own = tree.join(format!("python{}.{}", version[0], version[1]));
    // Debian's pyconfig.h asks for a second one below the directory of the architecture.
    let candidates =
        [vec![own.clone(), own.join("internal"), tree], vec![said.to_path_buf(), said.join("internal")]];
    candidates.into_iter().find(|paths| paths[0].join("Python.h").exists()).unwrap_or_default()
}
