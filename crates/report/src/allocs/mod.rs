//! A run's allocations for people and tools: the model in, text and JSON out.
//!
//! The first lines say how much and how sure, then comes what was asked for (a tree of stacks, or a table), then how
//! large blocks were and how long they lived. The one invariant: what is not listed is counted in a last row.

pub mod folded;
pub mod json;

mod category;
mod frame;
mod head;
mod histogram;
mod table;
mod tree;

use nilometer_analysis::allocs::model::{Allocs, By, What};

pub use head::peak_size;
pub(crate) use head::{lines, peak as peak_sentence};

use crate::layout::{Line, Style, Tone};

/// How the view is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    pub style: &'a Style,
    /// The run as typed, for the next command: `@last`, `base.nilo`.
    pub run: &'a str,
    /// Long chains of callers are drawn whole.
    pub full: bool,
}

/// The whole screen.
pub fn render(allocs: &Allocs, page: &Page<'_>) -> String {
    let mut out = head::render(allocs, page.style);
    out.push('\n');
    if allocs.by != By::Category {
        out += &category::brief(allocs, page.style);
    }
    out += &page.style.paint(&page.style.safe(&title(allocs)), Tone::Strong);
    out.push('\n');
    out += &match allocs.by {
        By::Stack => tree::render(allocs, page),
        By::Category => category::render(allocs, page.style),
        _ => table::render(allocs, page),
    };
    out.push('\n');
    out += &histogram::render(allocs, page.style);
    for doubt in &allocs.quality {
        out += &Line { tone: Tone::Warn, ..Line::new("doubt", doubt.clone()) }.render(page.style);
    }
    out + &next(allocs, page)
}

/// `live at the peak, by stack (callers above, what they call below)`.
fn title(allocs: &Allocs) -> String {
    let by = match allocs.by {
        By::Category => return "what it was for".into(),
        By::Stack => "stack, callers first",
        By::Line => "line",
        By::Library => "library",
        By::Function => "function",
        By::Owner => "line of its own code",
        By::Type => "type of allocator",
    };
    format!("{}, by {by}", what(allocs.what))
}

pub(crate) fn what(what: What) -> &'static str {
    match what {
        What::Peak => "live at the peak",
        What::Live => "live at the end",
        What::Cumulative => "all that was allocated",
        What::Temporary => "temporary: freed before the thread's next allocation",
        What::Growth => "growth per step",
    }
}

/// The next command, and the words that would tell more.
fn next(allocs: &Allocs, page: &Page<'_>) -> String {
    let by = match allocs.by {
        By::Stack => "--by category|line",
        _ => "--by stack",
    };
    let mut more = vec![if allocs.what == What::Peak { "--what live|growth" } else { "--what peak" }];
    more.extend((allocs.sites_seen > allocs.sites.len() as u64).then_some("--top all"));
    let text = format!("nilo report {} --allocs {by} ({})", page.run, more.join(", "));
    Line { tone: Tone::Faint, ..Line::new("next", text) }.render(page.style)
}

#[cfg(test)]
mod tests;
