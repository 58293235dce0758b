//! From the word that names a target to its census.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nilometer_capture::census::{self, CensusOptions, Detail, Mode, Progress};
use nilometer_cpython as cpython;
use nilometer_image as image;
use nilometer_trace::heap::{self, Graph, is_heap};
use nilometer_trace::manifest::MANIFEST_FILE;

use super::kin::{self, Kin};
use super::{progress, recorder, refusal};
use crate::args::heap::{CensusArgs, Switch};
use crate::path::{AtPath as _, closed_to_us};
use crate::talk::{self, Failure};

/// Digits are a process, anything else a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Process(i32),
    File(PathBuf),
}

impl Source {
    pub fn parse(word: &str) -> Result<Self, Failure> {
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self::File(word.into()));
        }
        match word.parse() {
            Ok(pid @ 1..) => Ok(Self::Process(pid)),
            _ => Err(Failure::from(anyhow!("{word} is no process id")).hint("a file of that name:  ./NAME")),
        }
    }

    pub fn read(&self, args: &CensusArgs, detail: Detail) -> Result<Graph, Failure> {
        let read = match self {
            Self::Process(pid) => read_process(*pid, args, detail),
            Self::File(path) => read_file(path, args, detail),
        };
        progress::line("");
        read
    }
}

fn options(args: &CensusArgs, detail: Detail) -> CensusOptions {
    let mode = match (args.fork, args.pause) {
        (true, _) => Mode::Fork,
        (false, Switch::On) => Mode::Copy,
        (false, Switch::Off) => Mode::Off,
    };
    CensusOptions {
        mode,
        max_pause: args.max_pause,
        detail,
        with_values: args.with_values,
        progress: Progress::new(progress::show),
    }
}

fn read_process(pid: i32, args: &CensusArgs, detail: Detail) -> Result<Graph, Failure> {
    match census::take(pid, &options(args, detail)) {
        Ok(graph) => {
            tell_kin(pid, args);
            Ok(graph)
        }
        Err(error) => match only_python_below(pid, &error, args) {
            Some(kin) => {
                talk::say(&format!("{pid} is not Python; reading {} below it ({})", kin.pid, kin.command));
                census::take(kin.pid, &options(args, detail))
                    .map_err(|error| refusal::of_process(kin.pid, error))
            }
            None => read_by_recorder(pid, &error).ok_or_else(|| refusal::of_process(pid, error)),
        },
    }
}

/// A policy that forbids it to us allows it to an ancestor.
fn read_by_recorder(pid: i32, error: &census::Error) -> Option<Graph> {
    if !matches!(error, census::Error::Image(image::Error::NotPermitted { .. })) {
        return None;
    }
    let graph = recorder::ask(pid)?;
    talk::say(&format!("{pid} was read by the recording it belongs to"));
    Some(graph)
}

/// The one meant by the pid of its launcher.
fn only_python_below(pid: i32, error: &census::Error, args: &CensusArgs) -> Option<Kin> {
    let is_launcher = matches!(error, census::Error::Python { source: cpython::Error::NotPython, .. });
    if args.single || !is_launcher {
        return None;
    }
    let mut below = kin::below(pid);
    (below.len() == 1).then(|| below.swap_remove(0))
}

/// One process is read; that there are others must not be missed.
fn tell_kin(pid: i32, args: &CensusArgs) {
    let below = if args.single { Vec::new() } else { kin::below(pid) };
    if let Some(largest) = below.first() {
        let count = nilometer_report::text::counted(below.len() as u64, "more Python", "more Pythons");
        talk::say(&format!(
            "{pid} started {count}, not in this census; the largest:  nilo heap {}",
            largest.pid
        ));
    }
}

fn read_file(path: &Path, args: &CensusArgs, detail: Detail) -> Result<Graph, Failure> {
    if path.is_dir() {
        return Err(directory(path));
    }
    let mut start = [0; 16];
    existing(read_start(path, &mut start), path)?;
    if is_heap(&start) {
        return read_snapshot(path);
    }
    census::from_core(path, args.sysroot.as_deref(), &options(args, detail))
        .map_err(|error| refusal::of_core(path, error))
}

fn read_start(path: &Path, start: &mut [u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::open(path)?;
    let mut filled = 0;
    while filled < start.len() {
        match std::io::Read::read(&mut file, &mut start[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(())
}

/// A snapshot, and nothing else.
pub fn read_snapshot(path: &Path) -> Result<Graph, Failure> {
    if path.is_dir() {
        return Err(directory(path));
    }
    let file = existing(std::fs::File::open(path), path)?;
    let graph = heap::read(file).reading(path);
    graph.map_err(|failure| failure.hint("make a new one:  nilo heap PID -o F.heap"))
}

/// What was opened; where there is no such file, with the way to make one.
fn existing<T>(opened: std::io::Result<T>, path: &Path) -> Result<T, Failure> {
    let is_missing = opened.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let make = || format!("make a snapshot of a process:  nilo heap PID -o {}", path.display());
    opened.reading(path).map_err(|failure| if is_missing { failure.hint(make()) } else { failure })
}

fn directory(path: &Path) -> Failure {
    if let Some(closed) = closed_to_us(path) {
        return closed;
    }
    let shown = path.display();
    let is_run = path.join(MANIFEST_FILE).exists();
    let sentence = if is_run { "is a run directory, not a census" } else { "is a directory" };
    let snapshot = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let snapshot = snapshot.filter(|path| path.extension().is_some_and(|ending| ending == "heap")).min();
    let hint = match snapshot {
        Some(file) => format!("nilo heap {}", file.display()),
        None if is_run => format!("nilo report {shown}"),
        None => format!("make a snapshot of a process:  nilo heap PID -o {shown}/F.heap"),
    };
    Failure::from(anyhow!("{shown} {sentence}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_process_and_anything_else_a_file() {
        assert_eq!(Source::parse("4711").unwrap(), Source::Process(4711));
        assert_eq!(Source::parse("core.4711").unwrap(), Source::File("core.4711".into()));
        assert_eq!(Source::parse("./4711").unwrap(), Source::File("./4711".into()));
        for word in ["0", "99999999999999999999"] {
            assert!(Source::parse(word).is_err(), "{word}");
        }
    }
}
