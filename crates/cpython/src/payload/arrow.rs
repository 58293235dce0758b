//! `pyarrow`: arrays, chunked arrays, tables and batches, down to the buffers of Arrow's C++ library.
//!
//! Each step is believed only if what it leads to begins with a pointer into a library of Arrow's: the table of virtual
//! functions of its class. Structures are those of Arrow 10 to 26 (seen in 10, 14, 19 and
//! 26; `array/data.h`, `buffer.h`, `chunked_array.h`, `table.cc`).

use std::ops::Range;

use nilometer_image::{Image, Mapping};

use super::LARGEST;
use crate::kind::known::Shape;
use crate::pool::word;
use crate::reference::{Object, span};

/// In the Python objects: after weak references and Cython's table of functions, what they hold and its counts.
const HELD: u64 = 32;
const COUNTS: u64 = 40;
/// `SimpleTable`, `SimpleRecordBatch`: after schema and number of rows.
const COLUMNS: u64 = 32;
/// `Array`: its data. `ArrayData`: its buffers, those of nested types, and a dictionary.
const ARRAY_DATA: u64 = 8;
const BUFFERS: u64 = 40;
const CHILDREN: u64 = 64;
const DICTIONARY: u64 = 88;
/// `Buffer`: flags, address, length, room; the buffer it is a part of, by release.
const BUFFER_BYTES: usize = 64;
const IS_HOST: usize = 9;
const PARENTS: [usize; 2] = [40, 48];

const DEEPEST: u32 = 8;
/// Chunks, columns and buffers of one object.
const MOST: usize = 1 << 16;
/// Arrays under one object, those of nested types among them: damaged ones may share theirs.
const MOST_ARRAYS: usize = 1 << 18;

/// What was found under one object.
#[derive(Debug, Default)]
struct Found {
    /// Addresses and sizes.
    buffers: Vec<(u64, u64)>,
    arrays: usize,
}

/// What is known of Arrow in the process.
#[derive(Debug)]
pub(super) struct Arrow<'a> {
    image: &'a Image,
    /// Its libraries, sorted.
    libraries: Vec<Range<u64>>,
}

impl<'a> Arrow<'a> {
    pub fn new(image: &'a Image) -> Self {
        // Classes that are defined in a header have their table in whatever was built with it: also in extensions.
        let is_arrow =
            |path: &str| ["/libarrow", "/libparquet", "/pyarrow/"].iter().any(|part| path.contains(part));
        let mappings = image.mappings().iter();
        let libraries = mappings.filter(|mapping| is_arrow(&mapping.path.to_string_lossy()));
        Self { image, libraries: libraries.map(Mapping::range).collect() }
    }

    /// Addresses and sizes of the buffers under an object; none if something is not as it should be.
    pub fn buffers(&self, object: &Object<'_>) -> Option<Vec<(u64, u64)>> {
        let (held, counts) = (object.word(HELD), object.word(COUNTS));
        let mut found = Found::default();
        if held == 0 {
            return Some(found.buffers);
        }
        self.is_native(counts).then_some(())?;
        match object.type_.shape {
            Shape::ArrowBuffer => found.buffers.push(self.buffer(held)?),
            Shape::ArrowArray => self.array(held, &mut found)?,
            Shape::ArrowChunks => self.chunks(held, &mut found)?,
            Shape::ArrowTable => {
                self.is_native(held).then_some(())?;
                for chunks in self.shared(held.checked_add(COLUMNS)?)? {
                    self.chunks(chunks, &mut found)?;
                }
            }
            Shape::ArrowBatch => {
                self.is_native(held).then_some(())?;
                for data in self.shared(held.checked_add(COLUMNS)?)? {
                    self.data(data, 0, &mut found)?;
                }
            }
            _ => {}
        }
        Some(found.buffers)
    }

    /// Whether a C++ object of Arrow's is at an address.
    fn is_native(&self, address: u64) -> bool {
        self.image.word(address).is_some_and(|table| {
            let before = self.libraries.partition_point(|library| library.start <= table);
            before.checked_sub(1).is_some_and(|index| self.libraries[index].contains(&table))
        })
    }

