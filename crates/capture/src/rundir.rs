//! Where a run is stored: its name, its place, its permissions.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Error;

/// Ending of every run directory.
pub const SUFFIX: &str = ".nilo";
/// Longest part of a command that goes into a directory name.
const LONGEST_NAME: usize = 40;

/// A run directory that exists, and what has to be said about it.
#[derive(Debug)]
pub struct RunDirectory {
    pub path: PathBuf,
    /// Why it is not where it was wanted.
    pub fallback: Option<String>,
}

/// Where directories may go.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// `$NILO_DIR`.
    pub chosen: Option<PathBuf>,
    pub working_directory: PathBuf,
    /// `$XDG_STATE_HOME/nilo` or `~/.local/state/nilo`: where runs go when the place above is read-only.
    pub state: Option<PathBuf>,
}

impl Places {
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
        Self {
            chosen: variable("NILO_DIR"),
            working_directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            state: state.map(|s| s.join("nilo")),
        }
    }

    /// Directories that may hold runs, the preferred one first.
    pub fn candidates(&self) -> impl Iterator<Item = &Path> {
        let preferred = self.chosen.as_deref().unwrap_or(&self.working_directory);
        std::iter::once(preferred).chain(self.state.as_deref())
    }
}

/// Makes the directory asked for with `-o`.
pub fn create_named(path: &Path, force: bool) -> Result<RunDirectory, Error> {
    if path.exists() {
        if !force || !looks_like_a_run(path) {
            return Err(Error::Exists { path: path.to_owned() });
        }
        std::fs::remove_dir_all(path)
            .map_err(|source| Error::RunDirectory { path: path.to_owned(), source })?;
    }
    make(path)?;
    Ok(RunDirectory { path: absolute(path), fallback: None })
}

/// `--force` replaces runs, never anything else that happens to have the name.
fn looks_like_a_run(path: &Path) -> bool {
    let is_empty = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    path.join(nilometer_trace::manifest::MANIFEST_FILE).exists() || is_empty()
}

/// Makes `NAME.DATE.PID.nilo` in the first place that can be written.
pub fn create_default(places: &Places, directory_name: &str) -> Result<RunDirectory, Error> {
    let mut refused: Option<(PathBuf, std::io::Error)> = None;
    for place in places.candidates() {
        let path = place.join(directory_name);
        match std::fs::create_dir_all(place).and_then(|()| make_io(&path)) {
            Ok(()) => {
                let fallback = refused
                    .map(|(wanted, error)| format!("{} cannot be written ({error})", wanted.display()));
                return Ok(RunDirectory { path: absolute(&path), fallback });
            }
            Err(source) => refused = refused.or(Some((place.to_owned(), source))),
        }
    }
    let (path, source) = refused.unwrap_or_else(|| (PathBuf::from("."), std::io::ErrorKind::NotFound.into()));
    Err(Error::RunDirectory { path: path.join(directory_name), source })
}

fn make(path: &Path) -> Result<(), Error> {
    make_io(path).map_err(|source| Error::RunDirectory { path: path.to_owned(), source })
}

/// 0700, with a `.gitignore` inside so that no run is ever committed by accident.
pub(crate) fn make_io(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    DirBuilder::new().mode(0o700).create(path)?;
    let mut ignore =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(".gitignore"))?;
    ignore.write_all(b"*\n")
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A short name for a command: the script for an interpreter, the program otherwise.
pub fn command_name(arguments: &[String]) -> String {
    let program = arguments.first().map_or("run", |a| stem(a));
    let name =
        if is_interpreter(program) { script_name(&arguments[1..]).unwrap_or(program) } else { program };
    let clean: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).take(LONGEST_NAME).collect();
    if clean.is_empty() { "run".to_owned() } else { clean }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_interpreter(program: &str) -> bool {
    ["python", "pypy", "bash", "sh", "dash", "zsh", "node", "perl", "ruby", "julia"].iter().any(|name| {
        program.strip_prefix(name).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    })
}

/// The script or module among an interpreter's arguments.
fn script_name(arguments: &[String]) -> Option<&str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-m" => return arguments.next().map(String::as_str),
            "-c" => return None,
            "-W" | "-X" => drop(arguments.next()),
            option if option.starts_with('-') => {}
            script => return Some(stem(script)),
        }
    }
    None
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && !extension.chars().all(|c| c.is_ascii_digit()) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn name_of(line: &str) -> String {
        command_name(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_run_is_named_after_the_script() {
        assert_eq!(name_of("python3.11 -u -X dev train.py --lr 1"), "train");
        assert_eq!(name_of("/usr/bin/python3 -m torch.distributed.run train.py"), "torch.distributed.run");
        assert_eq!(name_of("python -c print()"), "python");
        assert_eq!(name_of("./a.out x"), "a");
        assert_eq!(name_of("/bin/sh"), "sh");
        assert_eq!(name_of("python3.11"), "python3.11");
        assert_eq!(name_of("/x/we\u{1b}[31m.py"), "we--31m");
    }

    #[test]
    fn a_read_only_place_falls_back_to_the_state_directory_and_says_so() {
        let root = tempfile::tempdir().unwrap();
        let blocked = root.path().join("file");
        std::fs::write(&blocked, "").unwrap(); // a file where a directory is needed: fails for root too
        let state = root.path().join("state");
        let places = Places {
            chosen: Some(blocked.join("x")),
            working_directory: "/".into(),
            state: Some(state.clone()),
        };
        let made = create_default(&places, "a.nilo").unwrap();
        assert_eq!(made.path, state.join("a.nilo"));
        assert!(made.fallback.unwrap().contains("cannot be written"));
    }

    #[test]
    fn directories_are_private_and_ignored_by_git() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/er.nilo");
        let made = create_named(&path, false).unwrap();
        assert_eq!(std::fs::metadata(&made.path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_to_string(made.path.join(".gitignore")).unwrap(), "*\n");
    }

    #[test]
    fn an_existing_directory_is_refused_and_force_replaces_only_runs() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("mine");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis.tex"), "x").unwrap();
        assert!(matches!(create_named(&path, false), Err(Error::Exists { .. })));
        assert!(matches!(create_named(&path, true), Err(Error::Exists { .. })));
        assert!(path.join("thesis.tex").exists());
        std::fs::write(path.join("manifest.json"), "{}").unwrap();
        assert!(create_named(&path, true).is_ok());
        assert!(!path.join("thesis.tex").exists());
    }
}
