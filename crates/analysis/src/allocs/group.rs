//! Sites by line, function, library or owner: each belongs to one frame of its stack. By type: to who handed it out.
//!
//! That frame is the innermost one that is not the C library's, for lines the innermost that has a line, and for owners the
//! innermost of the program's own Python code.

use rustc_hash::FxHashMap;

use super::Options;
use super::frames::Frames;
use super::merge::{FrameId, Role};
use super::model::{By, Frame, FrameKind, Row};
use super::name;
use super::sum::Sum;
use super::tree::{NodeId, Trie};

/// No line of the program's own Python code is on the stack.
const NOT_OWN: &str = "no code of its own";

/// The rows that were asked for, largest first, and how many there are in all.
pub fn rows(
    frames: &Frames<'_>,
    trie: &Trie,
    sums: &[(NodeId, Sum)],
    options: &Options,
    steps: &[f64],
) -> (Vec<Row>, u64) {
    let mut groups = Groups::default();
    for (node, sum) in sums {
        if options.by == By::Type {
            groups.add_named((sum.allocator.words().to_owned(), None), sum);
        } else {
            let frame = owner(frames, trie, *node, options.by);
            groups.add(frames, frame, options.by, sum);
        }
    }
    let valued = groups.rows.into_iter().map(|(name, detail, sum)| {
        let value = sum.value(options.what, steps).0;
        (value, Row { name, detail, amounts: sum.amounts(options.what, steps) })
    });
    let mut valued: Vec<(f64, Row)> = valued.collect();
    valued.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    let seen = valued.len() as u64;
    (valued.into_iter().take(options.top.unwrap_or(usize::MAX)).map(|(_, row)| row).collect(), seen)
}

#[derive(Default)]
struct Groups {
    rows: Vec<(String, Option<String>, Sum)>,
    by_frame: FxHashMap<FrameId, usize>,
    by_name: FxHashMap<(String, Option<String>), usize>,
}

impl Groups {
    fn add(&mut self, frames: &Frames<'_>, frame: FrameId, by: By, sum: &Sum) {
        let known = self.by_frame.get(&frame).copied();
        let place = known.unwrap_or_else(|| self.place(words(&frames.spell(frame), by)));
        self.by_frame.insert(frame, place);
        self.rows[place].2.merge(sum);
    }

    fn add_named(&mut self, key: (String, Option<String>), sum: &Sum) {
        let place = self.place(key);
        self.rows[place].2.merge(sum);
    }

    /// The row of a name, new or not.
    fn place(&mut self, key: (String, Option<String>)) -> usize {
        *self.by_name.entry(key.clone()).or_insert_with(|| {
            self.rows.push((key.0, key.1, Sum::default()));
            self.rows.len() - 1
        })
    }
}

fn owner(frames: &Frames<'_>, trie: &Trie, node: NodeId, by: By) -> FrameId {
    let plain = |frame: &FrameId| {
        matches!(frames.role(*frame), Role::Plain | Role::Evaluator) && !frames.is_note(*frame)
    };
    let wanted = |frame: &FrameId| match by {
        By::Owner => frames.is_own(*frame),
        By::Line => plain(frame) && frames.has_line(*frame),
        _ => plain(frame),
    };
    let found = trie.stack(node).find(wanted).or_else(|| trie.stack(node).find(plain));
    found.or_else(|| trie.stack(node).next()).unwrap_or(FrameId::MAX)
}

/// What a row is called, and what stands beside it.
fn words(frame: &Frame, by: By) -> (String, Option<String>) {
    let place = place(frame);
    match by {
        _ if frame.kind == FrameKind::Note => (frame.function.clone(), None),
        By::Line => match &place {
            Some(place) => (place.clone(), Some(frame.function.clone())),
            None => (frame.function.clone(), frame.library.clone()),
        },
        By::Library => (library(frame), None),
        By::Owner if !name::is_own(frame) => (format!("{NOT_OWN}: {}", library(frame)), None),
        By::Owner => (place.unwrap_or_else(|| library(frame)), Some(frame.function.clone())),
        By::Function | By::Stack | By::Category | By::Type => {
            let file = frame.file.clone().filter(|_| frame.kind == FrameKind::Python);
            (frame.function.clone(), file.or_else(|| frame.library.clone()))
        }
    }
}

fn library(frame: &Frame) -> String {
    frame.library.clone().unwrap_or_else(|| "(code in no file)".into())
}

fn place(frame: &Frame) -> Option<String> {
    Some(format!("{}:{}", frame.file.as_ref()?, frame.line?))
}
