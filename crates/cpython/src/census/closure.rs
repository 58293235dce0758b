//! Reading every object once: its references, its size, its buffer. What a reference leads to is read as well.

use std::ops::Range;

use nilometer_trace::heap::{Extent, Label, Part, Special};

use super::heap::{Found as Number, Heap, refcount, with_some};
use crate::kind::known::Shape;
use crate::locate::Python;
use crate::payload::{Buffer, Payloads, is_arrow, may_own};
use crate::pool::word;
use crate::reference::{Context, Found, Names, Object, Reference, Visitor, span};
use crate::stack;

/// The columns of the census in the order of discovery.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    pub bytes: Vec<u64>,
    pub refcount: Vec<u32>,
    pub start: Vec<u32>,
    pub to: Vec<Number>,
    pub label: Vec<Label>,
    pub buffers: Vec<(Number, Buffer)>,
    /// What arrays and views span; numbered like objects here.
    pub extents: Vec<(Number, Extent)>,
    pub not_sized: u64,
    /// Sure references to something that is no object.
    pub dangling: u64,
    /// More references than can be numbered.
    pub cut: bool,
    /// Dicts of instances, modules, types, and whose they are: what they hold are attributes.
    pub dict_owners: Vec<(Number, Number)>,
    /// Tuples of cells, and the code that names them.
    cells: Vec<(u64, u64)>,
}

impl Closure {
    pub fn run(heap: &mut Heap<'_>, python: &Python, context: &mut Context) -> Self {
        let mut closure = Self::of_pools(heap, context);
        let mut payloads = Payloads::new(heap.image, heap.layout);
        let mut found = Found::default();
        let mut types = 0;
        let holders = std::mem::take(&mut heap.holders);
        let mut in_pools = holders.into_iter();
        // What is outside of the pools grows as it is read.
        let mut outside = heap.in_pools as Number;
        loop {
            let number = match in_pools.next() {
                Some(number) => number,
                None if (outside as usize) < heap.len() => {
                    outside += 1;
                    outside - 1
                }
                None => break,
            };
            for new in heap.types.list().get(types..).unwrap_or_default() {
                context.type_keys.extend((new.keys != 0).then_some(new.keys));
            }
            types = heap.types.list().len();
            found.clear();
            closure.read(heap, python, context, &mut payloads, &mut found, number);
            closure.resolve(heap, context, &found, number);
        }
        closure.start.resize(heap.len(), closure.to.len() as u32);
        closure.start.push(closure.to.len() as u32);
        closure.buffers.extend(payloads.take_late(heap));
        closure.not_sized = payloads.not_sized;
        if context.labelled {
            closure.name_attributes();
            closure.name_cells(heap);
        }
        closure
    }

    /// With what the pools told of their objects.
    fn of_pools(heap: &mut Heap<'_>, context: &Context) -> Self {
        let objects = with_some(heap.len());
        let edges = if context.linked { objects + objects / 2 } else { 0 };
        Self {
            bytes: std::mem::take(&mut heap.bytes),
            refcount: std::mem::take(&mut heap.refcount),
            start: Vec::with_capacity(objects + 1),
            to: Vec::with_capacity(edges),
            label: Vec::with_capacity(if context.labelled { edges } else { 0 }),
            ..Self::default()
        }
    }

    fn read(
        &mut self,
        heap: &mut Heap<'_>,
        python: &Python,
        context: &mut Context,
        payloads: &mut Payloads<'_>,
        found: &mut Found,
        number: Number,
    ) {
        let (address, id) = (heap.address[number as usize], heap.type_of[number as usize]);
        let pool = heap.pools.at(address).map(|pool| (pool, heap.pools.block_end(pool, address)));
        let asked = if pool.is_some() { 0 } else { heap.bytes_outside(number as usize) };
        let (type_, names) = heap.types.split(id);
        let body_bytes = match pool {
            Some((_, end)) => type_.basicsize.min(end - address),
            None => type_.basicsize,
        };
        let body = span::bytes(heap.image, address, body_bytes).unwrap_or_default();
        let body = &*body;
        let block_end = pool.map_or(address.saturating_add(asked), |(_, end)| end);
        let object = Object { address, type_, body, block_end };
        let visitor = Visitor { image: heap.image, layout: heap.layout };
        visitor.visit(&object, &heap.pools, context, names, found);
        match type_.shape {
            Shape::Generator => {
                let held = stack::generator_references(python, heap.image, address);
                if held.is_empty() {
                    add_code(visitor, address, found, names);
                }
                add_frame(&held, visitor, found, names);
            }
            Shape::Frame => {
                add_frame(&stack::frame_references(python, heap.image, address), visitor, found, names);
            }
            Shape::Function if context.labelled => self.cells.extend(visitor.closure(body)),
            shape if is_arrow(shape) => payloads.defer(number, &object),
            shape if may_own(shape) => {
                self.buffers.extend(payloads.of(&object, names).map(|buffer| (number, buffer)));
                if context.labelled {
                    self.extents.extend(payloads.extent(&object, names).map(|extent| (number, extent)));
                }
            }
            _ => {}
        }
        if pool.is_none() {
            self.refcount.push(refcount(heap.layout, word(body, 0)));
            self.bytes.push(u64::from(type_.before) + asked);
        }
        if let Some(bytes) = self.bytes.get_mut(number as usize) {
            *bytes += found.bytes;
        }
    }

