//! Reading Python from outside under Yama: what is refused names the policy, what a recording may do it does for
//! those who ask, and the ledger closes without the right to read memory.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::super::image::PACKAGES;
use super::super::package::PYTHON;
use super::Cases;
use super::place::{NILO, User, describe, output_of, run_directory};

const PROGRAM: &str = "import os, sys
kept = [[i] for i in range(20000)]
print(os.getpid(), flush=True)
sys.stdin.read()";
const LISTS: u64 = 20_000;

pub fn run(cases: &mut Cases, scope: u8) {
    for user in User::ALL {
        cases.run(&format!("heap-yama-{scope}-{}", user.name()), || stranger(scope, user));
        cases.run(&format!("where-yama-{scope}-{}", user.name()), || ledger(scope, user));
    }
    cases.run(&format!("python-asks-about-itself-yama-{scope}"), || asks_about_itself(scope));
    // Scope 2 wants a capability even of an ancestor.
    if scope < 2 {
        cases.run(&format!("heap-by-recorder-yama-{scope}"), || recorded(scope));
    }
}

fn may_read(scope: u8, user: User) -> bool {
    scope == 0 || (scope < 3 && user == User::Root)
}

/// A process that neither asked for it nor is ours.
fn stranger(scope: u8, user: User) -> Result<()> {
    let target = Target::start(&mut python(user, PYTHON, &[]))?;
    let output = user.command(NILO).args(["heap", &target.pid, "--json"]).output()?;
    if may_read(scope, user) {
        return check_census(&output.stdout).with_context(|| describe(&output));
    }
    ensure!(output.status.code() == Some(5), "not refused: {}", describe(&output));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(words.contains("Yama") && words.contains("kernel.yama.ptrace_scope"), "no policy named: {words}");
    Ok(())
}

/// Below a recording, which as an ancestor may read.
fn recorded(scope: u8) -> Result<()> {
    let (user, run) = (User::Ordinary, run_directory(User::Ordinary, &format!("heap-{scope}")));
    let folder = run.to_str().context("a plain name")?;
    let target = Target::start(&mut python(user, NILO, &["run", "-q", "-o", folder, "--", PYTHON]))?;
    let output = user.command(NILO).args(["heap", &target.pid, "--json"]).output()?;
    check_census(&output.stdout).with_context(|| describe(&output))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let asked = words.contains("was read by the recording");
    ensure!(asked == (scope == 1), "who has read it: {words}");
    Ok(())
}

fn check_census(document: &[u8]) -> Result<()> {
    let census: Value = serde_json::from_slice(document)?;
    let rows = census["rows"].as_array().context("rows")?;
    let lists = rows.iter().find(|row| row["kind"] == "list").context("a row of lists")?;
    let count = lists["count"].as_u64().context("a count")?;
    ensure!((LISTS..LISTS + 2000).contains(&count), "{count} lists");
    Ok(())
}

/// A program that asks about itself lets the one `nilo` that it starts read it, as an ordinary notebook does. Without that
/// a child may read its parent only where there is no Yama.
fn asks_about_itself(scope: u8) -> Result<()> {
    let code = format!(
        "import sys; sys.path.insert(0, '{PACKAGES}'); import ctypes, json, os, subprocess, nilometer\n\
         names = lambda document: [part['name'] for part in document['parts']]\n\
         words = ['{NILO}', 'where', str(os.getpid()), '--single', '--json']\n\
         print(names(json.loads(subprocess.check_output(words))))\n\
         print(names(nilometer.ledger()))"
    );
    let mut command = User::Ordinary.command(PYTHON);
    let said = output_of(command.args(["-S", "-B", "-c", &code]).env("NILO_BINARY", NILO))?;
    let told: Vec<bool> = said.lines().map(|line| line.contains("python_objects")).collect();
    ensure!(told == [scope == 0, scope < 2], "scope {scope}: {said}");
    Ok(())
}

/// With or without the right to read: the parts are the whole.
fn ledger(scope: u8, user: User) -> Result<()> {
    let target = Target::start(&mut python(user, PYTHON, &[]))?;
    let text = output_of(user.command(NILO).args(["where", &target.pid, "--json"]))?;
    let ledger: Value = serde_json::from_str(&text)?;
    let bytes = |value: &Value| value.as_i64().context("bytes");
    let parts = ledger["parts"].as_array().context("parts")?;
    let sum = parts.iter().map(|part| bytes(&part["bytes"])).sum::<Result<i64>>()?;
    let rss = bytes(&ledger["rss_bytes"])?;
    ensure!(rss > 4 << 20, "{rss} bytes resident");
    ensure!(sum + bytes(&ledger["residual_bytes"])? == rss, "{sum} of {rss}");
    let objects = parts.iter().any(|part| part["name"] == "python_objects");
    ensure!(objects == may_read(scope, user), "Python objects told: {objects}");
    Ok(())
}

fn python(user: User, program: &str, words: &[&str]) -> Command {
    let mut command = user.command(program);
    command.args(words).args(["-S", "-E", "-B", "-c", PROGRAM]);
    command
}

/// A Python that has said its pid and waits.
struct Target {
    child: Child,
    pid: String,
}

impl Target {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().context("stdout")?).read_line(&mut line)?;
        ensure!(!line.trim().is_empty(), "{command:?} said nothing");
        Ok(Self { pid: line.trim().to_owned(), child })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}
