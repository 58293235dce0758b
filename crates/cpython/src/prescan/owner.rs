//! Which blocks are objects that own a buffer without references.

use std::ops::Range;

use nilometer_image::Memory as _;
use nilometer_image::live::Peek;
use rustc_hash::FxHashMap;

use super::LARGE;
use crate::layout::flag;
use crate::locate::Python;
use crate::payload::numpy;
use crate::pool::word;
use crate::reference::span::is_address;

/// Headers of the collector, of the instance and of the debug allocator.
const DISTANCES: [usize; 4] = [0, 16, 32, 48];
/// Words that are no types are looked up at most so often.
const MOST_MISSES: usize = 50_000;
const MOST_BASES: usize = 16;

/// An object with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Known { start: u64, end: u64 },
    Shaped(Shaped),
}

/// An array whose size its shape tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shaped {
    pub data: u64,
    /// Where the dimensions stand, and how many there are.
    pub dimensions: u64,
    pub count: u64,
    pub element_bytes: u64,
}

impl Owner {
    pub fn known(&self) -> Option<Range<u64>> {
        match self {
            Self::Known { start, end } => Some(*start..*end),
            Self::Shaped(_) => None,
        }
    }

    pub fn shaped(&self) -> Option<Shaped> {
        match self {
            Self::Known { .. } => None,
            Self::Shaped(shaped) => Some(*shaped),
        }
    }
}

/// What objects of a type are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Array,
    ByteArray,
    CArray,
}

/// Types and element types met so far.
#[derive(Debug)]
pub(super) struct Owners<'a> {
    python: &'a Python,
    peek: &'a Peek,
    sorts: FxHashMap<u64, Option<Sort>>,
    misses: usize,
    /// Element sizes by element type; none for those with references, and where it cannot be told.
    elements: FxHashMap<u64, Option<u64>>,
}

impl<'a> Owners<'a> {
    pub fn new(python: &'a Python, peek: &'a Peek) -> Self {
        let (sorts, elements) = (FxHashMap::default(), FxHashMap::default());
        Self { python, peek, sorts, misses: 0, elements }
    }

    /// The buffer that the object in a block owns.
    pub fn of_block(&mut self, block: &[u8]) -> Option<Owner> {
        DISTANCES.into_iter().find_map(|distance| {
            let body = block.get(distance..)?;
            let (count, type_) = (word(body, 0), word(body, 8));
            if count == 0 || count >> 48 != 0 || !is_address(type_) {
                return None;
            }
            match self.sort(type_)? {
                Sort::Array => self.array(body),
                Sort::ByteArray => self.byte_array(body),
                Sort::CArray => self.c_array(body),
            }
        })
    }

    fn sort(&mut self, type_: u64) -> Option<Sort> {
        if let Some(known) = self.sorts.get(&type_) {
            return *known;
        }
        if self.misses >= MOST_MISSES {
            return None;
        }
        let sort = self.read_sort(type_);
        self.misses += usize::from(sort.is_none());
        self.sorts.insert(type_, sort);
        sort
    }

    /// By the name of the type or of one of its bases.
    fn read_sort(&self, type_: u64) -> Option<Sort> {
        let layout = &self.python.layout;
        let mut at = type_;
        for _ in 0..MOST_BASES {
            let meta = self.peek.u64(at.checked_add(layout.object.type_)?)?;
            let flags = self.peek.u64(at.checked_add(layout.type_.flags)?)?;
            if meta != self.python.type_type || flags & flag::READY == 0 {
                return None;
            }
            let name = self.peek.name(self.peek.u64(at.checked_add(layout.type_.name)?)?)?;
            match name.as_str() {
                "numpy.ndarray" => return Some(Sort::Array),
                "bytearray" if layout.byte_array.object.is_none() => return Some(Sort::ByteArray),
                "array.array" => return Some(Sort::CArray),
                _ => at = self.peek.u64(at.checked_add(layout.type_.base)?).filter(|base| *base != 0)?,
            }
        }
        None
    }

    fn array(&mut self, body: &[u8]) -> Option<Owner> {
        let fields = numpy::Fields::parse(body)?;
        if !fields.owns || fields.dimension_count == 0 || !is_address(fields.dimensions) {
            return None;
        }
        let element_bytes = self.element_bytes(fields.description)?;
        Some(Owner::Shaped(Shaped {
            data: fields.data,
            dimensions: fields.dimensions,
            count: fields.dimension_count,
            element_bytes,
        }))
    }

    fn element_bytes(&mut self, description: u64) -> Option<u64> {
        if let Some(known) = self.elements.get(&description) {
            return *known;
        }
        let bytes = numpy::number_bytes(self.peek, description);
        self.elements.insert(description, bytes);
        bytes
    }

    fn byte_array(&self, body: &[u8]) -> Option<Owner> {
        let layout = &self.python.layout.byte_array;
        let (start, bytes) = (word(body, layout.buffer as usize), word(body, layout.allocated as usize));
        known(start, bytes)
    }

    /// See `payload`: items, allocated, description.
    fn c_array(&self, body: &[u8]) -> Option<Owner> {
        let [items, allocated, description] = [24, 32, 40].map(|offset| word(body, offset));
        // No element is larger than 16 bytes.
        if allocated < LARGE / 16 {
            return None;
        }
        let bytes = u64::from(self.peek.u32(description.checked_add(4)?)?).min(16);
        known(items, allocated.checked_mul(bytes)?)
    }
}

fn known(start: u64, bytes: u64) -> Option<Owner> {
    (bytes >= LARGE).then(|| Some(Owner::Known { start, end: start.checked_add(bytes)? })).flatten()
}
