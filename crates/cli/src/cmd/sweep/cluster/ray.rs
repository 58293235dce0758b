//! One Ray task a point, by a driver in Python: Ray has no other client. Memory is passed as a resource, so that no node gets
//! more points than fit; tasks are not tried again, because a kill is a result.

use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use serde::Deserialize;
use serde_json::json;

use super::{Ended, Ground, Task, memory_bytes};
use crate::cmd::child::Runner;
use crate::cmd::sweep::kept;
use crate::cmd::sweep::place::write_private;
use crate::path::AtPath as _;
use crate::talk::Failure;

const TASKS: &str = ".ray.json";
const DRIVER: &str = ".ray.py";
const RESULTS: &str = ".ray.results";
const LOG: &str = ".ray.log";
/// The driver found nobody at the address.
const UNREACHABLE: i32 = 3;
const PROGRAM: &str = include_str!("ray_tasks.py");

/// One line of the driver's results.
#[derive(Debug, Deserialize)]
struct Told {
    task: usize,
    /// Ray ended it; in its own words.
    #[serde(default)]
    ended: Option<String>,
}

pub(super) fn run(
    ground: &Ground<'_>,
    tasks: &[Task],
    address: Option<&str>,
    python: &str,
    runner: &mut Runner,
) -> Result<Ended, Failure> {
    let place = |name: &str| ground.sweep.join(name);
    let tasks_file = place(TASKS);
    let document = json!({
        "address": address,
        "directory": ground.working_directory,
        "memory": memory_bytes(ground),
        "results": std::path::absolute(place(RESULTS)).context("the sweep has no place")?,
        "tasks": tasks.iter().map(|task| json!({
            "argv": task.argv,
            "environment": task.environment,
            "output": task.output,
        })).collect::<Vec<_>>(),
    });
    let written = write_private(&tasks_file, document.to_string().as_bytes())
        .and_then(|()| write_private(&place(DRIVER), PROGRAM.as_bytes()))
        .and_then(|()| write_private(&place(RESULTS), b""));
    written.writing(ground.sweep)?;
    let out = File::create(place(LOG)).context("cannot write the log of Ray")?;
    let mut driver = Command::new(python);
    driver.arg(place(DRIVER)).arg(&tasks_file).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let done = runner.run_command(&mut driver);
    let _ = std::fs::remove_file(&tasks_file); // it has the command with its secrets
    let _ = std::fs::remove_file(place(DRIVER));
    if runner.interrupted.is_some() {
        return Ok(Ended::new());
    }
    let code = done.map_err(|failure| failure.hint("which Python has Ray?  --python /path/to/python"))?;
    if code == Some(UNREACHABLE) {
        let said = kept::read_tail(&place(LOG));
        let told =
            said.lines().rev().find(|line| line.starts_with("no cluster")).unwrap_or("no cluster answers");
        return Err(Failure::from(anyhow!("{told}"))
            .hint("what is there:  ray status --address HOST:PORT   a cluster of our own, here:  --on ray"));
    }
    if code != Some(0) {
        let said = kept::read_tail(&place(LOG));
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no word");
        return Err(Failure::from(anyhow!("ray: {last}"))
            .hint(format!("all it said: {}; which Python has Ray:  --python PATH", place(LOG).display())));
    }
    let results = std::fs::read_to_string(place(RESULTS)).unwrap_or_default();
    Ok(parse_results(&results))
}

fn parse_results(text: &str) -> Ended {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Told>(line).ok());
    lines.filter_map(|result| Some((result.task, result.ended?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ray_ended_is_told_in_its_words() {
        let ended =
            parse_results("{\"task\":0,\"code\":0}\n{\"task\":1,\"ended\":\"OutOfMemoryError: x\"}\nnoise\n");
        assert_eq!(ended.into_iter().collect::<Vec<_>>(), [(1, "OutOfMemoryError: x".to_owned())]);
    }
}
