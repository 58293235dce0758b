//! What is shown instead of the table, and readings of single objects.

use nilometer_analysis::heap::model::{Arrays, Cycles, Direction, Links, Of, Stack, Summary};
use nilometer_analysis::heap::{Error, Grouping, Heap, Set};
use nilometer_report::heap::json::Document;
use nilometer_report::heap::{self as screen, Page, Retained};
use serde_json::Value;

use super::rows;
use crate::args::heap::HeapArgs;

/// The sections that were asked for, in the order in which they are shown.
#[derive(Debug, Default)]
pub struct Views {
    of: Option<Of>,
    retained: Option<Retained>,
    arrays: Option<Arrays>,
    cycles: Option<Cycles>,
    stacks: Option<Vec<Stack>>,
}

impl Views {
    pub fn of(heap: &Heap, set: &Set, args: &HeapArgs) -> Result<Self, Error> {
        let top = rows(&args.showing).unwrap_or(usize::MAX);
        let asked = &args.views;
        Ok(Self {
            of: asked.of.as_deref().map(|path| heap.of(path)).transpose()?,
            retained: asked.retained.then(|| retained(heap, set, top)).transpose()?,
            arrays: asked.arrays.then(|| heap.arrays(set, top)),
            cycles: asked.cycles.then(|| heap.cycles(top)),
            stacks: asked.stacks.then(|| heap.stacks()),
        })
    }

    pub fn is_empty(&self) -> bool {
        let lists = self.arrays.is_none() && self.cycles.is_none() && self.stacks.is_none();
        lists && self.of.is_none() && self.retained.is_none()
    }

    pub fn render(&self, summary: &Summary, page: &Page) -> String {
        let sections = [
            self.of.as_ref().map(|of| screen::render_of(summary, of, page)),
            self.retained.as_ref().map(|kept| screen::render_retained(summary, kept, page)),
            self.arrays.as_ref().map(|arrays| screen::render_arrays(summary, arrays, page)),
            self.cycles.as_ref().map(|cycles| screen::render_cycles(summary, cycles, page)),
            self.stacks.as_ref().map(|stacks| screen::render_stacks(summary, stacks, page)),
        ];
        sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    pub fn document(&self, mut document: Document) -> Document {
        if let Some(of) = &self.of {
            document = document.with("of", of);
        }
        if let Some(retained) = &self.retained {
            document = document.with("retained", retained);
        }
        if let Some(arrays) = &self.arrays {
            document = document.with("arrays", arrays);
        }
        if let Some(cycles) = &self.cycles {
            document = document.with("cycles", cycles);
        }
        match &self.stacks {
            Some(stacks) => document.with("stacks", stacks),
            None => document,
        }
    }
}

fn retained(heap: &Heap, set: &Set, top: usize) -> Result<Retained, Error> {
    let of = heap.table(set, Grouping { top: Some(1), ..Grouping::default() })?.total;
    Ok(Retained { of, retained: heap.retained(set), retainers: heap.retainers(set, top) })
}

/// One reading both ways.
#[derive(Debug)]
pub struct Shown {
    pub screen: String,
    pub document: Value,
}

pub fn paths(heap: &Heap, set: &Set, top: Option<usize>, page: &Page) -> Result<Shown, Error> {
    let paths = heap.paths(set, top.unwrap_or(usize::MAX))?;
    let summary = heap.summary();
    Ok(Shown {
        screen: screen::render_paths(&summary, &paths, page),
        document: Document::new("paths", &summary).merge(&paths).finish(),
    })
}

pub fn referrers(heap: &Heap, set: &Set, top: Option<usize>, page: &Page) -> Result<Shown, Error> {
    Ok(links(heap, &heap.referrers(set, top.unwrap_or(usize::MAX))?, page))
}

pub fn referents(heap: &Heap, set: &Set, top: Option<usize>, page: &Page) -> Result<Shown, Error> {
    Ok(links(heap, &heap.referents(set, top.unwrap_or(usize::MAX))?, page))
}

fn links(heap: &Heap, links: &Links, page: &Page) -> Shown {
    let word = match links.direction {
        Direction::Referrers => "referrers",
        Direction::Referents => "referents",
    };
    let summary = heap.summary();
    Shown {
        screen: screen::render_links(&summary, links, page),
        document: Document::new(word, &summary).merge(links).finish(),
    }
}
