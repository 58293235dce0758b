//! `numpy.ndarray`: data, shape, base, type of elements.
//!
//! The array's structure is the same in numpy 1 and 2 (ndarraytypes.h); the element type's is not, which arrays of
//! plain numbers tell apart, as their size is known.

use std::borrow::Cow;

use nilometer_image::{Image, Memory};
use nilometer_trace::heap::{Extent, Label, Part, Special};

use super::{Buffer, LARGEST, Payload};
use crate::kind::small_int;
use crate::layout::Layout;
use crate::pool::word;
use crate::reference::table::Keys;
use crate::reference::{Found, Names, Object, span};

const DATA: u64 = 16;
const DIMENSION_COUNT: u64 = 24;
const DIMENSIONS: u64 = 32;
const BASE: u64 = 48;
const DESCRIPTION: u64 = 56;
const FLAGS: u64 = 64;
/// Who frees the data (since 1.22).
const HANDLER: u64 = 88;

/// `NPY_ARRAY_OWNDATA`.
const OWNS: u64 = 4;
const MOST_DIMENSIONS: u64 = 64;

/// Of an element type: its scalar type, its number.
const SCALAR: u64 = 16;
const NUMBER: u64 = 28;
const OBJECT: u32 = 17;
const BYTES: u32 = 18;
const TEXT: u32 = 19;
const RECORD: u32 = 20;

/// Records in records in records.
const DEEPEST: u32 = 4;
const MOST_FIELDS: usize = 4096;
/// Fields of one element type and of those in it: damaged ones may hold themselves.
const MOST_LOOKS: usize = 1 << 16;

/// Name and size of plain elements by number (`enum NPY_TYPES`).
const PLAIN: [(&str, u64); 18] = [
    ("bool", 1),
    ("int8", 1),
    ("uint8", 1),
    ("int16", 2),
    ("uint16", 2),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("int64", 8),
    ("uint64", 8),
    ("float32", 4),
    ("float64", 8),
    ("float128", 16),
    ("complex64", 8),
    ("complex128", 16),
    ("complex256", 32),
    ("object", 8),
];

fn plain(number: u32) -> Option<(&'static str, u64)> {
    match number {
        21 => Some(("datetime64", 8)),
        22 => Some(("timedelta64", 8)),
        23 => Some(("float16", 2)),
        number => PLAIN.get(number as usize).copied(),
    }
}

/// Where the fields of an element type are that moved in numpy 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    One,
    Two,
}

impl Style {
    /// From an element type whose size is known.
    fn judge(image: &Image, description: u64, bytes: u64) -> Option<Self> {
        let one = image.u32(description.checked_add(32)?).map(u64::from);
        let two = image.word(description.checked_add(40)?);
        match (one == Some(bytes), two == Some(bytes)) {
            (true, false) => Some(Self::One),
            (false, true) => Some(Self::Two),
            _ => None,
        }
    }

    fn element_bytes(self, image: &Image, description: u64) -> Option<u64> {
        match self {
            Self::One => image.u32(description.checked_add(32)?).map(u64::from),
            Self::Two => image.word(description.checked_add(40)?),
        }
    }

    /// The dict from a record's names to types and places.
    fn fields(self) -> u64 {
        match self {
            Self::One => 48,
            Self::Two => 96,
        }
    }
}

/// The fields of an array that tell its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fields {
    pub data: u64,
    pub dimension_count: u64,
    pub dimensions: u64,
    pub description: u64,
    pub owns: bool,
}

impl Fields {
    /// From the body of an array.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let at = |offset: u64| word(body, offset as usize);
        let fields = Self {
            data: at(DATA),
            dimension_count: at(DIMENSION_COUNT) & u64::from(u32::MAX),
            dimensions: at(DIMENSIONS),
            description: at(DESCRIPTION),
            owns: at(FLAGS) & OWNS != 0,
        };
        (fields.dimension_count <= MOST_DIMENSIONS).then_some(fields)
    }
}

/// The size of elements that are plain numbers; none for those with references.
pub(crate) fn number_bytes(memory: &impl Memory, description: u64) -> Option<u64> {
    let number = memory.u32(description.checked_add(NUMBER)?)?;
    plain(number).filter(|_| number != OBJECT).map(|(_, bytes)| bytes)
}

/// What was learnt of the numpy in the process.
#[derive(Debug, Default)]
pub(crate) struct Numpy {
    style: Option<Style>,
}

