//! The first lines: who is looked at, and the verdict so far, in the words of the verdict at the end.

use nilometer_analysis::live::{Progress, View};

use super::{Content, State};
use crate::layout::{Line, Style};
use crate::{sentence, text};

/// Findings that are about a recording that has ended.
const AT_THE_END: [&str; 4] = ["after", "doubt", "cost", "saved"];

const LONGEST_COMMAND: usize = 40;

pub(super) fn headline(state: &State, content: &Content<'_>, style: &Style) -> String {
    let mut parts = match content {
        Content::List(all) => list(all.len()),
        Content::Run(view) => run(view, style),
    };
    if state.paused {
        parts.insert(0, "paused".into());
    }
    style.safe(&parts.join(" · "))
}

fn list(count: usize) -> Vec<String> {
    vec!["nilo top".into(), text::counted(count as u64, "process", "processes")]
}

/// The amount and its rate first: a narrow screen shows no more.
fn run(view: &View, style: &Style) -> Vec<String> {
    let run = &view.run;
    let now = view.now_bytes.filter(|_| view.progress == Progress::Runs);
    let mut parts: Vec<String> = now.map(|now| level(now, view.rate)).into_iter().collect();
    parts.push(match &view.progress {
        Progress::Runs => "runs".into(),
        Progress::Ended => sentence::ending(run),
        Progress::Lost(why) => why.clone(),
    });
    parts.extend(view.step.map(|step| format!("step {}", text::count(step))));
    parts.push(style.shorten(&run.command.join(" "), LONGEST_COMMAND));
    parts.push(text::duration(run.duration_s));
    parts.push(text::counted(run.processes_seen, "process", "processes"));
    parts
}

fn level((low, high): (u64, u64), rate: Option<f64>) -> String {
    let rate = rate.map(|rate| format!(" {}/s", text::signed_bytes(rate as i64))).unwrap_or_default();
    let size = if low == high {
        text::bytes(high)
    } else {
        format!("{} ({})", text::bytes(high), text::range(low, high))
    };
    format!("{size}{rate}")
}

/// What may be said while it goes on.
pub(super) fn findings(view: &View) -> Vec<Line> {
    let mut lines = sentence::findings(&view.run);
    if view.progress == Progress::Runs {
        lines.retain(|line| !AT_THE_END.contains(&line.label));
    }
    lines
}
