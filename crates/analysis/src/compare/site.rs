//! Allocation sites on two sides: new, gone, grew, shrank, by stacks that are the same though lines have moved.
//!
//! A stack's fingerprint is its functions and the names of their files, without lines and folders: an edit above a function, or
//! another worktree, changes neither. Sites with the same fingerprint are paired by the order of their lines.

use std::collections::BTreeMap;

use serde::Serialize;

use super::object::Movement;
use crate::allocs::model::{Allocator, Allocs, Amounts, Frame, FrameKind, Site};

const LISTED: usize = 15;
/// A site must differ by this much, and by this share of the larger side's peak, to be listed.
const LEAST_BYTES: f64 = 262_144.0;
const LEAST_SHARE: f64 = 0.005;
/// What Python's allocator of small objects takes from the kernel at once, until 3.9 and since.
const ARENAS: [u64; 2] = [256 << 10, 1 << 20];
/// Who takes it, in place of a line.
const SMALL_OBJECTS: &str = "Python's small objects";

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

/// Arenas have none of their own: which line needs the next one is chance.
fn fingerprint(site: &Site) -> Fingerprint {
    if is_of_arenas(site) {
        return vec![(SMALL_OBJECTS.to_owned(), String::new())];
    }
    named(site).map(|frame| (frame.function.clone(), file_name(frame))).collect()
}

/// The name of the file; of native code the library, whose lines nobody edits.
fn file_name(frame: &Frame) -> String {
    let place =
        frame.file.as_deref().filter(|_| frame.kind == FrameKind::Python).or(frame.library.as_deref());
    place.map(|place| place.rsplit('/').next().unwrap_or(place).to_owned()).unwrap_or_default()
}

/// Mapped by the interpreter itself: before it runs any line, or in blocks of the size of an arena. (What the module `mmap` maps
/// may look the same.)
fn is_of_arenas(site: &Site) -> bool {
    let Amounts { peak_bytes, peak_count, .. } = site.amounts;
    let are_arenas = || ARENAS.iter().any(|arena| peak_bytes == peak_count * arena);
    let is_its_own = match named(site).next() {
        None => true,
        Some(frame) => frame.kind == FrameKind::Python && are_arenas(),
    };
    site.allocator == Allocator::Mapping && is_its_own
}

fn lines_of(site: &Site) -> Vec<u32> {
    if is_of_arenas(site) {
        return Vec::new();
    }
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
            let changes = paired(a, b).into_iter().map(|pair| change(key, &pair, base, other));
            changes.filter(|change| size(change) >= least.max(least_of(key))).collect::<Vec<_>>()
        })
        .collect();
    found.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.place.cmp(&b.place)));
    found.truncate(LISTED);
    found
}

/// One arena more or less is chance too.
fn least_of(key: &Fingerprint) -> f64 {
    let arena = ARENAS.iter().max().filter(|_| key.iter().any(|(function, _)| function == SMALL_OBJECTS));
    arena.map_or(0.0, |arena| *arena as f64 + 1.0)
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
    let at = other_line.or(base_line).map(|line| format!(":{line}")).unwrap_or_default();
    let place = match innermost {
        None => "(no stack)".to_owned(),
        Some((function, file)) if file.is_empty() => function.clone(),
        Some((function, file)) => format!("{function} ({file}{at})"),
    };
    SiteChange {
        what,
        base_bytes,
        other_bytes,
        place,
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
    use crate::allocs::model::Peak;

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

    /// Mapped by the interpreter for a line of each stack: (line, blocks), each of so many bytes.
    fn mapped(sites: &[(u32, u64)], block: u64) -> Sites {
        let site = |(line, count): &(u32, u64)| Site {
            stack: vec![frame("<module>", "train.py", *line)],
            allocator: Allocator::Mapping,
            amounts: Amounts { peak_bytes: count * block, peak_count: *count, ..Amounts::default() },
            ..Site::default()
        };
        let sites: Vec<Site> = sites.iter().map(site).collect();
        let mut found = Sites::default();
        found.add(&Allocs { sites, ..Allocs::default() });
        found
    }

    #[test]
    fn the_line_that_needs_an_arena_is_chance_and_so_is_the_last_one() {
        let base = mapped(&[(1, 2), (5, 1)], MIB);
        assert_eq!(changes(&base, &mapped(&[(7, 3)], MIB)), []);
        assert_eq!(changes(&base, &mapped(&[(7, 4)], MIB)), []);
        let found = changes(&base, &mapped(&[(1, 3), (9, 2)], MIB));
        assert_eq!((found.len(), found[0].place.as_str()), (1, SMALL_OBJECTS));
        assert_eq!((found[0].other_bytes - found[0].base_bytes) as u64, 2 * MIB);
        // Before the first line runs, arenas stand beside what else the interpreter maps.
        let early = |bytes: u64| Site {
            allocator: Allocator::Mapping,
            amounts: Amounts { peak_bytes: bytes, peak_count: 3, ..Amounts::default() },
            ..Site::default()
        };
        let mut other = mapped(&[(1, 2)], MIB);
        other.add(&Allocs { sites: vec![early(MIB + 5000)], ..Allocs::default() });
        other.runs = 1;
        assert_eq!(changes(&base, &other), []);
        // What is mapped in other sizes is the line's.
        let found = changes(&mapped(&[(1, 1)], 3 * MIB), &mapped(&[(1, 2)], 3 * MIB));
        assert_eq!(found[0].place, "<module> (train.py:1)");
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
