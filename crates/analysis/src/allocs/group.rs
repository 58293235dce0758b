//! Sites by line, function or library: each belongs to one frame of its stack.
//!
//! That frame is the innermost one that is not the C library's, and for lines the innermost that has a line.

use rustc_hash::FxHashMap;

use super::Options;
use super::frames::Frames;
use super::merge::{FrameId, Role};
use super::model::{By, Frame, FrameKind, Row};
use super::sum::Sum;
use super::tree::{NodeId, Trie};

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
        let frame = owner(frames, trie, *node, options.by);
        groups.add(frames, frame, options.by, sum);
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
        let place = known.unwrap_or_else(|| self.place(frame, words(&frames.spell(frame), by)));
        self.rows[place].2.merge(sum);
    }

    /// The row of a name, new or not, from now on also that of the frame.
    fn place(&mut self, frame: FrameId, key: (String, Option<String>)) -> usize {
        let place = *self.by_name.entry(key.clone()).or_insert_with(|| {
            self.rows.push((key.0, key.1, Sum::default()));
            self.rows.len() - 1
        });
        self.by_frame.insert(frame, place);
        place
    }
}

fn owner(frames: &Frames<'_>, trie: &Trie, node: NodeId, by: By) -> FrameId {
    let plain = |frame: &FrameId| {
        matches!(frames.role(*frame), Role::Plain | Role::Evaluator) && !frames.is_note(*frame)
    };
    let with_line = |frame: &FrameId| plain(frame) && (by != By::Line || frames.has_line(*frame));
    let found = trie.stack(node).find(with_line).or_else(|| trie.stack(node).find(plain));
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
        By::Library => (frame.library.clone().unwrap_or_else(|| "(code in no file)".into()), None),
        By::Function | By::Stack | By::Category => {
            let file = frame.file.clone().filter(|_| frame.kind == FrameKind::Python);
            (frame.function.clone(), file.or_else(|| frame.library.clone()))
        }
    }
}

fn place(frame: &Frame) -> Option<String> {
    Some(format!("{}:{}", frame.file.as_ref()?, frame.line?))
}
