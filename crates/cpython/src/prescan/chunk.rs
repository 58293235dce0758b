//! Large `bytes` and `str` objects: malloc maps them one by one, and each tells where the next may be.

use std::ops::Range;

use nilometer_image::Memory as _;
use nilometer_image::live::Peek;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{LARGE, PAGE};
use crate::layout::flag;
use crate::locate::Python;
use crate::pool::word;

/// `IS_MMAPPED` in the size of a chunk (malloc/malloc.c); the other two bits are not set then.
const MAPPED: u64 = 2;
/// Two words, then the object: count, type, length.
const HEAD: usize = 40;
/// Chains are followed so far.
const MOST_STEPS: usize = 1 << 16;

/// The insides of large texts, from chunks at `starts` on and whatever follows them.
pub(super) fn find_texts(python: &Python, peek: &Peek, starts: Vec<u64>) -> Vec<Range<u64>> {
    let mut walk = Walk { python, peek, texts: FxHashMap::default(), seen: FxHashSet::default() };
    let (mut front, mut found, mut bytes) = (starts, Vec::new(), Vec::new());
    while !front.is_empty() && walk.seen.len() < MOST_STEPS {
        front.retain(|start| start % PAGE == 0 && walk.seen.insert(*start));
        front.retain(|start| peek.is_resident(&(*start..start + HEAD as u64)));
        let spans: Vec<(u64, usize)> = front.iter().map(|start| (*start, HEAD)).collect();
        peek.read_many(&spans, &mut bytes);
        let heads = front.iter().zip(bytes.chunks_exact(HEAD));
        let chunks: Vec<(u64, u64, &[u8])> =
            heads.filter_map(|(start, head)| Some((*start, chunk_bytes(head)?, head))).collect();
        found.extend(chunks.iter().filter_map(|(start, size, head)| walk.text(*start, *size, head)));
        front = chunks.iter().filter_map(|(start, size, _)| start.checked_add(*size)).collect();
    }
    found
}

/// The size of a chunk that malloc mapped for itself.
fn chunk_bytes(head: &[u8]) -> Option<u64> {
    let size = word(head, 8);
    let bytes = size & !7;
    (word(head, 0) == 0 && size & 7 == MAPPED && bytes > 0 && bytes.is_multiple_of(PAGE) && bytes < 1 << 46)
        .then_some(bytes)
}

struct Walk<'a> {
    python: &'a Python,
    peek: &'a Peek,
    /// Whether a type is `bytes` or `str`.
    texts: FxHashMap<u64, bool>,
    seen: FxHashSet<u64>,
}

impl Walk<'_> {
    /// What may be left out of a chunk: its length is that of a text, which fits and leaves less than a page.
    fn text(&mut self, start: u64, size: u64, head: &[u8]) -> Option<Range<u64>> {
        let (type_, length) = (word(head, 24), word(head, 32));
        let fits = |bytes: &u64| (size.saturating_sub(2 * PAGE)..size).contains(bytes);
        let bytes = [1, 2, 4].into_iter().filter_map(|width| length.checked_mul(width)).find(fits)?;
        // The object's own fields stand in the first page; they are at least as long as those of the chunk.
        (size >= LARGE && self.is_text(type_)).then(|| start + PAGE..start + HEAD as u64 + bytes)
    }

    fn is_text(&mut self, type_: u64) -> bool {
        if let Some(known) = self.texts.get(&type_) {
            return *known;
        }
        let is_text = self.read_is_text(type_).unwrap_or(false);
        self.texts.insert(type_, is_text);
        is_text
    }

    fn read_is_text(&self, type_: u64) -> Option<bool> {
        let layout = &self.python.layout;
        let meta = self.peek.u64(type_.checked_add(layout.object.type_)?)?;
        let flags = self.peek.u64(type_.checked_add(layout.type_.flags)?)?;
        Some(
            meta == self.python.type_type
                && flags & flag::HEAP == 0
                && flags & (flag::BYTES | flag::STR) != 0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_chunk_is_whole_pages() {
        let head = |previous: u64, size: u64| [previous.to_le_bytes(), size.to_le_bytes()].concat();
        assert_eq!(chunk_bytes(&head(0, 0x10_1002)), Some(0x10_1000));
        for (previous, size) in [(0, 0x10_1000), (0, 0x10_1003), (8, 0x10_1002), (0, 0x10_1012), (0, 2)] {
            assert_eq!(chunk_bytes(&head(previous, size)), None, "{previous:x} {size:x}");
        }
    }
}
