//! Yama's scopes: what the doctor says of reading and stopping processes is what happens, and where Yama refuses
//! the doctor names it and the command that helps.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::ops::RangeInclusive;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Cases;
use super::place::{User, capability, doctor, output_of, parse_trials};

pub const SCOPES: RangeInclusive<u8> = 0..=3;
const SETTING: &str = "/proc/sys/kernel/yama/ptrace_scope";
const ACCESS: &str = "/bin/access";

pub fn run(cases: &mut Cases, scope: u8) {
    let set = fs::write(SETTING, scope.to_string()).with_context(|| format!("{SETTING} to {scope}"));
    cases.run(&format!("yama-{scope}-can-be-set"), || set);
    for user in User::ALL {
        cases.run(&format!("yama-{scope}-{}", user.name()), || compare(scope, user));
    }
}

fn compare(scope: u8, user: User) -> Result<()> {
    let (same, other) = (Target::start(user)?, Target::start(user.other())?);
    let text =
        output_of(user.command(ACCESS).args(["try", &same.pid, &same.address, &other.pid, &other.address]))?;
    let trials = parse_trials(&text)?;
    ensure!(trials.len() == 4, "four trials in {text}");
    let document = doctor(user)?;
    ensure!(document["settings"]["kernel.yama.ptrace_scope"] == scope, "the doctor sees another scope");
    for (name, errno) in trials {
        let expected = expect(scope, user, name);
        ensure!((errno == 0) == expected.is_none(), "{name}: errno {errno}, expected {expected:?}");
        let told = capability(&document, name)?;
        ensure!(told["works"] == (errno == 0), "{name}: errno {errno}, but the doctor says {told}");
        if let Some(word) = expected {
            check_words(told, word).with_context(|| format!("{name}: {told}"))?;
        }
    }
    Ok(())
}

/// `None` where the rules of ptrace(2) and Documentation/admin-guide/LSM/Yama.rst allow it; otherwise a word of
/// the command that would help.
fn expect(scope: u8, user: User, name: &str) -> Option<&'static str> {
    let is_kin = name.ends_with("-own-child");
    match (scope, user, name) {
        (3, ..) => Some("kernel.yama.ptrace_scope=1"),
        (_, User::Root, _) => None,
        (.., "read-memory-other-uid") => Some("sudo nilo"),
        (2, ..) if is_kin => Some("kernel.yama.ptrace_scope=1"),
        (1 | 2, ..) if !is_kin => Some("kernel.yama.ptrace_scope=0"),
        _ => None,
    }
}

/// Another user's process takes a capability whatever Yama says.
fn check_words(told: &Value, command: &str) -> Result<()> {
    let why = told["why"].as_str().context("no reason")?;
    let reason = if command.starts_with("kernel.yama") { "Yama" } else { "CAP_SYS_PTRACE" };
    ensure!(why.contains(reason), "the reason does not name {reason}");
    let given = told["command"].as_str().context("no command")?;
    ensure!(given.contains(command), "the command is not {command}");
    Ok(())
}

/// A process of a user that waits to be looked at, started by neither `nilo` nor the program that tries.
struct Target {
    child: Child,
    pid: String,
    address: String,
}

impl Target {
    fn start(user: User) -> Result<Self> {
        let mut command = user.command(ACCESS);
        let mut child = command.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().context("stdout")?).read_line(&mut line)?;
        let (pid, address) = line.trim().split_once(' ').context("pid and address")?;
        Ok(Self { pid: pid.to_owned(), address: address.to_owned(), child })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}
