//! What a word on the command line stands for: a run, a directory of runs, a heap snapshot, a sweep.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nilometer_analysis::allocs::Options;
use nilometer_analysis::compare::{Side, fact};
use nilometer_analysis::heap::Heap;
use nilometer_capture::rundir::SUFFIX;
use nilometer_trace::Manifest;
use nilometer_trace::allocs::ALLOCS_FILE;
use nilometer_trace::manifest::MANIFEST_FILE;

use super::super::{allocs, heap, job, load, sweep};
use crate::args::sweep_shown;
use crate::talk::Failure;

/// Ranks of a job that are read.
const MOST_RANKS: usize = 64;
/// Sites of a run that are compared, the largest.
const MOST_SITES: usize = 5_000;

/// The ranks of a job count as repeats of one command.
pub fn read(word: &str, rank: Option<u64>) -> Result<Side, Failure> {
    let path = Path::new(word);
    if word.starts_with('@') || path.join(MANIFEST_FILE).exists() || job::is_one(path) {
        let path = load::resolve_any(Some(word))?;
        if job::is_one(&path) && rank.is_none() {
            let runs: Vec<PathBuf> =
                job::runs(&path).into_iter().take(MOST_RANKS).map(|it| it.path).collect();
            return of_runs(word, &runs);
        }
        return of_runs(word, &[load::resolve_rank(path.to_str(), rank)?]);
    }
    if path.is_file() {
        let graph = heap::read_snapshot(path)?;
        return Ok(Side::of_heap(word, &Heap::new(&graph)));
    }
    if sweep::is_one(path) {
        let Some(args) = sweep_shown(path) else { return Err(anyhow!("{word} is no sweep").into()) };
        return Ok(Side::of_sweep(word, &sweep::read(path, &args)?));
    }
    let runs = runs_in(path);
    if runs.is_empty() {
        let what = if path.exists() { "has no run in it" } else { "does not exist" };
        return Err(Failure::from(anyhow!("{word} {what}")).hint("see the runs here:  nilo list"));
    }
    of_runs(word, &runs)
}

/// All runs in a directory, by name.
pub fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_run =
        |path: &PathBuf| path.to_string_lossy().ends_with(SUFFIX) && path.join(MANIFEST_FILE).exists();
    let mut runs: Vec<PathBuf> = entries.filter(is_run).collect();
    runs.sort();
    runs
}

/// Runs of one command; what differs among them is told.
pub fn of_runs(name: &str, paths: &[PathBuf]) -> Result<Side, Failure> {
    let mut facts = Vec::new();
    let mut mixed = Vec::new();
    let mut runs = Vec::new();
    for path in paths {
        let its = fact::facts(&Manifest::read(path)?);
        if runs.is_empty() {
            facts = its;
        } else {
            let changes = fact::changes(&facts, &its).into_iter().map(|change| change.what);
            mixed.extend(changes.filter(|what| !tells_rank(what)));
        }
        runs.push(load::model(path)?);
    }
    mixed.sort();
    mixed.dedup();
    let mut side = Side::of_runs(name, facts, runs);
    for (place, path) in paths.iter().enumerate().filter(|(_, path)| path.join(ALLOCS_FILE).exists()) {
        let read = allocs::read(path)?;
        let options = Options { top: Some(MOST_SITES), least_share: 1.0, ..Options::default() };
        let (recording, names) = (&read.recording, read.names.symbols());
        let mut model = nilometer_analysis::allocs::build(recording, names, &options);
        nilometer_analysis::allocs::categorise(&mut model, recording, names, &allocs::rules(None)?);
        side.add_allocs(place, &model);
    }
    if !mixed.is_empty() {
        side.notes.push(format!("{name}: its runs differ among themselves in {}", mixed.join(", ")));
    }
    Ok(side)
}

/// Ranks differ in what tells them apart.
fn tells_rank(what: &str) -> bool {
    what.starts_with('$')
        && ["RANK", "PROCID", "LOCALID", "NODEID"].iter().any(|ending| what.ends_with(ending))
}
