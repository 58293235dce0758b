//! A few Python objects read one by one, wherever their bytes come from: names, numbers, the items of a dict.
//!
//! For finding the interpreter and naming frames. The census, which reads millions, has its own readers.
//! Every length is bounded, so that no memory makes it run long.

use nilometer_image::Memory;

use crate::layout::{Bits, Layout, flag};
use crate::reference::table::index_width;

/// More entries than any table of modules, attributes or threads has.
const MAX_ENTRIES: u64 = 1 << 20;
const MAX_TEXT: u64 = 4096;
const MAX_ITEMS: u64 = 1 << 16;
const MAX_INDEX_BYTES: u64 = 1 << 40;

/// Objects of one interpreter.
#[derive(Debug)]
pub(crate) struct Reader<'a, M: ?Sized> {
    pub memory: &'a M,
    pub layout: &'a Layout,
}

impl<'a, M: Memory + ?Sized> Reader<'a, M> {
    pub fn new(memory: &'a M, layout: &'a Layout) -> Self {
        Self { memory, layout }
    }

    pub fn word(&self, address: u64, offset: u64) -> Option<u64> {
        self.memory.u64(address.checked_add(offset)?)
    }

    /// A word that can be an address of something.
    pub fn pointer(&self, address: u64, offset: u64) -> Option<u64> {
        self.word(address, offset).filter(|pointer| *pointer >= 4096 && pointer % 8 == 0)
    }

    pub fn int32(&self, address: u64, offset: u64) -> Option<i32> {
        Some(self.memory.u32(address.checked_add(offset)?)? as i32)
    }

    pub fn type_of(&self, object: u64) -> Option<u64> {
        self.pointer(object, self.layout.object.type_)
    }

    pub fn type_name(&self, type_: u64) -> Option<String> {
        self.memory.name(self.word(type_, self.layout.type_.name)?)
    }

    pub fn flags(&self, type_: u64) -> Option<u64> {
        self.word(type_, self.layout.type_.flags)
    }

    pub fn has_flag(&self, object: u64, flag: u64) -> bool {
        let flags = self.type_of(object).and_then(|type_| self.flags(type_));
        flags.is_some_and(|flags| flags & flag != 0)
    }

    /// The object's type is called so.
    pub fn is_a(&self, object: u64, name: &str) -> bool {
        self.type_of(object).and_then(|type_| self.type_name(type_)).is_some_and(|found| found == name)
    }

    /// A str of at most 4096 characters; a longer one is cut there.
    pub fn text(&self, object: u64) -> Option<String> {
        let str_ = &self.layout.str_;
        if !self.has_flag(object, flag::STR) {
            return None;
        }
        let state = self.memory.u32(object.checked_add(str_.state)?)?;
        let length = self.word(object, str_.length)?.min(MAX_TEXT);
        let bit = |bits: Bits| state >> bits.shift & ((1 << bits.width) - 1);
        let data = match (bit(str_.compact), bit(str_.ascii)) {
            (0, _) => self.pointer(object, str_.data)?,
            (_, 0) => object.checked_add(str_.compact_size)?,
            _ => object.checked_add(str_.ascii_size)?,
        };
        self.characters(data, length, bit(str_.kind))
    }

