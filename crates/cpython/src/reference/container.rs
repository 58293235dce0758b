//! Lists, tuples, sets, deques.

use nilometer_trace::heap::{Label, Part};

use super::{Context, Found, Object, Reference, Visitor, index, span};
use crate::pool::{Pools, word};

/// Items of one deque block, `BLOCKLEN` (Modules/_collectionsmodule.c).
const BLOCK_ITEMS: u64 = 64;
/// A block: link to the left, items, link to the right.
const BLOCK_BYTES: u64 = (BLOCK_ITEMS + 2) * 8;
/// Lists and tuples with more are none.
const MOST_ITEMS: u64 = 1 << 40;

impl Visitor<'_> {
    pub(super) fn list(self, object: &Object<'_>, pools: &Pools, context: &Context, found: &mut Found) {
        let (layout, count) = (&self.layout.list, object.word(self.layout.object.items));
        let (items, allocated) = (object.word(layout.items), object.word(layout.allocated));
        if items == 0 || count > allocated || allocated >= MOST_ITEMS {
            return;
        }
        found.bytes += Self::block(pools, context, items, allocated * 8);
        if count == 0 {
            return;
        }
        if let Some(bytes) = span::bytes(self.image, items, count * 8) {
            add_items(&bytes, found);
        }
    }

    pub(super) fn tuple(self, object: &Object<'_>, found: &mut Found) {
        let start = self.layout.tuple.items;
        let fits = object.block_end.saturating_sub(object.address.saturating_add(start)) / 8;
        let hidden = object.type_.hidden_items;
        let items = object.word(self.layout.object.items);
        let items = if hidden > 0 { items.saturating_add(hidden).min(fits.max(items)) } else { items };
        if items >= MOST_ITEMS {
            return;
        }
        if let Some(bytes) = object.body.get(start as usize..)
            && items * 8 <= bytes.len() as u64
        {
            return add_items(&bytes[..items as usize * 8], found);
        }
        if let Some(bytes) = span::bytes(self.image, object.address + start, items * 8) {
            add_items(&bytes, found);
        }
    }

    /// Items of a type that nobody described: perhaps references.
    pub(super) fn items(self, object: &Object<'_>, found: &mut Found) {
        let count = object.word(self.layout.object.items);
        let start = object.address.saturating_add(object.type_.basicsize);
        let fits = object.block_end.saturating_sub(start) / 8;
        let Some(bytes) = self.image.slice(start, (count.min(fits) * 8) as usize) else { return };
        let words = span::words(bytes).enumerate().filter(|(_, word)| span::is_address(*word));
        found.references.extend(words.map(|(number, address)| Reference {
            address,
            label: index(number),
            sure: false,
        }));
    }

    pub(super) fn set(self, object: &Object<'_>, pools: &Pools, context: &Context, found: &mut Found) {
        let layout = &self.layout.set;
        let (mask, table) = (object.word(layout.mask), object.word(layout.table));
        let Some(bytes) = mask.checked_add(1).and_then(|entries| entries.checked_mul(layout.entry)) else {
            return;
        };
        if bytes >= 1 << 40 {
            return;
        }
        if table != object.address + layout.small_table {
            found.bytes += Self::block(pools, context, table, bytes);
        }
        let Some(entries) = span::bytes(self.image, table, bytes) else { return };
        let member = Label::new(Part::Member);
        for entry in entries.chunks_exact(layout.entry as usize) {
            // A deleted entry holds a mark, with a hash that no object has.
            if word(entry, 8) != u64::MAX {
                found.add(word(entry, 0), member);
            }
        }
    }

    /// `teedataobject`: of its 57 values only those read so far are there (Modules/itertoolsmodule.c).
    pub(super) fn tee(object: &Object<'_>, found: &mut Found) {
        let read = (object.word(24) & u64::from(u32::MAX)).min(57) as usize;
        if let Some(values) = object.body.get(40..40 + read * 8) {
            add_items(values, found);
        }
    }

    /// `lru_cache_object` begins with the first link of a ring: previous, next (Modules/_functoolsmodule.c).
    pub(super) fn lru_cache(self, object: &Object<'_>, found: &mut Found) {
        found
            .references
            .retain(|reference| reference.address != object.word(16) && reference.address != object.word(24));
        let (mut before, mut link) = (object.address, object.word(24));
        for number in 0.. {
            let Some(bytes) = self.image.slice(link, 32).filter(|_| link != object.address) else { return };
            // Each names the one before it: a damaged ring leads astray, but never around without end.
            if word(bytes, 16) != before {
                return;
            }
            found.add(link, index(number));
            (before, link) = (link, word(bytes, 24));
        }
    }

    /// `dequeobject`: first and last block, first and last index; the blocks are linked.
    pub(super) fn deque(self, object: &Object<'_>, found: &mut Found) {
        let [first, last, mut at, end] = [24, 32, 40, 48].map(|offset| object.word(offset));
        let count = object.word(self.layout.object.items);
        let mut block = first;
        let mut number = 0usize;
        while let Some(bytes) = self.image.slice(block, BLOCK_BYTES as usize) {
            found.bytes += BLOCK_BYTES;
            let stop = if block == last { end.wrapping_add(1).min(BLOCK_ITEMS) } else { BLOCK_ITEMS };
            while at < stop && (number as u64) < count {
                found.add(word(bytes, (at as usize + 1) * 8), index(number));
                (at, number) = (at + 1, number + 1);
            }
            let next = word(bytes, BLOCK_BYTES as usize - 8);
            // Each names the one before it: damaged blocks lead astray, but never around without end.
            if block == last || next == first || self.image.word(next) != Some(block) {
                return;
            }
            (block, at) = (next, 0);
        }
    }
}

#[inline]
fn add_items(bytes: &[u8], found: &mut Found) {
    let items = span::words(bytes).enumerate();
    let reference = |(number, address)| Reference { address, label: index(number), sure: true };
    // Mostly there are no gaps; then it is known beforehand how many there are.
    if span::words(bytes).all(|item| item != 0) {
        found.references.extend(items.map(reference));
    } else {
        found.references.extend(items.filter(|(_, item)| *item != 0).map(reference));
    }
}
