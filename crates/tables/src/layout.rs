//! System columns over the whole of a run: their union, and where the values of one tick belong in it.

use std::collections::HashMap;

use nilometer_trace::{
    record::{Column, Columns},
    tick::MAX_COLUMNS,
};

/// `u64::MAX` in a system column means "no limit" or "not available at this tick".
const ABSENT: u64 = u64::MAX;

/// All system columns of a run. A column that appears later stands behind the one it follows in its layout,
/// so that the kernel's order is kept.
#[derive(Debug, Default)]
pub(crate) struct Union {
    columns: Vec<Column>,
    slots: HashMap<String, usize>,
}

impl Union {
    pub(crate) fn add(&mut self, layout: &Columns) {
        let mut place = 0;
        for column in layout.columns.iter().take(MAX_COLUMNS) {
            if let Some(slot) = self.slot(&column.name) {
                place = slot + 1;
            } else {
                self.insert(place, column);
                place += 1;
            }
        }
    }

    fn insert(&mut self, place: usize, column: &Column) {
        self.columns.insert(place, column.clone());
        self.slots.insert(column.name.clone(), place);
        for (slot, later) in self.columns.iter().enumerate().skip(place + 1) {
            if let Some(known) = self.slots.get_mut(&later.name) {
                *known = slot;
            }
        }
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.slots.get(name).copied()
    }
}

/// One tick's values by the slots of the [`Union`].
#[derive(Debug, Default)]
pub(crate) struct Layout {
    slots: Vec<Option<usize>>,
    values: Vec<Option<u64>>,
}

impl Layout {
    /// The columns of all following ticks. Those that are not in the union (a run that is still
    /// written to got new ones between the two passes) are left out.
    pub(crate) fn set(&mut self, layout: &Columns, union: &Union) {
        self.slots.clear();
        self.slots.extend(layout.columns.iter().map(|column| union.slot(&column.name)));
        self.values.resize(union.columns.len(), None);
    }

    pub(crate) fn spread(&mut self, system: &[u64]) -> &[Option<u64>] {
        self.values.fill(None);
        for (slot, value) in self.slots.iter().zip(system) {
            if let Some(slot) = slot {
                self.values[*slot] = present(*value);
            }
        }
        &self.values
    }
}

pub(crate) fn present(value: u64) -> Option<u64> {
    (value != ABSENT).then_some(value)
}

#[cfg(test)]
mod tests {
    use nilometer_trace::record::Unit;

    use super::*;

    fn columns(names: &[&str]) -> Columns {
        let column = |name: &&str| Column { name: (*name).to_owned(), unit: Unit::Kib };
        Columns { columns: names.iter().map(column).collect() }
    }

    #[test]
    fn a_later_column_stands_where_its_layout_has_it() {
        let mut union = Union::default();
        union.add(&columns(&["a", "c"]));
        union.add(&columns(&["0", "a", "b", "c", "d"]));
        union.add(&columns(&["c"]));
        let names: Vec<_> = union.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["0", "a", "b", "c", "d"]);
        assert_eq!(union.slot("c"), Some(3));
    }

    #[test]
    fn values_go_to_their_slots_and_absent_ones_stay_empty() {
        let mut union = Union::default();
        union.add(&columns(&["a", "b", "c"]));
        let mut layout = Layout::default();
        layout.set(&columns(&["c", "new", "a"]), &union);
        assert_eq!(layout.spread(&[3, 9, ABSENT]), [None, None, Some(3)]);
        assert_eq!(layout.spread(&[4, 9, 1, 7, 7]), [Some(1), None, Some(4)]);
    }
}
