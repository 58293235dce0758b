//! Readings of a heap census for people and tools: models in, text and JSON out.
//!
//! Every `render_*` gives one screen; [`json`] the same facts for tools; [`heapy`] and [`muppy`] the tables of the
//! tools that came before. The one invariant: a list that is cut ends with the number not shown.

pub mod heapy;
pub mod json;
pub mod muppy;

mod head;
mod next;
mod number;
mod object;
mod table;

use nilometer_analysis::heap::model::{
    Arrays, Cycles, Diff, Links, Of, Paths, Retainers, Stack, Sum, Summary, Table,
};

use crate::Style;

/// How a screen is drawn, and the words that would give it again.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    pub style: &'a Style,
    /// The target as typed, quoted for a shell: `4711`, `a.heap`.
    pub target: &'a str,
    /// The target and every option that selects or groups: `4711 --kind Node --by owner`.
    pub again: &'a str,
    /// Rows that were drilled into, as `--row` takes them; empty for the whole table.
    pub rows: &'a str,
}

/// The first screen: how much, how far to be trusted, the table, the next command.
pub fn render_table(summary: &Summary, table: &Table, page: &Page) -> String {
    let head = head::render(summary, page.style);
    let next = next::line(&next::after_table(table, page), page.style);
    format!("{head}{}{next}", table::body(table, page))
}

/// What changed between two censuses, growth first.
pub fn render_diff(diff: &Diff, page: &Page) -> String {
    table::diff(diff, page)
}

/// Who holds an object.
pub fn render_paths(summary: &Summary, paths: &Paths, page: &Page) -> String {
    head::warnings(summary, page.style) + &object::paths(paths, page)
}

/// What refers to a set of objects, or what it refers to.
pub fn render_links(summary: &Summary, links: &Links, page: &Page) -> String {
    head::warnings(summary, page.style) + &object::links(links, page)
}

/// Deep and retained size of what a path reaches.
pub fn render_of(summary: &Summary, of: &Of, page: &Page) -> String {
    head::warnings(summary, page.style) + &object::of(of, page)
}

pub fn render_arrays(summary: &Summary, arrays: &Arrays, page: &Page) -> String {
    head::warnings(summary, page.style) + &object::arrays(arrays, page)
}

/// What a set keeps alive, and which of its objects most of it.
pub fn render_retained(summary: &Summary, kept: &Retained, page: &Page) -> String {
    head::warnings(summary, page.style) + &object::retainers(&kept.of, &kept.retained, &kept.retainers, page)
}

pub fn render_cycles(summary: &Summary, cycles: &Cycles, page: &Page) -> String {
    head::warnings(summary, page.style) + &object::cycles(cycles, page)
}

pub fn render_stacks(summary: &Summary, stacks: &[Stack], page: &Page) -> String {
    head::warnings(summary, page.style) + &object::stacks(stacks, page)
}

/// What a set of objects keeps alive.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Retained {
    /// The set itself.
    pub of: Sum,
    /// All that would go with it, itself included.
    pub retained: Sum,
    #[serde(flatten)]
    pub retainers: Retainers,
}

#[cfg(test)]
mod tests;
