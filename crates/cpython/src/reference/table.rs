//! A dict's table of keys: header, index, entries (Objects/dictobject.c).

use std::borrow::Cow;

use nilometer_image::Image;

use super::span;
use crate::layout::DictKeys;
use crate::pool::word;

/// Entries of tables that are larger than this are not believed.
const MOST_SLOTS_LOG2: u64 = 38;

/// A table as found.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    entries: Cow<'a, [u8]>,
    stride: usize,
    /// How many dicts and types use it.
    pub refcount: u64,
    /// Entries in use or deleted.
    pub count: u64,
    /// Values that dicts with this table have room for: fewer than there are entries, if it is shared.
    pub capacity: u64,
    /// The block it stands in.
    pub bytes: u64,
}

/// What the header says of the rest.
struct Header {
    slots: u64,
    index_bytes: u64,
    entry_bytes: u64,
    count: u64,
}

impl<'a> Keys<'a> {
    pub fn read(image: &'a Image, layout: &DictKeys, address: u64) -> Option<Self> {
        let bytes = image.slice(address, layout.indices as usize)?;
        let header = Header::parse(bytes, layout)?;
        let usable = (header.slots << 1) / 3;
        // A table of 8 slots that holds 5 has never more entries than fit; the empty one has none.
        if header.count > usable {
            return None;
        }
        let first = address.checked_add(layout.indices + header.index_bytes)?;
        let entries = match header.count {
            0 => Cow::Borrowed(&[][..]),
            count => span::bytes(image, first, count * header.entry_bytes)?,
        };
        Some(Self {
            entries,
            stride: header.entry_bytes as usize,
            refcount: word(bytes, layout.refcount as usize),
            count: header.count,
            capacity: word(bytes, layout.usable as usize).saturating_add(header.count).min(usable),
            bytes: layout.indices + header.index_bytes + usable * header.entry_bytes,
        })
    }

    /// Key and value of each entry; both zero where one was deleted, the value zero in a table that is shared.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let value = self.stride - 8;
        self.entries.chunks_exact(self.stride).map(move |entry| (word(entry, value - 8), word(entry, value)))
    }
}

impl Header {
    fn parse(bytes: &[u8], layout: &DictKeys) -> Option<Self> {
        let count = word(bytes, layout.entries as usize);
        let byte = |offset: Option<u64>| offset.and_then(|offset| bytes.get(offset as usize)).copied();
        if let Some(slots) = layout.slots {
            let slots = word(bytes, slots as usize);
            let fits = slots.is_power_of_two() && slots <= 1 << MOST_SLOTS_LOG2;
            let entry_bytes = layout.general_entry;
            return fits.then(|| Self { slots, index_bytes: slots * index_width(slots), entry_bytes, count });
        }
        let (slots, index) = (u64::from(byte(layout.log2_slots)?), u64::from(byte(layout.log2_index_bytes)?));
        let entry_bytes = match byte(layout.kind)? {
            0 => layout.general_entry,
            1 | 2 => layout.str_entry,
            _ => return None,
        };
        let fits = slots <= MOST_SLOTS_LOG2 && index <= slots + 3;
        fits.then(|| Self { slots: 1 << slots, index_bytes: 1 << index, entry_bytes, count })
    }
}

/// Up to 3.10: as wide as the number of slots asks.
fn index_width(slots: u64) -> u64 {
    match slots {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}
