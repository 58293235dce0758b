//! What is said before any table: how much there is, how it was got, and how far it can be trusted.

use nilometer_analysis::heap::model::{PauseMode, Quality, Source, Summary};

use super::number::{objects, partly, parts, share_of_all, size};
use crate::layout::{Line, Style, Tone, fold};
use crate::text;

/// Below this share of explained reference counts the census is doubted aloud.
const TRUSTED_SHARE: f64 = 0.99;

/// One reference in so many may lead to nothing without a word: a thread was stopped in the middle of an assignment.
const BEARABLE_DANGLING: u64 = 10_000;

/// One sentence, then what must be known before the numbers are believed.
pub(super) fn render(summary: &Summary, style: &Style) -> String {
    let rows = fold(&style.safe(&sentence(summary)), style.columns());
    let mut out = style.paint(&rows.join("\n"), Tone::Strong) + "\n";
    out.extend(lines(summary).iter().map(|line| line.render(style)));
    out
}

/// What the reader of any other view must know too.
pub(super) fn warnings(summary: &Summary, style: &Style) -> String {
    doubts(summary).iter().map(|line| line.render(style)).collect()
}

/// `2,703,203 objects, 111.8 MiB + 371.0 MiB payload (stopped 48 ms, 99.5 % of refcounts explained)`.
pub(super) fn sentence(summary: &Summary) -> String {
    let mut how = vec![held(summary)];
    how.extend(summary.quality.refcount_exact_share.map(explained));
    let partial = if summary.partial { "at least " } else { "" };
    let sizes = parts(summary.bytes, summary.payload_bytes);
    format!("{partial}{}, {sizes} ({})", objects(summary.objects), how.join(", "))
}

fn explained(share: f64) -> String {
    format!("{} of refcounts explained", share_of_all(share))
}

/// How the target was held while it was read.
pub(super) fn held(summary: &Summary) -> String {
    let stopped = format!("stopped {}", milliseconds(summary.pause_ms));
    match (summary.source, summary.pause_mode) {
        (Source::Core, _) | (_, PauseMode::Dead) => "from a core".into(),
        (_, PauseMode::Copy) => stopped,
        (_, PauseMode::Fork) => format!("forked, {stopped}"),
        (_, PauseMode::Off) => "read while it ran".into(),
    }
}

fn milliseconds(ms: f64) -> String {
    if ms < 9.95 { format!("{ms:.1} ms") } else { text::duration(ms / 1e3) }
}

fn lines(summary: &Summary) -> Vec<Line> {
    let mut lines = doubts(summary);
    lines.extend(summary.limits.iter().map(|limit| Line::new("limit", limit.clone())));
    lines.extend(payload(summary).map(|text| Line::new("payload", text)));
    let native = summary.native_only;
    if native.count > 0 {
        let storages = text::counted(native.count, "storage", "storages");
        let text = format!("{} in {storages} that only C++ holds", size(native.payload_bytes));
        lines.push(Line::new("native", text));
    }
    lines
}

fn doubts(summary: &Summary) -> Vec<Line> {
    let warn = |label, text: String| Line { tone: Tone::Warn, ..Line::new(label, text) };
    let reasons = summary.partial_reasons.iter().map(|reason| warn("partial", reason.clone()));
    let mut lines: Vec<Line> = reasons.collect();
    if summary.partial && lines.is_empty() {
        lines.push(warn("partial", "the census is not whole".into()));
    }
    lines.extend(doubt(summary).map(|text| warn("doubt", text)));
    lines
}

/// What the census says against itself.
fn doubt(summary: &Summary) -> Option<String> {
    let Quality { refcount_exact_share, dangling, pools_rejected, pools, .. } = summary.quality;
    let mut found: Vec<String> =
        refcount_exact_share.filter(|share| *share < TRUSTED_SHARE).map(explained).into_iter().collect();
    if dangling > summary.edges / BEARABLE_DANGLING {
        found.push(text::counted(dangling, "reference leads to nothing", "references lead to nothing"));
    }
    if pools_rejected > 0 {
        found.push(format!("{} of {} pools do not add up", text::count(pools_rejected), text::count(pools)));
    }
    let cause = match summary.pause_mode {
        PauseMode::Off => ": the target changed while it was read (--pause on)",
        _ => "",
    };
    (!found.is_empty()).then(|| format!("{}{cause}", found.join(", ")))
}

/// Where the payload is, if not all of it in private memory that is there.
fn payload(summary: &Summary) -> Option<String> {
    let resident = partly(summary.resident_payload_bytes, summary.payload_bytes);
    let elsewhere = summary.payload_by_backing.iter().any(|sum| sum.backing != "memory" && sum.bytes > 0);
    if !elsewhere && resident.is_none() {
        return None;
    }
    let mut said: Vec<String> = summary
        .payload_by_backing
        .iter()
        .filter(|sum| sum.bytes > 0)
        .map(|sum| format!("{} {}", size(sum.bytes), place(sum.backing)))
        .collect();
    said.extend(resident.map(|resident| format!("{resident} of all is resident")));
    Some(said.join(" · "))
}

fn place(backing: &str) -> &str {
    match backing {
        "memory" => "in private memory",
        "file" => "in mapped files",
        "shared" => "in shared memory",
        "device" => "on a device",
        other => other,
    }
}
