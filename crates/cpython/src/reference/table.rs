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
pub(crate) fn index_width(slots: u64) -> u64 {
    match slots {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;
    use crate::layout;

    const AT: u64 = 0x10_0000;

    fn image(words: &[u64]) -> Image {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = AT + bytes.len() as u64;
        Image::new(bytes.as_slice().into(), vec![Segment::new(AT, end, 0)], Vec::new())
    }

    fn layout(minor: u8) -> &'static DictKeys {
        &layout::all().iter().find(|table| table.minor == minor).unwrap().layout.dict_keys
    }

    #[test]
    fn a_table_of_3_8_has_hashes() {
        // Count, slots, function, usable, entries; an index of 8 bytes; two entries, one of them deleted.
        let words = [1, 8, 0, 3, 2, u64::MAX, 77, 0x5000, 0x6000, 78, 0, 0];
        let image = image(&words);
        let keys = Keys::read(&image, layout(8), AT).unwrap();
        assert_eq!(keys.entries().collect::<Vec<_>>(), [(0x5000, 0x6000), (0, 0)]);
        assert_eq!((keys.refcount, keys.count, keys.capacity, keys.bytes), (1, 2, 5, 40 + 8 + 5 * 24));
    }

    #[test]
    fn a_table_of_strs_has_none_since_3_11() {
        // Count; logarithms of slots and index bytes, kind 1; usable; entries; index; one entry.
        let words = [1, 0x01_03_03, 4, 1, u64::MAX, 0x5000, 0x6000];
        let image = image(&words);
        let keys = Keys::read(&image, layout(12), AT).unwrap();
        assert_eq!(keys.entries().collect::<Vec<_>>(), [(0x5000, 0x6000)]);
        assert_eq!(keys.bytes, 32 + 8 + 5 * 16);
    }

    #[test]
    fn absurd_tables_are_none() {
        for words in [[1, 8, 0, 3, 6, 0, 0], [1, 7, 0, 3, 1, 0, 0], [1, 1 << 60, 0, 3, 1, 0, 0]] {
            assert!(Keys::read(&image(&words), layout(8), AT).is_none(), "{words:?}");
        }
        for header in [0x01_03_7f, 0x01_20_03, 0x09_03_03] {
            assert!(Keys::read(&image(&[1, header, 4, 1, 0, 0, 0]), layout(12), AT).is_none(), "{header:x}");
        }
        assert!(Keys::read(&image(&[1]), layout(12), u64::MAX - 3).is_none());
    }
}
