//! What an object refers to: owned references only, each with the way it is held.
//!
//! Weak references, borrowed pointers and caches that own nothing are left out, so that the number of references found
//! equals the reference count. The invariant: a reference is told by exactly one object.

mod cell;
mod class;
mod container;
mod instance;
mod mapping;
mod names;
mod rest;
pub(crate) mod span;
pub(crate) mod table;
pub(crate) mod text;

use std::cell::RefCell;
use std::ops::Range;

use nilometer_image::Image;
use nilometer_trace::heap::{Label, Part, Special};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kind::Type;
use crate::kind::known::Shape;
use crate::layout::{Layout, flag};
use crate::pool::{Pools, word};
pub(crate) use names::Names;

/// One reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub address: u64,
    pub label: Label,
    /// What it points to must be an object; else it is perhaps none.
    pub sure: bool,
}

/// What one object has: used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub references: Vec<Reference>,
    /// Blocks that only it owns, besides its own.
    pub bytes: u64,
}

impl Found {
    pub fn clear(&mut self) {
        self.references.clear();
        self.bytes = 0;
    }

    #[inline]
    pub fn add(&mut self, address: u64, label: Label) {
        if address != 0 {
            self.references.push(Reference { address, label, sure: true });
        }
    }

    #[inline]
    fn special(&mut self, address: u64, special: Special) {
        self.add(address, Label::new(Part::Special(special)));
    }
}

/// What the per-interpreter state holds for a static type (3.12 on).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StaticState {
    pub dict: u64,
    pub subclasses: u64,
}

/// Facts of the whole process that objects do not tell themselves.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Make labels.
    pub labelled: bool,
    /// Keep references, not only what they lead to.
    pub linked: bool,
    /// Bytes that the debug allocator puts before each block.
    pub shift: u64,
    /// Tables of interned strs: they own nothing.
    pub interned: FxHashSet<u64>,
    /// `sys.modules` of each interpreter.
    pub modules: FxHashSet<u64>,
    pub static_states: FxHashMap<u64, Vec<StaticState>>,
    /// Tables of keys that types own.
    pub type_keys: FxHashSet<u64>,
    /// Shared tables of keys that no type owns, and that were told by the first dict that uses them.
    pub told_keys: FxHashSet<u64>,
    /// Blocks outside of the pools that objects own; kept where somebody asks for them.
    pub outside: Option<RefCell<Vec<Range<u64>>>>,
}

impl Context {
    #[cold]
    pub fn note_outside(&self, address: u64, bytes: u64) {
        if let (Some(outside), Some(end)) = (&self.outside, address.checked_add(bytes)) {
            outside.borrow_mut().push(address..end);
        }
    }
}

/// Reads objects of one image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor<'a> {
    pub image: &'a Image,
    pub layout: &'a Layout,
}

/// What an object is read with.
pub(crate) struct Object<'o> {
    pub address: u64,
    pub type_: &'o Type,
    /// Its body: `basicsize` bytes, fewer where the block is shorter.
    pub body: &'o [u8],
    /// The end of its block in its pool; of what was asked for elsewhere.
    pub block_end: u64,
}

impl Object<'_> {
    #[inline]
    pub fn word(&self, offset: u64) -> u64 {
        word(self.body, offset as usize)
    }
}

impl Visitor<'_> {
    /// Adds everything that an object owns to `found`.
    #[inline]
    pub fn visit(
        self,
        object: &Object<'_>,
        pools: &Pools,
        context: &mut Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        let type_ = object.type_;
        for place in &type_.words {
            let address = word(object.body, place.offset as usize);
            // What a scan finds to point to the object itself is no reference that keeps it.
            let is_own = address == object.address && !place.sure;
            if span::is_address(address) && !is_own {
                found.references.push(Reference { address, label: place.label, sure: place.sure });
            }
        }
        if type_.shape != Shape::Fixed {
            self.visit_shape(object, pools, context, names, found);
        }
        if type_.flags & (flag::HEAP | flag::MANAGED_DICT) != 0 || type_.dictoffset < 0 {
            if type_.flags & flag::HEAP != 0 {
                found.special(type_.address, Special::Type);
            }
            self.attributes(object, pools, context, names, found);
        }
    }

    fn visit_shape(
        self,
        object: &Object<'_>,
        pools: &Pools,
        context: &mut Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        match object.type_.shape {
            Shape::Str => self.str_blocks(object, found),
            Shape::List => self.list(object, pools, context, found),
            Shape::Tuple => self.tuple(object, found),
            Shape::Items => self.items(object, found),
            Shape::Set => self.set(object, pools, context, found),
            Shape::Deque => self.deque(object, found),
            Shape::Tee => Self::tee(object, found),
            Shape::LruCache => self.lru_cache(object, found),
            Shape::Dict => self.dict(object, pools, context, names, found),
            Shape::OrderedDict => self.ordered_dict(object, pools, context, names, found),
            Shape::Type => self.class(object, context, names, found),
            Shape::Module => self.module(object, found),
            Shape::Weakref => found.special(object.word(self.layout.weakref.callback), Special::Callback),
            Shape::MemoryView => {
                found.special(object.word(self.layout.memory_view.managed_buffer), Special::Base);
            }
            Shape::ManagedBuffer => {
                found.special(object.word(self.layout.memory_view.managed_buffer_object), Special::Base);
            }
            Shape::ByteArray => self.byte_array(object, found),
            Shape::Time => Self::time(object, found),
            Shape::Element => self.element(object, context, names, found),
            Shape::NdArray => self.nd_array(object, found),
            Shape::Fixed
            | Shape::Int
            | Shape::Bytes
            | Shape::Function
            | Shape::Code
            | Shape::Generator
            | Shape::Frame
            | Shape::CArray
            | Shape::Mmap
            | Shape::ArrowBuffer
            | Shape::ArrowArray
            | Shape::ArrowChunks
            | Shape::ArrowTable
            | Shape::ArrowBatch => {}
        }
    }

    /// The size of a block: its size class in a pool, what was asked for elsewhere.
    fn block(pools: &Pools, context: &Context, address: u64, asked: u64) -> u64 {
        pools.block_bytes(address.wrapping_sub(context.shift)).unwrap_or_else(|| {
            context.note_outside(address, asked);
            asked
        })
    }
}

