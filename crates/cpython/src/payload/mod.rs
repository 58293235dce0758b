//! Buffers: what an array holds, apart from the few bytes that describe it.
//!
//! A buffer has one owner; views refer to it. What cannot be checked is not sized, and counted.

mod arrow;
pub(crate) mod numpy;

use nilometer_image::Image;
use nilometer_trace::heap::{Backing, Extent, NameId};
use rustc_hash::FxHashSet;

use crate::census::heap::{Found as Number, Heap};
use crate::kind::known::Shape;
use crate::layout::Layout;
use crate::reference::{Names, Object};

/// Larger than any machine's memory.
const LARGEST: u64 = 1 << 46;

/// A buffer and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub address: u64,
    pub bytes: u64,
    pub elements: Option<u64>,
    pub element: Option<NameId>,
}

/// What is known of an object that may own a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Owns none.
    None,
    Buffer(Buffer),
    /// Owns one whose size cannot be told.
    NotSized,
}

/// Finds the buffers of objects, each once.
#[derive(Debug)]
pub(crate) struct Payloads<'a> {
    image: &'a Image,
    layout: &'a Layout,
    numpy: numpy::Numpy,
    arrow: arrow::Arrow<'a>,
    /// Buffers of Arrow's: many of them are somebody else's.
    late: Vec<(Number, u64, u64)>,
    seen: FxHashSet<u64>,
    pub not_sized: u64,
}

/// Whether objects of a shape may own a buffer.
#[inline]
pub(crate) fn may_own(shape: Shape) -> bool {
    matches!(shape, Shape::NdArray | Shape::ByteArray | Shape::CArray | Shape::Mmap)
}

/// Whether objects of a shape hold buffers of Arrow's.
#[inline]
pub(crate) fn is_arrow(shape: Shape) -> bool {
    matches!(
        shape,
        Shape::ArrowBuffer | Shape::ArrowArray | Shape::ArrowChunks | Shape::ArrowTable | Shape::ArrowBatch
    )
}

impl<'a> Payloads<'a> {
    pub fn new(image: &'a Image, layout: &'a Layout) -> Self {
        Self {
            image,
            layout,
            numpy: numpy::Numpy::default(),
            arrow: arrow::Arrow::new(image),
            late: Vec::new(),
            seen: FxHashSet::default(),
            not_sized: 0,
        }
    }

    /// Remembers the buffers under an object of Arrow's.
    pub fn defer(&mut self, number: Number, object: &Object<'_>) {
        match self.arrow.buffers(object) {
            Some(buffers) => {
                self.late.extend(buffers.into_iter().map(|(address, bytes)| (number, address, bytes)));
            }
            None => self.not_sized += 1,
        }
    }

    /// Those that nobody else owns: no array, and no `bytes` whose contents they are.
    pub fn take_late(&mut self, heap: &Heap<'_>) -> Vec<(Number, Buffer)> {
        let mut owned = Vec::new();
        for (number, address, bytes) in std::mem::take(&mut self.late) {
            let contents = address.checked_sub(self.layout.bytes.data).and_then(|object| heap.find(object));
            let is_own = bytes > 0 && contents.is_none() && heap.pools.at(address).is_none();
            if is_own && self.seen.insert(address) {
                owned.push((number, Buffer { address, bytes, elements: None, element: None }));
            }
        }
        owned
    }

    /// The buffer that an object owns, if no other owned it before.
    pub fn of(&mut self, object: &Object<'_>, names: &mut Names) -> Option<Buffer> {
        let payload = match object.type_.shape {
            Shape::NdArray => self.numpy.payload(self.image, object, names),
            Shape::ByteArray => self.byte_array(object),
            Shape::CArray => self.c_array(object, names),
            Shape::Mmap => mmap(object),
            _ => Payload::None,
        };
        match payload {
            Payload::None => None,
            Payload::NotSized => {
                self.not_sized += 1;
                None
            }
            Payload::Buffer(buffer) => {
                (buffer.bytes > 0 && self.seen.insert(buffer.address)).then_some(buffer)
            }
        }
    }

    /// What an array or a view spans by its own account.
    pub fn extent(&mut self, object: &Object<'_>, names: &mut Names) -> Option<Extent> {
        match object.type_.shape {
            Shape::NdArray => self.numpy.extent(self.image, object, names),
            _ => None,
        }
    }

    fn byte_array(&self, object: &Object<'_>) -> Payload {
        let layout = &self.layout.byte_array;
        let (address, bytes) = (object.word(layout.buffer), object.word(layout.allocated));
        // Since 3.15 a bytes object is the buffer, and counts itself.
        if layout.object.is_some() || address == 0 {
            return Payload::None;
        }
        plain(address, bytes)
    }

    /// `arrayobject`: items, allocated, description with code and size (Modules/arraymodule.c).
    fn c_array(&self, object: &Object<'_>, names: &mut Names) -> Payload {
        let [items, allocated, description] = [24, 32, 40].map(|offset| object.word(offset));
        if items == 0 {
            return Payload::None;
        }
        let Some(head) = self.image.slice(description, 8) else { return Payload::NotSized };
        let (code, size) = (head[0], u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]])));
        let element = code_name(code);
        match (element, allocated.checked_mul(size).filter(|bytes| *bytes < LARGEST)) {
            (Some(name), Some(bytes)) => Payload::Buffer(Buffer {
                address: items,
                bytes,
                elements: Some(object.word(self.layout.object.items)),
                element: Some(names.intern(name)),
            }),
            _ => Payload::NotSized,
        }
    }
}

/// `mmap_object`: address and length come first (Modules/mmapmodule.c).
fn mmap(object: &Object<'_>) -> Payload {
    match (object.word(16), object.word(24)) {
        (0, _) => Payload::None,
        (address, bytes) => plain(address, bytes),
    }
}

fn plain(address: u64, bytes: u64) -> Payload {
    if bytes < LARGEST {
        Payload::Buffer(Buffer { address, bytes, elements: None, element: None })
    } else {
        Payload::NotSized
    }
}

/// `array.array`'s type codes, by the names that numpy has for them.
fn code_name(code: u8) -> Option<&'static str> {
    Some(match code {
        b'b' => "int8",
        b'B' => "uint8",
        b'u' | b'w' => "character",
        b'h' => "int16",
        b'H' => "uint16",
        b'i' => "int32",
        b'I' => "uint32",
        b'l' | b'q' => "int64",
        b'L' | b'Q' => "uint64",
        b'e' => "float16",
        b'f' => "float32",
        b'd' => "float64",
        b'F' => "complex64",
        b'D' => "complex128",
        _ => return None,
    })
}

/// What kind of memory an address is in.
pub(crate) fn backing(image: &Image, address: u64) -> Backing {
    let mappings = image.mappings();
    let index = mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1);
    let Some(mapping) = index.and_then(|index| mappings.get(index)).filter(|mapping| address < mapping.end)
    else {
        return Backing::Memory;
    };
    match (mapping.is_file() && !mapping.is_named_memory(), mapping.shared) {
        (true, _) => Backing::File,
        (false, true) => Backing::Shared,
        (false, false) => Backing::Memory,
    }
}
