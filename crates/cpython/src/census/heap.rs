//! The objects of an image, by address, as they are found.
//!
//! Blocks of pools have a slot each, so that finding an object by its address costs no search; objects elsewhere are
//! in a map. Numbers are given in the order of discovery: pools in order of address first, the rest after them.

use std::sync::Arc;

use nilometer_image::{Image, Memory as _};
use nilometer_trace::heap::IMMORTAL;
use rustc_hash::FxHashMap;

use crate::kind::known::Shape;
use crate::kind::{TypeId, Types};
use crate::layout::{Layout, flag};
use crate::pool::{Pool, Pools, word};
use crate::reference::span::{self, is_address};
use crate::size;

/// The number of an object in the order of discovery.
pub(crate) type Found = u32;

/// Objects in pools; the two top bits of a slot tell the length of the headers.
const MOST: u32 = (1 << 30) - 2;
/// Enough of an object to know how long it is.
const HEAD: u64 = 40;
/// Programs at a fixed address begin here at the earliest.
const FIXED: u64 = 1 << 16;
/// Objects outside of the pools remembered by the low bits of their address: `None`, types and the like, to which most of
/// the references out of the pools lead.
const RECENT: usize = 1024;

/// All objects found so far.
#[derive(Debug)]
pub(crate) struct Heap<'a> {
    pub image: &'a Image,
    pub layout: &'a Layout,
    pub types: Types<'a>,
    pub pools: Arc<Pools>,
    /// Bytes that the debug allocator puts before each block.
    pub shift: u32,
    pub address: Vec<u64>,
    pub type_of: Vec<TypeId>,
    /// Of those in pools: reference count, and size of the block.
    pub refcount: Vec<u32>,
    pub bytes: Vec<u64>,
    /// Those in pools that refer to something, or may; the others, most of a heap, are wholly told by the columns here.
    pub holders: Vec<Found>,
    /// Per block of the pools: 0, or number plus one and, in steps of 16 bytes, headers.
    slots: Vec<u32>,
    outside: FxHashMap<u64, Found>,
    recent: Vec<(u64, Found)>,
    /// The pool of the last object that was asked for: neighbours in a list are mostly neighbours in memory.
    near: Pool,
    /// How many of them stand in pools.
    pub in_pools: usize,
    /// All that the collector tracks has been added.
    pub tracked_are_known: bool,
}

/// An object in a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub address: u64,
    pub type_: TypeId,
    /// Bytes of its headers.
    pub before: u32,
    /// The word of the reference count.
    pub count: u64,
    pub block_bytes: u32,
    /// It refers to nothing and owns no other block.
    pub is_leaf: bool,
}

impl<'a> Heap<'a> {
    pub fn new(image: &'a Image, layout: &'a Layout, type_type: u64) -> Self {
        let pools = Arc::new(Pools::find(image, &layout.obmalloc));
        let blocks = pools.blocks();
        Self {
            image,
            layout,
            types: Types::new(image, layout, type_type),
            pools,
            shift: 0,
            address: Vec::with_capacity(blocks),
            type_of: Vec::with_capacity(blocks),
            refcount: Vec::with_capacity(with_some(blocks)),
            bytes: Vec::with_capacity(with_some(blocks)),
            holders: Vec::new(),
            slots: Vec::with_capacity(blocks),
            outside: FxHashMap::default(),
            recent: vec![(0, 0); RECENT],
            near: Pool::NONE,
            in_pools: 0,
            tracked_are_known: false,
        }
    }

    pub fn len(&self) -> usize {
        self.address.len()
    }

    /// The blocks that are added next are those of `pool`; pools come in their order.
    pub fn begin_pool(&mut self, pool: &Pool) {
        self.slots.resize(pool.first as usize, 0);
    }

