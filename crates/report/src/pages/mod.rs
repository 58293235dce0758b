//! Touched memory for people and tools: the model in, text, pictures and JSON out.
//!
//! The one invariant: the numbers of a screen are those of the document, and what is not known is said with its reason.

mod heat;
pub mod json;
pub mod picture;
pub(crate) mod trace;

use nilometer_analysis::pages::model::{Births, Bound, Cold, Met, Owner, Pages};
use nilometer_analysis::pages::{Sees, Unit};

use crate::layout::{Line, Style, Tone, fold};
use crate::table::Table;
use crate::text;

/// Windows that are listed by themselves.
const MOST_WINDOWS: usize = 12;
const MOST_OWNERS: usize = 14;
/// Pages that may only look touched are worth a line from this share of the window on.
const WORTH_TELLING: f64 = 0.01;
/// Owners named in a line about cold bytes.
const MOST_NAMED: usize = 3;
const NOTHING: &str = "nothing was looked at";

/// Everything: verdict, how it was seen, windows, distances, owners, heat map, what is cold.
pub fn render(pages: &Pages, style: &Style) -> String {
    let mut out = head(pages, style);
    out += &lines(pages).iter().map(|line| line.render(style)).collect::<String>();
    if pages.trace.is_some() {
        return out + &trace::table(pages, style);
    }
    out += &windows(pages, style);
    out += &owners(pages, style);
    out + &heat::render(&pages.picture, style)
}

/// What this way of looking gives, told before the first window.
pub fn render_start(pages: &Pages, style: &Style) -> String {
    let mut lines = vec![Line::new("looking", way(pages))];
    lines.extend(pages.injects.clone().map(|what| Line::new("inside", what)));
    lines.push(Line::new("gives", gives(pages)));
    lines.iter().map(|line| line.render(style)).collect()
}

fn head(pages: &Pages, style: &Style) -> String {
    if pages.wss_by_window_s.is_empty() && pages.trace.is_none() {
        return NOTHING.to_owned() + "\n";
    }
    let command = style.shorten(&style.safe(&pages.command), 60);
    let colon = if pages.trace.is_some() { ":" } else { "" };
    let sentence = format!("{}{colon} {command}", sentence(pages));
    style.paint(&fold(&style.safe(&sentence), style.columns()).join("\n"), Tone::Strong) + "\n"
}

/// How much of what is resident is touched, or how much a trace touches, for the terminal and the page.
pub(crate) fn sentence(pages: &Pages) -> String {
    let Some(longest) = pages.wss_by_window_s.last() else {
        return trace::sentence(pages).unwrap_or_else(|| NOTHING.into());
    };
    let rss = pages.windows.last().map_or(0, |window| window.rss_bytes);
    let share = if rss > 0 { longest.median_bytes as f64 / rss as f64 } else { 0.0 };
    let processes = pages.windows.iter().map(|window| window.processes).max().unwrap_or(1);
    let whose = if processes > 1 { format!("{processes} processes") } else { pages.pid.to_string() };
    format!(
        "{} of {} resident ({}) are touched within {}: {whose}",
        text::bytes(longest.median_bytes),
        text::bytes(rss),
        text::percent(share),
        text::duration(longest.window_s),
    )
}

pub(crate) fn lines(pages: &Pages) -> Vec<Line> {
    let mut lines = match &pages.trace {
        Some(accesses) => trace::lines(pages, accesses),
        None => looked(pages),
    };
    let note = |note: &String| Line { tone: Tone::Warn, ..Line::new("note", note.clone()) };
    lines.extend(pages.notes.iter().map(note));
    lines
}

