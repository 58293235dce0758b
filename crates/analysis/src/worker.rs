//! Processes of the same role as a group: how many, how much each holds for itself, how fast each grows.

use std::collections::BTreeMap;

use crate::model::Workers;
use crate::stats;
use crate::tracked::Tracked;

/// `DataLoader worker 3` belongs to `DataLoader worker`; `fork of 4711` is one group per parent.
fn stem(role: &str) -> &str {
    if role.starts_with("fork of ") {
        return role;
    }
    role.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end()
}

/// Roles of processes that do the job's work side by side; shells and helpers are no workers.
const WORKERS: [&str; 4] = ["DataLoader worker", "spawned worker", "fork of ", "rank "];

fn is_worker(role: &str) -> bool {
    WORKERS.iter().any(|stem| role.starts_with(stem))
}

pub(crate) fn groups<'a>(all: impl Iterator<Item = &'a Tracked>) -> Vec<Workers> {
    let mut stems: BTreeMap<&str, Vec<&Tracked>> = BTreeMap::new();
    for process in all.filter(|process| is_worker(&process.role.name)) {
        stems.entry(stem(&process.role.name)).or_default().push(process);
    }
    let mut groups: Vec<Workers> = stems
        .into_iter()
        .map(|(stem, members)| group(stem, &members))
        .filter(|group| group.count >= 2)
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.private_bytes));
    groups
}

fn group(stem: &str, members: &[&Tracked]) -> Workers {
    let mut private: Vec<f64> =
        members.iter().filter_map(|member| member.uss_bytes()).map(|v| v as f64).collect();
    let mut growth: Vec<f64> = members.iter().filter_map(|member| member.growth_per_step()).collect();
    Workers {
        role: stem.into(),
        count: most_at_once(members),
        seen: members.len(),
        private_bytes: stats::median(&mut private).map(|bytes| bytes as u64),
        growth_per_step_bytes: stats::median(&mut growth),
    }
}

fn most_at_once(members: &[&Tracked]) -> usize {
    let mut changes: Vec<(u64, i64)> = Vec::with_capacity(members.len() * 2);
    for member in members {
        changes.push((member.seen_ns, 1));
        changes.push((member.end_ns.unwrap_or(u64::MAX), -1));
    }
    changes.sort_unstable();
    let alive = changes.iter().scan(0, |alive, (_, change)| {
        *alive += change;
        Some(*alive)
    });
    alive.max().map_or(0, |most| most.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_drop_the_number_but_not_the_parent() {
        assert_eq!(stem("DataLoader worker 12"), "DataLoader worker");
        assert_eq!(stem("rank 0"), "rank");
        assert_eq!(stem("fork of 4711"), "fork of 4711");
        assert_eq!(stem("main"), "main");
    }
}
