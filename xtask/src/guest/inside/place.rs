//! The guest as the cases use it: its two users, its programs, and what `nilo` answers.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

pub const MIB: u64 = 1 << 20;
pub const NILO: &str = "/bin/nilo";
pub const HOG: &str = "/bin/hog";
/// The exit code of a run that the watchdog has ended.
pub const ENDED: i32 = 75;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    Root,
    Ordinary,
}

impl User {
    pub const ALL: [Self; 2] = [Self::Root, Self::Ordinary];

    pub fn uid(self) -> u32 {
        if self == Self::Root { 0 } else { 1000 }
    }

    pub fn name(self) -> &'static str {
        if self == Self::Root { "root" } else { "user" }
    }

    pub fn other(self) -> Self {
        if self == Self::Root { Self::Ordinary } else { Self::Root }
    }

    /// A directory that is the user's own.
    pub fn home(self) -> &'static Path {
        Path::new(if self == Self::Root { "/root" } else { "/home/user" })
    }

    pub fn command(self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.uid(self.uid()).gid(self.uid());
        clean(&mut command, self);
        command
    }
}

fn clean(command: &mut Command, user: User) {
    command.current_dir(user.home()).stdin(Stdio::null());
    command.env_clear().env("PATH", "/bin").env("HOME", user.home());
}

/// The program as that user's, inside a control group.
pub fn in_group(group: &Path, user: User, program: &str) -> Command {
    let mut command = Command::new("/bin/enter");
    clean(&mut command, user);
    command.arg(group).arg(user.uid().to_string()).arg(program).current_dir("/");
    command
}

/// What it printed, after it ended well.
pub fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", describe(&output));
    Ok(String::from_utf8(output.stdout)?)
}

pub fn describe(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

pub fn doctor(user: User) -> Result<Value> {
    let text = output_of(user.command(NILO).args(["doctor", "--json"]))?;
    serde_json::from_str(&text).context("nilo doctor --json")
}

/// One entry of the doctor's list.
pub fn capability<'d>(document: &'d Value, name: &str) -> Result<&'d Value> {
    let list = document["capabilities"].as_array().context("a list of capabilities")?;
    list.iter()
        .find(|entry| entry["name"] == name)
        .with_context(|| format!("the doctor does not know {name}"))
}

/// A new run directory of the user's.
pub fn run_directory(user: User, name: &str) -> PathBuf {
    user.home().join(format!("{name}.nilo"))
}

/// `nilo report`, which the directory's owner reads.
pub fn report(user: User, run: &Path) -> Result<Value> {
    let text = output_of(user.command(NILO).arg("report").arg(run).arg("--json"))?;
    serde_json::from_str(&text).context("nilo report --json")
}

/// The words of evidence for the cause of death.
pub fn evidence(report: &Value) -> Vec<&str> {
    report["exit"]["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Lines "name errno" of a program that tries things out.
pub fn parse_trials(text: &str) -> Result<Vec<(&str, i32)>> {
    text.lines().map(|line| parse_trial(line).with_context(|| format!("no trial: {line}"))).collect()
}

fn parse_trial(line: &str) -> Option<(&str, i32)> {
    let (name, errno) = line.split_once(' ')?;
    Some((name, errno.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_names_and_numbers() {
        assert_eq!(parse_trials("psi 0\nidle-pages 13\n").unwrap(), [("psi", 0), ("idle-pages", 13)]);
        assert!(parse_trials("psi\n").is_err());
    }
}
