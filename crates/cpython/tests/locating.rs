//! Finding interpreters: other builds, old ones, several in a process, none at all, and damaged ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod target;

use std::cell::Cell;

use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_cpython::{Error, Python, Version, locate, stack};
use nilometer_image::Memory;
use nilometer_image::live::Peek;
use target::{Target, interpreters, skip};

fn find(target: &Target) -> Result<Python, Error> {
    let peek = Peek::open(target.pid()).unwrap();
    locate(&peek, &peek.modules())
}

/// pyenv's, which have headers and a shared library.
fn pyenv(version: &str) -> PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_default();
    Path::new(&home).join(".pyenv/versions").join(version)
}

#[test]
fn versions_before_3_8_are_refused_by_name() {
    for (name, program, version) in [
        ("2.7.18", "python2.7", Version::new(2, 7, 18)),
        ("3.6.15", "python3.6", Version::new(3, 6, 15)),
        ("3.7.16", "python3.7", Version::new(3, 7, 16)),
    ] {
        let python = pyenv(name).join("bin").join(program);
        if !python.exists() {
            skip("old-python", &format!("CPython {name} is not in ~/.pyenv"));
            continue;
        }
        let error = find(&Target::start(&python, "wait.py")).unwrap_err();
        assert_eq!(error, Error::Unsupported { version });
    }
}

#[test]
fn every_minor_version_is_here_to_be_tested() {
    let mut found: Vec<_> =
        interpreters().iter().map(|program| find(&Target::start(program, "wait.py")).unwrap()).collect();
    found.sort_by_key(|python| python.version);
    for minor in 8..=15 {
        if found.iter().all(|python| python.version.minor != minor) {
            skip(&format!("python-3.{minor}"), "not here: cargo xtask interpreters");
        }
    }
}

#[test]
fn a_shell_is_not_python() {
    let target = Target::run(Command::new("sh").args(["-c", "echo {}; read line"]));
    assert_eq!(find(&target).unwrap_err(), Error::NotPython);
}

#[test]
fn a_virtual_environment_is_found_like_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip"]).arg(folder.path()).status();
    assert!(made.unwrap().success());
    let target = Target::start(&folder.path().join("bin/python"), "wait.py");
    assert_eq!(find(&target).unwrap().version.to_string(), target.truth["version"].as_str().unwrap());
}

fn compile(folder: &Path, flags: &[&str]) -> PathBuf {
    let home = pyenv("3.11.7");
    let program = folder.join("embedding");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/embedded.c");
    let library = home.join("lib");
    let status = Command::new("cc")
        .arg("-o")
        .args([&program, &source])
        .arg(format!("-I{}", home.join("include/python3.11").display()))
        .arg(format!("-L{}", library.display()))
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .arg("-lpython3.11")
        .args(flags)
        .status();
    assert!(status.unwrap().success());
    program
}

#[test]
fn a_program_with_an_interpreter_in_it_is_read() {
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie", "-fno-pie"]] {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::run(&mut Command::new(compile(folder.path(), flags)));
        let python = find(&target).unwrap();
        assert_eq!(python.version, Version::new(3, 11, 7));
        let peek = Peek::open(target.pid()).unwrap();
        assert_eq!(python.layout.object.type_, 8);
        let none_type = peek.u64(target.truth["none"].as_u64().unwrap() + 8).unwrap();
        assert_eq!(peek.u64(none_type + 8), Some(python.type_type), "{flags:?}");
        let stacks = stack::threads(&python, &peek);
        let functions: Vec<_> = stacks[0].frames.iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(functions, ["embedded", "<module>"], "{flags:?}");
    }
}

#[test]
fn a_library_without_an_interpreter_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::run(&mut Command::new(compile(folder.path(), &["-DIDLE"])));
    let error = find(&target).unwrap_err();
    assert!(
        matches!(&error, Error::NotStarted { path } if path.ends_with("libpython3.11.so.1.0")),
        "{error}"
    );
}