fn looked(pages: &Pages) -> Vec<Line> {
    let mut lines = vec![Line::new("seen", way(pages)), Line::new("covers", covers(pages))];
    lines.extend(pages.injects.clone().map(|what| Line::new("inside", what)));
    lines.extend(bounds_of_tree(pages));
    lines.extend(around(pages));
    lines.push(Line::new("written", written(pages)));
    lines.extend(pages.births.iter().map(|births| Line::new("born", born(pages, births))));
    lines.extend(reuse(pages));
    lines.extend(pages.cold.iter().map(|cold| Line::new("cold", cold_words(cold))));
    lines.push(Line::new("cost", cost(pages)));
    lines.extend(pages.disturbs.iter().map(|what| Line::new("disturbs", what.clone())));
    lines
}

/// `by clear_refs and smaps, reads and writes, exact, whole mappings: the only one …`
fn way(pages: &Pages) -> String {
    let sees = match pages.sees {
        Sees::R => "reads",
        Sees::W => "writes",
        Sees::RW => "reads and writes",
    };
    let how = match pages.backend.as_str() {
        "idle" => "idle page tracking",
        "damon" => "DAMON",
        "split" => "clear_refs and smaps of split mappings",
        "mappings" => "clear_refs and smaps",
        other => other,
    };
    let exact = if pages.exact { "exact" } else { "sampled" };
    format!("{how} ({}): {sees}, {exact}, {}; {}", pages.backend, unit(pages), pages.why)
}

fn unit(pages: &Pages) -> String {
    let size = pages.unit_bytes.map_or_else(String::new, |bytes| text::bytes(bytes) + " ");
    match pages.unit {
        Unit::Page => format!("{size}pages (a huge page counts whole)"),
        Unit::Region => "regions".into(),
        Unit::Chunk => format!("{size}chunks, pages counted in each"),
        Unit::Mapping => "whole mappings, pages counted in each".into(),
    }
}

fn gives(pages: &Pages) -> String {
    let map = match pages.unit {
        Unit::Mapping => "a map whose rows are mappings",
        Unit::Chunk => "a map of chunks",
        Unit::Page => "a map of pages",
        Unit::Region => "a map of regions",
    };
    let reuse = pages
        .reuse_why_not
        .as_ref()
        .map_or_else(|| "reuse distances".to_owned(), |why| format!("no reuse distances ({why})"));
    let written = pages
        .written_why_not
        .as_ref()
        .map_or_else(|| "written bytes".to_owned(), |why| format!("no written bytes ({why})"));
    let births = if pages.births.is_some() { "; new memory" } else { "" };
    format!("working set; {map}; {reuse}; {written}{births}")
}

fn covers(pages: &Pages) -> String {
    let filters =
        if pages.filters.is_empty() { String::new() } else { format!("; {}", pages.filters.join(", ")) };
    let huge = if pages.huge_share > 0.0 {
        format!(
            "; {} of what is touched lies in huge pages, where one touch counts for all of it",
            text::percent(pages.huge_share)
        )
    } else {
        String::new()
    };
    format!("{} of the resident memory{filters}{huge}", text::percent(pages.coverage))
}

fn bounds_of_tree(pages: &Pages) -> Option<Line> {
    let window = pages.windows.last().filter(|window| window.wss_low_bytes < window.wss_bytes)?;
    let range = text::range(window.wss_low_bytes, window.wss_bytes);
    let words = format!(
        "{range} in the last window: {} have some of the pages together, counted once at least and once each at most",
        text::counted(window.processes, "process", "processes")
    );
    (window.processes > 1).then(|| Line::new("tree", words))
}

/// The window in which most of it is doubtful; usually the first.
fn around(pages: &Pages) -> Option<Line> {
    let worst = pages.windows.iter().max_by_key(|window| window.around_bytes)?;
    let words = format!(
        "up to {} of the {} in the window at {} may only look touched: pages of files that were mapped in it, where the \
         kernel maps 16 for each that is read (fault-around)",
        text::bytes(worst.around_bytes),
        text::bytes(worst.wss_bytes),
        text::duration(worst.at_s),
    );
    let worth = worst.around_bytes as f64 > WORTH_TELLING * worst.wss_bytes as f64;
    worth.then(|| Line::new("doubt", words))
}

