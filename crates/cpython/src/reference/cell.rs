//! What the cells of a closure are called.

use nilometer_trace::heap::{Label, Part};

use super::{Names, Visitor, span};
use crate::layout::Member;
use crate::pool::word;

/// `CO_FAST_FREE`: among all variables of a code object, one that a closure brings (`pycore_code.h`).
const FREE: u8 = 0x80;
const MOST_VARIABLES: u64 = 1 << 16;

impl Visitor<'_> {
    /// The tuple of cells of a function, and the code that has their names.
    pub fn closure(self, function: &[u8]) -> Option<(u64, u64)> {
        let member = |name: &str| {
            let offset = self.layout.owned.function.iter().find(|(member, _): &&Member| *member == name)?.1;
            Some(word(function, offset as usize)).filter(|address| *address != 0)
        };
        member("__closure__").zip(member("__code__"))
    }

    /// Labels of the cells, in their order.
    pub fn cell_labels(self, code: u64, names: &mut Names) -> Vec<Label> {
        let variables = self.free_variables(code).unwrap_or_default();
        let label =
            |name: u64| names.of_name(self.image, self.layout, name).map_or(Part::Unnamed, Part::Local);
        variables.into_iter().map(label).map(Label::new).collect()
    }

    /// Addresses of the names: of their own tuple up to 3.10, since then marked among all.
    fn free_variables(self, code: u64) -> Option<Vec<u64>> {
        let layout = &self.layout.code;
        let at = |offset: u64| self.image.word(code.checked_add(offset)?);
        if let Some(names) = layout.freevars {
            return self.tuple_items(at(names)?);
        }
        let names = self.tuple_items(at(layout.localsplus_names?)?)?;
        let kinds = at(layout.localsplus_kinds?)?.checked_add(self.layout.bytes.data)?;
        let kinds = self.image.slice(kinds, names.len())?;
        let free = names.into_iter().zip(kinds).filter(|(_, kind)| **kind & FREE != 0);
        Some(free.map(|(name, _)| name).collect())
    }

    fn tuple_items(self, tuple: u64) -> Option<Vec<u64>> {
        let count = self
            .image
            .word(tuple.checked_add(self.layout.object.items)?)
            .filter(|count| *count < MOST_VARIABLES)?;
        let bytes = self.image.slice(tuple.checked_add(self.layout.tuple.items)?, count as usize * 8)?;
        Some(span::words(bytes).collect())
    }
}