#[test]
fn interpreters_beside_the_main_one_are_listed() {
    for program in interpreters() {
        let target = Target::start(&program, "subinterpreters.py");
        let python = find(&target).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let ids: Vec<_> = python.interpreters.iter().map(|interpreter| interpreter.id).collect();
        let said: Vec<_> =
            target.truth["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        assert_eq!(ids, said, "{}", python.version);
        let peek = Peek::open(target.pid()).unwrap();
        let stacks = stack::threads(&python, &peek);
        let innermost =
            |stack: &nilometer_trace::heap::ThreadStack| stack.frames.first().map(|f| f.function.clone());
        assert!(stacks.iter().any(|stack| innermost(stack).as_deref() == Some("inside")), "{stacks:?}");
    }
}

#[test]
fn the_holder_of_the_lock_is_known() {
    for program in interpreters() {
        let target = Target::start(&program, "lock_holder.py");
        let peek = Peek::open(target.pid()).unwrap();
        let python = locate(&peek, &peek.modules()).unwrap();
        let held: Vec<_> =
            stack::threads(&python, &peek).into_iter().map(|s| (s.name.unwrap(), s.holds_gil)).collect();
        let expected = [("MainThread".to_owned(), Some(true)), ("sleeper".to_owned(), Some(false))];
        assert_eq!(held, expected, "{}", python.version);
    }
}

/// Memory with some words changed.
struct Damaged<'a> {
    peek: &'a Peek,
    words: Vec<(u64, u64)>,
}

impl Memory for Damaged<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        self.peek.read(address, into)?;
        for (at, word) in &self.words {
            for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
                if let Some(place) =
                    (at + index as u64).checked_sub(address).and_then(|at| into.get_mut(at as usize))
                {
                    *place = byte;
                }
            }
        }
        Some(())
    }
}

/// Caught in the middle of a change; what is kept of that is to be forgotten, and after some looks the change is done.
struct Changing<'a> {
    first: Damaged<'a>,
    looks: Cell<u32>,
}

impl Memory for Changing<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        if self.looks.get() < 3 {
            self.first.read(address, into)
        } else {
            self.first.peek.read(address, into)
        }
    }

    fn is_still(&self) -> bool {
        false
    }

    fn forget(&self) {
        self.looks.set(self.looks.get() + 1);
    }
}

#[test]
fn an_interpreter_that_was_changing_its_modules_is_looked_at_anew() {
    for (_target, peek, python) in one_of_each() {
        let words = vec![(python.interpreters[0].modules + 8, 0)];
        let still = Damaged { peek: &peek, words: words.clone() };
        assert!(matches!(locate(&still, &peek.modules()), Err(Error::UnknownLayout { .. })));
        let changing = Changing { first: Damaged { peek: &peek, words }, looks: Cell::new(0) };
        assert_eq!(locate(&changing, &peek.modules()).unwrap().version, python.version);
    }
}

/// One of each minor version.
fn one_of_each() -> Vec<(Target, Peek, Python)> {
    let mut found: Vec<(Target, Peek, Python)> = Vec::new();
    for program in interpreters() {
        let target = Target::start(&program, "stacks.py");
        let peek = Peek::open(target.pid()).unwrap();
        let python = locate(&peek, &peek.modules()).unwrap();
        if found.iter().all(|(_, _, known)| known.version.minor != python.version.minor) {
            found.push((target, peek, python));
        }
    }
    found
}

#[test]
fn a_free_threaded_build_is_refused() {
    for (_target, peek, python) in one_of_each() {
        if python.version.at_least(13) {
            let damaged = Damaged { peek: &peek, words: vec![(python.runtime + 16, 1)] };
            let error = locate(&damaged, &peek.modules()).unwrap_err();
            assert_eq!(error, Error::FreeThreaded { version: python.version });
        }
    }
}

#[test]
fn fields_that_moved_are_found_by_search() {
    for (_target, peek, python) in one_of_each() {
        let main = python.interpreters[0];
        let offsets = python.layout.interpreter;
        // Exchanged with their neighbours, as if a field had been put in before them.
        let modules = main.address + offsets.modules;
        let words = vec![(modules, 0x10), (modules + 8, main.modules)];
        let damaged = Damaged { peek: &peek, words };
        let again = locate(&damaged, &peek.modules()).unwrap();
        assert_eq!(again.interpreters[0].modules, main.modules, "{}", python.version);
        assert_eq!(again.layout.interpreter.modules, offsets.modules + 8);
        assert!(again.limits.iter().any(|limit| limit.contains("table of modules")), "{:?}", again.limits);
        let threads = main.address + offsets.threads_head;
        let damaged = Damaged { peek: &peek, words: vec![(threads, 0x10), (threads + 8, main.threads)] };
        let again = locate(&damaged, &peek.modules()).unwrap();
        assert_eq!(stack::threads(&again, &damaged), stack::threads(&python, &peek), "{}", python.version);
        assert!(again.limits.iter().any(|limit| limit.contains("list of threads")), "{:?}", again.limits);
    }
}