    /// Adds the next block, and the object that stands in it.
    #[inline]
    pub fn add_block(&mut self, placed: Option<Placed>) {
        let number = self.address.len() as u32;
        let Some(placed) = placed.filter(|_| number < MOST) else { return self.slots.push(0) };
        self.slots.push((placed.before / 16) << 30 | (number + 1));
        self.address.push(placed.address);
        self.type_of.push(placed.type_);
        self.refcount.push(refcount(self.layout, placed.count));
        self.bytes.push(u64::from(placed.block_bytes));
        if !placed.is_leaf {
            self.holders.push(number);
        }
        self.in_pools = self.address.len();
    }

    /// Whether an object stands in a block of the pools.
    pub fn has_object(&self, block: usize) -> bool {
        self.slots.get(block).is_some_and(|slot| *slot != 0)
    }

    /// Nothing is looked for any more: what it took to find objects is given back.
    pub fn close(&mut self) {
        (self.slots, self.outside) = (Vec::new(), FxHashMap::default());
    }

    /// The object at an address, if it is known.
    pub fn find(&self, address: u64) -> Option<Found> {
        match self.pools.at(address) {
            Some(pool) => self.find_in(pool, address),
            None => self.outside.get(&address).copied(),
        }
    }

    #[inline]
    fn find_in(&self, pool: &Pool, address: u64) -> Option<Found> {
        let (block, within) = self.pools.block_in(pool, address)?;
        let slot = *self.slots.get(block)?;
        let number = (slot & ((1 << 30) - 1)).checked_sub(1)?;
        (within == self.shift + (slot >> 30) * 16).then_some(number)
    }

    /// The object at an address, known or looked at now; `sure` if only an object can be there.
    #[inline]
    pub fn find_or_probe(&mut self, address: u64, sure: bool) -> Option<Found> {
        if self.pools.is_in(&self.near, address) {
            return self.find_in(&self.near, address);
        }
        if let Some(pool) = self.pools.at(address) {
            self.near = *pool;
            return self.find_in(&self.near, address);
        }
        match self.recent[(address >> 4) as usize % RECENT] {
            (known, number) if known == address && known != 0 => Some(number),
            _ => self.find_outside_or_probe(address, sure),
        }
    }

    fn find_outside_or_probe(&mut self, address: u64, sure: bool) -> Option<Found> {
        let number = match self.outside.get(&address) {
            Some(number) => *number,
            None => self.probe(address, sure)?,
        };
        self.recent[(address >> 4) as usize % RECENT] = (address, number);
        Some(number)
    }

    /// Adds what stands at an address outside of the pools, if it is an object.
    fn probe(&mut self, address: u64, sure: bool) -> Option<Found> {
        if !is_address(address) || self.address.len() >= u32::MAX as usize - 1 {
            return None;
        }
        let type_ = self.type_of_head(address)?;
        let extent = self.extent(address, type_)?;
        if !size::is_mapped(self.image, address, extent) || !(sure || self.is_plausible(address, type_)) {
            return None;
        }
        let number = self.address.len() as Found;
        self.outside.insert(address, number);
        self.address.push(address);
        self.type_of.push(type_);
        Some(number)
    }

    /// The type of what looks like the beginning of an object.
    fn type_of_head(&mut self, address: u64) -> Option<TypeId> {
        let mut head = [0; 16];
        match self.image.slice(address, 16) {
            Some(bytes) => head.copy_from_slice(bytes),
            None => self.image.read(address, &mut head)?,
        }
        let (count, type_) = (word(&head, 0), word(&head, 8));
        if !is_alive(self.layout, count) || self.is_object_address(count) {
            return None;
        }
        self.type_at(type_)
    }

    /// For what a scan has found. It reads words that are stale or borrowed too, and what they point to may be a part
    /// of something else by now: a count and a type is what the length of a tuple and its first item look like.
    fn is_plausible(&mut self, address: u64, type_: TypeId) -> bool {
        self.may_be_untracked(address, type_) && self.has_objects(address, type_)
    }

    /// What the collector tracks is known already; of the rest the link to the next one is null. Types that were not
    /// made at run time have no link.
    fn may_be_untracked(&self, address: u64, type_: TypeId) -> bool {
        let (type_, head) = (self.types.get(type_), self.layout.object.gc_head);
        let has_link = type_.flags & flag::GC != 0 && type_.shape != Shape::Type && head != 0;
        !self.tracked_are_known || !has_link || self.image.word(address.wrapping_sub(head)) == Some(0)
    }