fn written(pages: &Pages) -> String {
    let mean = pages.wss_by_window_s.last().and_then(|by| by.written_mean_bytes);
    match (&pages.written, mean, &pages.written_why_not) {
        (Some(how), Some(bytes), _) => {
            format!("{} a window{} ({how})", text::bytes(bytes), of_windows(pages))
        }
        (_, _, Some(why)) => format!("not seen: {why}"),
        _ => "not seen".into(),
    }
}

/// How much memory is new in a window, and whose code touched it first.
fn born(pages: &Pages, births: &Births) -> String {
    let bytes = pages.wss_by_window_s.last().and_then(|by| by.born_mean_bytes).unwrap_or(0);
    let known: u64 = births.code.iter().map(|met| met.faults).sum();
    let share = |met: &Met| format!("{} {}", text::percent(met.faults as f64 / known as f64), met.name);
    let code: Vec<String> = births.code.iter().take(MOST_NAMED).map(share).collect();
    let by = if code.is_empty() { String::new() } else { format!(", by code of {}", code.join(" · ")) };
    let gone = match births.gone_bytes {
        0 => String::new(),
        bytes => format!("; {} of it given back by then, or left out", text::bytes(bytes)),
    };
    let unknown = births.lost.saturating_add(births.elsewhere);
    let more = match unknown {
        0 => String::new(),
        _ => format!(
            "; not in it: {} that could not be kept, {} of processes that came and went",
            text::counted(births.lost, "fault", "faults"),
            text::count(births.elsewhere)
        ),
    };
    let faults = text::counted(births.faults, "fault", "faults");
    format!("{} a window at least, {faults} in all{by}{gone}{more} ({})", text::bytes(bytes), births.how)
}

/// Where written pages were not looked for in every window.
fn of_windows(pages: &Pages) -> String {
    let (all, seen) = (pages.windows.iter(), pages.windows.iter().filter(|w| w.written_bytes.is_some()));
    let (all, seen) = (all.count() as u64, seen.count() as u64);
    if seen < all {
        format!(", in {} of {} windows", text::count(seen), text::count(all))
    } else {
        String::new()
    }
}

fn reuse(pages: &Pages) -> Vec<Line> {
    let Some(reuse) = &pages.reuse else {
        let why = pages.reuse_why_not.clone().unwrap_or_default();
        return vec![Line::new("reuse", format!("not told: {why}"))];
    };
    let sampled = if reuse.sampled_share < 1.0 {
        format!(", from {} of them", text::percent(reuse.sampled_share))
    } else {
        String::new()
    };
    let median = reuse.median_bytes.map_or_else(String::new, |(low, high)| {
        format!(", half of the others within {} to {}", text::bytes(low), text::bytes(high))
    });
    let first = format!(
        "{} of {} touches were first ones{median} (windows × {}{sampled})",
        text::percent(reuse.cold_share),
        text::count(reuse.touches),
        text::bytes(reuse.unit_bytes),
    );
    let mut lines = vec![Line::new("reuse", first)];
    lines.extend(telling(&reuse.bounds).map(|bound| Line::new("", miss(&bound))));
    lines
}

/// The smallest memory with which at most a twentieth more than the unavoidable would miss, and half of it.
fn telling(bounds: &[Bound]) -> impl Iterator<Item = Bound> {
    let least = bounds.last().map_or(0.0, |bound| bound.miss_high);
    let at = bounds.iter().position(|bound| bound.miss_high <= least + 0.05).unwrap_or(0);
    bounds[at.saturating_sub(1).min(bounds.len())..].iter().take(2).copied().collect::<Vec<_>>().into_iter()
}

fn miss(bound: &Bound) -> String {
    let range = if (bound.miss_high - bound.miss_low).abs() < 0.0005 {
        text::percent(bound.miss_high)
    } else {
        format!("{} to {}", text::percent(bound.miss_low), text::percent(bound.miss_high))
    };
    format!("with {} resident, {range} of touches would miss", text::bytes(bound.resident_bytes))
}