#[test]
fn a_layout_that_does_not_fit_is_refused() {
    for (_target, peek, python) in one_of_each() {
        let (version, modules) = (python.version, peek.modules());
        let refused = |words| locate(&Damaged { peek: &peek, words }, &modules).unwrap_err();
        let basicsize = python.type_type + python.layout.type_.basicsize;
        assert_eq!(
            refused(vec![(basicsize, 4000)]),
            Error::UnknownLayout { version, what: "its built-in types" }
        );
        let head = python.runtime + python.layout.runtime.interpreters_head;
        assert_eq!(
            refused(vec![(head, 0x1234)]),
            Error::UnknownLayout { version, what: "its list of interpreters" }
        );
        let next = python.interpreters[0].address + python.layout.interpreter.next;
        let error = refused(vec![(next, python.interpreters[0].address)]);
        assert_eq!(error, Error::UnknownLayout { version, what: "its list of interpreters" });
        assert!(matches!(refused(vec![(head, 0)]), Error::NotStarted { .. }));
    }
}

/// Bits that nobody expects, in the places that are read: answers may be wrong, but come.
#[test]
fn no_damage_panics() {
    for (_target, peek, python) in one_of_each() {
        let main = python.interpreters[0];
        let places = [python.runtime, main.address, main.modules, main.threads, main.sys, python.type_type];
        let mut state = 88_172_645_463_325_252u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..25 {
            let word = |random: &mut dyn FnMut() -> u64| {
                let at = places[(random() % places.len() as u64) as usize] + random() % 64 * 8;
                let values =
                    [random(), random() % 4096, u64::MAX, u64::MAX - 7, at, main.address, main.threads & !7];
                (at, values[(random() % values.len() as u64) as usize])
            };
            let words = (0..4).map(|_| word(&mut random)).collect();
            let damaged = Damaged { peek: &peek, words };
            let _ = locate(&damaged, &peek.modules());
            stack::threads(&python, &damaged);
            stack::locals(&python, &damaged, &mut |_| {});
        }
    }
}

#[test]
fn fields_next_to_moved_ones_are_not_believed() {
    for (_target, peek, python) in one_of_each() {
        let table = nilometer_cpython::layout::find(python.version).unwrap();
        let Some(told) = table.told.iter().find(|told| told.name == "interpreter.builtins") else { continue };
        let main = python.interpreters[0];
        let moved = python.layout.interpreter.builtins + 800;
        let words = vec![(python.runtime + told.position, moved), (main.address + moved, main.builtins)];
        let again = locate(&Damaged { peek: &peek, words }, &peek.modules()).unwrap();
        assert_eq!(again.interpreters[0].builtins, main.builtins);
        assert_eq!((again.interpreters[0].interned, again.layout.interpreter.owned.len()), (None, 0));
        assert!(again.limits.iter().any(|limit| limit.contains("other fields")), "{:?}", again.limits);
    }
}

#[test]
fn a_stack_that_goes_round_is_cut() {
    for (_target, peek, python) in one_of_each() {
        let layout = &python.layout;
        let thread = python.interpreters[0].threads;
        let at = |address: u64, offset: u64| peek.u64(address + offset).unwrap();
        let (frame, link) = match (layout.thread.frame, layout.thread.cframe, layout.thread.current_frame) {
            (Some(frame), _, _) => (at(thread, frame), layout.frame_object.back),
            (_, Some(cframe), _) => {
                (at(at(thread, cframe), layout.thread.cframe_current), layout.frame.previous)
            }
            (_, _, current) => (at(thread, current.unwrap()), layout.frame.previous),
        };
        let words = vec![(frame + link, frame)];
        let stacks = stack::threads(&python, &Damaged { peek: &peek, words: words.clone() });
        let cut = stacks.iter().find(|stack| stack.cut.is_some()).unwrap();
        assert_eq!((cut.frames.len(), cut.cut.as_deref()), (10_000, Some("more than 10000 frames")));
        if python.version.at_least(11) {
            // The same, of a frame that is not shown.
            let owner = at(frame, layout.frame.owner) & !0xff | 3;
            let words = [words, vec![(frame + layout.frame.owner, owner)]].concat();
            let stacks = stack::threads(&python, &Damaged { peek: &peek, words });
            assert!(stacks.iter().any(|stack| stack.cut.is_some() && stack.frames.is_empty()));
        }
    }
}
