//! What a type is called.

use nilometer_image::Image;
use nilometer_trace::heap::Kind;

use super::Type;
use crate::layout::{Layout, flag};
use crate::reference::table::Keys;
use crate::reference::text;

const LONGEST: u64 = 256;

/// `module.qualname` of types made at run time, `tp_name` of the others; builtins without a prefix.
pub(super) fn kind(image: &Image, layout: &Layout, made: &Type) -> Kind {
    let (module, name) = heap_name(image, layout, made).unwrap_or_else(|| static_name(&made.name));
    let name = if module == "builtins" { name } else { format!("{module}.{name}") };
    Kind { name, module, nature: made.nature }
}

fn static_name(name: &str) -> (String, String) {
    let (module, name) = name.rsplit_once('.').unwrap_or(("builtins", name));
    (module.to_owned(), name.to_owned())
}

fn heap_name(image: &Image, layout: &Layout, made: &Type) -> Option<(String, String)> {
    if made.flags & flag::HEAP == 0 {
        return None;
    }
    let qualname = image.word(made.address.checked_add(layout.heap_type.qualname)?)?;
    let name = read_str(image, layout, qualname)?;
    let module =
        dict_value(image, layout, made.address, "__module__").and_then(|m| read_str(image, layout, m));
    // A type made from a specification may have its module in `tp_name` only.
    let module = module.or_else(|| made.name.rsplit_once('.').map(|(module, _)| module.to_owned()));
    Some((module.unwrap_or_else(|| "builtins".to_owned()), name))
}

/// The text of an object that must be a plain `str`, which every name is.
fn read_str(image: &Image, layout: &Layout, address: u64) -> Option<String> {
    let type_ = image.word(address.checked_add(layout.object.type_)?)?;
    let flags = image.word(type_.checked_add(layout.type_.flags)?)?;
    let text = text::read(image, &layout.str_, address, LONGEST)?;
    (flags & flag::STR != 0 && !text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

/// A value in the dict of a type under a key.
fn dict_value(image: &Image, layout: &Layout, type_address: u64, name: &str) -> Option<u64> {
    value_in(image, layout, image.word(type_address.checked_add(layout.type_.dict)?)?, name)
}

/// A value in a dict under a key that is a plain name.
pub(crate) fn value_in(image: &Image, layout: &Layout, dict: u64, name: &str) -> Option<u64> {
    let keys = Keys::read(image, &layout.dict_keys, image.word(dict.checked_add(layout.dict.keys)?)?)?;
    let is_name = |key: u64| {
        let length = image.word(key.checked_add(layout.str_.length)?)?;
        let bytes = image.slice(key.checked_add(layout.str_.ascii_size)?, name.len())?;
        Some(length == name.len() as u64 && bytes == name.as_bytes())
    };
    let (_, value) = keys.entries().find(|(key, value)| *value != 0 && is_name(*key) == Some(true))?;
    Some(value)
}

/// A small number in the dict of a type under a key.
pub(super) fn dict_int(image: &Image, layout: &Layout, type_address: u64, name: &str) -> Option<u64> {
    let address = dict_value(image, layout, type_address, name)?;
    small_int(image, layout, address)
}

/// The value of a non-negative int of one digit.
pub(crate) fn small_int(image: &Image, layout: &Layout, address: u64) -> Option<u64> {
    let size = image.word(address.checked_add(layout.int.tag.unwrap_or(layout.object.items))?)?;
    let (digits, negative) = match layout.int.tag {
        Some(_) => (size.checked_shr(layout.int.tag_shift)?, size & 3 == 2),
        None => (size, false), // a negative one has a negative length, which is not 1
    };
    let digit = image.slice(address.checked_add(layout.int.digits)?, 4)?;
    let digit = u64::from(u32::from_le_bytes(digit.try_into().ok()?));
    let zero = digits == 0 || (layout.int.tag.is_some() && size & 3 == 1);
    match (zero, digits, negative) {
        (true, ..) => Some(0),
        (false, 1, false) => Some(digit),
        _ => None,
    }
}
