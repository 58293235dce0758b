//! Python stacks and Python's allocator, in every interpreter that is installed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nilometer_ring::Event;
use nilometer_ring::book::Frame;
use nilometer_ring::definition::Code;
use nilometer_ring::event::{Level, Mode, Source};
use nilometer_ring::layout::degraded;
use nilometer_ring::lines::line_of;

use super::session::{Block, Heard, Reaper, Session, Told, describe};

/// An interpreter and how it is started.
struct Python {
    minor: u32,
    /// Its release, for messages.
    name: String,
    start: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl Python {
    fn command(&self, session: &Session, settings: &str) -> Command {
        let mut command = session.command(&self.start[0], settings);
        command.args(&self.start[1..]).env("PYTHONIOENCODING", "utf-8").env_remove("PYTHONMALLOC");
        if let Some(home) = &self.home {
            command.env("PYTHONHOME", home);
        }
        command
    }
}

impl Python {
    /// What the block behind a `bytearray` of some bytes has more than those: from 3.15 on it is a `bytes` object.
    fn around(&self) -> u64 {
        if self.minor < 15 { 1 } else { 33 }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// One that `cargo xtask interpreters` fetched: started through its own loader, without the shell between.
fn fetched(folder: &Path, minor: u32) -> Option<Python> {
    let root = folder.join("root");
    let libraries = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|path| root.join(path));
    let loader = libraries.iter().map(|path| path.join("ld-linux-x86-64.so.2")).find(|path| path.exists())?;
    let path = format!("{}:{}", libraries[0].display(), libraries[1].display());
    let program = root.join(format!("usr/bin/python3.{minor}"));
    let name = folder.file_name()?.to_string_lossy().into_owned();
    let home = Some(root.join("usr"));
    let start = vec![loader, "--library-path".into(), path.into(), program];
    start[3].exists().then_some(Python { minor, name, start, home })
}

fn installed(folder: &Path, minor: u32) -> Option<Python> {
    let start = vec![folder.join(format!("bin/python3.{minor}"))];
    let name = folder.file_name()?.to_string_lossy().into_owned();
    start[0].exists().then_some(Python { minor, name, start, home: None })
}

/// Interpreters 3.8 to 3.15, newest first; versions that are missing are named.
fn interpreters() -> Vec<Python> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let pyenv = entries(&home.join(".pyenv/versions"));
    let cached = entries(&cache.join("nilometer/interpreters"));
    let mut found = Vec::new();
    for minor in (8..=15).rev() {
        let of_minor = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(&format!("3.{minor}."))
        };
        let before = found.len();
        found.extend(pyenv.iter().filter(of_minor).filter_map(|path| installed(path, minor)));
        if minor >= 14 || minor == 9 {
            // The one of 3.9 comes with an old C library (2.31): no lock-free search for libraries, threads apart.
            found.extend(cached.iter().filter(of_minor).filter_map(|path| fetched(path, minor)));
        }
        if found.len() == before {
            nilometer_lab::skip(&format!("Python 3.{minor}"), "cargo xtask interpreters");
        }
    }
    found
}