    /// Whether the places that must hold objects do.
    fn has_objects(&mut self, address: u64, type_: TypeId) -> bool {
        let places: Vec<u32> =
            self.types.get(type_).words.iter().filter(|w| w.sure).map(|w| w.offset).collect();
        places.into_iter().all(|offset| {
            let held = address.checked_add(u64::from(offset)).and_then(|at| self.image.word(at));
            held.is_none_or(|held| held == 0 || (is_address(held) && self.type_of_head(held).is_some()))
        })
    }

    /// In a program at a fixed address, static objects have addresses as small as large counts: what looks like a
    /// count and a type may be two pointers in a row.
    #[inline]
    pub fn is_object_address(&mut self, count: u64) -> bool {
        (FIXED..1 << 32).contains(&count) && count.is_multiple_of(8) && {
            let type_ = self.image.word(count.wrapping_add(self.layout.object.type_));
            type_.is_some_and(|type_| self.type_at(type_).is_some())
        }
    }

    /// A type is larger than any block of a pool.
    #[inline]
    pub fn type_at(&mut self, address: u64) -> Option<TypeId> {
        if self.pools.at(address).is_some() {
            return None;
        }
        self.types.at(address)
    }

    /// Bytes from the address of an object to its end.
    pub fn extent(&self, address: u64, type_: TypeId) -> Option<u64> {
        let type_ = self.types.get(type_);
        let asked = type_.basicsize.clamp(24, HEAD);
        size::extent(self.layout, type_, &span::bytes(self.image, address, asked)?)
    }

    /// What an object outside of the pools was asked for, without headers.
    pub fn bytes_outside(&self, number: usize) -> u64 {
        let (address, id) = (self.address[number], self.type_of[number]);
        let type_ = self.types.get(id);
        let own_flags = || address.checked_add(self.layout.type_.flags).and_then(|at| self.image.word(at));
        // Only types made at run time are as long as their metatype says.
        if type_.shape == Shape::Type
            && type_.flags & flag::HEAP == 0
            && own_flags().is_some_and(|f| f & flag::HEAP == 0)
        {
            return self.layout.type_.size.min(type_.basicsize);
        }
        let head = span::bytes(self.image, address, HEAD).or_else(|| span::bytes(self.image, address, 24));
        let asked = head.and_then(|head| size::asked(self.layout, type_, &head));
        asked.filter(|asked| size::is_mapped(self.image, address, *asked)).unwrap_or(type_.basicsize)
    }
}

/// Room for objects outside of the pools, found on the way: columns that double would cost more than that.
pub(crate) fn with_some(blocks: usize) -> usize {
    blocks + blocks / 8
}

/// The count as it is kept: saturated, and one value for objects that are never freed.
#[inline]
pub(crate) fn refcount(layout: &Layout, count: u64) -> u32 {
    let object = &layout.object;
    // Before there were immortal objects, the interpreter's own began with a count of 999,999,999 (3.11).
    if object.immortal_bit.is_none() && count > 500_000_000 {
        return IMMORTAL;
    }
    if object.immortal_bit.is_some_and(|bit| count >> bit & 1 == 1) {
        return IMMORTAL;
    }
    let mask = if object.refcount_bits < 64 { (1 << object.refcount_bits) - 1 } else { u64::MAX };
    (count & mask).min(u64::from(IMMORTAL - 1)) as u32
}

/// Free blocks and freed objects have a zero there, or an address.
#[inline]
pub(crate) fn is_alive(layout: &Layout, count: u64) -> bool {
    if layout.object.refcount_bits == 64 {
        return count.wrapping_sub(1) < u64::from(u32::MAX);
    }
    // Above the count are at most an overflow and flags; in an address these bits are set.
    count & u64::from(u32::MAX) != 0 && count >> 32 & 0xffff < 16
}
