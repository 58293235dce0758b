//! The stacks of a program in every interpreter, compared with what the program itself says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod target;

use std::cell::RefCell;
use std::collections::HashSet;
use std::process::Command;

use nilometer_cpython::stack::{self, Held, Reference};
use nilometer_cpython::{Python, Version, locate};
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_image::{Memory, core};
use nilometer_trace::heap::ThreadStack;
use serde_json::Value;
use target::{Target, interpreters, skip};

/// File, function, line.
type Place = (String, String, u64);

fn for_each_interpreter(check: impl Fn(&Value, &Python, &Peek)) {
    for program in interpreters() {
        let target = Target::start(&program, "stacks.py");
        let peek = Peek::open(target.pid()).unwrap();
        let python =
            locate(&peek, &peek.modules()).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        assert_eq!(python.limits, [""; 0], "{}", program.display());
        check(&target.truth, &python, &peek);
    }
}

fn said_frames(stack: &Value) -> Vec<Place> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let frames = stack["frames"].as_array().unwrap().iter();
    frames.map(|frame| (text(&frame[0]), text(&frame[1]), frame[2].as_u64().unwrap())).collect()
}

fn found_frames(stack: &ThreadStack) -> Vec<Place> {
    let line = |line: Option<u32>| u64::from(line.unwrap_or(0));
    stack.frames.iter().map(|frame| (frame.file.clone(), frame.function.clone(), line(frame.line))).collect()
}

/// Which of them the program calls the same thread.
fn said_of<'a>(truth: &'a Value, stack: &ThreadStack) -> &'a Value {
    let same = |said: &&Value| said["native"].as_u64() == stack.native_id;
    truth["stacks"].as_array().unwrap().iter().find(same).unwrap_or_else(|| panic!("no thread {stack:?}"))
}

#[test]
fn every_thread_is_where_it_says() {
    for_each_interpreter(|truth, python, peek| {
        let stacks = stack::threads(python, peek);
        assert_eq!(stacks.len(), truth["stacks"].as_array().unwrap().len(), "{}", python.version);
        for found in &stacks {
            let said = said_of(truth, found);
            assert_eq!(found_frames(found), said_frames(said), "{}", python.version);
            assert_eq!(found.name.as_deref(), said["name"].as_str());
            assert_eq!(found.cut, None);
        }
        assert_eq!(stacks[0].name.as_deref(), Some("MainThread"));
        // All of them wait in C; only the main thread may be on its way there, from saying so.
        assert!(stacks[1..].iter().all(|stack| stack.holds_gil == Some(false)), "{}", python.version);
    });
}

/// The main thread may have let go of the lock meanwhile.
fn without_lock(mut stacks: Vec<ThreadStack>) -> Vec<ThreadStack> {
    for stack in &mut stacks {
        stack.holds_gil = None;
    }
    stacks
}

#[test]
fn a_copy_shows_the_same_stacks() {
    for_each_interpreter(|_, python, peek| {
        let image = capture(peek, &CaptureOptions::default(), &[]).unwrap().image;
        let (copied, live) = (stack::threads(python, &image), stack::threads(python, peek));
        assert_eq!(without_lock(copied), without_lock(live));
        let again = locate(&image, &peek.modules()).unwrap();
        assert_eq!(again.interpreters, python.interpreters);
    });
}

/// All of it, or less, and then it is said.
fn is_the_inner_part(part: &ThreadStack, whole: &ThreadStack) -> bool {
    part == whole || (part.cut.is_some() && whole.frames.starts_with(&part.frames))
}

#[test]
fn a_core_shows_the_same_stacks() {
    if !Command::new("gdb").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skip("gcore", "gdb is not installed");
    }
    let minors = RefCell::new(HashSet::new());
    for_each_interpreter(|_, python, peek| {
        if !minors.borrow_mut().insert(python.version.minor) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core");
        let pid = peek.pid().to_string();
        let made = Command::new("gcore").arg("-o").arg(&path).arg(&pid).output().unwrap();
        assert!(made.status.success());
        let core = core::open(&path.with_extension(&pid), None).unwrap();
        let dead =
            locate(&core.image, &core.modules).unwrap_or_else(|error| panic!("{}: {error}", python.version));
        assert_eq!((dead.version, &dead.interpreters), (python.version, &python.interpreters));
        let (stacks, live) = (stack::threads(&dead, &core.image), stack::threads(python, peek));
        let (stacks, live) = (without_lock(stacks), without_lock(live));
        // Guard pages of newer C libraries keep gdb from copying the threads' own stacks, where some frames lie.
        if String::from_utf8_lossy(&made.stderr).contains("Memory read failed") {
            assert!(stacks.iter().zip(&live).all(|(dead, live)| is_the_inner_part(dead, live)), "{stacks:?}");
        } else {
            assert_eq!(stacks, live, "{}", python.version);
        }
    });
}