/// Labels of items by number.
#[inline]
fn index(number: usize) -> Label {
    Label::new(Part::Index(number as u32))
}

/// Objects whose links were damaged: what is found of them has an end.
#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;
    use crate::layout;

    const AT: u64 = 0x10_0000;
    const SOMETHING: u64 = 0x5000;

    /// Where a word of the memory is.
    fn place(word: usize) -> u64 {
        AT + 8 * word as u64
    }

    /// Reads the object at the beginning of a memory of words, by the first layout of a version.
    fn visit(minor: u8, type_: &Type, memory: &[u64]) -> Found {
        let layout = &layout::all().iter().find(|table| table.minor == minor).unwrap().layout;
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        let segments = vec![Segment::new(AT, AT + bytes.len() as u64, 0)];
        let image = Image::new(bytes.as_slice().into(), segments, Vec::new());
        // Some bytes before it are headers.
        let (address, body) = (place(8), &bytes[64..][..type_.basicsize as usize]);
        let object = Object { address, type_, body, block_end: address + type_.basicsize };
        let (mut context, mut names, mut found) = (Context::default(), Names::default(), Found::default());
        let visitor = Visitor { image: &image, layout };
        visitor.visit(&object, &Pools::default(), &mut context, &mut names, &mut found);
        found
    }

    /// Zeros, but for these words at these places.
    fn memory(parts: &[&[(usize, u64)]]) -> Vec<u64> {
        let mut memory = vec![0; 256];
        parts.iter().copied().flatten().for_each(|(at, word)| memory[*at] = *word);
        memory
    }

    #[test]
    fn a_block_of_a_deque_that_follows_itself_is_read_once() {
        // Count, first and last block, first and last index; the block's links and one item.
        let object = [(8 + 2, 1 << 20), (8 + 3, place(100)), (8 + 4, SOMETHING), (8 + 6, 63)];
        let block = [(100, place(100)), (101, SOMETHING), (165, place(100))];
        let found = visit(8, &Type::of_shape(Shape::Deque, 80), &memory(&[&object, &block]));
        assert_eq!((found.references.len(), found.bytes), (1, 66 * 8));
    }

    #[test]
    fn links_of_a_cache_that_lead_around_without_it_are_told_once() {
        // The first link; of each link the one before it and the next.
        let first = [(40 + 2, place(8)), (40 + 3, place(50))];
        let second = [(50 + 2, place(40)), (50 + 3, place(40))];
        let words = memory(&[&[(8 + 3, place(40))], &first, &second]);
        let found = visit(8, &Type::of_shape(Shape::LruCache, 80), &words);
        let told: Vec<u64> = found.references.iter().map(|reference| reference.address).collect();
        assert_eq!(told, [place(40), place(50)]);
    }

    #[test]
    fn an_ordered_dict_has_no_more_nodes_than_entries() {
        // Used, table of keys, first node; a node that follows itself; a table with one entry.
        let object = [(8 + 2, 1 << 20), (8 + 4, place(60)), (8 + 6, place(40))];
        let node = [(40, SOMETHING), (42, place(40))];
        let table = [(60, 1), (61, 8), (63, 4), (64, 1), (67, SOMETHING), (68, SOMETHING)];
        let words = memory(&[&object, &node, &table]);
        let found = visit(8, &Type::of_shape(Shape::OrderedDict, 96), &words);
        assert_eq!(found.references.len(), 3, "a key, a value, and the key again");
    }

    #[test]
    fn a_tagged_address_of_all_ones_is_none() {
        let mut type_ = Type::of_shape(Shape::Fixed, 16);
        type_.flags = flag::MANAGED_DICT;
        let managed = &layout::all().iter().find(|table| table.minor == 12).unwrap().layout.managed;
        let before = 8 - managed.dict.unwrap() as usize / 8;
        assert!(managed.tagged);
        assert!(visit(12, &type_, &memory(&[&[(before, u64::MAX)]])).references.is_empty());
    }
}
