//! Allocation sites on two sides: new, gone, grew, shrank, by stacks that are the same though lines have moved.
//!
//! A stack's fingerprint is its functions and the names of their files, without lines and folders: an edit above a function, or
//! another worktree, changes neither. Sites with the same fingerprint are paired by the order of their lines.

use std::collections::BTreeMap;

use serde::Serialize;

use super::object::Movement;
use crate::allocs::model::{Allocs, Frame, FrameKind, Site};

const LISTED: usize = 15;
/// A site must differ by this much, and by this share of the larger side's peak, to be listed.
const LEAST_BYTES: f64 = 262_144.0;
const LEAST_SHARE: f64 = 0.005;

/// One site on both sides: live at the peak, means over the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteChange {
    pub what: Movement,
    pub base_bytes: f64,
    pub other_bytes: f64,
    /// Innermost frame of Python, or of native code where there is none: `forward (train.py:41)`.
    pub place: String,
    /// The line on each side.
    pub base_line: Option<u32>,
    pub other_line: Option<u32>,
    /// Functions from the innermost out.
    pub stack: Vec<String>,
}

/// Where one stack allocates, without what an edit elsewhere changes.
type Fingerprint = Vec<(String, String)>;
/// Sites of one fingerprint, by the lines of their frames.
type Lines = BTreeMap<Vec<u32>, f64>;

/// The sites of one side.
#[derive(Debug, Clone, Default)]
pub(super) struct Sites {
    by_stack: BTreeMap<Fingerprint, Lines>,
    peak_bytes: f64,
    runs: usize,
}

impl Sites {
    pub(super) fn add(&mut self, allocs: &Allocs) {
        self.runs += 1;
        self.peak_bytes += allocs.peak.bytes as f64;
        for site in allocs.sites.iter().filter(|site| site.amounts.peak_bytes > 0) {
            let lines = self.by_stack.entry(fingerprint(site)).or_default();
            *lines.entry(lines_of(site)).or_default() += site.amounts.peak_bytes as f64;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs == 0
    }

    fn mean(&self, bytes: f64) -> f64 {
        bytes / self.runs.max(1) as f64
    }
}

fn named(site: &Site) -> impl Iterator<Item = &Frame> {
    site.stack.iter().map(AsRef::as_ref).filter(|frame| frame.kind != FrameKind::Note)
}

fn fingerprint(site: &Site) -> Fingerprint {
    named(site).map(|frame| (frame.function.clone(), file_name(frame))).collect()
}

/// The name of the file; of native code the library, whose lines nobody edits.
fn file_name(frame: &Frame) -> String {
    let place =
        frame.file.as_deref().filter(|_| frame.kind == FrameKind::Python).or(frame.library.as_deref());
    place.map(|place| place.rsplit('/').next().unwrap_or(place).to_owned()).unwrap_or_default()
}

fn lines_of(site: &Site) -> Vec<u32> {
    named(site).filter(|frame| frame.kind == FrameKind::Python).map(|frame| frame.line.unwrap_or(0)).collect()
}

pub(super) fn changes(base: &Sites, other: &Sites) -> Vec<SiteChange> {
    if base.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let peak = base.mean(base.peak_bytes).max(other.mean(other.peak_bytes));
    let least = LEAST_BYTES.max(LEAST_SHARE * peak);
    let none = Lines::new();
    let added = other.by_stack.keys().filter(|key| !base.by_stack.contains_key(*key));
    let keys = base.by_stack.keys().chain(added);
    let size = |change: &SiteChange| (change.other_bytes - change.base_bytes).abs();
    let mut found: Vec<SiteChange> = keys
        .flat_map(|key| {
            let (a, b) = (base.by_stack.get(key).unwrap_or(&none), other.by_stack.get(key).unwrap_or(&none));
            paired(a, b).into_iter().map(|pair| change(key, &pair, base, other)).collect::<Vec<_>>()
        })
        .filter(|change| size(change) >= least)
        .collect();
    found.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.place.cmp(&b.place)));
    found.truncate(LISTED);
    found
}

/// A site of a fingerprint on each side, where it has one.
type Pair = (Option<(Vec<u32>, f64)>, Option<(Vec<u32>, f64)>);

/// The same lines first; what is left in the order of its lines: an edit moves them, it does not swap them.
fn paired(base: &Lines, other: &Lines) -> Vec<Pair> {
    let own = |(lines, bytes): (&Vec<u32>, &f64)| (lines.clone(), *bytes);
    let mut pairs: Vec<Pair> = base
        .iter()
        .filter_map(|(lines, bytes)| {
            Some((Some((lines.clone(), *bytes)), Some((lines.clone(), *other.get(lines)?))))
        })
        .collect();
    let mut left = base.iter().filter(|(lines, _)| !other.contains_key(*lines)).map(own);
    let mut right = other.iter().filter(|(lines, _)| !base.contains_key(*lines)).map(own);
    loop {
        let pair = (left.next(), right.next());
        if pair.0.is_none() && pair.1.is_none() {
            return pairs;
        }
        pairs.push(pair);
    }
}

