//! The attributes of instances: dict, or values under the names that the type keeps.

use nilometer_trace::heap::{Label, Special};

use super::table::Keys;
use super::{Context, Found, Names, Object, Visitor};
use crate::kind::known::Shape;
use crate::layout::flag;
use crate::pool::Pools;

impl Visitor<'_> {
    /// Attributes that stand before or after the body; a dict in the body is one of the type's words.
    pub(super) fn attributes(
        self,
        object: &Object<'_>,
        pools: &Pools,
        context: &Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        let managed = object.type_.flags & flag::MANAGED_DICT != 0;
        match self.layout.managed.dict.filter(|_| managed) {
            Some(distance) => self.managed(object, distance, pools, context, names, found),
            None if object.type_.dictoffset < 0 => self.dict_after_items(object, found),
            None => {}
        }
    }

    fn managed(
        self,
        object: &Object<'_>,
        distance: u64,
        pools: &Pools,
        context: &Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        let before = |distance: u64| self.image.word(object.address.wrapping_sub(distance)).unwrap_or(0);
        let (dict, layout) = (before(distance), &self.layout.managed);
        if let Some(values) = layout.values {
            found.special(dict, Special::Dict);
            self.apart(object, before(values), pools, context, names, found);
        } else if layout.tagged && dict & 1 != 0 {
            self.apart(object, dict.wrapping_add(1), pools, context, names, found);
        } else {
            found.special(dict, Special::Dict);
            if object.type_.inline_bytes > 0 {
                self.inline(object, context, names, found);
            }
        }
    }

    /// Values in a block of their own (3.11, 3.12).
    fn apart(
        self,
        object: &Object<'_>,
        values: u64,
        pools: &Pools,
        context: &Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        if values == 0 {
            return;
        }
        let Some(keys) = Keys::read(self.image, &self.layout.dict_keys, object.type_.keys) else { return };
        found.bytes += self.values_block(values, &keys, pools, context);
        let labels = self.labels(object, context, names);
        self.values(values, keys.count, labels, found);
    }

    /// Values behind the body (3.13 on), as long as they count: a dict may have taken over.
    fn inline(self, object: &Object<'_>, context: &Context, names: &mut Names, found: &mut Found) {
        let layout = &self.layout.dict_values;
        let Some(start) = object.address.checked_add(object.type_.basicsize) else { return };
        let byte = |offset: Option<u64>| self.image.slice(start.checked_add(offset?)?, 1).map(|byte| byte[0]);
        if byte(layout.valid) != Some(1) {
            return;
        }
        let fits = u64::from(byte(layout.capacity).unwrap_or(0)).min(object.type_.inline_bytes / 8);
        let labels = self.labels(object, context, names);
        self.values(start + layout.values, fits, labels, found);
    }

    fn labels<'n>(self, object: &Object<'_>, context: &Context, names: &'n mut Names) -> &'n [Label] {
        if context.labelled { names.of_shared(self.image, self.layout, object.type_.keys) } else { &[] }
    }

    /// A dict behind the items of a variable-sized object, counted from its end (`_PyObject_GetDictPtr`).
    fn dict_after_items(self, object: &Object<'_>, found: &mut Found) {
        let type_ = object.type_;
        if type_.shape == Shape::Type {
            return;
        }
        let items = (object.word(self.layout.object.items) as i64).unsigned_abs();
        let end = items.checked_mul(type_.itemsize).and_then(|bytes| bytes.checked_add(type_.basicsize));
        let end = end.and_then(|bytes| bytes.checked_next_multiple_of(8));
        let place =
            end.and_then(|bytes| object.address.checked_add(bytes)?.checked_add_signed(type_.dictoffset));
        if let Some(dict) = place.and_then(|place| self.image.word(place)) {
            found.special(dict, Special::Dict);
        }
    }
}
