//! Which run, node and rank a table belongs to, and the directory names that say so.

use std::path::{Path, PathBuf};

use nilometer_trace::Manifest;
use nilometer_trace::job::escape;
use nilometer_trace::manifest::Rank;

/// Launchers tell a process its rank by one of these; the first that holds a number counts.
const RANK_VARIABLES: [&str; 5] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];
const RUN_SUFFIX: &str = ".nilo";
const UNKNOWN: &str = "unknown";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the run directory without `.nilo`: unlike the manifest's name, no two runs of one place share it.
    pub run: String,
    pub node: String,
    /// 0 where no launcher told one.
    pub rank: u64,
}

impl Identity {
    pub fn of(run: &Path, manifest: &Manifest) -> Self {
        if let Some(rank) = &manifest.rank {
            return Self::of_rank(rank, manifest);
        }
        Self {
            run: directory_name(run).unwrap_or_else(|| named(&manifest.name)),
            node: named(&manifest.host.name),
            rank: rank(&manifest.environment),
        }
    }

    /// A rank's directory has a name that all ranks share: the job has one of its own. A restart is another run.
    fn of_rank(rank: &Rank, manifest: &Manifest) -> Self {
        let job = rank.job.strip_suffix(RUN_SUFFIX).unwrap_or(&rank.job);
        let run = if rank.restart == 0 { named(job) } else { format!("{job}.restart{}", rank.restart) };
        Self { run, node: named(&manifest.host.name), rank: rank.rank }
    }

    /// `run=…/node=…/rank=…`, as every engine that knows Hive partitions reads it: all but plain letters is %-escaped.
    pub fn partition(&self) -> PathBuf {
        let rank = self.rank.to_string();
        [("run", &self.run), ("node", &self.node), ("rank", &rank)]
            .into_iter()
            .map(|(key, value)| format!("{key}={}", escape(value)))
            .collect()
    }
}

fn directory_name(run: &Path) -> Option<String> {
    // `.` and links have no name of their own.
    let real = run.canonicalize().ok()?;
    let name = real.file_name()?.to_string_lossy();
    let name = name.strip_suffix(RUN_SUFFIX).unwrap_or(&name);
    (!name.is_empty()).then(|| name.to_owned())
}

fn named(name: &str) -> String {
    if name.is_empty() { UNKNOWN.to_owned() } else { name.to_owned() }
}

fn rank(environment: &[(String, String)]) -> u64 {
    let value = |wanted: &&str| environment.iter().find(|(name, _)| name == wanted)?.1.trim().parse().ok();
    RANK_VARIABLES.iter().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_rank_is_the_first_variable_that_holds_a_number() {
        assert_eq!(rank(&[]), 0);
        assert_eq!(rank(&environment(&[("SLURM_PROCID", "7"), ("OMPI_COMM_WORLD_RANK", "3")])), 3);
        assert_eq!(rank(&environment(&[("RANK", "first"), ("PMI_RANK", " 12 ")])), 12);
        assert_eq!(rank(&environment(&[("LOCAL_RANK", "5")])), 0);
    }

    #[test]
    fn names_cannot_leave_their_partition() {
        let identity = Identity { run: "../a=b c%é".into(), node: "n-1.x_y".into(), rank: 2 };
        assert_eq!(identity.partition(), Path::new("run=..%2Fa%3Db%20c%25%C3%A9/node=n-1.x_y/rank=2"));
    }
}
