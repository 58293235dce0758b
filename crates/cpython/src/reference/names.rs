//! Names of what holds what: each text once.

use nilometer_image::Image;
use nilometer_trace::heap::{Label, NameId, Part};
use rustc_hash::FxHashMap;

use super::table::Keys;
use super::text;
use crate::kind::small_int;
use crate::layout::{Layout, flag};

/// A name that is longer is a text.
const LONGEST: u64 = 120;
/// The largest number that a label holds.
const LARGEST: u64 = (1 << 29) - 1;

/// Texts by number, and where they were met.
#[derive(Debug, Default)]
pub(crate) struct Names {
    list: Vec<String>,
    by_text: FxHashMap<String, NameId>,
    /// Interned strs; none for one that is no name.
    by_address: FxHashMap<u64, Option<NameId>>,
    /// Labels of the values under a shared table of keys.
    by_keys: FxHashMap<u64, Vec<Label>>,
    /// Tell keys that are no names as well.
    pub with_values: bool,
}

impl Names {
    pub fn intern(&mut self, name: &str) -> NameId {
        if let Some(id) = self.by_text.get(name) {
            return *id;
        }
        let id = self.list.len() as NameId;
        self.list.push(name.to_owned());
        self.by_text.insert(name.to_owned(), id);
        id
    }

    pub fn into_list(self) -> Vec<String> {
        self.list
    }

    /// Through what a dict holds the value of its entry number `position`.
    pub fn of_entry(&mut self, image: &Image, layout: &Layout, key: u64, position: u64) -> Label {
        let part = self.of_key(image, layout, key).unwrap_or(Part::Position(position.min(LARGEST) as u32));
        Label::new(part)
    }

    fn of_key(&mut self, image: &Image, layout: &Layout, key: u64) -> Option<Part> {
        if let Some(Some(known)) = self.by_address.get(&key) {
            return Some(Part::Key(*known));
        }
        let type_ = image.word(key.checked_add(layout.object.type_)?)?;
        let flags = image.word(type_.checked_add(layout.type_.flags)?)?;
        if flags & flag::STR != 0 {
            return self.of_str(image, layout, key).map(Part::Key);
        }
        if flags & flag::INT != 0 {
            let number = small_int(image, layout, key).filter(|number| *number <= LARGEST)?;
            return Some(Part::Index(number as u32));
        }
        None
    }

    /// Only what Python itself interned and what reads like a name, unless asked for more.
    fn of_str(&mut self, image: &Image, layout: &Layout, key: u64) -> Option<NameId> {
        let interned = text::state(image, &layout.str_, key)?.interned;
        if !interned && !self.with_values {
            return None;
        }
        if let Some(known) = self.by_address.get(&key) {
            return *known;
        }
        let text = text::read(image, &layout.str_, key, LONGEST);
        let text = text.filter(|text| self.with_values || text::is_name(text));
        let id = text.map(|text| self.intern(&text));
        self.by_address.insert(key, id);
        id
    }

    /// A str that is a name whatever its state: a module's in the table of modules, a local variable's.
    pub fn of_name(&mut self, image: &Image, layout: &Layout, key: u64) -> Option<NameId> {
        let text = text::read(image, &layout.str_, key, LONGEST).filter(|text| text::is_name(text));
        let id = text.map(|text| self.intern(&text))?;
        self.by_address.insert(key, Some(id));
        Some(id)
    }

    /// The labels of instance attributes under a shared table of keys.
    pub fn of_shared(&mut self, image: &Image, layout: &Layout, address: u64) -> &[Label] {
        if !self.by_keys.contains_key(&address) {
            let keys = Keys::read(image, &layout.dict_keys, address);
            let keys: Vec<u64> =
                keys.map(|keys| keys.entries().map(|(key, _)| key).collect()).unwrap_or_default();
            let labels = keys.into_iter().enumerate().map(|(position, key)| {
                match self.of_entry(image, layout, key, position as u64).part() {
                    Some(Part::Key(name)) => Label::new(Part::Attribute(name)),
                    _ => Label::new(Part::Position(position as u32)),
                }
            });
            let labels = labels.collect();
            self.by_keys.insert(address, labels);
        }
        self.by_keys.get(&address).map(Vec::as_slice).unwrap_or_default()
    }
}
