//! What a word on the command line stands for: a run, a directory of runs, a heap snapshot, a sweep.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nilometer_analysis::allocs::Options;
use nilometer_analysis::compare::{Side, fact};
use nilometer_analysis::heap::Heap;
use nilometer_capture::rundir::SUFFIX;
use nilometer_trace::Manifest;
use nilometer_trace::manifest::MANIFEST_FILE;

use super::super::{allocs, heap, job, leak, load, pages, sweep};
use crate::args::sweep_shown;
use crate::path::AtPath as _;
use crate::talk::Failure;

/// Ranks of a job that are read.
const MOST_RANKS: usize = 64;
/// Sites of a run that are compared, the largest.
const MOST_SITES: usize = 5_000;

/// The ranks of a job count as repeats of one command.
pub fn read(word: &str, rank: Option<u64>) -> Result<Side, Failure> {
    let path = Path::new(word);
    let is_other = path.is_file() || sweep::is_one(path) || !runs_in(path).is_empty();
    if word.starts_with('@') || load::find(path).is_some_and(|found| found == path || !is_other) {
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
        return Err(load::nothing_at(path, "has no run in it"));
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
    let (mut runs, mut leaks) = (Vec::new(), Vec::new());
    for path in paths {
        let its = fact::facts(&Manifest::read(path).reading(path)?);
        if runs.is_empty() {
            facts = its;
        } else {
            let changes = fact::changes(&facts, &its).into_iter().map(|change| change.what);
            mixed.extend(changes.filter(|what| !tells_rank(what)));
        }
        let (run, leak) = leak::rate_of_run(path)?;
        leaks.push(run.peak.is_some().then_some(leak));
        runs.push(run);
    }
    mixed.sort();
    mixed.dedup();
    let mut side = Side::of_runs(name, facts, runs);
    let options = Options { top: Some(MOST_SITES), ..Options::default() };
    for (place, (path, leak)) in paths.iter().zip(leaks).enumerate() {
        if let Some(leak) = leak {
            side.add_leak(place, &leak);
        }
        if let Some(allocs) = allocs::categorised(path, &options)? {
            side.add_allocs(place, &allocs);
        }
        if let Some(pages) = pages::of_run(path)? {
            side.add_pages(place, &pages);
        }
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