/// One release of each version.
fn minors() -> Vec<Python> {
    let mut found = interpreters();
    found.dedup_by_key(|python| python.minor);
    found
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn run(python: &Python, name: &str, settings: &str) -> (String, Heard) {
    let session = Session::new();
    let output = python.command(&session, settings).arg("-S").arg(script(name)).output().unwrap();
    assert!(output.status.success(), "{}: {}", python.name, describe(&output));
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
    for python in interpreters() {
        let name = &python.name;
        let (text, heard) = run(&python, "truth.py", "mode=all");
        let told = heard.only();
        assert_eq!(told.totals.degraded & degraded::PYTHON_UNKNOWN, 0, "{name}");
        assert_eq!(told.facts.unwrap().python, 0x300 + python.minor);
        let mut checked = 0;
        for line in text.lines() {
            let (size, truth) = parse_truth(line);
            let (found, ..) = stack_of(&heard, told, size + python.around());
            assert_eq!(found, truth, "{name}: {size}");
            checked += 1;
        }
        assert!(checked >= 29, "{name}: {checked}");
        assert_eq!(told.totals.guessed, 0, "{name}");
    }
}

/// Parts of the evaluation loop by the symbol table, relative to its start; none if the table was stripped.
fn evaluation_parts(file: &str) -> Vec<(i64, i64)> {
    let output = Command::new("nm").args(["-S", "--defined-only", file]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |n: usize| i64::from_str_radix(words.get(n)?, 16).ok();
        let name = words.get(3)?;
        name.starts_with(LOOP).then_some((number(0)?, number(1)?, *name == LOOP))
    };
    let found: Vec<_> = text.lines().filter_map(parse).collect();
    let Some(start) = found.iter().find(|symbol| symbol.2).map(|symbol| symbol.0) else { return Vec::new() };
    found.into_iter().map(|(at, size, _)| (at - start, at - start + size)).collect()
}

const LOOP: &str = "_PyEval_EvalFrameDefault";

#[test]
fn python_frames_tell_their_place_among_the_native_ones() {
    let mut compared = 0;
    for python in interpreters() {
        let name = &python.name;
        let (text, heard) = run(&python, "truth.py", "mode=all");
        let told = heard.only();
        let eval = told.facts.unwrap().eval;
        let modules = heard.modules(told);
        let module = modules.iter().find(|(_, start, end, ..)| (*start..*end).contains(&eval)).unwrap();
        let by_name: Vec<(u64, u64)> = evaluation_parts(&module.0)
            .into_iter()
            .map(|(start, end)| (eval.wrapping_add_signed(start), eval.wrapping_add_signed(end)))
            .collect();
        compared += by_name.len();
        assert_eq!(told.evaluations.is_empty(), python.minor < 11, "{name}");
        let sources = [&by_name, &told.evaluations].into_iter().filter(|parts| !parts.is_empty());
        for parts in sources {
            for line in text.lines() {
                let (size, _) = parse_truth(line);
                let (_, entries, native) = stack_of(&heard, told, size + python.around());
                let loops = heard.book(told).stack(native).frames.into_iter().filter(|frame| {
                    let Frame::Native { address, .. } = frame else { return false };
                    parts.iter().any(|(start, end)| *start < *address && address <= end)
                });
                let entries = entries.iter().filter(|&&entry| entry).count();
                assert_eq!(loops.count(), entries, "{name}: {size} by {parts:x?}");
            }
        }
    }
    assert!(compared > 0, "no interpreter has a symbol table");
}

#[test]
fn deep_mode_tells_small_blocks_and_their_ends() {
    for python in interpreters() {
        let minor = python.minor;
        let (text, heard) = run(&python, "churn.py", "mode=deep,wait=20000");
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
    let Some(python) = minors().into_iter().next() else { return };
    let (_, heard) = run(&python, "churn.py", "mode=all");
    let told = heard.only();
    assert_eq!(told.python, 0);
    assert!(told.allocations > 100);
    assert_eq!(told.unknown_frees(), 0);
}

#[test]
fn deep_mode_can_be_switched_on_late() {
    let Some(python) = minors().into_iter().next() else { return };
    let session = Session::new();
    let mut command = python.command(&session, "mode=later");
    let code = "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nimport _ctypes\n\
                kept = [(n, n, n, n, n, n, n, n) for n in range(5000)]\n";
    let mut child =
        command.args(["-S", "-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    session.until(|heard| heard.processes.len() == 1);
    session.switch(Mode::new(Level::Deep));
    session.until(|heard| Mode(heard.only().mode).level() == Level::Deep);
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let heard = session.finish();
    assert!(heard.only().python >= 5000, "{}", heard.only().python);
}

/// Tuples of thirty: too long for the interpreter's own list of free ones.
fn live_tuples(heard: &Heard) -> usize {
    let live = heard.only().live();
    let is_tuple = |block: &&Block| block.source == Source::Python && (272..=296).contains(&block.bytes);
    live.values().filter(is_tuple).count()
}

#[test]
fn blocks_of_deep_mode_are_seen_to_end_when_it_is_lowered() {
    let Some(python) = minors().into_iter().next() else { return };
    let session = Session::new();
    let code = "import sys\nkept = [(n,) * 30 for n in range(5000)]\nprint('made', flush=True)\n\
                sys.stdin.readline()\ndel kept\nprint('gone', flush=True)\nsys.stdin.readline()\n";
    let mut command = python.command(&session, "mode=deep");
    command.args(["-S", "-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Reaper(command.spawn().unwrap());
    let mut orders = child.0.stdin.take().unwrap();
    let mut answers = BufReader::new(child.0.stdout.take().unwrap());
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(answer(), "made\n");
    session.until(|heard| live_tuples(heard) >= 5000);
    let before = live_tuples(&session.heard());
    let lower = Mode::new(Level::All).with(Mode::ALL_FREES);
    session.switch(lower);
    session.until(|heard| heard.only().mode == lower.0);
    orders.write_all(b"\n").unwrap();
    assert_eq!(answer(), "gone\n");
    session.until(|heard| live_tuples(heard) <= before - 5000);
    drop(orders);
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn processes_of_multiprocessing_are_followed() {
    for python in minors() {
        let minor = python.minor;
        let sizes = 80_000 + python.around()..80_030 + python.around();
        // A fetched one starts only through its own loader, which the other methods do not know.
        let methods = if python.home.is_some() { &["fork"][..] } else { &["fork", "spawn", "forkserver"] };
        for method in methods {
            let session = Session::new();
            let code = format!(
                "import multiprocessing as m\n\
                 def work(n):\n    return len(bytearray(80000 + n))\n\
                 if __name__ == '__main__':\n    m.set_start_method('{method}')\n    \
                 with m.Pool(3) as p: print(sum(p.map(work, range(30))))\n"
            );
            let path = session.folder.path().join("pool.py");
            std::fs::write(&path, code).unwrap();
            let output = python.command(&session, "mode=all").arg(&path).output().unwrap();
            assert!(output.status.success(), "3.{minor} {method}: {}", describe(&output));
            assert_eq!(output.stdout, b"2400435\n");
            let heard = session.finish();
            let made: usize = heard
                .processes
                .iter()
                .flat_map(|told| &told.events)
                .filter(|(_, _, e)| matches!(e, Event::Alloc { bytes, .. } if sizes.contains(bytes)))
                .count();
            assert_eq!(made, 30, "3.{minor} {method}");
            assert!(heard.processes.len() >= 4, "3.{minor} {method}");
            assert!(heard.processes.iter().all(|told| told.totals.lost == 0));
        }
    }
}
