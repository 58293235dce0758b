//! A run as one page: a single file that opens offline, says its verdict first, and cannot run anything but our own script.
//!
//! [`render`] is a pure function of the models. Every view opens with the sentence that the terminal says too, then a picture
//! and tables that need no script; the script (`web/`) makes them answer. A view without data says how to get it.

mod allocs;
mod compare;
mod document;
mod heap;
mod leak;
mod ledger;
pub(crate) mod markup;
mod method;
mod pages;
mod rank;
mod run;
mod shell;
mod sweep;
mod verdict;
mod view;

#[cfg(test)]
mod tests;

use nilometer_analysis::Run;
use nilometer_analysis::allocs::model::Allocs;
use nilometer_analysis::compare::Comparison;
use nilometer_analysis::leak::Leak;
use nilometer_analysis::pages::Pages;
use nilometer_analysis::rank::Job;
use nilometer_analysis::sweep::model::Sweep;

use crate::stacks::Stacks;
use markup::Markup;
use view::View;

/// What a page is made of; only the run is always there.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    pub run: &'a Run,
    pub leak: Option<&'a Leak>,
    /// With all its sites.
    pub allocs: Option<&'a Allocs>,
    pub sweep: Option<&'a Sweep>,
    pub comparison: Option<&'a Comparison>,
    pub pages: Option<&'a Pages>,
    /// The job that the run is one rank of.
    pub job: Option<&'a Job>,
    /// Things were left out on purpose before the page was made.
    pub redacted: bool,
}

impl Page<'_> {
    /// As one would type it behind a verb.
    fn name(&self) -> &str {
        self.run.saved.as_deref().unwrap_or("RUN")
    }
}

/// Nodes of the stacks that a page carries: about ten bytes each.
const MOST_NODES: usize = 400_000;

pub fn render(page: &Page<'_>) -> String {
    let stacks = page
        .allocs
        .map(|allocs| Stacks::with_moments(&allocs.sites, &allocs.rest, &allocs.moments, MOST_NODES));
    let views: Vec<View> = vec![
        run::view(page),
        ledger::view(page),
        allocs::view(page, stacks.as_ref()),
        leak::view(page),
        heap::view(page),
        sweep::view(page),
        pages::view(page),
        rank::view(page),
        compare::view(page),
        method::view(page),
    ];
    let data = Markup::json("data", &document::document(page, stacks.as_ref()));
    drop(stacks);
    shell::render(page.run, verdict::strip(page), &views, data)
}
