//! What happened to the recording and to the run, as sentences in the order of the log.

use nilometer_trace::record::{self, EventKind};

use crate::bounded::Capped;
use crate::clock::Clock;
use crate::limit::{Change, LimitFinder};
use crate::model;
use crate::process::ProcessTable;
use crate::text;

const EVENTS: usize = 1_000;

#[derive(Debug, Clone)]
struct Line {
    at_ns: u64,
    kind: &'static str,
    text: String,
}

#[derive(Debug)]
pub(crate) struct EventLog {
    lines: Capped<Line>,
    pub(crate) gap_ns: u64,
    pub(crate) dropped_ticks: u64,
    pub(crate) stretched: bool,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        Self { lines: Capped::new(EVENTS), gap_ns: 0, dropped_ticks: 0, stretched: false }
    }

    pub(crate) fn push(&mut self, event: &record::Event, processes: &ProcessTable) {
        match &event.what {
            EventKind::Gap { until_ns, .. } => {
                self.gap_ns = self.gap_ns.saturating_add(until_ns.saturating_sub(event.at_ns));
            }
            EventKind::Dropped { ticks, .. } => {
                self.dropped_ticks = self.dropped_ticks.saturating_add(*ticks);
            }
            EventKind::Interval { .. } => self.stretched = true,
            _ => {}
        }
        if let Some((kind, text)) = sentence(event, processes) {
            self.lines.push(Line { at_ns: event.at_ns, kind, text });
        }
    }

    /// In the order of time, with the changes of limits that the samples showed.
    pub(crate) fn finish(&self, limits: &LimitFinder, clock: &Clock) -> Vec<model::Event> {
        let changes = limits.changes.items.iter().map(|change| limit_change(change, limits));
        let mut lines: Vec<Line> = self.lines.items.iter().cloned().chain(changes).collect();
        lines.sort_by_key(|line| line.at_ns);
        let event =
            |line: Line| model::Event { at_s: clock.seconds(line.at_ns), kind: line.kind, text: line.text };
        lines.into_iter().map(event).collect()
    }

    pub(crate) fn omitted(&self, limits: &LimitFinder) -> u64 {
        self.lines.omitted + limits.changes.omitted
    }
}

/// `None` for events that the model tells elsewhere.
fn sentence(event: &record::Event, processes: &ProcessTable) -> Option<(&'static str, String)> {
    Some(match &event.what {
        EventKind::Started
        | EventKind::Exited
        | EventKind::PeaksReset { .. }
        | EventKind::Repeats { .. }
        | EventKind::RunEnded { .. }
        | EventKind::Unsampled { .. } => return None,
        EventKind::Remains { what, bytes, .. } => {
            ("remains", format!("{what} remains: {}", text::bytes(*bytes)))
        }
        EventKind::Gap { until_ns, stopped } => ("gap", gap(event.at_ns, *until_ns, *stopped)),
        EventKind::Interval { interval_ns, why } => (
            "interval",
            format!("sampling every {} from here on: {why}", text::duration(*interval_ns as f64 / 1e9)),
        ),
        EventKind::Signal { number, forwarded } => ("signal", signal(*number, *forwarded)),
        EventKind::Dropped { ticks, why } => ("dropped", format!("{ticks} ticks could not be stored: {why}")),
        EventKind::ClockStep { by_ns } => {
            ("clock", format!("the wall clock was set by {}", text::duration(*by_ns as f64 / 1e9)))
        }
        EventKind::LeftBehind { indexes } => ("left-behind", left_behind(indexes, processes)),
        EventKind::Limit { limit, value_bytes, limit_bytes, index, action } => {
            let who = index.map(|index| format!(" by {}", processes.name_of(index))).unwrap_or_default();
            let (value, bound) = (text::bytes(*value_bytes), text::bytes(*limit_bytes));
            ("limit", format!("{limit}: {value} of {bound}{who}; {action}"))
        }
        EventKind::Stack { pid, thread, frames } => ("stack", stack(*pid, thread, frames)),
        EventKind::Note { text } => ("note", text.clone()),
    })
}

fn gap(from_ns: u64, until_ns: u64, stopped: bool) -> String {
    let length = text::duration(until_ns.saturating_sub(from_ns) as f64 / 1e9);
    let why = if stopped { "stopped by job control" } else { "nilo did not get the CPU" };
    format!("no samples for {length}: {why}")
}

fn signal(number: i32, forwarded: bool) -> String {
    let what = if forwarded { "forwarded to the target" } else { "not forwarded: the target had it already" };
    format!("nilo received signal {number}, {what}")
}

fn left_behind(indexes: &[u32], processes: &ProcessTable) -> String {
    const NAMED: usize = 8;
    let names: Vec<String> = indexes.iter().take(NAMED).map(|index| processes.name_of(*index)).collect();
    let more = indexes.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("still running when the command ended: {}{more}", names.join(", "))
}

fn limit_change(change: &Change, limits: &LimitFinder) -> Line {
    let say = |limit: Option<u64>| limit.map_or_else(|| "none".into(), text::bytes);
    let text = format!(
        "limit of the {} changed from {} to {}",
        limits.group_name(change.group),
        say(change.from),
        say(change.to)
    );
    Line { at_ns: change.at_ns, kind: "limit", text }
}
/// Frames that are told in one line; all are in the log.
const FRAMES_TOLD: usize = 6;

fn stack(pid: i32, thread: &str, frames: &[String]) -> String {
    let told = frames.iter().take(FRAMES_TOLD).map(String::as_str).collect::<Vec<_>>().join(" < ");
    let more = frames.len().saturating_sub(FRAMES_TOLD);
    let rest = if more > 0 { format!(" < {more} more") } else { String::new() };
    format!("process {pid}, {thread} was in {told}{rest}")
}
