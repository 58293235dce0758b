//! What the memory of each parameter set is made of: a column a set, a row a part.

use nilometer_analysis::metric;
use nilometer_analysis::sweep::model::{PointRun, Sweep};
use nilometer_analysis::sweep::space::Point;

use crate::table::Table;
use crate::text;

/// Kinds of parts in the order in which they are shown; those of mappings are in every run, and only in laws.
const KINDS: [&str; 2] = ["category.", "ledger."];
/// Parts of a kind that are shown, the largest, and the share of the largest below which they are not.
const MOST: usize = 8;
const LEAST: f64 = 0.01;
/// Parameter sets that have room beside each other.
const SETS: usize = 6;

/// Where a law of this figure stands among those of parts.
pub(super) fn rank(metric: &str) -> usize {
    match metric {
        "wss" => 0,
        "gpu" => 1,
        part => KINDS.iter().position(|kind| part.starts_with(kind)).map_or(4, |place| place + 2),
    }
}

/// Nothing where no run recorded any.
pub(super) fn table(sweep: &Sweep) -> Option<Table> {
    let (heads, rows) = cells(sweep)?;
    let mut table = Table::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        table.row(row);
    }
    Some(table)
}

/// Heads, the last of which is that of the names, and rows.
pub(crate) fn cells(sweep: &Sweep) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let sets = spread(sets(sweep));
    let heads = sets.iter().map(|(params, _)| head(sweep, params)).chain(["part".to_owned()]).collect();
    let cell = |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), |value| text::bytes(value as u64));
    let row = |(name, values): (String, Vec<Option<f64>>)| values.iter().map(cell).chain([name]).collect();
    let rows: Vec<Vec<String>> = KINDS.iter().flat_map(|kind| largest(rows(kind, &sets))).map(row).collect();
    (!rows.is_empty()).then_some((heads, rows))
}

/// Parameter sets with their runs that went well.
fn sets(sweep: &Sweep) -> Vec<(&Point, Vec<&PointRun>)> {
    let mut sets: Vec<(&Point, Vec<&PointRun>)> = Vec::new();
    for run in sweep.runs.iter().filter(|run| run.outcome.ran()) {
        match sets.iter_mut().find(|(params, _)| **params == run.params) {
            Some((_, runs)) => runs.push(run),
            None => sets.push((&run.params, vec![run])),
        }
    }
    sets
}

/// Some of them, with the first and the last.
fn spread<T>(all: Vec<T>) -> Vec<T> {
    let count = all.len();
    let places: Vec<usize> =
        (0..SETS.min(count)).map(|n| n * (count - 1) / (SETS.min(count) - 1).max(1)).collect();
    all.into_iter().enumerate().filter(|(place, _)| places.contains(place)).map(|(_, one)| one).collect()
}

/// `batch=16`, `batch=16 threads=2`.
fn head(sweep: &Sweep, params: &Point) -> String {
    let told = params.iter().filter(|(name, _)| sweep.names.len() == 1 || is_told(sweep, name));
    told.map(|(name, value)| format!("{name}={}", value.text)).collect::<Vec<_>>().join(" ")
}

/// What is the same in all sets needs no words.
fn is_told(sweep: &Sweep, name: &str) -> bool {
    let text =
        |run: &PointRun| run.params.iter().find(|(its, _)| its == name).map(|(_, value)| value.text.clone());
    sweep.runs.iter().any(|run| text(run) != sweep.runs.first().and_then(text))
}

/// Each part of a kind with its mean in each set.
fn rows(kind: &str, sets: &[(&Point, Vec<&PointRun>)]) -> Vec<(String, Vec<Option<f64>>)> {
    let metrics = sets.iter().flat_map(|(_, runs)| runs).flat_map(|run| &run.metrics);
    let mut names: Vec<&str> =
        metrics.map(|metric| metric.name.as_str()).filter(|name| name.starts_with(kind)).collect();
    names.sort_unstable();
    names.dedup();
    let mean = |name: &str, runs: &[&PointRun]| {
        let values: Vec<f64> =
            runs.iter().filter_map(|run| Some(metric::named(&run.metrics, name)?.value)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let row = |name: &str| (name.to_owned(), sets.iter().map(|(_, runs)| mean(name, runs)).collect());
    names.into_iter().map(row).collect()
}

fn largest(mut rows: Vec<(String, Vec<Option<f64>>)>) -> Vec<(String, Vec<Option<f64>>)> {
    let most = |row: &(String, Vec<Option<f64>>)| row.1.iter().flatten().copied().fold(0.0, f64::max);
    rows.sort_by(|a, b| most(b).total_cmp(&most(a)).then_with(|| a.0.cmp(&b.0)));
    let least = rows.first().map_or(0.0, most) * LEAST;
    rows.retain(|row| most(row) > 0.0 && most(row) >= least);
    rows.truncate(MOST);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_set_are_among_those_shown() {
        assert_eq!(spread((0..100).collect()), [0, 19, 39, 59, 79, 99]);
        assert_eq!(spread(vec![7]), [7]);
        assert_eq!(spread(vec![1, 2, 3]), [1, 2, 3]);
        assert!(spread(Vec::<u8>::new()).is_empty());
    }

    #[test]
    fn small_parts_go_and_large_ones_come_first() {
        let row = |name: &str, value: f64| (name.to_owned(), vec![Some(value), None]);
        let kept = largest(vec![row("small", 0.5), row("some", 40.0), row("most", 100.0)]);
        assert_eq!(kept.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["most", "some"]);
    }
}