    /// Turns addresses into numbers; new objects are added to the heap.
    #[inline]
    fn resolve(&mut self, heap: &mut Heap<'_>, context: &Context, found: &Found, owner: Number) {
        // Those before it that were not read refer to nothing.
        self.start.resize(owner as usize + 1, self.to.len() as u32);
        if self.to.len() + found.references.len() > u32::MAX as usize {
            self.cut = true;
            return;
        }
        let of_dict = Label::new(Part::Special(Special::Dict));
        for reference in &found.references {
            let Some(target) = heap.find_or_probe(reference.address, reference.sure) else {
                self.dangling += u64::from(reference.sure);
                continue;
            };
            if context.linked {
                self.to.push(target);
                if reference.label == of_dict {
                    self.dict_owners.push((target, owner));
                }
            }
            if context.labelled {
                self.label.push(reference.label);
            }
        }
    }

    /// What a closure's tuple holds are variables.
    fn name_cells(&mut self, heap: &mut Heap<'_>) {
        let visitor = Visitor { image: heap.image, layout: heap.layout };
        for (tuple, code) in std::mem::take(&mut self.cells) {
            let Some(tuple) = heap.find(tuple) else { continue };
            let labels = visitor.cell_labels(code, &mut heap.types.names);
            let own = self.labels_of(tuple);
            if own.len() == labels.len() {
                own.copy_from_slice(&labels);
            }
        }
    }

    /// What an object refers to.
    pub fn referents(&self, object: Number) -> &[Number] {
        self.to.get(self.range(object)).unwrap_or_default()
    }

    fn labels_of(&mut self, object: Number) -> &mut [Label] {
        let range = self.range(object);
        self.label.get_mut(range).unwrap_or_default()
    }

    /// Which of all references are an object's.
    fn range(&self, object: Number) -> Range<usize> {
        let start = |object: usize| self.start.get(object).map_or(0, |start| *start as usize);
        start(object as usize)..start(object as usize + 1)
    }

    /// What the dict of an instance holds under a name is an attribute.
    fn name_attributes(&mut self) {
        for (dict, _) in std::mem::take(&mut self.dict_owners) {
            for label in self.labels_of(dict) {
                if let Some(Part::Key(name)) = label.part() {
                    *label = Label::new(Part::Attribute(name));
                }
            }
        }
    }
}

/// Since 3.12 a generator that has ended keeps the code in its frame, and nothing else.
fn add_code(visitor: Visitor<'_>, generator: u64, found: &mut Found, names: &mut Names) {
    let layout = &visitor.layout.generator;
    let Some(frame) =
        layout.inline_frame.filter(|_| !layout.owned.iter().any(|(name, _)| *name == "gi_code"))
    else {
        return;
    };
    let place = generator.checked_add(frame + visitor.layout.frame.executable);
    if let Some(code) = place.and_then(|place| visitor.image.word(place)) {
        found.add(code & !7, Label::new(Part::Attribute(names.intern("gi_code"))));
    }
}

/// What a frame holds that is part of an object.
fn add_frame(references: &[stack::Reference], visitor: Visitor<'_>, found: &mut Found, names: &mut Names) {
    for reference in references.iter().filter(|reference| reference.counted && reference.certain) {
        let label = match reference.held {
            stack::Held::Local { name } => {
                names.of_name(visitor.image, visitor.layout, name).map_or(Part::Unnamed, Part::Local)
            }
            stack::Held::Locals => Part::Special(Special::Dict),
            stack::Held::Field(field) => Part::Attribute(names.intern(field)),
            stack::Held::Temporary => Part::Unnamed,
        };
        found.references.push(Reference { address: reference.address, label: Label::new(label), sure: true });
    }
}