#[test]
fn interpreters_are_what_they_say() {
    for_each_interpreter(|truth, python, _| {
        let version = Version::from_hex(truth["version"].as_u64().unwrap()).unwrap();
        assert_eq!(python.version, version);
        let [interpreter] = python.interpreters[..] else { panic!("one interpreter") };
        assert_eq!(interpreter.id, 0);
        assert_eq!(Some(interpreter.modules), truth["modules"].as_u64());
        assert_eq!(Some(interpreter.sys), truth["sys"].as_u64());
        assert_eq!(Some(python.type_type), truth["type"].as_u64());
        assert!(interpreter.gc.is_some());
        assert_eq!(interpreter.interned.is_some(), version.at_least(12));
    });
}

/// Names and addresses.
fn said_locals(frame: &Value) -> Vec<(String, u64)> {
    let locals = frame.as_object().unwrap().iter();
    let mut said: Vec<_> = locals.map(|(name, id)| (name.clone(), id.as_u64().unwrap())).collect();
    said.sort();
    said
}

#[test]
fn every_local_variable_is_found() {
    for_each_interpreter(|truth, python, peek| {
        let stacks = stack::threads(python, peek);
        let mut found: Vec<Vec<Vec<(String, u64)>>> =
            stacks.iter().map(|s| vec![Vec::new(); s.frames.len()]).collect();
        stack::locals(python, peek, &mut |root| {
            assert_eq!(*root.frame, stacks[root.thread].frames[root.depth]);
            if let Some(name) = root.name {
                assert!(root.reference.certain);
                found[root.thread][root.depth].push((name.to_owned(), root.reference.address));
            }
        });
        for (stack, locals) in stacks.iter().zip(&mut found) {
            for (said, locals) in said_of(truth, stack)["frames"].as_array().unwrap().iter().zip(locals) {
                let said_locals = said_locals(&said[3]);
                locals.retain(|(name, _)| said_locals.iter().any(|(said, _)| said == name));
                locals.sort();
                assert_eq!(*locals, said_locals, "{} {said}", python.version);
            }
        }
    });
}

#[test]
fn an_operand_of_a_waiting_call_is_found() {
    for_each_interpreter(|truth, python, peek| {
        let mut found = Vec::new();
        stack::locals(python, peek, &mut |root| {
            if root.reference.held == Held::Temporary
                && Some(root.reference.address) == truth["marker"].as_u64()
            {
                found.push((root.frame.function.clone(), root.reference.certain));
            }
        });
        // Until 3.10 only the C stack knows how far the operands of a running frame reach.
        assert_eq!(found, [("temporaries".to_owned(), python.version.at_least(11))], "{}", python.version);
    });
}

fn named(peek: &Peek, python: &Python, references: &[Reference]) -> Vec<(String, u64)> {
    let name = |reference: &Reference| match reference.held {
        // Names are short ASCII: characters follow the header.
        Held::Local { name } => peek.name(name + python.layout.str_.ascii_size),
        _ => None,
    };
    let mut found: Vec<_> = references.iter().filter_map(|r| Some((name(r)?, r.address))).collect();
    found.sort();
    found
}

#[test]
fn a_suspended_generator_holds_its_locals() {
    for_each_interpreter(|truth, python, peek| {
        for said in truth["generators"].as_array().unwrap() {
            let (generator, frame) = (said["generator"].as_u64().unwrap(), said["frame"].as_u64().unwrap());
            let references = match (python.version.at_least(11), frame) {
                (true, _) => stack::generator_references(python, peek, generator),
                (false, 0) => Vec::new(),
                (false, frame) => stack::frame_references(python, peek, frame),
            };
            let mut found = named(peek, python, &references);
            let said_locals = said_locals(&said["locals"]);
            found.retain(|(name, _)| name != "future");
            assert_eq!(found, said_locals, "{} {said}", python.version);
            assert_eq!(references.is_empty(), frame == 0, "{} {said}", python.version);
            assert!(
                references.iter().all(|reference| reference.certain),
                "{} {references:?}",
                python.version
            );
        }
    });
}

/// Stopped anywhere, every stack goes down to where its thread began, and every local variable is an object.
#[test]
fn a_busy_process_has_whole_stacks_whenever_it_is_stopped() {
    for program in interpreters() {
        let target = Target::start(&program, "busy.py");
        let peek = Peek::open(target.pid()).unwrap();
        let python =
            locate(&peek, &peek.modules()).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        for _ in 0..5 {
            let image = capture(&peek, &CaptureOptions::default(), &[]).unwrap().image;
            let stacks = stack::threads(&python, &image);
            assert_eq!(stacks.len(), 5, "{}", python.version);
            for stack in &stacks {
                let bottom = stack.frames.last().map(|frame| frame.function.rsplit('.').next().unwrap());
                assert!(matches!(bottom, Some("_bootstrap" | "<module>")), "{} {stack:?}", python.version);
                assert_eq!(stack.cut, None);
                assert!(
                    stack.frames.iter().all(|frame| frame.line.is_some()),
                    "{} {stack:?}",
                    python.version
                );
            }
            assert!(stacks.iter().filter(|stack| stack.holds_gil == Some(true)).count() <= 1);
            stack::locals(&python, &image, &mut |root| {
                let type_of = |object: u64| image.u64(object.checked_add(python.layout.object.type_)?);
                let metatype = type_of(root.reference.address).and_then(type_of);
                assert!(
                    !root.reference.certain || metatype == Some(python.type_type),
                    "{} {root:?}",
                    python.version
                );
            });
        }
    }
}
