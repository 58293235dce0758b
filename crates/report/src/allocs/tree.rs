//! Stacks as a tree: a caller above what it calls, numbers where they change.

use nilometer_analysis::allocs::model::{Allocs, Interval, Node, What};
use unicode_width::UnicodeWidthStr as _;

use super::{Page, frame};
use crate::layout::{Style, Tone};
use crate::text;

/// Chains of callers longer than this are drawn with their middle left out.
const LONG_CHAIN: usize = 9;
const CHAIN_HEAD: usize = 3;
const CHAIN_TAIL: usize = 5;
/// What is less of its caller, or of the whole, gets no row of its own.
const LITTLE_OF_CALLER: f64 = 0.02;
const LITTLE_OF_ALL: f64 = 0.005;
/// Room for a frame that is left at least.
const LEAST_TEXT: usize = 24;

struct Pen<'a> {
    nodes: &'a [Node],
    total: f64,
    what: What,
    sampled: bool,
    page: &'a Page<'a>,
    out: String,
    /// Stacks that got no row, and their sum.
    left_out: (u64, f64),
}

pub(super) fn render(allocs: &Allocs, page: &Page<'_>) -> String {
    let nodes = &allocs.tree.nodes;
    let Some(root) = nodes.first().filter(|root| root.value != 0.0) else {
        return format!(" nothing: {}\n", nothing(allocs.what));
    };
    let sampled = nodes.iter().any(|node| node.interval.is_some());
    let mut pen = Pen {
        nodes,
        total: root.value,
        what: allocs.what,
        sampled,
        page,
        out: String::new(),
        left_out: (0, 0.0),
    };
    let heads = pen.numbers("", "%", "blocks", "±");
    pen.line(&page.style.paint(&heads, Tone::Faint), "");
    let numbers = pen.node_numbers(root);
    pen.line(&numbers, &page.style.paint("all", Tone::Strong));
    pen.children(root, "");
    pen.tell_left_out();
    pen.out
}

fn nothing(what: What) -> &'static str {
    match what {
        What::Growth => "no stack grows with the steps (steps are marked by --steps or $NILO_MARKS)",
        What::Live => "all blocks were given back",
        What::Temporary => "no block was freed before the thread's next allocation",
        What::Peak | What::Cumulative => "no allocation was recorded",
    }
}

