//! Variables of C code: what libraries keep writable, word by word.

use std::ops::Range;
use std::path::Path;

use nilometer_image::{Image, Mapping};
use nilometer_trace::heap::Holder;
use rustc_hash::FxHashSet;

use crate::census::heap::{Found as Number, Heap};
use crate::kind::known::Shape;
use crate::locate::Python;
use crate::reference::span::{is_address, words};
use crate::reference::table::Keys;
use crate::reference::text;

/// Entries of the table of interned strs that are enough to know it by.
const ENOUGH: usize = 64;

/// Where files have their variables.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Sorted by address.
    list: Vec<File>,
}

#[derive(Debug)]
struct File {
    range: Range<u64>,
    name: String,
    is_interpreter: bool,
}

impl Files {
    /// Each library's writable mappings, and its variables that begin as zeros, which have no file behind them.
    pub fn new(image: &Image, interpreter: &Path) -> Self {
        let modules = image.modules();
        let mut list: Vec<File> = Vec::new();
        for module in &modules {
            let is_interpreter = module.path() == interpreter;
            let name = module.file_name().into_owned();
            let writable = module.mappings().iter().filter(|mapping| mapping.write && !mapping.shared);
            let mut ranges: Vec<Range<u64>> = writable.map(Mapping::range).collect();
            // Only those that matter are opened: a training job has gigabytes of libraries.
            if !ranges.is_empty() && (is_interpreter || is_extension(&name)) {
                ranges.extend(module.bss_range().map(|range| page_up(ranges[ranges.len() - 1].end, range)));
            }
            ranges.retain(|range| range.start < range.end);
            list.extend(ranges.into_iter().map(|range| File { range, name: name.clone(), is_interpreter }));
        }
        list.sort_by_key(|file| file.range.start);
        Self { list }
    }

    fn at(&self, address: u64) -> Option<&File> {
        let index = self.list.partition_point(|file| file.range.start <= address).checked_sub(1)?;
        self.list.get(index).filter(|file| address < file.range.end)
    }

    pub fn contains(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    pub fn name_at(&self, address: u64) -> &str {
        self.at(address).map_or("interpreter state", |file| &file.name)
    }

    pub fn holder_at(&self, address: u64) -> Holder {
        match self.at(address) {
            Some(file) if !file.is_interpreter => Holder::Native,
            _ => Holder::Interpreter,
        }
    }

    /// Places and targets of all words that lead to an object, except places that are told already.
    pub fn scan(&self, heap: &mut Heap<'_>, python: &Python, told: &FxHashSet<u64>) -> Vec<(u64, Number)> {
        let mut found = Vec::new();
        let interpreters = python.interpreters.iter().map(|interpreter| {
            interpreter.address..interpreter.address.saturating_add(python.layout.interpreter.size)
        });
        let apart: Vec<_> = interpreters.filter(|range| !self.contains(range.start)).collect();
        let extensions = self.list.iter().filter(|file| file.is_interpreter || is_extension(&file.name));
        for range in extensions.map(|file| file.range.clone()).chain(apart) {
            scan_range(heap, range, told, &mut found);
        }
        if python.version.minor == 10 {
            for interpreter in &python.interpreters {
                let end = interpreter.address.saturating_add(python.layout.interpreter.size);
                found.extend(find_identifiers(heap, interpreter.address..end));
            }
        }
        found
    }
}

/// What of the zeroed variables lies behind the file's last mapping.
fn page_up(mapped: u64, zeroed: Range<u64>) -> Range<u64> {
    zeroed.start.max(mapped)..zeroed.end
}

/// Other libraries hold no Python objects.
fn is_extension(name: &str) -> bool {
    name.contains("cpython-") || name.contains(".abi3.") || name.contains("python")
}

fn scan_range(heap: &mut Heap<'_>, range: Range<u64>, told: &FxHashSet<u64>, found: &mut Vec<(u64, Number)>) {
    let image = heap.image;
    let inside: Vec<(u64, &[u8])> = image
        .segments()
        .filter(|(start, bytes)| *start < range.end && start + bytes.len() as u64 > range.start)
        .collect();
    for (start, bytes) in inside {
        let from = range.start.saturating_sub(start).next_multiple_of(8) as usize;
        let end = bytes.len().min((range.end - start) as usize);
        for (index, word) in words(bytes.get(from..end).unwrap_or_default()).enumerate() {
            let place = start + (from + index * 8) as u64;
            if !is_address(word) || told.contains(&place) || heap.pools.at(place).is_some() {
                continue;
            }
            found.extend(heap.find_or_probe(word, false).map(|target| (place, target)));
        }
    }
}

/// Strs of C identifiers: in 3.10 an interpreter keeps them in a block of its own, as a length and an address
/// (`struct _Py_unicode_ids`). Known by what it holds.
fn find_identifiers(heap: &mut Heap<'_>, state: Range<u64>) -> Vec<(u64, Number)> {
    let Some(bytes) = heap.image.slice(state.start, (state.end - state.start) as usize) else {
        return Vec::new();
    };
    let pairs: Vec<[u64; 2]> =
        words(bytes).zip(words(bytes).skip(1)).map(|(size, array)| [size, array]).collect();
    let arrays = pairs
        .into_iter()
        .filter(|[size, array]| (ENOUGH as u64..1 << 16).contains(size) && is_address(*array));
    let mut best = Vec::new();
    for [size, array] in arrays {
        let found = read_strs(heap, array, size).unwrap_or_default();
        if found.len() > best.len() {
            best = found;
        }
    }
    best
}

/// An array of strs and nulls, with enough of the former.
fn read_strs(heap: &mut Heap<'_>, array: u64, size: u64) -> Option<Vec<(u64, Number)>> {
    let bytes = heap.image.slice(array, size as usize * 8)?;
    let mut found = Vec::new();
    for (index, word) in words(bytes).enumerate().filter(|(_, word)| *word != 0) {
        let target = heap.find_or_probe(word, false)?;
        if heap.types.get(heap.type_of[target as usize]).shape != Shape::Str {
            return None;
        }
        found.push((array + index as u64 * 8, target));
    }
    (found.len() >= ENOUGH).then_some(found)
}

/// Up to 3.11 the table of interned strs is a variable: a dict in which every key is its own value.
pub(super) fn find_interned(heap: &Heap<'_>, variables: &[(u64, Number)]) -> Vec<u64> {
    let dicts = variables.iter().map(|(_, target)| *target as usize);
    let dicts = dicts.filter(|target| heap.types.get(heap.type_of[*target]).shape == Shape::Dict);
    let mut found: Vec<u64> =
        dicts.map(|target| heap.address[target]).filter(|dict| is_interned(heap, *dict)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn is_interned(heap: &Heap<'_>, dict: u64) -> bool {
    let table = dict.checked_add(heap.layout.dict.keys).and_then(|at| heap.image.word(at));
    let Some(keys) = table.and_then(|table| Keys::read(heap.image, &heap.layout.dict_keys, table)) else {
        return false;
    };
    let is_own = |(key, value): (u64, u64)| {
        key == value && text::state(heap.image, &heap.layout.str_, key).is_some_and(|state| state.interned)
    };
    let entries = keys.entries().filter(|(key, _)| *key != 0);
    keys.count as usize > ENOUGH && entries.take(ENOUGH).all(is_own)
}
