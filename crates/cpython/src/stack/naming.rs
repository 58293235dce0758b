//! What `threading` knows about threads: their names, and up to 3.10 also their kernel numbers.

use std::collections::HashMap;

use nilometer_image::Memory;

use crate::layout::flag;
use crate::reader::Reader;
use crate::{Interpreter, Python};

/// One `threading.Thread`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    pub name: Option<String>,
    pub native_id: Option<u64>,
}

/// By `threading`'s identifier, the `pthread_t`. Empty if the module was never imported.
pub fn read_names<M: Memory + ?Sized>(
    python: &Python,
    memory: &M,
    interpreter: &Interpreter,
) -> HashMap<u64, Named> {
    let reader = Reader::new(memory, &python.layout);
    let active = reader
        .get(interpreter.modules, "threading")
        .and_then(|module| reader.pointer(module, python.layout.module.dict))
        .and_then(|dict| reader.get(dict, "_active"))
        .and_then(|active| reader.entries(active));
    let threads = active.unwrap_or_default().into_iter();
    threads.filter_map(|(ident, thread)| Some((reader.number(ident)?, read_named(&reader, thread)))).collect()
}

fn read_named<M: Memory + ?Sized>(reader: &Reader<M>, thread: u64) -> Named {
    let name = attribute(reader, thread, "_name").and_then(|name| reader.text(name));
    let native_id = attribute(reader, thread, "_native_id").and_then(|id| reader.number(id));
    Named { name, native_id }
}

/// An attribute of an instance, from its dict or its values.
fn attribute<M: Memory + ?Sized>(reader: &Reader<M>, object: u64, name: &str) -> Option<u64> {
    let type_ = reader.type_of(object)?;
    if let Some(dict) = instance_dict(reader, object, type_) {
        return reader.get(dict, name);
    }
    let values = instance_values(reader, object, type_)?;
    let keys = reader.pointer(type_, reader.layout.heap_type.cached_keys)?;
    let index =
        reader.shared_names(keys)?.iter().position(|key| reader.text(*key).as_deref() == Some(name))?;
    reader.pointer(values, reader.layout.dict_values.values + 8 * index as u64)
}

fn instance_dict<M: Memory + ?Sized>(reader: &Reader<M>, object: u64, type_: u64) -> Option<u64> {
    let managed = &reader.layout.managed;
    let at = match managed.dict {
        Some(before) if reader.flags(type_)? & flag::MANAGED_DICT != 0 => object.checked_sub(before)?,
        _ => {
            let offset = reader.word(type_, reader.layout.type_.dictoffset)?;
            object.checked_add(offset).filter(|_| (1..1 << 20).contains(&offset))?
        }
    };
    reader.pointer(at, 0)
}

/// Where the values are while there is no dict.
fn instance_values<M: Memory + ?Sized>(reader: &Reader<M>, object: u64, type_: u64) -> Option<u64> {
    let managed = &reader.layout.managed;
    if let Some(before) = managed.values {
        return reader.pointer(object.checked_sub(before)?, 0);
    }
    if managed.tagged {
        let word = reader.word(object.checked_sub(managed.dict?)?, 0)?;
        return word.checked_add(1).filter(|_| word & 1 != 0);
    }
    let inline = managed.inline_values && reader.flags(type_)? & flag::INLINE_VALUES != 0;
    let size = reader.word(type_, reader.layout.type_.basicsize).filter(|size| inline && *size < 1 << 20)?;
    object.checked_add(size)
}
