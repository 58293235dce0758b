//! Finding runs and turning their logs into models.

use std::path::{Path, PathBuf};

use nilometer_analysis::{LogEnding, Run, RunBuilder};
use nilometer_capture::rundir::{Places, SUFFIX};
use nilometer_trace::job::JOB_FILE;
use nilometer_trace::manifest::MANIFEST_FILE;
use nilometer_trace::record::Record;
use nilometer_trace::{Ending, Manifest};

use super::progress::Progress;
use super::{job, living};
use crate::path::{AtPath as _, closed_to_us};
use crate::talk::{self, Failure};

/// A run directory and when it was made.
#[derive(Debug)]
pub struct Found {
    pub path: PathBuf,
    pub made: std::time::SystemTime,
}

/// All runs in the usual places, newest first.
pub fn all_runs(places: &Places) -> Vec<Found> {
    let mut found: Vec<Found> = places.candidates().flat_map(runs_in).collect();
    found.sort_by(|a, b| b.made.cmp(&a.made).then_with(|| a.path.cmp(&b.path)));
    found
}

fn runs_in(place: &Path) -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(SUFFIX))
        .filter_map(|entry| {
            let manifest = std::fs::metadata(entry.path().join(MANIFEST_FILE));
            let made =
                manifest.or_else(|_| std::fs::metadata(entry.path().join(JOB_FILE))).ok()?.modified().ok()?;
            Some(Found { path: entry.path(), made })
        })
        .collect()
}

/// The run that a word names; of a job the rank that is worth a look.
pub fn resolve(word: Option<&str>) -> Result<PathBuf, Failure> {
    resolve_rank(word, None)
}

/// The run that a word names; of a job that rank.
pub fn resolve_rank(word: Option<&str>, rank: Option<u64>) -> Result<PathBuf, Failure> {
    let path = resolve_any(word)?;
    if job::is_one(&path) {
        return job::choose(&path, rank);
    }
    match rank {
        Some(_) => {
            Err(Failure::from(anyhow::anyhow!("{} is one recording, no job of ranks", path.display()))
                .hint(format!("what it says of its processes:  nilo report {}", short_path(&path))))
        }
        None => Ok(path),
    }
}

/// The run or job that a word names: a path, `@last`, `@2`; without a word the newest, and that is said.
pub fn resolve_any(word: Option<&str>) -> Result<PathBuf, Failure> {
    let position = match word {
        None | Some("@last") => 1,
        Some(w) => match w.strip_prefix('@').map(str::parse::<usize>) {
            Some(Ok(n @ 1..)) => n,
            Some(_) => {
                return Err(
                    Failure::from(anyhow::anyhow!("`{w}` names no run")).hint("use @last, @2, … or a path")
                );
            }
            None => return existing(Path::new(w)),
        },
    };
    let runs = all_runs(&Places::from_environment());
    let Some(run) = runs.get(position - 1) else {
        let there = match runs.len() {
            0 => "there is no run here".to_owned(),
            1 => format!("there is one run here, not {position}"),
            runs => format!("there are {runs} runs here, not {position}"),
        };
        return Err(Failure::from(anyhow::anyhow!(there)).hint("make one:  nilo run -- python train.py"));
    };
    if word.is_none() {
        talk::say(&format!("using {}", run.path.display()));
    }
    Ok(run.path.clone())
}

/// The run or job at a path, or as it was named (`-o base`, `NILO_RUN=job`), without the ending that was added.
pub fn find(path: &Path) -> Option<PathBuf> {
    let is_run = |path: &Path| path.join(MANIFEST_FILE).exists() || job::is_one(path);
    names_of(path).into_iter().find(|path| is_run(path))
}

fn names_of(path: &Path) -> [PathBuf; 2] {
    [path.to_owned(), PathBuf::from(format!("{}{SUFFIX}", path.display()))]
}

/// Why there is nothing at a path: it is closed to us, it is something else, or it is not there.
pub fn nothing_at(path: &Path, something_else: &str) -> Failure {
    if let Some(closed) = names_of(path).iter().find_map(|path| closed_to_us(path)) {
        return closed;
    }
    let what = if path.exists() { something_else } else { "does not exist" };
    Failure::from(anyhow::anyhow!("{} {what}", path.display())).hint("see the runs here:  nilo list")
}

fn existing(path: &Path) -> Result<PathBuf, Failure> {
    find(path).ok_or_else(|| nothing_at(path, "is not a run directory"))
}

/// Reads a run directory into its model.
pub fn model(path: &Path) -> Result<Run, Failure> {
    model_with(path, |_| {})
}

/// The same, with somebody else who wants to see the records.
pub fn model_with(path: &Path, mut also: impl FnMut(&Record)) -> Result<Run, Failure> {
    let manifest = Manifest::read(path).reading(path)?;
    let mut builder = RunBuilder::new(&manifest);
    let mut reader = nilometer_trace::Reader::open(path).reading(path)?;
    let mut progress = Progress::new("reading", log_bytes(path));
    while let Some(record) = reader.next_record()? {
        builder.push(record);
        also(record);
        progress.tick(|| reader.position_bytes());
    }
    let mut run = builder.finish(log_ending(&reader.ending(), path));
    run.saved = Some(short_path(path));
    Ok(run)
}

fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(path.join(nilometer_trace::manifest::LOG_FILE)).map_or(0, |file| file.len())
}

/// As one would type it from here.
pub fn short_path(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    relative.unwrap_or(path).display().to_string()
}

/// A log without an end is no death while somebody writes it.
fn log_ending(ending: &Ending, path: &Path) -> LogEnding {
    match ending {
        Ending::Clean => LogEnding::Clean,
        Ending::Cut { .. } if living::recorder(path).is_some() => LogEnding::Running,
        Ending::Cut { at_ns, .. } => LogEnding::Cut { at_ns: at_ns.unwrap_or(0), why: ending.to_string() },
    }
}