impl Pen<'_> {
    fn line(&mut self, numbers: &str, text: &str) {
        let line = format!("{numbers}{text}");
        self.out += line.trim_end();
        self.out.push('\n');
    }

    fn style(&self) -> &Style {
        self.page.style
    }

    /// The columns before the tree; narrow screens have fewer.
    fn numbers(&self, value: &str, share: &str, blocks: &str, doubt: &str) -> String {
        let doubt = if self.sampled { format!(" {doubt:>6}") } else { String::new() };
        let wide = self.style().columns() >= 80;
        let blocks = if wide { format!(" {blocks:>11}") } else { String::new() };
        format!(" {value:>10} {share:>6}{doubt}{blocks}  ")
    }

    fn node_numbers(&self, node: &Node) -> String {
        let doubt = node.interval.map_or_else(String::new, |interval| half_width(interval, node.value));
        self.numbers(&value(self.what, node.value), &self.share(node.value), &text::count(node.count), &doubt)
    }

    fn share(&self, value: f64) -> String {
        format!("{:.1}", value / self.total * 100.0)
    }

    fn children(&mut self, node: &Node, prefix: &str) {
        let little = |value: f64| !self.page.full && value.abs() < self.total.abs() * LITTLE_OF_ALL;
        let own = node.own > 0.0 && !(node.children.is_empty() && node.hidden == 0);
        let (shows_own, shows_hidden) =
            (own && !little(node.own), node.hidden > 0 && !little(node.hidden_value));
        if own && !shows_own {
            self.leave_out(1, node.own);
        }
        if node.hidden > 0 && !shows_hidden {
            self.leave_out(node.hidden, node.hidden_value);
        }
        for (place, &child) in node.children.iter().enumerate() {
            let last = place + 1 == node.children.len() && !shows_own && !shows_hidden;
            self.chain(child, prefix, last);
        }
        if shows_own {
            self.sum(node.own, prefix, !shows_hidden, "(itself)");
        }
        if shows_hidden {
            let more = text::counted(node.hidden, "more stack", "more stacks");
            self.sum(node.hidden_value, prefix, true, &more);
        }
    }

    fn leave_out(&mut self, stacks: u64, value: f64) {
        self.left_out = (self.left_out.0 + stacks, self.left_out.1 + value);
    }

    /// The last row: nothing is lost.
    fn tell_left_out(&mut self) {
        let (stacks, bytes) = self.left_out;
        if stacks > 0 {
            let numbers = self.numbers(&value(self.what, bytes), &self.share(bytes), "", "");
            let words =
                format!("in {} along the way (--full)", text::counted(stacks, "small stack", "small stacks"));
            let words = self.style().paint(&words, Tone::Faint);
            self.line(&numbers, &words);
        }
    }

    /// A row that is no frame.
    fn sum(&mut self, bytes: f64, prefix: &str, last: bool, words: &str) {
        let numbers = self.numbers(&value(self.what, bytes), &self.share(bytes), "", "");
        self.branch(&numbers, prefix, last, words);
    }

    /// The only frame that a node goes on with, as far as a reader cares; what goes elsewhere is counted.
    fn only_child(&mut self, node: &Node) -> Option<u32> {
        let [child] = node.children[..] else { return None };
        let (elsewhere, stacks) = (node.hidden_value + node.own, node.hidden + u64::from(node.own > 0.0));
        let least = if self.page.full { 0.0 } else { LITTLE_OF_CALLER };
        if stacks > 0 && elsewhere.abs() >= node.value.abs() * least {
            return None;
        }
        self.leave_out(stacks, elsewhere);
        Some(child)
    }

    fn branch(&mut self, numbers: &str, prefix: &str, last: bool, words: &str) {
        let sign = self.sign(last);
        let words = self.style().paint(words, Tone::Faint);
        self.line(numbers, &format!("{prefix}{sign}{words}"));
    }

    fn sign(&self, last: bool) -> &'static str {
        match (self.style().unicode, last) {
            (true, false) => "├ ",
            (true, true) => "└ ",
            (false, false) => "|- ",
            (false, true) => "`- ",
        }
    }

    /// A frame and the only ones below it, down to where the tree branches.
    fn chain(&mut self, first: u32, prefix: &str, last: bool) {
        let mut chain = Vec::new();
        let nodes = self.nodes;
        let mut next = nodes.get(first as usize);
        while let Some(node) = next {
            chain.push(node);
            next = self.only_child(node).and_then(|child| nodes.get(child as usize));
        }
        let sign = self.sign(last);
        let down = match (self.style().unicode, last) {
            (true, false) => "│ ",
            (true, true) => "  ",
            (false, false) => "|  ",
            (false, true) => "   ",
        };
        let inner = format!("{prefix}{down}");
        let skipped = chain.len().saturating_sub(CHAIN_HEAD + CHAIN_TAIL);
        let cut = !self.page.full && chain.len() > LONG_CHAIN;
        for (place, node) in chain.iter().enumerate() {
            if cut && (CHAIN_HEAD..CHAIN_HEAD + skipped).contains(&place) {
                if place == CHAIN_HEAD {
                    self.elided(&inner, skipped);
                }
                continue;
            }
            let numbers = if place == 0 { self.node_numbers(node) } else { self.numbers("", "", "", "") };
            let before = if place == 0 { format!("{prefix}{sign}") } else { inner.clone() };
            self.frame(&numbers, &before, node);
        }
        if let Some(end) = chain.last() {
            self.children(end, &inner);
        }
    }

    fn frame(&mut self, numbers: &str, before: &str, node: &Node) {
        let taken = numbers.width() + before.width();
        let room = self.style().columns().saturating_sub(taken).max(LEAST_TEXT);
        let words = frame::render(&node.frame, room, self.style());
        self.line(numbers, &format!("{before}{words}"));
    }

    fn elided(&mut self, inner: &str, frames: usize) {
        let mark = if self.style().unicode { "⋮" } else { ":" };
        let words = self.style().paint(&format!("{mark} {frames} frames (--full)"), Tone::Faint);
        let numbers = self.numbers("", "", "", "");
        self.line(&numbers, &format!("{inner}{words}"));
    }
}

/// Bytes; growth with its sign.
pub(super) fn value(what: What, value: f64) -> String {
    match what {
        What::Growth => text::signed_bytes(value.round() as i64),
        _ => text::bytes(value.max(0.0).round() as u64),
    }
}

/// `44 %`: how far to either side the truth may be.
pub(super) fn half_width(interval: Interval, value: f64) -> String {
    let half = (interval.high_bytes as f64 - interval.low_bytes as f64) / 2.0;
    format!("{:.0} %", half / value.max(1.0) * 100.0)
}