impl Numpy {
    pub fn payload(&mut self, image: &Image, object: &Object<'_>, names: &mut Names) -> Payload {
        if object.word(FLAGS) & OWNS == 0 || object.word(DATA) == 0 {
            return Payload::None;
        }
        match self.extent(image, object, names) {
            Some(Extent { bytes, elements, element, .. }) => {
                let address = object.word(DATA);
                Payload::Buffer(Buffer { address, bytes, elements: Some(elements), element })
            }
            None => Payload::NotSized,
        }
    }

    /// What an array spans by its own account, whoever owns the buffer; the object's number is not set.
    pub fn extent(&mut self, image: &Image, object: &Object<'_>, names: &mut Names) -> Option<Extent> {
        let element = self.element(image, object.word(DESCRIPTION))?;
        let shape = read_shape(image, object)?;
        let elements = shape.iter().copied().try_fold(1u64, u64::checked_mul)?;
        let bytes = elements.checked_mul(element.bytes).filter(|bytes| *bytes < LARGEST)?;
        Some(Extent { object: 0, elements, bytes, element: Some(names.intern(&element.name)), shape })
    }

    fn element(&mut self, image: &Image, description: u64) -> Option<Element> {
        let number = image.u32(description.checked_add(NUMBER)?)?;
        if let Some((name, bytes)) = plain(number) {
            if self.style.is_none() {
                self.style = Style::judge(image, description, bytes);
            }
            return Some(Element { name: Cow::Borrowed(name), bytes });
        }
        let bytes =
            self.style.or_else(|| find_style(image, description))?.element_bytes(image, description)?;
        let name = match number {
            BYTES => format!("S{bytes}").into(),
            TEXT => format!("U{}", bytes / 4).into(),
            RECORD => format!("record of {bytes}").into(),
            _ => Cow::Owned(scalar_name(image, description).unwrap_or_else(|| "element".to_owned())),
        };
        (bytes <= LARGEST).then_some(Element { name, bytes })
    }
}

/// An element's type in words and its size.
struct Element {
    name: Cow<'static, str>,
    bytes: u64,
}

/// Without a plain array: in numpy 2 flags of 64 bits stand where numpy 1 has size and alignment, and no element is
/// aligned to zero bytes.
fn find_style(image: &Image, description: u64) -> Option<Style> {
    let alignment =
        |offset: u64| image.u32(description.checked_add(offset)?).filter(|bytes| bytes.is_power_of_two());
    match (alignment(36), alignment(48)) {
        (Some(_), None) => Some(Style::One),
        (None, Some(_)) => Some(Style::Two),
        _ => None,
    }
}

/// The name of the type of its scalars, of types that numpy does not define itself.
fn scalar_name(image: &Image, description: u64) -> Option<String> {
    let scalar = image.word(description.checked_add(SCALAR)?)?;
    let name = image.name(image.word(scalar.checked_add(24)?)?)?;
    Some(name.rsplit('.').next().unwrap_or(&name).to_owned())
}

/// Lengths of the dimensions; an array without any is one number.
fn read_shape(image: &Image, object: &Object<'_>) -> Option<Vec<u64>> {
    let dimensions = object.word(DIMENSION_COUNT) & u64::from(u32::MAX);
    if dimensions == 0 {
        return Some(Vec::new());
    }
    if dimensions > MOST_DIMENSIONS {
        return None;
    }
    Some(span::words(image.slice(object.word(DIMENSIONS), dimensions as usize * 8)?).collect())
}

fn count_elements(image: &Image, object: &Object<'_>) -> Option<u64> {
    read_shape(image, object)?.into_iter().try_fold(1u64, u64::checked_mul)
}

/// Base, element type, handler, and the objects in arrays of objects.
pub(crate) fn references(image: &Image, layout: &Layout, object: &Object<'_>, found: &mut Found) {
    found.add(object.word(BASE), Label::new(Part::Special(Special::Base)));
    found.add(object.word(DESCRIPTION), Label::UNNAMED);
    if object.type_.basicsize >= HANDLER + 8 {
        found.add(object.word(HANDLER), Label::UNNAMED);
    }
    // Shape and strides.
    found.bytes += (object.word(DIMENSION_COUNT) & u64::from(u32::MAX)).min(MOST_DIMENSIONS) * 16;
    if object.word(FLAGS) & OWNS != 0 {
        items(image, layout, object, found);
    }
}

