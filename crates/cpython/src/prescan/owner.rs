//! Which blocks are objects that own a buffer without references.

use std::ops::Range;

use nilometer_image::Memory as _;
use nilometer_image::live::Peek;
use rustc_hash::{FxHashMap, FxHashSet};

use super::LARGE;
use crate::census::heap::is_alive;
use crate::layout::flag;
use crate::locate::Python;
use crate::payload::numpy;
use crate::pool::word;
use crate::reference::span::{self, is_address};

/// Headers of the collector, of the instance and of the debug allocator.
const DISTANCES: [usize; 4] = [0, 16, 32, 48];
/// Types, and words that could be some.
const MOST_TYPES: usize = 1 << 20;
const MOST_BASES: usize = 16;
const CACHE: usize = 1024;

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

impl Shaped {
    /// The buffer, by the dimensions that were read.
    pub fn buffer(&self, mut dimensions: impl Iterator<Item = u64>) -> Option<Range<u64>> {
        let elements = dimensions.try_fold(1u64, u64::checked_mul)?;
        let bytes = elements.checked_mul(self.element_bytes)?;
        Some(self.data..self.data.checked_add(bytes)?)
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
    /// Those met last, by the low bits of their address.
    cache: Vec<(u64, Option<Sort>)>,
    /// Where no type can be: types are too large for pools.
    pools: FxHashSet<u64>,
    /// Element sizes by element type; none for those with references, and where it cannot be told.
    elements: FxHashMap<u64, Option<u64>>,
}

impl<'a> Owners<'a> {
    /// `pools` are the bases of all.
    pub fn new(python: &'a Python, peek: &'a Peek, pools: impl Iterator<Item = u64>) -> Self {
        let (sorts, elements) = (FxHashMap::default(), FxHashMap::default());
        Self { python, peek, sorts, cache: vec![(0, None); CACHE], pools: pools.collect(), elements }
    }

    /// Finds out about all types that the objects in some blocks may have: at once, because each reading costs.
    pub fn learn<'b>(&mut self, blocks: impl Iterator<Item = &'b [u8]>) {
        let mut fresh = Vec::new();
        for (body, type_) in blocks.flat_map(heads) {
            let place = (type_ >> 4) as usize % CACHE;
            if self.cache[place].0 != type_ && is_alive(&self.python.layout, word(body, 0)) {
                self.cache[place] = (type_, self.sorts.get(&type_).copied().flatten());
                if self.is_new(type_) {
                    self.sorts.insert(type_, None);
                    fresh.push(type_);
                }
            }
        }
        self.read_sorts(fresh);
    }

    /// Whether a type of arrays was met.
    pub fn has_arrays(&self) -> bool {
        self.sorts.values().any(|sort| *sort == Some(Sort::Array))
    }

    /// Types are too large for pools.
    fn is_new(&self, type_: u64) -> bool {
        let pool = type_ - type_ % self.python.layout.obmalloc.pool_size.max(1);
        self.sorts.len() < MOST_TYPES && !self.sorts.contains_key(&type_) && !self.pools.contains(&pool)
    }

    fn read_sorts(&mut self, mut fresh: Vec<u64>) {
        let meta = self.python.layout.object.type_;
        fresh.retain(|type_| self.peek.is_resident(&(type_ + meta..type_ + meta + 8)));
        let spans: Vec<(u64, usize)> = fresh.iter().map(|type_| (type_ + meta, 8)).collect();
        let mut bytes = Vec::new();
        self.peek.read_many(&spans, &mut bytes);
        for (type_, meta) in fresh.into_iter().zip(span::words(&bytes)) {
            if meta == self.python.type_type {
                let sort = self.read_sort(type_);
                self.sorts.insert(type_, sort);
                self.cache[(type_ >> 4) as usize % CACHE] = (type_, sort);
            }
        }
    }

    /// The buffer that the object in a block owns.
    pub fn of_block(&mut self, block: &[u8]) -> Option<Owner> {
        heads(block).find_map(|(body, type_)| match self.sort(type_)? {
            _ if !is_alive(&self.python.layout, word(body, 0)) => None,
            Sort::Array => self.array(body),
            Sort::ByteArray => self.byte_array(body),
            Sort::CArray => self.c_array(body),
        })
    }

    #[inline]
    fn sort(&self, type_: u64) -> Option<Sort> {
        match self.cache[(type_ >> 4) as usize % CACHE] {
            (cached, sort) if cached == type_ => sort,
            _ => *self.sorts.get(&type_)?,
        }
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

/// Where in a block an object may begin, and what its type would be.
#[inline]
fn heads(block: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    DISTANCES.into_iter().filter_map(|distance| {
        let body = block.get(distance..)?;
        let type_ = word(body, 8);
        is_address(type_).then_some((body, type_))
    })
}

fn known(start: u64, bytes: u64) -> Option<Owner> {
    (bytes >= LARGE).then(|| Some(Owner::Known { start, end: start.checked_add(bytes)? })).flatten()
}