fn cold_words(cold: &Cold) -> String {
    let windows = text::counted(cold.windows.into(), "window", "windows");
    let named: Vec<String> = cold
        .owners
        .iter()
        .take(MOST_NAMED)
        .map(|named| format!("{} {}", text::bytes(named.bytes), named.name))
        .collect();
    let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(" · ")) };
    format!("{} ({}) not touched for {windows}{named}", text::bytes(cold.bytes), text::percent(cold.share))
}

fn cost(pages: &Pages) -> String {
    let per = pages
        .cpu_s_per_gib
        .map_or_else(String::new, |cpu_s| format!(", {} a window and GiB", text::duration(cpu_s)));
    format!(
        "{} of our processor time{per}; the target stood still {} of the time",
        text::duration(pages.cpu_s),
        text::percent(pages.pause_share),
    )
}

fn windows(pages: &Pages, style: &Style) -> String {
    if pages.asked_windows.max(pages.wss_by_window_s.len()) > 1 {
        return by_window(pages, style);
    }
    let second = Second::of(pages);
    let mut table = Table::new(&["touched", second.head(), "resident", "asked", "effective", "at"]);
    let skipped = pages.windows.len().saturating_sub(MOST_WINDOWS);
    for window in pages.windows.iter().skip(skipped) {
        table.row(vec![
            text::bytes(window.wss_bytes),
            second.show(window.written_bytes, window.born_bytes),
            text::bytes(window.rss_bytes),
            text::duration(window.asked_s),
            text::duration(window.effective_s),
            text::duration(window.at_s),
        ]);
    }
    let earlier = if skipped > 0 { format!("{skipped} earlier windows\n") } else { String::new() };
    table.render(style) + &earlier
}

/// What is told beside the touched bytes of a window: never both, because one disturbs the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    Written,
    Born,
}

impl Second {
    fn of(pages: &Pages) -> Self {
        if pages.births.is_some() { Self::Born } else { Self::Written }
    }

    fn head(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Born => "born",
        }
    }

    fn show(self, written: Option<u64>, born: Option<u64>) -> String {
        let bytes = if self == Self::Written { written } else { born };
        bytes.map_or_else(|| "?".into(), text::bytes)
    }
}

fn by_window(pages: &Pages, style: &Style) -> String {
    let second = Second::of(pages);
    let mut table = Table::new(&["window", "touched", "least", "most", second.head(), "looks", "effective"]);
    for by in &pages.wss_by_window_s {
        table.row(vec![
            text::duration(by.window_s),
            text::bytes(by.median_bytes),
            text::bytes(by.min_bytes),
            text::bytes(by.max_bytes),
            second.show(by.written_mean_bytes, by.born_mean_bytes),
            text::count(by.looks),
            text::duration(by.effective_s),
        ]);
    }
    table.render(style)
}

fn owners(pages: &Pages, style: &Style) -> String {
    let born: &[&str] = if pages.births.is_some() { &["born"] } else { &[] };
    let mut table = Table::new(&[&["touched", "resident", "never"], born, &["owner"]].concat());
    for owner in pages.owners.iter().take(MOST_OWNERS) {
        table.row(row(owner));
    }
    let more = pages.owners.get(MOST_OWNERS..).unwrap_or_default();
    let bytes: u64 = more.iter().map(|owner| owner.resident_bytes).sum();
    let rest = match more.len() as u64 {
        0 => String::new(),
        count => format!("{}: {}\n", text::counted(count, "more owner", "more owners"), text::bytes(bytes)),
    };
    table.render(style) + &rest
}

fn row(owner: &Owner) -> Vec<String> {
    let sizes = [owner.touched_bytes, owner.resident_bytes, owner.cold_bytes];
    sizes.into_iter().chain(owner.born_bytes).map(text::bytes).chain([owner.name.clone()]).collect()
}

#[cfg(test)]
mod tests;
