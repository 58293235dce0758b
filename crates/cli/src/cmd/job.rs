//! The directory of a job: its ranks read into one model, or one of them chosen where one is needed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nilometer_analysis::rank::{self, Job, Pattern, Ranked};
use nilometer_tables::Part;
use nilometer_trace::job::{self as stored, RankDirectory, SPOOLED_FILE};
use nilometer_trace::manifest::MANIFEST_FILE;

use super::{exit, load};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

pub fn is_one(path: &Path) -> bool {
    stored::is_job(path)
}

/// All ranks of a job, or those of one node.
pub fn read(path: &Path, node: Option<&str>) -> Result<Job, Failure> {
    read_all(path, node).map(|(job, _)| job)
}

/// All ranks of a job, each with the place of its recording.
pub fn read_parts(path: &Path) -> Result<(Job, Vec<Part>), Failure> {
    read_all(path, None)
}

fn read_all(path: &Path, node: Option<&str>) -> Result<(Job, Vec<Part>), Failure> {
    let about = stored::Job::read(path).reading(path)?;
    let mut parts = Vec::new();
    let mut problems = Vec::new();
    for it in stored::list(path).into_iter().filter(|it| node.is_none_or(|node| it.node == node)) {
        match row(&it).map(|row| as_launched(row, &about.launcher)) {
            Ok(row) => parts.push(Part { path: it.path, row }),
            Err(problem) => problems.push(problem),
        }
    }
    let ranks = parts.iter().map(|part| part.row.clone()).collect();
    Ok((model(about, ranks, problems, node.is_some(), load::short_path(path)), parts))
}

fn model(
    about: stored::Job,
    ranks: Vec<Ranked>,
    problems: Vec<String>,
    one_node: bool,
    saved: String,
) -> Job {
    let mut nodes: Vec<String> = ranks.iter().map(|it| it.node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    // Of one node alone it cannot be told who is missing.
    let missing = if one_node { Vec::new() } else { rank::missing(about.world_size, &ranks) };
    let mut job = Job {
        name: about.name,
        launcher: about.launcher,
        id: about.id,
        started: about.started,
        command: about.command,
        world_size: about.world_size,
        nodes,
        duration_s: ranks.iter().map(|it| it.duration_s).fold(0.0, f64::max),
        missing,
        comparison: rank::compare(&[]),
        ranks,
        problems,
        saved: Some(saved),
    };
    job.comparison = rank::compare(&job.last().collect::<Vec<_>>());
    job
}

fn row(it: &RankDirectory) -> Result<Ranked, String> {
    let path = spooled_here(&it.path).unwrap_or_else(|| it.path.clone());
    if !path.join(MANIFEST_FILE).exists() {
        return Err(format!("rank {}: {}", it.rank, absent(&path)));
    }
    let run = load::model(&path).map_err(|failure| format!("rank {}: {:#}", it.rank, failure.error))?;
    Ok(rank::of_run(it.rank, it.restart, &it.node, &run))
}

/// Ray ends its workers, when it ends, with exit code 1: that is no failure.
fn as_launched(mut row: Ranked, launcher: &str) -> Ranked {
    row.good |= launcher == "ray" && row.end == "exit 1";
    row
}

/// Where a recording that is not home yet is, by its host and directory.
fn spooled(path: &Path) -> Option<(String, PathBuf)> {
    let text = std::fs::read(path.join(SPOOLED_FILE)).ok()?;
    let spooled: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some((spooled["host"].as_str()?.to_owned(), spooled["directory"].as_str()?.into()))
}

/// The same, where it can be read from here.
fn spooled_here(path: &Path) -> Option<PathBuf> {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    spooled(path).filter(|(host, local)| host == own.trim() && local.exists()).map(|(_, local)| local)
}

/// Where the recordings of a job are, or go on, as far as that is on this machine.
pub fn recordings(path: &Path) -> impl Iterator<Item = PathBuf> {
    stored::list(path).into_iter().map(|it| spooled_here(&it.path).unwrap_or(it.path))
}

/// Nothing is there: perhaps it is still in its spool.
fn absent(path: &Path) -> String {
    match spooled(path) {
        Some((host, local)) => format!("recorded on {host} in {}, not copied home yet", local.display()),
        None => "nothing was recorded".to_owned(),
    }
}

/// The last recording of each rank, by rank.
pub fn runs(path: &Path) -> Vec<RankDirectory> {
    let whole = stored::list(path).into_iter().filter(|it| it.path.join(MANIFEST_FILE).exists());
    let last: BTreeMap<u64, RankDirectory> = whole.map(|it| (it.rank, it)).collect();
    last.into_values().collect()
}

/// One recording of a job: the rank that was named, else the one that is not like the others, and that is said.
pub fn choose(path: &Path, rank: Option<u64>) -> Result<PathBuf, Failure> {
    let runs = runs(path);
    let named = load::short_path(path);
    if runs.is_empty() {
        return Err(Failure::from(anyhow!("{named} has no rank with a recording"))
            .hint(format!("what there is:  nilo report {named}")));
    }
    let (wanted, why) = match rank {
        Some(rank) => (rank, None),
        None => worth_a_look(path)?,
    };
    let Some(run) = runs.iter().find(|it| it.rank == wanted) else {
        return Err(Failure::from(anyhow!("{named} has no rank {wanted}; it has {}", listed(&runs)))
            .exiting(exit::USAGE)
            .hint(format!("see them all:  nilo report {named}")));
    };
    if let Some(why) = why {
        talk::say(&format!("using rank {wanted} of {named}, {why}; there are {} (--rank N)", listed(&runs)));
    }
    Ok(run.path.clone())
}

fn worth_a_look(path: &Path) -> Result<(u64, Option<&'static str>), Failure> {
    let job = read(path, None)?;
    let why = match job.comparison.pattern {
        Pattern::SomeGrow | Pattern::AllGrow => "which grows most",
        Pattern::SomePeak => "which needs most",
        Pattern::NoneGrows | Pattern::CannotTell => "as good as any",
    };
    Ok((job.worth_a_look().unwrap_or(0), Some(why)))
}

/// `ranks 0–7`, `ranks 0–3, 5`.
fn listed(runs: &[RankDirectory]) -> String {
    const MOST: usize = 6;
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for it in runs {
        match spans.last_mut() {
            Some(span) if span.1 + 1 == it.rank => span.1 = it.rank,
            _ => spans.push((it.rank, it.rank)),
        }
    }
    let told = |(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}–{last}") }
    };
    let more = if spans.len() > MOST { ", …" } else { "" };
    let spans: Vec<String> = spans.iter().take(MOST).map(told).collect();
    format!("ranks {}{more}", spans.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_in_spans() {
        let directory = |rank| RankDirectory { rank, restart: 0, node: String::new(), path: PathBuf::new() };
        let told = |ranks: &[u64]| listed(&ranks.iter().map(|rank| directory(*rank)).collect::<Vec<_>>());
        assert_eq!(told(&[0, 1, 2, 3]), "ranks 0–3");
        assert_eq!(told(&[0, 2, 3, 9]), "ranks 0, 2–3, 9");
        assert_eq!(told(&(0..20).map(|n| n * 2).collect::<Vec<_>>()), "ranks 0, 2, 4, 6, 8, 10, …");
    }
}
