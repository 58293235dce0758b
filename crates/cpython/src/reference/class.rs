//! Types and modules.

use nilometer_trace::heap::{Label, Part, Special};

use super::table::Keys;
use super::{Context, Found, Names, Object, Reference, Visitor, span};
use crate::layout::flag;

/// A module's state is rarely a kilobyte.
const LARGEST_STATE: u64 = 1 << 20;
/// `PyModuleDef.m_size`: after the base and two texts (moduleobject.h).
const DEF_STATE_BYTES: u64 = 56;

impl Visitor<'_> {
    pub(super) fn class(self, object: &Object<'_>, context: &Context, names: &mut Names, found: &mut Found) {
        let layout = &self.layout.type_;
        let at =
            |offset: u64| object.address.checked_add(offset).and_then(|at| self.image.word(at)).unwrap_or(0);
        let (is_heap, base) = (at(layout.flags) & flag::HEAP != 0, at(layout.base));
        // A static type that names its base does not own it; one that leaves it out is given `object`.
        let is_object =
            |type_: u64| type_.checked_add(layout.base).and_then(|at| self.image.word(at)) == Some(0);
        if is_heap || is_object(base) {
            found.special(base, Special::Hierarchy);
        }
        for offset in [layout.bases, layout.mro, layout.cache] {
            found.special(at(offset), Special::Hierarchy);
        }
        // With states for each interpreter its own fields hold numbers.
        if let Some(states) = context.static_states.get(&object.address) {
            for state in states {
                found.special(state.dict, Special::Dict);
                found.special(state.subclasses, Special::Hierarchy);
            }
        } else {
            found.special(at(layout.dict), Special::Dict);
            found.special(at(layout.subclasses), Special::Hierarchy);
        }
        if is_heap {
            self.heap_class(object.address, names, found);
        }
    }

    fn heap_class(self, address: u64, names: &mut Names, found: &mut Found) {
        let layout = &self.layout.heap_type;
        let at = |offset: u64| address.checked_add(offset).and_then(|at| self.image.word(at)).unwrap_or(0);
        let named = [
            ("__name__", Some(layout.name)),
            ("__slots__", Some(layout.slots)),
            ("__qualname__", Some(layout.qualname)),
            ("__module__", layout.module),
        ];
        for (name, offset) in named {
            if let Some(offset) = offset {
                found.add(at(offset), Label::new(Part::Attribute(names.intern(name))));
            }
        }
        let Some(keys) = Keys::read(self.image, &self.layout.dict_keys, at(layout.cached_keys)) else {
            return;
        };
        found.bytes += keys.bytes;
        for (key, _) in keys.entries() {
            found.special(key, Special::Shared);
        }
    }

    /// A module owns its dict (one of its type's words), its name, and what stands in the state that its C code asked for.
    pub(super) fn module(self, object: &Object<'_>, found: &mut Found) {
        let layout = &self.layout.module;
        found.add(object.word(layout.name), Label::UNNAMED);
        let state = object.word(layout.state);
        let size = self.state_bytes(object).unwrap_or(0);
        if state == 0 || size == 0 || size > LARGEST_STATE {
            return;
        }
        found.bytes += size;
        let Some(bytes) = span::bytes(self.image, state, size) else { return };
        let pointers = span::words(&bytes).filter(|word| span::is_address(*word));
        found.references.extend(pointers.map(|address| Reference {
            address,
            label: Label::UNNAMED,
            sure: false,
        }));
    }

    /// Up to 3.14 the definition tells; it stands before the state. Since 3.15 the module does, after name and a flag.
    fn state_bytes(self, object: &Object<'_>) -> Option<u64> {
        let layout = &self.layout.module;
        if layout.state == layout.dict + 8 {
            return Some(object.word(layout.name + 16));
        }
        let definition = object.word(layout.state.checked_sub(8)?);
        self.image.word(definition.checked_add(DEF_STATE_BYTES)?).filter(|_| definition != 0)
    }
}