fn change(key: &Fingerprint, pair: &Pair, base: &Sites, other: &Sites) -> SiteChange {
    let bytes = |side: &Option<(Vec<u32>, f64)>, sites: &Sites| {
        side.as_ref().map_or(0.0, |(_, bytes)| sites.mean(*bytes))
    };
    let line = |side: &Option<(Vec<u32>, f64)>| {
        side.as_ref().and_then(|(lines, _)| lines.first().copied()).filter(|line| *line > 0)
    };
    let (base_bytes, other_bytes) = (bytes(&pair.0, base), bytes(&pair.1, other));
    let what = match (&pair.0, &pair.1) {
        (None, _) => Movement::New,
        (_, None) => Movement::Gone,
        _ if other_bytes > base_bytes => Movement::Grew,
        _ => Movement::Shrank,
    };
    let (base_line, other_line) = (line(&pair.0), line(&pair.1));
    let innermost = key.iter().find(|(_, file)| is_python(file)).or_else(|| key.first());
    let (function, file) = innermost.cloned().unwrap_or_default();
    let at = other_line.or(base_line).map(|line| format!(":{line}")).unwrap_or_default();
    SiteChange {
        what,
        base_bytes,
        other_bytes,
        place: format!("{function} ({file}{at})"),
        base_line,
        other_line,
        stack: key.iter().map(|(function, _)| function.clone()).collect(),
    }
}

fn is_python(file: &str) -> bool {
    std::path::Path::new(file).extension().is_some_and(|ending| ending == "py") || file.starts_with('<')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::allocs::model::{Amounts, Peak};

    const MIB: u64 = 1 << 20;

    fn frame(function: &str, file: &str, line: u32) -> Arc<Frame> {
        Arc::new(Frame {
            function: function.into(),
            file: Some(file.into()),
            line: Some(line),
            kind: FrameKind::Python,
            ..Frame::default()
        })
    }

    fn native(function: &str) -> Arc<Frame> {
        Arc::new(Frame {
            function: function.into(),
            library: Some("/lib/libnp.so".into()),
            ..Frame::default()
        })
    }

    /// Sites as (line in `forward`, line in `main`, bytes), in a file of this folder.
    fn side(folder: &str, sites: &[(u32, u32, u64)]) -> Sites {
        let file = format!("{folder}/train.py");
        let site = |(inner, outer, bytes): &(u32, u32, u64)| Site {
            stack: vec![native("npy_alloc"), frame("forward", &file, *inner), frame("main", &file, *outer)],
            amounts: Amounts { peak_bytes: *bytes, ..Amounts::default() },
            ..Site::default()
        };
        let sites: Vec<Site> = sites.iter().map(site).collect();
        let bytes = sites.iter().map(|site| site.amounts.peak_bytes).sum();
        let mut found = Sites::default();
        found.add(&Allocs { sites, peak: Peak { bytes, ..Peak::default() }, ..Allocs::default() });
        found
    }

    #[test]
    fn the_one_changed_line_is_named_though_all_have_moved() {
        let base = side("/tmp/a", &[(10, 50, 40 * MIB), (12, 50, 8 * MIB), (20, 50, 2 * MIB)]);
        let other = side("/tmp/b", &[(13, 53, 40 * MIB), (15, 53, 16 * MIB), (23, 53, 2 * MIB)]);
        let found = changes(&base, &other);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].what, found[0].place.as_str()), (Movement::Grew, "forward (train.py:15)"));
        assert_eq!((found[0].base_line, found[0].other_line), (Some(12), Some(15)));
        assert_eq!((found[0].base_bytes, found[0].other_bytes), ((8 * MIB) as f64, (16 * MIB) as f64));
    }

    #[test]
    fn what_is_on_one_side_only_is_new_or_gone() {
        let base = side("/a", &[(10, 50, 40 * MIB)]);
        let other = side("/a", &[(10, 50, 40 * MIB), (11, 50, 30 * MIB)]);
        assert_eq!(changes(&base, &other)[0].what, Movement::New);
        assert_eq!(changes(&other, &base)[0].what, Movement::Gone);
        assert!(changes(&base, &base).is_empty() && changes(&base, &Sites::default()).is_empty());
    }

    #[test]
    fn runs_are_averaged() {
        let mut base = side("/a", &[(10, 50, 40 * MIB)]);
        let twice = side("/a", &[(10, 50, 60 * MIB)]);
        base.peak_bytes += twice.peak_bytes;
        base.runs += 1;
        for (key, lines) in twice.by_stack {
            for (line, bytes) in lines {
                *base.by_stack.entry(key.clone()).or_default().entry(line).or_default() += bytes;
            }
        }
        let other = side("/a", &[(10, 50, 51 * MIB)]);
        let found = changes(&base, &other);
        assert_eq!(found[0].base_bytes as u64, 50 * MIB);
    }
}
