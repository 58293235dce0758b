//! One array job: `sbatch --wait`, the results from the shared directory, the states of its tasks from `scontrol`.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow};
use nilometer_report::text::quoted;

use super::{Ended, Ground, Task, memory_bytes};
use crate::cmd::child::Runner;
use crate::cmd::sweep::kept;
use crate::cmd::sweep::place::write_private;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

const SCRIPT: &str = ".array.sh";
const LOG: &str = ".sbatch.log";
/// What Slurm itself says of each task: why it killed it stands nowhere else.
const WORDS: &str = ".slurm";

pub(super) fn run(
    ground: &Ground<'_>,
    tasks: &[Task],
    submit: &[String],
    runner: &mut Runner,
) -> Result<Ended, Failure> {
    let script = ground.sweep.join(SCRIPT);
    let log = ground.sweep.join(LOG);
    write_private(&script, render_script(ground, tasks).as_bytes()).writing(&script)?;
    let out = File::create(&log).writing(&log)?;
    let mut sbatch = Command::new("sbatch");
    sbatch.args(["--wait", "--parsable"]).arg(format!("--array=0-{}", tasks.len().saturating_sub(1)));
    sbatch.arg(format!("--output={}", words_of(ground.sweep, "%a")?));
    sbatch.args(memory_bytes(ground).map(|bytes| format!("--mem={}M", bytes.div_ceil(1 << 20))));
    sbatch.args(submit).arg(&script).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let done = runner.run_command(&mut sbatch);
    // It has the command with its secrets; the plan has not.
    let _ = std::fs::remove_file(&script);
    let said = kept::read_tail(&log);
    let job = job_of(&said);
    if runner.interrupted.is_some() {
        if let Some(job) = &job {
            let _ = Command::new("scancel").arg(job).status();
        }
        return Ok(Ended::new());
    }
    let job = match (done, job) {
        (Err(failure), _) => {
            return Err(failure.hint("sbatch must be on PATH; to see what it would run:  --on print"));
        }
        (Ok(_), Some(job)) => job,
        (Ok(_), None) => {
            return Err(Failure::from(anyhow!("sbatch refused: {}", said.trim()))
                .hint("options for sbatch:  --submit=--partition=NAME"));
        }
    };
    talk::say(&format!("array job {job} has ended"));
    Ok(states(&job, ground.sweep))
}

/// The file of Slurm's words about a task; a per cent sign of a directory's name stands for itself.
fn words_of(sweep: &Path, task: &str) -> Result<String, Failure> {
    let place = std::path::absolute(sweep).context("the sweep has no place")?;
    let place = place.to_string_lossy().into_owned();
    let place = if task == "%a" { place.replace('%', "%%") } else { place };
    Ok(format!("{place}/{WORDS}-{task}.log"))
}

/// The words about a task, which are not needed any more.
fn take_words(sweep: &Path, task: usize) -> String {
    let Ok(file) = words_of(sweep, &task.to_string()) else { return String::new() };
    let said = kept::read_tail(Path::new(&file));
    let _ = std::fs::remove_file(file);
    said
}

/// `17` or `17;cluster` on a line of its own.
fn job_of(said: &str) -> Option<String> {
    let number =
        |line: &str| line.split(';').next().filter(|word| word.parse::<u64>().is_ok()).map(str::to_owned);
    said.lines().find_map(|line| number(line.trim()))
}

fn render_script(ground: &Ground<'_>, tasks: &[Task]) -> String {
    let mut script = String::from("#!/bin/sh\n#SBATCH --job-name=nilo-sweep\n");
    let _ = writeln!(script, "cd {} || exit 125", quoted(&ground.working_directory.to_string_lossy()));
    script.push_str("case $SLURM_ARRAY_TASK_ID in\n");
    for (number, task) in tasks.iter().enumerate() {
        let variables = task.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words: Vec<String> = variables.chain(task.argv.iter().map(|word| quoted(word))).collect();
        let out = quoted(&task.output.to_string_lossy());
        let _ =
            writeln!(script, "{number}) umask 077; exec env {} >>{out} 2>&1 </dev/null ;;", words.join(" "));
    }
    script.push_str("esac\n");
    script
}