    fn characters(&self, data: u64, length: u64, width: u32) -> Option<String> {
        if !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let width = width as usize;
        let mut bytes = vec![0; length as usize * width];
        self.memory.read(data, &mut bytes)?;
        let code = |chunk: &[u8]| chunk.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte));
        // Lone surrogates stand for bytes of file names that are no text.
        Some(
            bytes
                .chunks_exact(width)
                .map(|chunk| char::from_u32(code(chunk)).unwrap_or('\u{fffd}'))
                .collect(),
        )
    }

    /// The contents of a bytes object of at most `limit` bytes.
    pub fn bytes(&self, object: u64, limit: u64) -> Option<Vec<u8>> {
        if !self.has_flag(object, flag::BYTES) {
            return None;
        }
        let length = self.word(object, self.layout.object.items).filter(|length| *length <= limit)?;
        let mut bytes = vec![0; length as usize];
        self.memory.read(object.checked_add(self.layout.bytes.data)?, &mut bytes)?;
        Some(bytes)
    }

    /// An int that is not negative and fits.
    pub fn number(&self, object: u64) -> Option<u64> {
        let int = &self.layout.int;
        if !self.has_flag(object, flag::INT) {
            return None;
        }
        let digits = match int.tag {
            Some(tag) => self.word(object, tag).filter(|tag| tag & 3 != 2)? >> int.tag_shift,
            None => self.word(object, self.layout.object.items)?,
        };
        if digits > 3 {
            return None; // negative ones up to 3.11, too
        }
        let digit = |index| self.memory.u32(object.checked_add(int.digits)?.checked_add(4 * index)?);
        let digits: Option<Vec<u32>> = (0..digits).map(digit).collect();
        digits?.iter().rev().try_fold(0u64, |number, digit| {
            number.checked_mul(1 << int.digit_bits)?.checked_add(u64::from(*digit))
        })
    }

    /// The items of a tuple, at most 65,536.
    pub fn tuple(&self, object: u64) -> Option<Vec<u64>> {
        if !self.has_flag(object, flag::TUPLE) {
            return None;
        }
        let length = self.word(object, self.layout.object.items).filter(|length| *length <= MAX_ITEMS)?;
        let start = object.checked_add(self.layout.tuple.items)?;
        (0..length).map(|index| self.word(start, 8 * index)).collect()
    }

    /// The value under a str key of a dict.
    pub fn get(&self, dict: u64, key: &str) -> Option<u64> {
        self.entries(dict)?
            .into_iter()
            .find(|(name, _)| self.text(*name).is_some_and(|text| text == key))
            .map(|(_, value)| value)
    }

    /// Keys and values of a dict.
    pub fn entries(&self, dict: u64) -> Option<Vec<(u64, u64)>> {
        if !self.has_flag(dict, flag::DICT) {
            return None;
        }
        let keys = self.pointer(dict, self.layout.dict.keys)?;
        let values = self.word(dict, self.layout.dict.values)?;
        let (start, size) = self.table(keys)?;
        let count = self.word(keys, self.layout.dict_keys.entries).filter(|count| *count <= MAX_ENTRIES)?;
        let mut entries = Vec::new();
        for index in 0..count {
            let at = start.checked_add(size * index)?;
            let key = self.word(at, size - 16)?;
            let value = match values {
                0 => self.word(at, size - 8)?,
                _ => self.word(values, self.layout.dict_values.values + 8 * index)?,
            };
            if key != 0 && value != 0 {
                entries.push((key, value));
            }
        }
        Some(entries)
    }

    /// The names that the instances of a type share, in the order of their values.
    pub fn shared_names(&self, keys: u64) -> Option<Vec<u64>> {
        let (start, size) = self.table(keys)?;
        let count = self.word(keys, self.layout.dict_keys.entries).filter(|count| *count <= MAX_ENTRIES)?;
        (0..count).map(|index| self.word(start, size * index + size - 16)).collect()
    }

    /// Where the entries of a dict's keys begin, and how long each is.
    fn table(&self, keys: u64) -> Option<(u64, u64)> {
        let layout = &self.layout.dict_keys;
        let byte = |offset: Option<u64>| self.memory.u8(keys.checked_add(offset?)?);
        let indices = match layout.slots {
            Some(slots) => self.word(keys, slots).and_then(|slots| slots.checked_mul(index_width(slots)))?,
            None => 1u64.checked_shl(u32::from(byte(layout.log2_index_bytes)?))?,
        };
        if indices >= MAX_INDEX_BYTES {
            return None;
        }
        let general = byte(layout.kind).is_none_or(|kind| kind == 0);
        let entry = if general { layout.general_entry } else { layout.str_entry };
        Some((keys.checked_add(layout.indices)?.checked_add(indices)?, entry))
    }
}
