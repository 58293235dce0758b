//! A stretch of one process's life: what was handed out in it, how high that rose, what is left of it.
//!
//! The one invariant: a block counts in the window in which it was born, and in no other. What was there before does
//! not make a window smaller when it goes.

use nilometer_trace::allocs::{Source, special};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::block::TICKS;
use super::site::{Kept, Site};
use super::stacks::{Pages, Stacks};

/// Frames told of a stack.
const MOST_FRAMES: usize = 24;
/// Sites told at most.
const MOST_TOLD: usize = 100;

/// What is wanted of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// A new one begins; one that was open is forgotten.
    Open,
    /// Where it stands.
    Look,
    /// The same, and it ends.
    Close,
}

/// One site's share.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    live_bytes: u64,
    at_peak: Kept<u64>,
    total_bytes: u64,
    count: u64,
}

/// A window of one process.
#[derive(Debug, Clone)]
pub struct Window {
    since: u64,
    live_bytes: u64,
    peak_bytes: u64,
    /// Each new peak has a number.
    peak: u64,
    total_bytes: u64,
    count: u64,
    shares: FxHashMap<u32, Share>,
}

impl Window {
    /// Everything born from now on.
    pub fn open(now_ticks: u64) -> Self {
        Self {
            since: now_ticks & TICKS,
            live_bytes: 0,
            peak_bytes: 0,
            peak: 1,
            total_bytes: 0,
            count: 0,
            shares: FxHashMap::default(),
        }
    }

    fn is_of(&self, born: u64) -> bool {
        born & TICKS >= self.since
    }

    /// Blocks were handed out.
    pub fn grow(&mut self, site: u32, bytes: u64, count: u64, born: u64) {
        if !self.is_of(born) {
            return;
        }
        self.raise(site, bytes, born);
        // Saturating, here and below: a target that lies about its events must not make us panic.
        self.total_bytes = self.total_bytes.saturating_add(bytes);
        self.count = self.count.saturating_add(count);
        if let Some(share) = self.shares.get_mut(&site) {
            share.total_bytes = share.total_bytes.saturating_add(bytes);
            share.count = share.count.saturating_add(count);
        }
    }

    /// They are there again: their end did not happen.
    pub fn raise(&mut self, site: u32, bytes: u64, born: u64) {
        if !self.is_of(born) {
            return;
        }
        let share = self.shares.entry(site).or_default();
        share.at_peak.keep(share.live_bytes, self.peak);
        share.live_bytes = share.live_bytes.saturating_add(bytes);
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        if self.live_bytes > self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            self.peak += 1;
        }
    }

    /// Blocks were given back.
    pub fn shrink(&mut self, site: u32, bytes: u64, born: u64) {
        if !self.is_of(born) {
            return;
        }
        if let Some(share) = self.shares.get_mut(&site) {
            share.at_peak.keep(share.live_bytes, self.peak);
            share.live_bytes = share.live_bytes.saturating_sub(bytes);
            self.live_bytes = self.live_bytes.saturating_sub(bytes);
        }
    }

    /// The sums, and the sites that had most at the peak or have most now.
    pub fn tell(&self, top: usize) -> Told {
        let top = top.min(MOST_TOLD);
        let mut sites: Vec<Part> = self.shares.iter().map(|(site, share)| self.part(*site, share)).collect();
        let mut chosen = Vec::new();
        for order in [|part: &Part| part.peak_bytes, |part: &Part| part.live_bytes] {
            sites.sort_by_key(|part| (std::cmp::Reverse(order(part)), part.site));
            chosen.extend(sites.iter().take(top).filter(|part| order(part) > 0).copied());
        }
        chosen.sort_by_key(|part| (std::cmp::Reverse(part.peak_bytes), part.site));
        chosen.dedup_by_key(|part| part.site);
        Told {
            peak_bytes: self.peak_bytes,
            live_bytes: self.live_bytes,
            total_bytes: self.total_bytes,
            count: self.count,
            parts: chosen,
        }
    }

    fn part(&self, site: u32, share: &Share) -> Part {
        Part {
            site,
            peak_bytes: share.at_peak.at(self.peak, share.live_bytes),
            live_bytes: share.live_bytes,
            total_bytes: share.total_bytes,
            count: share.count,
        }
    }
}

/// One site of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub site: u32,
    pub peak_bytes: u64,
    pub live_bytes: u64,
    pub total_bytes: u64,
    pub count: u64,
}

/// An answer, before its stacks have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub peak_bytes: u64,
    pub live_bytes: u64,
    pub total_bytes: u64,
    pub count: u64,
    pub parts: Vec<Part>,
}

impl Told {
    /// As a document; `pages` is the book that has the names.
    pub fn document(&self, sites: &[Site], pages: Option<Pages>) -> Value {
        let mut stacks = Stacks::default();
        let mut pages = pages;
        if let Some(pages) = pages.as_mut().filter(|_| !self.parts.is_empty()) {
            pages.read_definitions(&mut stacks);
        }
        let told = self.parts.iter().zip(sites).map(|(part, site)| {
            let frames =
                pages.as_mut().map(|pages| stack(pages, &mut stacks, site.python)).unwrap_or_default();
            json!({
                "peak_bytes": part.peak_bytes,
                "live_bytes": part.live_bytes,
                "total_bytes": part.total_bytes,
                "count": part.count,
                "source": source_name(site.source),
                "stack": frames,
            })
        });
        let told: Vec<Value> = told.collect();
        json!({
            "peak_bytes": self.peak_bytes,
            "live_bytes": self.live_bytes,
            "total_bytes": self.total_bytes,
            "count": self.count,
            "sites": told,
        })
    }
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Python => "python",
        Source::Mapping => "mapping",
        Source::Heap => "malloc",
    }
}

/// Python frames, innermost first.
fn stack(pages: &mut Pages, stacks: &mut Stacks, python: u32) -> Vec<Value> {
    let mut next = pages.translate(stacks, python);
    let mut frames = Vec::new();
    while let Some(node) = next.checked_sub(special::FIRST).and_then(|at| stacks.nodes.get(at as usize)) {
        if let nilometer_trace::allocs::Frame::Python { code, line, .. } = node.frame
            && let Some(code) = stacks.codes.get(code as usize)
        {
            frames.push(json!({"file": code.file, "line": line, "function": code.name}));
        }
        if frames.len() >= MOST_FRAMES || node.parent >= next {
            break;
        }
        next = node.parent;
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_born_in_it_counts() {
        let mut window = Window::open(100);
        window.grow(0, 50, 1, 99);
        window.grow(1, 30, 1, 100);
        window.shrink(0, 50, 99);
        window.grow(2, 20, 2, 150);
        window.shrink(1, 30, 100);
        window.grow(2, 5, 1, 160);
        let told = window.tell(10);
        assert_eq!((told.peak_bytes, told.live_bytes, told.total_bytes, told.count), (50, 25, 55, 4));
        let parts: Vec<_> = told.parts.iter().map(|p| (p.site, p.peak_bytes, p.live_bytes)).collect();
        assert_eq!(parts, [(1, 30, 0), (2, 20, 25)]);
    }

    #[test]
    fn a_free_that_did_not_happen_is_no_new_block() {
        let mut window = Window::open(0);
        window.grow(0, 50, 1, 1);
        window.shrink(0, 50, 1);
        window.raise(0, 50, 1);
        let told = window.tell(1);
        assert_eq!((told.live_bytes, told.total_bytes, told.count), (50, 50, 1));
    }
}
