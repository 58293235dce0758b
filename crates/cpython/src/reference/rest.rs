//! Objects of a few types with something special about them.

use nilometer_trace::heap::{Label, Part, Special};

use super::{Context, Found, Names, Object, Visitor, index, span, text};

impl Visitor<'_> {
    /// The texts that stand outside of a str: UTF-8 that was asked for, and all of one that is not compact.
    pub(super) fn str_blocks(self, object: &Object<'_>, found: &mut Found) {
        let layout = &self.layout.str_;
        let state = text::State::parse(object.word(layout.state) as u32, layout);
        if state.compact && state.ascii {
            return;
        }
        let at =
            |offset: u64| object.address.checked_add(offset).and_then(|at| self.image.word(at)).unwrap_or(0);
        let (utf8, data) = (at(layout.utf8), if state.compact { 0 } else { at(layout.data) });
        if utf8 != 0 && utf8 != data {
            found.bytes += at(layout.utf8_length).min(1 << 40) + 1;
        }
        if data != 0 {
            found.bytes += (at(layout.length).min(1 << 40) + 1) * state.width;
        }
    }

    /// Since 3.15 the buffer is a bytes object's.
    pub(super) fn byte_array(self, object: &Object<'_>, found: &mut Found) {
        if let Some(offset) = self.layout.byte_array.object {
            found.special(object.word(offset), Special::Base);
        }
    }

    /// `PyDateTime_Time`, `PyDateTime_DateTime`: whether there is a time zone stands after the hash; it comes last
    /// (datetime.h). A class may have added to it.
    pub(super) fn time(object: &Object<'_>, found: &mut Found) {
        let zone = if object.type_.time_bytes > 0 { object.type_.time_bytes - 8 } else { return };
        if object.body.get(24).is_some_and(|has_zone| *has_zone != 0) {
            found.add(object.word(zone), Label::UNNAMED);
        }
    }

    /// `ElementObject`: tag, text and tail (bit 0 set: to be joined), and a block with attributes and children
    /// (Modules/_elementtree.c).
    pub(super) fn element(
        self,
        object: &Object<'_>,
        context: &Context,
        names: &mut Names,
        found: &mut Found,
    ) {
        for (name, offset) in [("tag", 16), ("text", 24), ("tail", 32)] {
            let label = if context.labelled { Part::Attribute(names.intern(name)) } else { Part::Unnamed };
            found.add(object.word(offset) & !1, Label::new(label));
        }
        let extra = object.word(40);
        let Some(header) = self.image.slice(extra, 32) else { return };
        let words: Vec<u64> = span::words(header).collect();
        let &[attributes, count, allocated, children] = words.as_slice() else { return };
        found.special(attributes, Special::Dict);
        if count > allocated || allocated > 1 << 32 {
            return;
        }
        // Header and four children; more of them stand elsewhere.
        found.bytes += 64 + if children == extra + 32 { 0 } else { allocated * 8 };
        let Some(bytes) = span::bytes(self.image, children, count * 8) else { return };
        for (number, child) in span::words(&bytes).enumerate() {
            found.add(child, index(number));
        }
    }

    pub(super) fn nd_array(self, object: &Object<'_>, found: &mut Found) {
        crate::payload::numpy::references(self.image, self.layout, object, found);
    }
}
