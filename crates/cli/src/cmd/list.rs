//! `nilo list`: the runs here, and tidying them.

use std::path::Path;
use std::process::ExitCode;

use nilometer_capture::rundir::Places;
use nilometer_report::text;
use nilometer_trace::{Manifest, job as stored};

use super::load::{self, Found};
use super::{job, living};
use crate::args::ListArgs;
use crate::talk::{self, Failure};

pub fn run(args: &ListArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    let runs = load::all_runs(&Places::from_environment());
    if !args.rm.is_empty() {
        return remove_named(&args.rm);
    }
    if let Some(keep) = args.keep {
        return remove_older(&runs, keep);
    }
    if args.json {
        print_json(&runs);
    } else {
        print_table(&runs);
    }
    Ok(ExitCode::SUCCESS)
}

/// Resolves every word before the first removal: `@2` means the same run throughout.
fn remove_named(words: &[String]) -> Result<ExitCode, Failure> {
    let paths = words.iter().map(|word| load::resolve_any(Some(word))).collect::<Result<Vec<_>, _>>()?;
    if let Some((path, pid)) = paths.iter().find_map(|path| Some((path, recorder_within(path)?))) {
        return Err(Failure::from(anyhow::anyhow!("process {pid} is recording {}", path.display()))
            .hint(format!("wait for its end, or end it:  kill {pid}")));
    }
    for path in paths {
        remove(&path)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove_older(runs: &[Found], keep: usize) -> Result<ExitCode, Failure> {
    for run in runs.iter().skip(keep) {
        match recorder_within(&run.path) {
            Some(pid) => talk::say(&format!("kept {}: process {pid} is recording it", run.path.display())),
            None => remove(&run.path)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Who records this run, or a rank of this job.
fn recorder_within(path: &Path) -> Option<i32> {
    living::recorder(path).or_else(|| job::recordings(path).find_map(|rank| living::recorder(&rank)))
}

fn remove(path: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(path)?;
    talk::say(&format!("removed {}", path.display()));
    Ok(())
}

fn print_table(runs: &[Found]) {
    if runs.is_empty() {
        talk::say("no runs here yet; make one:  nilo run -- python train.py");
        return;
    }
    for (position, run) in runs.iter().enumerate() {
        let reference = if position == 0 { "@last".to_owned() } else { format!("@{}", position + 1) };
        talk::data(&format!("{reference:>6}  {}\n", describe(&run.path)));
    }
}

fn describe(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |n| text::escape(&n.to_string_lossy()));
    if let Ok(job) = stored::Job::read(path) {
        let ranks = text::counted(job::runs(path).len() as u64, "rank", "ranks");
        return format!("{}  {ranks:>12}  {name}  {}", job.started, text::escape(&job.command.join(" ")));
    }
    let Ok(manifest) = Manifest::read(path) else { return format!("{name}  (manifest not readable)") };
    let end = manifest.end.as_ref().map_or("no end recorded".to_owned(), |e| text::duration(e.duration_s));
    format!("{}  {end:>12}  {name}  {}", manifest.started, text::escape(&manifest.command.join(" ")))
}

fn print_json(runs: &[Found]) {
    let entries: Vec<_> = runs
        .iter()
        .map(|run| match stored::Job::read(&run.path) {
            Ok(job) => serde_json::json!({"path": run.path, "manifest": null, "job": job}),
            Err(_) => serde_json::json!({"path": run.path, "manifest": Manifest::read(&run.path).ok()}),
        })
        .collect();
    talk::data(&format!("{:#}\n", serde_json::Value::from(entries)));
}
