//! Python stacks and Python's allocator, in every interpreter that is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_ring::Event;
use nilometer_ring::book::Frame;
use nilometer_ring::definition::Code;
use nilometer_ring::event::{Level, Mode, Source};
use nilometer_ring::layout::degraded;
use nilometer_ring::lines::line_of;

use super::session::{Heard, Session, Told, describe};

/// Interpreters 3.8 to 3.13, newest first; those missing are named.
fn interpreters() -> Vec<(u32, PathBuf)> {
    let root = Path::new("/root/.pyenv/versions");
    let mut found = Vec::new();
    for minor in (8..=13).rev() {
        let prefix = format!("3.{minor}.");
        let version = std::fs::read_dir(root).ok().and_then(|entries| {
            entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        });
        match version
            .map(|entry| entry.path().join(format!("bin/python3.{minor}")))
            .filter(|path| path.exists())
        {
            Some(path) => found.push((minor, path)),
            None => println!("skipped: needs Python 3.{minor} below {}", root.display()),
        }
    }
    found
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn run(python: &Path, name: &str, settings: &str) -> (String, Heard) {
    let session = Session::new();
    let mut command = session.command(python, settings);
    command.arg("-S").arg(script(name)).env("PYTHONIOENCODING", "utf-8").env_remove("PYTHONMALLOC");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {}", python.display(), describe(&output));
    (String::from_utf8(output.stdout).unwrap(), session.finish())
}

type Line = (String, String, u32);

/// The Python stack of the first block of this size: file, name and line, innermost first; and whether each
/// frame is the first of its native one.
fn stack_of(heard: &Heard, told: &Told, bytes: u64) -> (Vec<Line>, Vec<bool>, u32) {
    let stacks = told.events.iter().find_map(|(_, _, event)| match event {
        Event::Alloc { bytes: found, stacks, .. } if *found == bytes => Some(*stacks),
        _ => None,
    });
    let stacks = stacks.unwrap_or_else(|| panic!("no block of {bytes} bytes"));
    let codes = heard.codes(told);
    let frames = heard.book(told).stack(stacks.python).frames.into_iter().map(|frame| {
        let Frame::Python { code, offset, entry } = frame else { panic!("a native frame") };
        let (file, name, first_line, python, lines) = &codes[&code];
        let described = Code {
            file: file.as_bytes(),
            name: name.as_bytes(),
            first_line: *first_line,
            python: *python,
            lines,
        };
        let line = line_of(&described, offset).unwrap_or(0);
        ((file.clone(), name.clone(), line), entry)
    });
    let (lines, entries) = frames.unzip();
    (lines, entries, stacks.native)
}

/// `[size, [[file, name, line], …]]`, as `truth.py` prints it.
fn parse_truth(line: &str) -> (u64, Vec<Line>) {
    let (size, rest) = line.trim_start_matches('[').split_once(", ").unwrap();
    let rest = rest.trim_start_matches('[').trim_end_matches(']');
    let frames = rest.split("], [").map(|frame| {
        let parts: Vec<&str> = frame.rsplitn(2, ", ").collect();
        let (file, name) = parts[1].split_once("\", \"").unwrap();
        let text = |text: &str| unescape(text.trim_matches(['[', '"']));
        (text(file), text(name), parts[0].parse().unwrap())
    });
    (size.parse().unwrap(), frames.collect())
}

fn unescape(text: &str) -> String {
    let mut pieces = text.split("\\u");
    let mut whole = pieces.next().unwrap().to_owned();
    for piece in pieces {
        whole.push(char::from_u32(u32::from_str_radix(&piece[..4], 16).unwrap()).unwrap());
        whole.push_str(&piece[4..]);
    }
    whole
}

#[test]
fn python_stacks_are_what_the_interpreter_says() {
    for (minor, python) in interpreters() {
        let (text, heard) = run(&python, "truth.py", "mode=all");
        let told = heard.only();
        assert_eq!(told.totals.degraded & degraded::PYTHON_UNKNOWN, 0);
        assert_eq!(told.facts.unwrap().python, 0x300 + minor);
        let mut checked = 0;
        for line in text.lines() {
            let (size, truth) = parse_truth(line);
            let (found, ..) = stack_of(&heard, told, size + 1);
            assert_eq!(found, truth, "3.{minor}: {size}");
            checked += 1;
        }
        assert!(checked >= 29, "3.{minor}: {checked}");
        assert_eq!(told.totals.guessed, 0, "3.{minor}");
    }
}

/// Where the evaluation loop is, by the symbol table: its parts relative to its start.
fn evaluation_parts(python: &Path) -> Vec<(i64, i64)> {
    let output = Command::new("nm").args(["-S", "--defined-only"]).arg(python).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_loop = words.last()?.starts_with("_PyEval_EvalFrameDefault");
        let number = |n: usize| i64::from_str_radix(words.get(n)?, 16).ok();
        (of_loop && words.len() == 4).then(|| Some((number(0)?, number(1)?))).flatten()
    });
    let symbols: Vec<(i64, i64)> = symbols.collect();
    let start = text
        .lines()
        .find(|line| line.ends_with(" _PyEval_EvalFrameDefault"))
        .map_or(0, |line| i64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap());
    symbols.into_iter().map(|(at, size)| (at - start, at - start + size)).collect()
}