/// Which tasks the scheduler ended, and how.
fn states(job: &str, directory: &Path) -> Ended {
    let shown = Command::new("scontrol").args(["-o", "show", "job", job]).current_dir(directory).output();
    let said = |task| take_words(directory, task);
    shown.map(|output| parse_states(&String::from_utf8_lossy(&output.stdout), said)).unwrap_or_default()
}

fn parse_states(text: &str, said: impl Fn(usize) -> String) -> Ended {
    let field = |line: &str, name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let state = |line: &str| {
        let task = field(line, "ArrayTaskId")?.parse().ok()?;
        let code = field(line, "ExitCode").unwrap_or_default();
        end_of(&field(line, "JobState")?, &code, &said(task)).map(|how| (task, how))
    };
    text.lines().filter_map(state).collect()
}

/// How Slurm ended a task; none where it ended by itself, whose exit code is in its run.
fn end_of(state: &str, code: &str, said: &str) -> Option<String> {
    let of_memory = |line: &&str| line.contains("memory limit") || line.contains("oom_kill");
    let signal = code.split_once(':').map_or("0", |(_, signal)| signal);
    match state {
        "COMPLETED" => None,
        "TIMEOUT" | "NODE_FAIL" | "PREEMPTED" | "DEADLINE" | "BOOT_FAIL" => Some(state.to_owned()),
        "OUT_OF_MEMORY" => Some("OUT_OF_MEMORY (out of memory)".to_owned()),
        // Where it is Slurm and not the kernel that looks, its state does not tell.
        _ if said.lines().any(|line| of_memory(&line)) => {
            let line = said.lines().find(of_memory).unwrap_or_default();
            Some(format!("{state} (out of memory): {}", line.trim()))
        }
        "CANCELLED" => Some(state.to_owned()),
        _ if signal != "0" => Some(format!("{state} by signal {signal}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_found_among_what_sbatch_says() {
        assert_eq!(job_of("sbatch: warning: x\n17\n").as_deref(), Some("17"));
        assert_eq!(job_of("18;gamma\n").as_deref(), Some("18"));
        assert_eq!(job_of("sbatch: error: invalid partition 7\n"), None);
    }

    #[test]
    fn only_what_the_scheduler_did_is_an_end() {
        let text = "JobId=5 ArrayJobId=4 ArrayTaskId=0 JobName=x JobState=COMPLETED Reason=None\n\
                    JobId=6 ArrayJobId=4 ArrayTaskId=1 JobName=x JobState=OUT_OF_MEMORY Reason=OutOfMemory\n\
                    JobId=4 ArrayJobId=4 ArrayTaskId=2 JobName=x JobState=TIMEOUT Reason=TimeLimit\n\
                    JobId=7 ArrayJobId=4 ArrayTaskId=3 JobName=x JobState=FAILED Reason=NonZeroExitCode\n";
        let ended = parse_states(text, |_| String::new());
        assert_eq!(ended.len(), 2);
        assert!(ended[&1].contains("out of memory") && ended[&2] == "TIMEOUT");
    }

    #[test]
    fn a_kill_by_slurm_itself_is_told_by_its_words_only() {
        let text =
            "JobId=1 ArrayJobId=1 ArrayTaskId=1 JobState=FAILED Reason=JobLaunchFailure ExitCode=0:9\n";
        let said = "slurmstepd-vm: error: StepId=3.batch exceeded memory limit (323149824 > 157286400), being killed\n";
        assert!(
            parse_states(text, |_| said.to_owned())[&1].starts_with("FAILED (out of memory): slurmstepd-vm")
        );
        assert_eq!(parse_states(text, |_| String::new())[&1], "FAILED by signal 9");
        assert_eq!(end_of("FAILED", "1:0", ""), None, "its own failure is in its run");
        assert_eq!(end_of("COMPLETED", "0:0", said), None);
    }
}