fn items(image: &Image, layout: &Layout, object: &Object<'_>, found: &mut Found) {
    let description = object.word(DESCRIPTION);
    let Some(number) = description.checked_add(NUMBER).and_then(|at| image.u32(at)) else { return };
    if number != OBJECT && number != RECORD {
        return;
    }
    let mut places = Vec::new();
    let style = if number == RECORD { find_style(image, description) } else { Some(Style::Two) };
    let bytes = match number {
        OBJECT => Some(8),
        _ => style.and_then(|style| style.element_bytes(image, description)),
    };
    let (Some(style), Some(bytes), Some(count)) = (style, bytes, count_elements(image, object)) else {
        return;
    };
    if (Records { image, layout, style, looks: 0 }).object_places(description, 0, 0, &mut places).is_none() {
        return;
    }
    let length = count.checked_mul(bytes).filter(|length| bytes > 0 && *length < LARGEST && *length > 0);
    let Some(data) =
        length.filter(|_| !places.is_empty()).and_then(|l| span::bytes(image, object.word(DATA), l))
    else {
        return;
    };
    for (number, element) in data.chunks_exact(bytes as usize).enumerate() {
        for place in &places {
            found.add(word(element, *place as usize), Label::new(Part::Index(number as u32)));
        }
    }
}

/// Element types that are records of others.
struct Records<'a> {
    image: &'a Image,
    layout: &'a Layout,
    style: Style,
    looks: usize,
}

impl Records<'_> {
    /// Where in an element references stand; none if there are too many fields to tell.
    fn object_places(&mut self, description: u64, at: u64, depth: u32, places: &mut Vec<u64>) -> Option<()> {
        self.looks += 1;
        if self.looks > MOST_LOOKS {
            return None;
        }
        match description.checked_add(NUMBER).and_then(|at| self.image.u32(at)) {
            Some(OBJECT) => places.push(at),
            Some(RECORD) if depth < DEEPEST && places.len() < MOST_FIELDS => {
                for (field, offset) in self.fields(description).unwrap_or_default() {
                    self.object_places(field, at.saturating_add(offset), depth + 1, places)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Types and places of the fields: the values of a dict are tuples of both.
    fn fields(&self, description: u64) -> Option<Vec<(u64, u64)>> {
        let dict =
            self.image.word(description.checked_add(self.style.fields())?).filter(|dict| *dict != 0)?;
        let table = self.image.word(dict.checked_add(self.layout.dict.keys)?)?;
        let keys = Keys::read(self.image, &self.layout.dict_keys, table)?;
        let pair = |tuple: u64| {
            let items = self.image.slice(tuple.checked_add(self.layout.tuple.items)?, 16)?;
            Some((word(items, 0), small_int(self.image, self.layout, word(items, 8))?))
        };
        Some(keys.entries().filter_map(|(_, value)| pair(value)).take(MOST_FIELDS).collect())
    }
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;
    use crate::layout;

    const AT: u64 = 0x10_0000;
    const FIELDS: usize = 40;

    fn place(word: usize) -> u64 {
        AT + 8 * word as u64
    }

    /// A record of some fields, each of a type; its places, as numpy 1 and Python 3.8 have it.
    fn places(field: u64) -> Option<Vec<u64>> {
        let mut words = vec![0u64; 256];
        // The record's number and its dict; the dict's table; a tuple of type and offset, which is 8.
        (words[3], words[6], words[14]) = (u64::from(RECORD) << 32, place(10), place(40));
        (words[23], words[24], words[32], words[33]) = (field, place(30), 1, 8);
        // A type of objects, and a table of 64 slots.
        words[223] = u64::from(OBJECT) << 32;
        (words[40], words[41], words[44]) = (1, 64, FIELDS as u64);
        for entry in 0..FIELDS {
            words[53 + 3 * entry + 2] = place(20);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let segments = vec![Segment::new(AT, place(256), 0)];
        let image = Image::new(bytes.as_slice().into(), segments, Vec::new());
        let layout = &layout::all()[0].layout;
        let mut records = Records { image: &image, layout, style: Style::One, looks: 0 };
        let mut places = Vec::new();
        records.object_places(AT, 0, 0, &mut places)?;
        Some(places)
    }

    #[test]
    fn fields_of_objects_are_places_and_records_of_themselves_have_none() {
        assert_eq!(places(place(220)), Some(vec![8; FIELDS]));
        assert_eq!(places(AT), None);
    }
}
