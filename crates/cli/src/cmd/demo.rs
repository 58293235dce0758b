//! `nilo demo`: an example that is inside this program, recorded like any other command.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use super::{exit, run};
use crate::args;
use crate::args::demo::{Demo, DemoArgs};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

const PYTHON: &str = "python3";

/// One example: a script, its words, and what to say.
struct Example {
    file: &'static str,
    text: &'static str,
    arguments: &'static [&'static str],
    before: &'static str,
    after: &'static str,
}

/// `where` and `pages` get their example here, and their name in `args/demo.rs`, once their verbs exist.
fn example(demo: Demo) -> Example {
    match demo {
        Demo::Leak => Example {
            file: "tree_lstm.py",
            text: include_str!("../../../../examples/tree_lstm.py"),
            arguments: &["--leak"],
            before: "a small training that keeps the activations of every tree: look at the line `growth`",
            after: "the whole run, with charts and steps:  nilo report",
        },
    }
}

pub fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let example = example(args.demo);
    find_python(std::env::var_os("PATH").as_deref())?;
    // Private to this user, and gone when this function returns.
    let place = tempfile::Builder::new()
        .prefix("nilo-demo.")
        .tempdir()
        .context("cannot make a temporary directory")?;
    let script = place.path().join(example.file);
    std::fs::write(&script, example.text).writing(&script)?;
    talk::say(example.before);
    let code = run::run(&arguments(args, &example, &script)?)?;
    talk::say(example.after);
    Ok(code)
}

/// As if typed: `nilo run -- python3 …/tree_lstm.py --leak --steps N`, and said so.
fn arguments(args: &DemoArgs, example: &Example, script: &Path) -> Result<args::RunArgs, Failure> {
    let steps = args.steps.to_string();
    let words = example.arguments.iter().copied().chain(["--steps", steps.as_str()]);
    let typed: Vec<&str> = words.clone().collect();
    talk::say(&format!("nilo run -- {PYTHON} {} {}", example.file, typed.join(" ")));
    let command = [OsStr::new(PYTHON), script.as_os_str()].into_iter().map(OsStr::to_owned);
    let command: Vec<OsString> = command.chain(words.map(OsString::from)).collect();
    args::run_args(&command).ok_or_else(|| anyhow!("the example cannot be started").into())
}

/// Before anything is unpacked: whether there is something to run it with.
fn find_python(path: Option<&OsStr>) -> Result<PathBuf, Failure> {
    let is_program = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
    };
    let directories = path.into_iter().flat_map(std::env::split_paths);
    directories.map(|directory| directory.join(PYTHON)).find(is_program).ok_or_else(|| {
        Failure::from(anyhow!("the demo needs python3, and there is none on PATH"))
            .exiting(exit::NOT_FOUND)
            .hint("install it (nothing else is needed):  apt install python3   or   dnf install python3")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_is_the_first_program_of_that_name() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (root.path().join("a"), root.path().join("b"));
        for directory in [&first, &second] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("python3"), "").unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert!(find_python(Some(&path)).is_err(), "neither is executable");
        let program = second.join("python3");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_python(Some(&path)).unwrap(), program);
    }

    #[test]
    fn without_python_there_is_a_hint() {
        let failure = find_python(None).unwrap_err();
        assert!(failure.hint.unwrap().contains("install"));
    }
}
