//! One stack of two: the native frames, with each evaluator replaced by the Python frames that it runs.
//!
//! Both come innermost first. A Python frame with `entry` is the first of its evaluator: the ones inside it up to there
//! belong to one native frame. The one invariant: every Python frame appears once, in calling order.

/// Index of a named frame.
pub type FrameId = u32;

/// What a native frame is to a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Plain,
    /// Runs Python code.
    Evaluator,
    /// The rest of the interpreter.
    Interpreter,
    /// Loads libraries and calls their initialisers.
    Linker,
    /// In the C library: of interest only between other frames.
    Libc,
    /// Before `main`, or a thread's first function.
    Start,
    /// Hands on to `malloc`.
    Allocator,
}

#[derive(Debug, Clone, Copy)]
pub struct Native<'a> {
    /// What is inlined comes first.
    pub frames: &'a [FrameId],
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Python {
    /// `None`: not shown.
    pub frame: Option<FrameId>,
    pub entry: bool,
}

/// Appends the merged stack to `out`. With `internals` nothing native is left out.
pub fn merge(native: &[Native<'_>], python: &[Python], internals: bool, out: &mut Vec<FrameId>) {
    let mut python = python.iter();
    let kept = if internals { native } else { within_start(native) };
    for frame in kept {
        if frame.role == Role::Evaluator {
            run_by_evaluator(&mut python, out);
        }
        if internals || matches!(frame.role, Role::Plain | Role::Libc | Role::Start) {
            out.extend_from_slice(frame.frames);
        }
    }
    // The native stack was cut before its outermost evaluators, or the interpreter has no names.
    out.extend(python.filter_map(|python| python.frame));
}

fn run_by_evaluator(python: &mut std::slice::Iter<'_, Python>, out: &mut Vec<FrameId>) {
    for frame in python {
        out.extend(frame.frame);
        if frame.entry {
            break;
        }
    }
}

/// Without what every stack begins with.
fn within_start<'a, 'b>(native: &'b [Native<'a>]) -> &'b [Native<'a>] {
    let outer =
        native.iter().rev().take_while(|frame| matches!(frame.role, Role::Start | Role::Libc)).count();
    &native[..native.len() - outer]
}

/// The kind of a stack of which nothing is left after folding.
pub fn remainder(native: &[Native<'_>]) -> Option<Role> {
    let has = |role: Role| native.iter().any(|frame| frame.role == role);
    [Role::Evaluator, Role::Interpreter, Role::Linker, Role::Allocator, Role::Libc, Role::Start]
        .into_iter()
        .find(|role| has(*role))
}

/// The role of a function, by its own name (as the linker knows it) and its library's.
pub fn role(function: &str, library: &str) -> Role {
    const STARTS: [&str; 8] = [
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "start_thread",
        "clone",
        "clone3",
        "__clone",
        "__clone3",
    ];
    let is = |starts: &[&str]| starts.iter().any(|start| library.starts_with(start));
    if function.starts_with("_PyEval_EvalFrameDefault") {
        Role::Evaluator
    } else if STARTS.iter().any(|start| function.starts_with(start) && function.len() - start.len() < 6) {
        Role::Start
    } else if is(&["libpython3", "python3", "python"]) && !library.contains(".cpython-") {
        Role::Interpreter
    } else if is(&["ld-linux", "ld-2", "ld.so"]) {
        Role::Linker
    } else if is_allocator(function) {
        Role::Allocator
    } else if is(&["libc.so", "libc-2", "libpthread", "libdl"]) {
        if loads(function) { Role::Linker } else { Role::Libc }
    } else {
        Role::Plain
    }
}

/// The C library's part of loading a library.
fn loads(function: &str) -> bool {
    ["dlopen", "dlerror", "_dl_", "dl_open"].iter().any(|part| function.contains(part))
}

/// `operator new` of C++, and what Rust calls it.
fn is_allocator(function: &str) -> bool {
    ["_Znw", "_Zna", "__rust_alloc", "__rust_realloc", "__rdl_alloc", "__rdl_realloc"]
        .iter()
        .any(|name| function.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(frames: &[FrameId], role: Role) -> Native<'_> {
        Native { frames, role }
    }

    fn merged(native: &[Native<'_>], python: &[(FrameId, bool)], internals: bool) -> Vec<FrameId> {
        let python: Vec<Python> =
            python.iter().map(|&(frame, entry)| Python { frame: Some(frame), entry }).collect();
        let mut out = Vec::new();
        merge(native, &python, internals, &mut out);
        out
    }

    #[test]
    fn evaluators_become_the_frames_they_run() {
        use Role::{Evaluator, Interpreter, Libc, Plain, Start};
        let stack = [
            native(&[1, 2], Plain),
            native(&[3], Interpreter),
            native(&[4], Evaluator),
            native(&[5], Interpreter),
            native(&[6], Plain),
            native(&[7], Evaluator),
            native(&[8], Interpreter),
            native(&[9], Libc),
            native(&[10], Start),
        ];
        let python = [(101, false), (102, true), (103, false), (104, false), (105, true)];
        assert_eq!(merged(&stack, &python, false), [1, 2, 101, 102, 6, 103, 104, 105]);
        let all = [1, 2, 3, 101, 102, 4, 5, 6, 103, 104, 105, 7, 8, 9, 10];
        assert_eq!(merged(&stack, &python, true), all);
    }

    #[test]
    fn python_frames_survive_a_native_stack_that_was_cut_or_has_no_names() {
        let python = [(101, true), (102, true)];
        assert_eq!(merged(&[native(&[1], Role::Evaluator)], &python, false), [101, 102]);
        assert_eq!(merged(&[], &python, false), [101, 102]);
        assert_eq!(merged(&[native(&[1], Role::Plain)], &python, false), [1, 101, 102]);
    }

    #[test]
    fn the_c_library_is_left_out_at_the_start_only() {
        use Role::{Libc, Plain, Start};
        let stack = [native(&[1], Libc), native(&[2], Plain), native(&[3], Libc), native(&[4], Start)];
        assert_eq!(merged(&stack, &[], false), [1, 2]);
    }

    #[test]
    fn roles_are_told_by_names() {
        let known = [
            ("_PyEval_EvalFrameDefault.cold", "python3.12", Role::Evaluator),
            ("list_resize", "libpython3.11.so.1.0", Role::Interpreter),
            ("PyArray_Resize", "_multiarray_umath.cpython-311-x86_64-linux-gnu.so", Role::Plain),
            ("call_init.part.0", "ld-linux-x86-64.so.2", Role::Linker),
            ("__libc_start_main@@GLIBC_2.34", "libc.so.6", Role::Libc),
            ("__libc_start_main_impl", "libc.so.6", Role::Start),
            ("start_thread", "libc.so.6", Role::Start),
            ("_start", "python3.12", Role::Start),
            ("clone_model", "train", Role::Plain),
            ("_Znwm", "libstdc++.so.6", Role::Allocator),
            ("getdelim", "libc.so.6", Role::Libc),
            ("__GI__dl_catch_exception", "libc.so.6", Role::Linker),
            ("main", "train", Role::Plain),
        ];
        for (function, library, role) in known {
            assert_eq!(super::role(function, library), role, "{function}");
        }
    }
}
