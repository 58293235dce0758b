//! Finding CPython in a process and making sure that its layout is the one we think it is.
//!
//! Symbols lead to `_PyRuntime`, several sorts of evidence to the version, the version to a table, and the table is
//! believed only when well-known objects are where it says. What the interpreter tells about itself (the debug offsets
//! of 3.13 and later) goes before what a table says. The invariant: a [`Python`] has passed every check.

mod evidence;
mod repair;
mod verify;

use std::path::{Path, PathBuf};
use std::time::Duration;

use nilometer_image::{Memory, Module, Modules};

use crate::layout::{self, Layout, Table};
use crate::{Error, Version};
use evidence::Evidence;

/// Programs that are neither named after Python nor linked to its library are opened up to this number.
const MAX_PROGRAMS: usize = 4;

/// A process that runs may be changing a table while it is read, and may be kept from its processor in the middle of
/// that: what does not fit is looked at so many times, each wait twice as long as the one before. All of them are shorter than
/// a post-mortem's stop may last.
const LOOKS: usize = 7;
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// A CPython whose layout is known and checked.
#[derive(Debug, Clone)]
pub struct Python {
    pub version: Version,
    pub layout: Layout,
    /// Address of `_PyRuntime`.
    pub runtime: u64,
    /// Address of the type `type`.
    pub type_type: u64,
    /// The main one first; never empty.
    pub interpreters: Vec<Interpreter>,
    /// The program or library that it was found in.
    pub file: PathBuf,
    /// What cannot be read of it, in sentences.
    pub limits: Vec<String>,
}

/// One interpreter of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    pub address: u64,
    pub id: u64,
    /// The dict of all modules.
    pub modules: u64,
    /// The dict of module `sys`.
    pub sys: u64,
    /// The dict of module `builtins`.
    pub builtins: u64,
    /// The collector's state: [`layout::Gc`] counts from here. None if it was not where it should be.
    pub gc: Option<u64>,
    /// The first thread state; 0 for none.
    pub threads: u64,
    /// The dict of interned strings (3.12 on).
    pub interned: Option<u64>,
}

/// Finds the interpreter that runs in the process, if it is one that can be read.
pub fn locate<M: Memory + ?Sized>(memory: &M, modules: &Modules) -> Result<Python, Error> {
    let mut refused = Error::NotPython;
    for module in candidates(modules) {
        let look = || {
            memory.forget();
            inspect(memory, module)
        };
        match look_again(memory.is_still(), look) {
            Ok(python) => return Ok(python),
            Err(error) if weight(&error) > weight(&refused) => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// The library goes first: a program linked to it is only a shell. But a library that an extension has drawn into
/// a static interpreter lies unused, so all are tried.
fn candidates(modules: &Modules) -> Vec<&Module> {
    let library = |name: &str| name.starts_with("libpython") && name.contains(".so");
    let program = |name: &str| !name.contains(".so");
    let python = move |name: &str| program(name) && name.starts_with("python");
    let other = move |name: &str| program(name) && !name.starts_with("python");
    // A debugger's core leaves code out and does not tell that it could be executed; variables are always there.
    let runs = |module: &&Module| module.mappings().iter().any(|mapping| mapping.execute || mapping.write);
    let named = modules.find_all(library).chain(modules.find_all(python)).filter(runs);
    named.chain(modules.find_all(other).filter(runs).take(MAX_PROGRAMS)).collect()
}

/// Of several refusals the one that says most is told.
fn weight(error: &Error) -> u8 {
    match error {
        Error::NotPython => 0,
        Error::NoSymbols { .. } => 1,
        Error::UnknownVersion { .. } => 2,
        Error::NotStarted { .. } => 3,
        Error::Unsupported { .. } | Error::FreeThreaded { .. } | Error::UnknownLayout { .. } => 4,
    }
}

/// Looks until what is seen fits, or was looked at often enough.
fn look_again<T>(is_still: bool, mut look: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let mut found = look();
    let mut wait = FIRST_WAIT;
    for _ in 1..LOOKS {
        if is_still || !matches!(found, Err(Error::UnknownLayout { .. })) {
            break;
        }
        std::thread::sleep(wait);
        wait *= 2;
        found = look();
    }
    found
}

fn inspect<M: Memory + ?Sized>(memory: &M, module: &Module) -> Result<Python, Error> {
    let evidence = Evidence::collect(memory, module)?;
    let (version, path) = (evidence.version, module.path().to_path_buf());
    if evidence.free_threaded {
        return Err(Error::FreeThreaded { version });
    }
    let table = layout::find(version).ok_or(Error::Unsupported { version })?;
    let check = |version, table: &Table| {
        let layout = read_told(memory, &evidence, table);
        verify::check(memory, &Claim { path: &path, version, runtime: evidence.runtime, table, layout })
    };
    let python = check(version, table)?;
    // The objects know better than a file's name which release they are.
    match layout::find(python.version) {
        Some(other) if other.micro != table.micro => check(python.version, other),
        _ => Ok(python),
    }
}

/// What is thought of an interpreter before it is checked.
#[derive(Debug)]
struct Claim<'a> {
    path: &'a Path,
    version: Version,
    runtime: u64,
    table: &'a Table,
    /// The table's, with what the interpreter tells about itself.
    layout: Layout,
}

/// The table, with what the interpreter tells about itself put over it.
fn read_told<M: Memory + ?Sized>(memory: &M, evidence: &Evidence, table: &Table) -> Layout {
    let mut layout = table.layout;
    if evidence.has_debug_offsets {
        for told in table.told {
            let value = evidence.runtime.checked_add(told.position).and_then(|address| memory.u64(address));
            // No structure is that large: damaged.
            if let Some(value) = value.filter(|value| *value < 1 << 24) {
                (told.set)(&mut layout, value);
            }
        }
    }
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often is looked where the first `torn` looks do not fit, and whether it fitted at last.
    fn looks(is_still: bool, torn: usize, error: fn() -> Error) -> (usize, bool) {
        let mut looks = 0;
        let found = look_again(is_still, || {
            looks += 1;
            if looks > torn { Ok(()) } else { Err(error()) }
        });
        (looks, found.is_ok())
    }

    #[test]
    fn what_does_not_fit_is_looked_at_again_and_not_for_ever() {
        let unknown =
            || Error::UnknownLayout { version: Version::new(3, 14, 10), what: "its table of modules" };
        assert_eq!(looks(false, 0, unknown), (1, true));
        assert_eq!(looks(false, 1, unknown), (2, true));
        assert_eq!(looks(false, 99, unknown), (LOOKS, false));
        assert_eq!(looks(true, 1, unknown), (1, false), "a copy does not change");
        assert_eq!(looks(false, 99, || Error::NotPython), (1, false));
    }
}
