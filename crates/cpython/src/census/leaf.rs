//! Objects of pools that refer to nothing: most of a heap, read with a few instructions each.
//!
//! Objects of pools come in order of address, so that the pool of the last one is mostly that of the next. The
//! invariant: what is told here is what a visit would tell.

use super::heap::Heap;
use crate::kind::known::Shape;
use crate::pool::word;
use crate::reference::text;

/// The pool of the last object.
#[derive(Debug, Default)]
pub(super) struct Leaves<'a> {
    base: u64,
    bytes: &'a [u8],
    block_bytes: u64,
}

/// What there is to know of an object that refers to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The word of the reference count.
    pub count: u64,
    pub block_bytes: u64,
}

impl<'a> Leaves<'a> {
    /// None for objects that refer to something, that may, or that stand elsewhere.
    #[inline]
    pub fn read(&mut self, heap: &Heap<'a>, number: usize) -> Option<Leaf> {
        if number >= heap.in_pools {
            return None;
        }
        let type_ = heap.types.get(*heap.type_of.get(number)?);
        if !type_.is_leaf {
            return None;
        }
        let place = self.place(heap, *heap.address.get(number)?)?;
        if type_.shape == Shape::Str && !self.is_plain_text(heap, place) {
            return None;
        }
        Some(Leaf { count: word(self.bytes, place), block_bytes: self.block_bytes })
    }

    #[inline]
    fn place(&mut self, heap: &Heap<'a>, address: u64) -> Option<usize> {
        let within = address.wrapping_sub(self.base);
        if within < self.bytes.len() as u64 {
            return Some(within as usize);
        }
        let pool = heap.pools.at(address)?;
        self.bytes = heap.image.slice(pool.base, heap.layout.obmalloc.pool_size as usize)?;
        (self.base, self.block_bytes) = (pool.base, u64::from(pool.block_bytes));
        Some((address - pool.base) as usize)
    }

    /// In one block with its characters, which are its UTF-8 as well.
    #[inline]
    fn is_plain_text(&self, heap: &Heap<'_>, place: usize) -> bool {
        let layout = &heap.layout.str_;
        let state = text::State::parse(word(self.bytes, place + layout.state as usize) as u32, layout);
        state.compact && state.ascii
    }
}
