//! How much, when, and how it is known.

use nilometer_analysis::allocs::model::{Allocs, Peak};

use crate::layout::{Line, Style, Tone, fold};
use crate::text;

pub(super) fn render(allocs: &Allocs, style: &Style) -> String {
    let title = format!("nilo: allocations of {} · {}", allocs.command, mode(allocs));
    let mut out = style.paint(&fold(&style.safe(&title), style.columns()).join("\n"), Tone::Strong) + "\n";
    for line in lines(allocs) {
        out += &line.render(style);
    }
    out
}

/// How blocks were chosen.
fn mode(allocs: &Allocs) -> String {
    match (allocs.mode.as_str(), &allocs.sampling) {
        (mode, Some(sampling)) => format!(
            "{mode}: one sample in {}, blocks from {} on all",
            text::bytes(sampling.mean_bytes),
            text::bytes(sampling.exact_bytes)
        ),
        ("all", None) => "all: every block of the C allocator".into(),
        ("deep", None) => "deep: every block, Python's own allocator too".into(),
        (mode, None) => mode.to_owned(),
    }
}

pub(crate) fn lines(allocs: &Allocs) -> Vec<Line> {
    let mut lines = vec![Line::new("peak", peak(allocs)), Line::new("live", live(allocs))];
    lines.push(Line::new("all", all(allocs)));
    if let Some(growth) = allocs.growth_bytes_per_step {
        let steps = text::counted(allocs.steps, "step", "steps");
        let rate = text::signed_bytes(growth.round() as i64);
        lines.push(Line::new("growth", format!("{rate}/step over {steps}")));
    }
    if allocs.processes.len() > 1 {
        lines.push(Line::new("tree", processes(allocs)));
    }
    lines.push(lost(allocs));
    if allocs.tracker_bytes > 0 {
        let own = text::bytes(allocs.tracker_bytes);
        lines.push(Line::new(
            "cost",
            format!("{own} of the target's memory were the tracker's own, not counted here"),
        ));
    }
    lines
}

fn lost(allocs: &Allocs) -> Line {
    let events = text::counted(allocs.lost_events, "event", "events");
    let told = match allocs.unheard_processes {
        0 => events,
        unheard => {
            let who = text::counted(unheard, "process", "processes");
            format!("{events}, and everything of {who} that could not report")
        }
    };
    let is_whole = allocs.lost_events + allocs.unheard_processes == 0;
    Line { tone: if is_whole { Tone::Plain } else { Tone::Warn }, ..Line::new("lost", told) }
}

pub(crate) fn peak(allocs: &Allocs) -> String {
    let peak = &allocs.peak;
    let step = peak.step.map_or_else(String::new, |step| format!(", step {step}"));
    format!("{} at {}{step}", peak_size(peak), text::duration(peak.at_s))
}

/// `954 MiB (95 %: 858 MiB–1.02 GiB)`; without an interval where it is exact.
pub fn peak_size(peak: &Peak) -> String {
    let doubt = if peak.low_bytes == peak.high_bytes {
        String::new()
    } else {
        format!(" (95 %: {})", text::range(peak.low_bytes, peak.high_bytes))
    };
    text::bytes(peak.bytes) + &doubt
}

fn live(allocs: &Allocs) -> String {
    format!("{} at the end", text::bytes(allocs.live_end_bytes))
}

fn all(allocs: &Allocs) -> String {
    let blocks = text::counted(allocs.count, "block", "blocks");
    let share = if allocs.count == 0 { 0.0 } else { allocs.temporary_count as f64 / allocs.count as f64 };
    format!(
        "{} in {blocks}, {} of them temporary",
        text::bytes(allocs.cumulative_bytes),
        text::percent(share)
    )
}

fn processes(allocs: &Allocs) -> String {
    let mut largest: Vec<_> = allocs.processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.peak_bytes));
    let told: Vec<String> = largest
        .iter()
        .take(4)
        .map(|process| format!("{}: {}", process.pid, text::bytes(process.peak_bytes)))
        .collect();
    let more = if largest.len() > 4 { ", …" } else { "" };
    format!("{} processes; own peaks {}{more}", allocs.processes.len(), told.join(", "))
}
