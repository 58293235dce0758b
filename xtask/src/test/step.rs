//! Steps with a title and a time, and running a command while keeping what it prints.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{io, panic};

use anyhow::{Context as _, Result};

#[derive(Debug)]
struct Step {
    title: String,
    good: bool,
    took: Duration,
    /// Its failures are in the runner's numbers already.
    counted_elsewhere: bool,
}

/// The steps done so far.
#[derive(Debug, Default)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// Runs a check; a failed one counts as one failure.
    pub fn run(&mut self, title: &str, body: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.run_step(title, false, body)
    }

    /// Runs a step whose failures are counted by somebody else.
    pub fn run_uncounted(&mut self, title: &str, body: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.run_step(title, true, body)
    }

    fn run_step(
        &mut self,
        title: &str,
        counted_elsewhere: bool,
        body: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        println!("\n== {title}");
        let start = Instant::now();
        let good = body().with_context(|| format!("step `{title}`"))?;
        let took = start.elapsed();
        println!("== {title}: {} in {:.1} s", verdict(good), took.as_secs_f64());
        self.0.push(Step { title: title.to_owned(), good, took, counted_elsewhere });
        Ok(good)
    }

    /// Failed steps whose failures stand in nobody's numbers.
    pub fn failed_checks(&self) -> u64 {
        self.0.iter().filter(|step| !step.good && !step.counted_elsewhere).count() as u64
    }

    /// The table at the end.
    pub fn print_times(&self) {
        println!();
        for step in &self.0 {
            println!("{:>7.1} s  {:<6}  {}", step.took.as_secs_f64(), verdict(step.good), step.title);
        }
    }
}

fn verdict(good: bool) -> &'static str {
    if good { "ok" } else { "FAILED" }
}

/// Runs a command, passes its output on line by line, and returns all of it.
pub fn tee(command: &mut Command) -> Result<(ExitStatus, String)> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let out = thread::spawn(move || stdout.map(|pipe| copy_lines(pipe, io::stdout())).unwrap_or_default());
    let err = thread::spawn(move || stderr.map(|pipe| copy_lines(pipe, io::stderr())).unwrap_or_default());
    let status = child.wait()?;
    let text = [out, err].map(|handle| handle.join().unwrap_or_else(|fault| panic::resume_unwind(fault)));
    Ok((status, text.concat()))
}

/// Copies until the end; a reader of ours that went away does not stop the command.
fn copy_lines(from: impl Read, mut to: impl Write) -> String {
    let mut all = String::new();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        to.write_all(&line).and_then(|()| to.flush()).ok();
        all.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tee_keeps_both_streams_and_the_exit_code() {
        let (status, text) = tee(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"])).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(text, "one\ntwo\n");
    }

    #[test]
    fn only_failed_checks_are_counted() {
        let mut steps = Steps::default();
        steps.run("good", || Ok(true)).unwrap();
        steps.run("bad", || Ok(false)).unwrap();
        steps.run_uncounted("tests", || Ok(false)).unwrap();
        assert_eq!(steps.failed_checks(), 1);
    }
}
