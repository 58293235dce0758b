//! Rows as they are shown: filtered, ordered, with what identifies them.

use std::cmp::Ordering;

use nilometer_analysis::live::{Candidate, Per, Row, Table, View};

use super::Content;
use super::state::{Pane, Sort, State};

/// One row of whatever is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Tells it from the others, now and later.
    pub key: String,
    pub pid: Option<i32>,
    /// Lower ones come first, however rows are ordered.
    group: u8,
    pub bytes: u64,
    pub peak_bytes: Option<u64>,
    pub count: Option<u64>,
    pub rate: Option<f64>,
    pub lived_s: Option<f64>,
    pub name: String,
}

/// The table of a pane; none for events.
pub(crate) fn table(view: &View, pane: Pane) -> Option<&Table> {
    match pane {
        Pane::Processes => Some(&view.processes),
        Pane::Kinds => Some(&view.kinds),
        Pane::Sites => Some(&view.sites),
        Pane::Events => None,
    }
}

pub(crate) fn per(state: &State, content: &Content<'_>) -> Per {
    match content {
        Content::List(_) => Per::Second,
        Content::Run(view) => table(view, state.pane).map(|table| table.per).unwrap_or_default(),
    }
}

/// The rows that the filter lets through, in their order.
pub(crate) fn visible(state: &State, content: &Content<'_>) -> Vec<Entry> {
    let mut rows: Vec<Entry> = match content {
        Content::List(candidates) => candidates.iter().map(of_candidate).collect(),
        Content::Run(view) => {
            let rows = table(view, state.pane).map(|table| table.rows.as_slice()).unwrap_or_default();
            rows.iter().map(of_row).collect()
        }
    };
    let wanted = state.filter.to_lowercase();
    rows.retain(|row| {
        wanted.is_empty() || row.name.to_lowercase().contains(&wanted) || row.key.contains(&wanted)
    });
    rows.sort_by(|a, b| {
        a.group.cmp(&b.group).then_with(|| order(state.sort, a, b)).then_with(|| a.key.cmp(&b.key))
    });
    rows
}

/// Largest first; what has no value comes last.
fn order(sort: Sort, a: &Entry, b: &Entry) -> Ordering {
    let rate = |entry: &Entry| entry.rate.unwrap_or(f64::NEG_INFINITY);
    match sort {
        Sort::Rate => rate(b).total_cmp(&rate(a)).then_with(|| b.bytes.cmp(&a.bytes)),
        Sort::Size => b.bytes.cmp(&a.bytes),
        Sort::Peak => b.peak_bytes.cmp(&a.peak_bytes).then_with(|| b.bytes.cmp(&a.bytes)),
        Sort::Name => a.name.cmp(&b.name),
    }
}

/// Where the chosen row is.
pub(crate) fn position(state: &State, rows: &[Entry]) -> Option<usize> {
    let chosen = state.chosen.as_ref()?;
    rows.iter().position(|row| row.key == *chosen)
}

/// The largest process of a run.
pub(crate) fn largest(content: &Content<'_>) -> Option<i32> {
    match content {
        Content::List(_) => None,
        Content::Run(view) => view.processes.rows.iter().max_by_key(|row| row.bytes)?.pid,
    }
}

fn of_row(row: &Row) -> Entry {
    Entry {
        key: row.pid.map_or_else(|| row.name.clone(), |pid| pid.to_string()),
        pid: row.pid,
        group: 0,
        bytes: row.bytes,
        peak_bytes: row.peak_bytes,
        count: row.count,
        rate: row.rate,
        lived_s: None,
        name: row.name.clone(),
    }
}

/// My own Pythons, then what else is mine, then the others'.
fn of_candidate(candidate: &Candidate) -> Entry {
    let other = if candidate.mine { "" } else { "(another user's) " };
    Entry {
        key: candidate.pid.to_string(),
        pid: Some(candidate.pid),
        group: 2 * u8::from(!candidate.mine) + u8::from(!candidate.python),
        bytes: candidate.rss_bytes,
        peak_bytes: None,
        count: None,
        rate: candidate.rate,
        lived_s: candidate.lived_s,
        name: format!("{other}{}", candidate.command),
    }
}
