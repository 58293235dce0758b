//! Code whose live memory rises with the steps: the lines behind the series that a recording keeps.
//!
//! The one invariant: a line's bytes are the sum of the series of its stacks, at the steps of the recording.

use std::sync::Arc;

use nilometer_rules::FrameRules;
use nilometer_trace::allocs::{Recording, Series};
use nilometer_trace::symbols::Symbols;
use rustc_hash::FxHashMap;

use super::category;
use super::frames::Frames;
use super::merge::{FrameId, Role};
use super::model::{Frame, FrameKind};
use super::stack::Stacks;
use super::tree::Trie;

/// Series that are looked at: those that rose most.
const SERIES: usize = 128;
/// Callers that are named.
const CALLERS: usize = 3;

/// One line of code over the steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// `train.py:12 step`, or the function of a library.
    pub name: String,
    /// Who called it, inside out, for the stack that rose most.
    pub callers: String,
    /// What that memory is for.
    pub category: String,
    /// At each of `about.steps`.
    pub bytes: Vec<f64>,
    rise: u64,
}

/// All lines that have more at the last step than at the first, the one that rose most first.
pub fn courses(recording: &Recording, symbols: &Symbols, rules: &FrameRules) -> Vec<Course> {
    let mut risen: Vec<(u64, &Series)> =
        recording.series.iter().map(|series| (rise(series), series)).collect();
    risen.retain(|(rise, _)| *rise > 0);
    risen.sort_by_key(|(rise, series)| (std::cmp::Reverse(*rise), series.site));
    risen.truncate(SERIES);
    let mut frames = Frames::new(recording, symbols);
    let (mut trie, mut stacks) = (Trie::default(), Stacks::default());
    let categories = category::names(recording, symbols, rules, risen.iter().map(|(_, series)| series.site));
    let mut lines: FxHashMap<String, Course> = FxHashMap::default();
    for ((rise, series), category) in risen.into_iter().zip(categories) {
        let Some(site) = recording.sites.get(series.site as usize) else { continue };
        stacks.read(recording, site, &mut frames, false);
        let node = trie.insert(&stacks.merged);
        let stack: Vec<FrameId> = trie.stack(node).collect();
        let (name, callers) = spot(&frames, &stack);
        let fresh = || Course { name: name.clone(), callers, category, bytes: Vec::new(), rise: 0 };
        lines.entry(name.clone()).or_insert_with(fresh).add(rise, series);
    }
    let mut lines: Vec<Course> = lines.into_values().collect();
    lines.sort_by(|a, b| b.rise.cmp(&a.rise).then_with(|| a.name.cmp(&b.name)));
    lines
}

fn rise(series: &Series) -> u64 {
    let (first, last) = (series.bytes.first().copied(), series.bytes.last().copied());
    last.unwrap_or(0).saturating_sub(first.unwrap_or(0))
}

impl Course {
    fn add(&mut self, rise: u64, series: &Series) {
        self.rise = self.rise.saturating_add(rise);
        self.bytes.resize(self.bytes.len().max(series.bytes.len()), 0.0);
        self.bytes.iter_mut().zip(&series.bytes).for_each(|(sum, bytes)| *sum += *bytes as f64);
    }
}

/// The innermost line of the program, and the lines that led to it: Python's where there is any.
fn spot(frames: &Frames<'_>, stack: &[FrameId]) -> (String, String) {
    let plain = stack.iter().filter(|id| frames.role(**id) == Role::Plain && !frames.is_note(**id));
    let plain: Vec<Arc<Frame>> = plain.map(|id| frames.spell(*id)).collect();
    let python = plain.iter().any(|frame| frame.kind == FrameKind::Python);
    let mut lines = plain.iter().filter(|frame| !python || frame.kind == FrameKind::Python);
    let first = lines.next().map(|frame| words(frame));
    let first = first.or_else(|| Some(frames.spell(*stack.first()?).function.clone()));
    let callers: Vec<String> = lines.take(CALLERS).map(|frame| words(frame)).collect();
    (first.unwrap_or_else(|| "(no stack)".to_owned()), callers.join(" ← "))
}

fn words(frame: &Frame) -> String {
    match (&frame.file, frame.line, &frame.library) {
        (Some(file), Some(line), _) => format!("{file}:{line} {}", frame.function),
        (_, _, Some(library)) => format!("{} ({library})", frame.function),
        _ => frame.function.clone(),
    }
}
