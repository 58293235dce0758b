//! Dicts: combined tables, split ones, and ordered dicts.

use nilometer_trace::heap::{Label, Part, Special};

use super::table::Keys;
use super::{Context, Found, Names, Object, Reference, Visitor, span};
use crate::pool::{Pools, word};

/// `_odictnode`: key, hash, next, previous (Objects/odictobject.c).
const NODE_BYTES: u64 = 32;

impl Visitor<'_> {
    pub(super) fn dict(
        self,
        object: &Object<'_>,
        pools: &Pools,
        context: &mut Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        let layout = &self.layout.dict;
        let (table, values) = (object.word(layout.keys), object.word(layout.values));
        let Some(keys) = Keys::read(self.image, &self.layout.dict_keys, table) else { return };
        if keys.refcount == 1 && !context.type_keys.contains(&table) {
            found.bytes += Self::block(pools, context, table, keys.bytes);
        }
        if context.interned.contains(&object.address) {
            return self.interned(&keys, found);
        }
        if values == 0 {
            return self.combined(object, &keys, context, names, found);
        }
        Self::tell_keys_once(table, &keys, context, found);
        self.split(table, values, &keys, (pools, context), names, found);
    }

    fn combined(
        self,
        object: &Object<'_>,
        keys: &Keys<'_>,
        context: &Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        let member = Label::new(Part::Member);
        let modules = context.labelled && context.modules.contains(&object.address);
        for (position, (key, value)) in keys.entries().enumerate() {
            if key == 0 || value == 0 {
                continue;
            }
            if modules {
                names.of_name(self.image, self.layout, key);
            }
            let label = if context.labelled {
                names.of_entry(self.image, self.layout, key, position as u64)
            } else {
                Label::UNNAMED
            };
            found.references.push(Reference { address: key, label: member, sure: true });
            found.references.push(Reference { address: value, label, sure: true });
        }
    }

    /// The table of interned strs gives back the references that it takes, except to those that live for ever.
    fn interned(self, keys: &Keys<'_>, found: &mut Found) {
        let immortal = |key: u64| {
            let bit = self.layout.object.immortal_bit?;
            Some(self.image.word(key.checked_add(self.layout.object.refcount)?)? >> bit & 1 == 1)
        };
        for (key, _) in keys.entries().filter(|(key, _)| immortal(*key) == Some(true)) {
            found.add(key, Label::new(Part::Member));
        }
    }

    /// The keys of a shared table belong to the table: its type tells them, or else the first dict.
    fn tell_keys_once(table: u64, keys: &Keys<'_>, context: &mut Context, found: &mut Found) {
        if context.type_keys.contains(&table) || !context.told_keys.insert(table) {
            return;
        }
        for (key, _) in keys.entries() {
            found.special(key, Special::Shared);
        }
    }

    /// The values of a dict that shares its keys, unless they stand in the instance, which tells them.
    fn split(
        self,
        table: u64,
        values: u64,
        keys: &Keys<'_>,
        (pools, context): (&Pools, &Context),
        names: &mut Names,
        found: &mut Found,
    ) {
        let layout = &self.layout.dict_values;
        let byte =
            |offset: Option<u64>| self.image.slice(values.checked_add(offset?)?, 1).map(|byte| byte[0]);
        if byte(layout.embedded).is_some_and(|embedded| embedded != 0) {
            return;
        }
        found.bytes += self.values_block(values, keys, pools, context);
        let Some(first) = values.checked_add(layout.values) else { return };
        let labels = if context.labelled { names.of_shared(self.image, self.layout, table) } else { &[] };
        self.values(first, keys.count, labels, found);
    }

    /// Values one after the other, under labels if there are any.
    pub(super) fn values(self, first: u64, count: u64, labels: &[Label], found: &mut Found) {
        if count == 0 || count > 1 << 20 {
            return;
        }
        let Some(bytes) = span::bytes(self.image, first, count * 8) else { return };
        for (position, value) in span::words(&bytes).enumerate() {
            found.add(value, labels.get(position).copied().unwrap_or_default());
        }
    }

    /// `new_values` (Objects/dictobject.c): up to 3.10 the values alone; in 3.11 and 3.12 a byte before them tells how
    /// many others stand there; since 3.13 they have a header.
    pub(super) fn values_block(self, values: u64, keys: &Keys<'_>, pools: &Pools, context: &Context) -> u64 {
        let managed = &self.layout.managed;
        if managed.dict.is_none() {
            return Self::block(pools, context, values, keys.capacity * 8);
        }
        if managed.inline_values {
            let asked = keys.capacity.next_multiple_of(8) + (keys.capacity + 1) * 8;
            return Self::block(pools, context, values, asked);
        }
        let before = self.image.slice(values.wrapping_sub(1), 1).map_or(0, |byte| u64::from(byte[0]));
        Self::block(pools, context, values.wrapping_sub(before), before + keys.capacity * 8)
    }

    /// A dict whose order is in nodes of its own; each holds its key once more.
    pub(super) fn ordered_dict(
        self,
        object: &Object<'_>,
        pools: &Pools,
        context: &mut Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        self.dict(object, pools, context, names, found);
        // `PyODictObject`: after the dict: first node, last node, table of nodes, its size.
        let after = self.layout.dict.size;
        let (nodes, slots) = (object.word(after + 16), object.word(after + 24));
        if nodes != 0 && slots < 1 << 40 {
            found.bytes += Self::block(pools, context, nodes, slots * 8);
        }
        let mut node = object.word(after);
        // No more nodes than entries: damaged ones may lead around.
        let keys = Keys::read(self.image, &self.layout.dict_keys, object.word(self.layout.dict.keys));
        let most = keys.map_or(0, |keys| object.word(self.layout.dict.used).min(keys.count));
        for _ in 0..most {
            let Some(bytes) = self.image.slice(node, NODE_BYTES as usize) else { return };
            found.bytes += Self::block(pools, context, node, NODE_BYTES);
            found.add(word(bytes, 0), Label::new(Part::Member));
            node = word(bytes, 16);
        }
    }
}
