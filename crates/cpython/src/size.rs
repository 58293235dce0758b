//! How large an object must be, from what it says itself.

use nilometer_image::Image;

use crate::kind::Type;
use crate::kind::known::Shape;
use crate::layout::{Layout, flag};
use crate::reference::text::State;

/// No object is larger than this.
const LARGEST: u64 = 1 << 40;
/// Items of types that nobody described; more is a pointer that stands where others have their length.
const MOST_ITEMS: u64 = 1 << 24;
const MOST_SLOTS: u64 = 10_000;

/// What an object outside of the pools was asked for. Unlike [`extent`], a guess about items does no harm here.
pub(crate) fn asked(layout: &Layout, type_: &Type, head: &[u8]) -> Option<u64> {
    let items = head.get(layout.object.items as usize..)?.get(..8).map(to_word)?;
    let bytes = extent(layout, type_, head)?;
    match type_.shape {
        Shape::Tuple => Some(bytes + type_.hidden_items * type_.itemsize),
        // One description for each slot, and one at the end.
        Shape::Type if items < MOST_SLOTS => Some(type_.basicsize + (items + 1) * type_.itemsize),
        Shape::Fixed | Shape::Code if items < MOST_ITEMS => Some(bytes + items * type_.itemsize),
        _ => Some(bytes),
    }
}

/// The bytes from an object's address to its end as allocated, at least; none for what cannot be one.
///
/// `head` are its first bytes: as many as are there, at most its basic size.
#[inline]
pub(crate) fn extent(layout: &Layout, type_: &Type, head: &[u8]) -> Option<u64> {
    let word = |offset: u64| head.get(offset as usize..offset as usize + 8).map(to_word);
    match type_.shape {
        Shape::Str => str_extent(layout, type_, word(layout.str_.length)?, word(layout.str_.state)? as u32),
        Shape::Int => int_extent(layout, type_, word(layout.object.items)?),
        Shape::Tuple | Shape::Bytes => {
            let items = word(layout.object.items)?;
            let bytes = items.checked_mul(type_.itemsize)?.checked_add(type_.basicsize)?;
            (bytes < LARGEST).then(|| with_dict(type_, bytes))
        }
        // Without a time zone, the place for it is not there (datetime.h).
        Shape::Time if type_.flags & flag::HEAP == 0 && head.get(24) == Some(&0) => Some(type_.basicsize - 8),
        Shape::Items => {
            let items = word(layout.object.items)?;
            let items = if items < MOST_ITEMS { items } else { 0 };
            Some(with_dict(type_, type_.basicsize + items * type_.itemsize))
        }
        _ => Some(fixed(layout, type_)),
    }
}

/// The [`extent`] of all objects of a type, where it does not depend on what they hold.
pub(crate) fn common_extent(layout: &Layout, type_: &Type) -> Option<u64> {
    let varies = matches!(
        type_.shape,
        Shape::Str | Shape::Int | Shape::Tuple | Shape::Bytes | Shape::Time | Shape::Items
    );
    (!varies).then(|| fixed(layout, type_))
}

fn fixed(layout: &Layout, type_: &Type) -> u64 {
    match type_.shape {
        // Static ones are shorter than what their metatype says.
        Shape::Type => layout.type_.size.min(type_.basicsize),
        _ => type_.basicsize + type_.inline_bytes,
    }
}

fn to_word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn str_extent(layout: &Layout, type_: &Type, length: u64, state: u32) -> Option<u64> {
    let str_ = &layout.str_;
    let state = State::parse(state, str_);
    if length >= LARGEST || !matches!(state.width, 0 | 1 | 2 | 4) {
        return None;
    }
    Some(match (state.compact, state.ascii) {
        (true, _) if state.width == 0 => return None,
        (true, true) => str_.ascii_size + length + 1,
        (true, false) => str_.compact_size + (length + 1) * state.width,
        (false, _) => type_.basicsize,
    })
}

/// The length is signed up to 3.11, a tag since.
fn int_extent(layout: &Layout, type_: &Type, size: u64) -> Option<u64> {
    let digits = match layout.int.tag {
        Some(_) => size.checked_shr(layout.int.tag_shift)?.max(1),
        None => (size as i64).unsigned_abs(),
    };
    (digits < LARGEST / 4).then(|| with_dict(type_, type_.basicsize.max(layout.int.digits) + digits * 4))
}

/// Up to 3.11 the dict of a variable-sized object stands behind its items.
fn with_dict(type_: &Type, bytes: u64) -> u64 {
    let managed = type_.flags & flag::MANAGED_DICT != 0;
    if type_.dictoffset < 0 && !managed { bytes.next_multiple_of(8) } else { bytes }
}

/// Whether an object outside of the pools is there with all of its length.
pub(crate) fn is_mapped(image: &Image, address: u64, extent: u64) -> bool {
    let Some(last) = address.checked_add(extent.max(1) - 1) else { return false };
    if extent <= 4096 {
        return image.slice(address, extent as usize).is_some() || image.slice(last, 1).is_some();
    }
    let mappings = image.mappings();
    let mapping = |at: u64| mappings.partition_point(|mapping| mapping.start <= at).checked_sub(1);
    let (first, end) = (mapping(address), mapping(last));
    let inside = end.and_then(|index| mappings.get(index)).is_some_and(|mapping| last < mapping.end);
    // Its mapping may have been split, never left.
    let parts = first.zip(end).and_then(|(first, end)| mappings.get(first..=end)).unwrap_or_default();
    let joined = parts.windows(2).all(|pair| pair[0].end == pair[1].start);
    (inside && joined) || (mappings.is_empty() && image.slice(last, 1).is_some())
}