#[test]
fn python_frames_tell_their_place_among_the_native_ones() {
    for (minor, python) in interpreters() {
        let parts = evaluation_parts(&python);
        if parts.is_empty() {
            println!("skipped: needs the symbol table of Python 3.{minor}");
            continue;
        }
        let (text, heard) = run(&python, "truth.py", "mode=all");
        let told = heard.only();
        let eval = told.facts.unwrap().eval.cast_signed();
        for line in text.lines() {
            let (size, _) = parse_truth(line);
            let (_, entries, native) = stack_of(&heard, told, size + 1);
            let loops = heard.book(told).stack(native).frames.into_iter().filter(|frame| {
                let Frame::Native { address, .. } = frame else { return false };
                let from_start = address.cast_signed() - eval;
                parts.iter().any(|(start, end)| from_start > *start && from_start <= *end)
            });
            let entries = entries.iter().filter(|&&entry| entry).count();
            assert_eq!(loops.count(), entries, "3.{minor}: {size}");
        }
    }
}

#[test]
fn deep_mode_tells_small_blocks_and_their_ends() {
    for (minor, python) in interpreters() {
        let (text, heard) = run(&python, "churn.py", "mode=deep");
        let told = heard.only();
        // The size of a tuple of seven, with its header for the collector.
        let bytes: u64 = text.trim().parse().unwrap();
        assert_eq!((told.totals.lost, told.totals.corrupt_lanes), (0, 0), "3.{minor}: {:?}", told.totals);
        let tuples = |source: Source, size: u64| matches!(source, Source::Python) && size == bytes;
        let live = told.live().values().filter(|block| tuples(block.source, block.bytes)).count();
        // The interpreter keeps up to 2000 of each length for later: they are not given back.
        assert!((20_000..22_400).contains(&live), "3.{minor}: {live} live tuples");
        let made = told.python;
        assert!(made > 120_000, "3.{minor}: {made}");
        assert!(told.unknown_frees() < 50, "3.{minor}: {}", told.unknown_frees());
    }
}

#[test]
fn all_mode_leaves_small_blocks_out() {
    let Some((_, python)) = interpreters().into_iter().next() else { return };
    let (_, heard) = run(&python, "churn.py", "mode=all");
    let told = heard.only();
    assert_eq!(told.python, 0);
    assert!(told.allocations > 100);
    assert_eq!(told.unknown_frees(), 0);
}

#[test]
fn deep_mode_can_be_switched_on_late() {
    let Some((_, python)) = interpreters().into_iter().next() else { return };
    let session = Session::new();
    let mut command = session.command(&python, "mode=later");
    let code = "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nimport _ctypes\n\
                kept = [(n, n, n, n, n, n, n, n) for n in range(5000)]\n";
    let mut child = command
        .args(["-S", "-c", code])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    session.until(|heard| heard.processes.len() == 1);
    session.switch(Mode::new(Level::Deep));
    session.until(|heard| Mode(heard.only().mode).level() == Level::Deep);
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let heard = session.finish();
    assert!(heard.only().python >= 5000, "{}", heard.only().python);
}

#[test]
fn processes_of_multiprocessing_are_followed() {
    for (minor, python) in interpreters() {
        for method in ["fork", "spawn", "forkserver"] {
            let session = Session::new();
            let code = format!(
                "import multiprocessing as m\n\
                 def work(n):\n    return len(bytearray(80000 + n))\n\
                 if __name__ == '__main__':\n    m.set_start_method('{method}')\n    \
                 with m.Pool(3) as p: print(sum(p.map(work, range(30))))\n"
            );
            let path = session.folder.path().join("pool.py");
            std::fs::write(&path, code).unwrap();
            let output = session.command(&python, "mode=all").arg(&path).output().unwrap();
            assert!(output.status.success(), "3.{minor} {method}: {}", describe(&output));
            assert_eq!(output.stdout, b"2400435\n");
            let heard = session.finish();
            let made: usize = heard
                .processes
                .iter()
                .flat_map(|told| &told.events)
                .filter(|(_, _, e)| matches!(e, Event::Alloc { bytes: 80_001..80_031, .. }))
                .count();
            assert_eq!(made, 30, "3.{minor} {method}");
            assert!(heard.processes.len() >= 4, "3.{minor} {method}");
            assert!(heard.processes.iter().all(|told| told.totals.lost == 0));
        }
    }
}