    /// The pointers of a vector of `shared_ptr`, which are two words each.
    fn shared(&self, vector: u64) -> Option<Vec<u64>> {
        let ends = self.image.slice(vector, 16)?;
        match word(ends, 8).checked_sub(word(ends, 0))? {
            0 => Some(Vec::new()),
            bytes if bytes % 16 == 0 && bytes / 16 < MOST as u64 => {
                let pointers = self.image.slice(word(ends, 0), bytes as usize)?;
                Some(span::words(pointers).step_by(2).collect())
            }
            _ => None,
        }
    }

    /// `ChunkedArray` has no virtual functions; its chunks have.
    fn chunks(&self, chunked: u64, found: &mut Found) -> Option<()> {
        self.shared(chunked)?.into_iter().try_for_each(|array| self.array(array, found))
    }

    fn array(&self, array: u64, found: &mut Found) -> Option<()> {
        self.is_native(array).then_some(())?;
        self.data(self.image.word(array.checked_add(ARRAY_DATA)?)?, 0, found)
    }

    fn data(&self, data: u64, depth: u32, found: &mut Found) -> Option<()> {
        found.arrays += 1;
        if depth > DEEPEST || found.buffers.len() > MOST || found.arrays > MOST_ARRAYS {
            return None;
        }
        // Missing ones, for values that are all there, are null.
        for buffer in self.shared(data.checked_add(BUFFERS)?)?.into_iter().filter(|buffer| *buffer != 0) {
            found.buffers.push(self.buffer(buffer)?);
        }
        for child in self.shared(data.checked_add(CHILDREN)?)? {
            self.data(child, depth + 1, found)?;
        }
        match self.image.word(data.checked_add(DICTIONARY)?)? {
            0 => Some(()),
            dictionary => self.data(dictionary, depth + 1, found),
        }
    }

    /// Where a buffer's memory is; that of the whole, if it is a part of another.
    fn buffer(&self, mut buffer: u64) -> Option<(u64, u64)> {
        let mut whole = self.extent(buffer)?;
        for _ in 0..DEEPEST {
            let fields = self.image.slice(buffer, BUFFER_BYTES)?;
            let around = |parent: &u64| {
                let (start, bytes) = self.extent(*parent)?;
                let inside = start <= whole.0 && whole.0 + whole.1 <= start + bytes;
                inside.then_some((start, bytes))
            };
            let parent = PARENTS
                .into_iter()
                .map(|offset| word(fields, offset))
                .find(|parent| around(parent).is_some());
            let Some(parent) = parent else { break };
            whole = around(&parent)?;
            buffer = parent;
        }
        Some(whole)
    }

    fn extent(&self, buffer: u64) -> Option<(u64, u64)> {
        let fields = self.image.slice(buffer, BUFFER_BYTES).filter(|_| self.is_native(buffer))?;
        let [start, size, room] = [16, 24, 32].map(|offset| word(fields, offset));
        let sane = size <= room && room < LARGEST && start < LARGEST << 1 && fields[IS_HOST] == 1;
        sane.then_some((start, room))
    }
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;

    const AT: u64 = 0x10_0000;
    /// Words of an array's data and of its children.
    const WORDS: usize = 32;

    /// Arrays in arrays, down to the deepest, each with so many children that are all the same.
    fn arrays_under(children: usize) -> Option<usize> {
        let place = |word: usize| AT + 8 * word as u64;
        let mut words = vec![0u64; WORDS * (DEEPEST as usize + 1)];
        for level in 0..DEEPEST as usize {
            let (first, below) = (WORDS * level, WORDS * (level + 1));
            (words[first + 8], words[first + 9]) = (place(first + 12), place(first + 12 + 2 * children));
            for child in 0..children {
                words[first + 12 + 2 * child] = place(below);
            }
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let segments = vec![Segment::new(AT, place(words.len()), 0)];
        let image = Image::new(bytes.as_slice().into(), segments, Vec::new());
        let mut found = Found::default();
        Arrow::new(&image).data(AT, 0, &mut found)?;
        Some(found.arrays)
    }

    #[test]
    fn nested_arrays_are_looked_at_and_not_for_ever() {
        assert_eq!(arrays_under(2), Some((1 << (DEEPEST + 1)) - 1));
        assert_eq!(arrays_under(8), None);
    }
}
