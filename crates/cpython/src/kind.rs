//! Types: which words are one, and what their objects look like.
//!
//! A word is a type if its own type is `type`, or a type that is a subclass of `type`, and so on up. The invariant:
//! what stands in [`Types`] passed that test, and its base did as well.

pub(crate) mod known;
mod naming;

pub(crate) use naming::{small_int, value_in};

use nilometer_image::{Image, Memory as _};
use nilometer_trace::heap::{Kind, Label, Nature, Part, Special};
use rustc_hash::FxHashMap;

use crate::layout::{Layout, flag};
use crate::reference::Names;
use crate::reference::span::is_address;
use known::{Known, Listed, Shape};

/// Index into the list of types.
pub(crate) type TypeId = u32;

/// Classes of classes are never nested deeper.
const DEEPEST: u32 = 8;
/// Bases are, in generated code, but not without end.
const MOST_BASES: u32 = 128;
const LARGEST_BODY: u64 = 1 << 20;
const LARGEST_ITEM: u64 = 1 << 16;
const NOT_OF_GENERATORS: &str = "origin_or_finalizer";
/// Members of one type.
const MOST_MEMBERS: u64 = 1000;

/// A type and how to read its objects.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub address: u64,
    pub flags: u64,
    pub basicsize: u64,
    pub itemsize: u64,
    pub dictoffset: i64,
    pub base: Option<TypeId>,
    pub shape: Shape,
    pub nature: Nature,
    /// Bytes of headers before an object, in the same block.
    pub before: u32,
    /// Values that follow an instance (3.13 on).
    pub inline_bytes: u64,
    /// The table of names that its instances share; 0 for none.
    pub keys: u64,
    /// References in the body.
    pub words: Vec<Word>,
    /// A tuple's items that its length does not count: `os.stat_result`.
    pub hidden_items: u64,
    /// The size of the `datetime` type that it is or comes from; 0 for others.
    pub time_bytes: u64,
    /// `tp_name`.
    pub name: String,
    /// Made by a `class` statement.
    pub is_class: bool,
    /// Its layout, or that of a base, is known by name.
    is_listed: bool,
    /// Its objects refer to nothing and own nothing, but for strs with a second block.
    pub is_leaf: bool,
}

/// A place in the body of an object that may hold a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub offset: u32,
    /// False when the scan put it here: what it points to may be no object.
    pub sure: bool,
    pub label: Label,
}

/// All types met so far.
#[derive(Debug)]
pub(crate) struct Types<'a> {
    image: &'a Image,
    layout: &'a Layout,
    root: u64,
    /// None: looked at, and no type.
    by_address: FxHashMap<u64, Option<TypeId>>,
    list: Vec<Type>,
    pub names: Names,
}

/// What was read of a candidate.
struct Candidate {
    address: u64,
    flags: u64,
    basicsize: u64,
    itemsize: u64,
    name: String,
}

impl<'a> Types<'a> {
    /// `root` is the address of `type`.
    pub fn new(image: &'a Image, layout: &'a Layout, root: u64) -> Self {
        let by_address = FxHashMap::default();
        Self { image, layout, root, by_address, list: Vec::new(), names: Names::default() }
    }

    pub fn list(&self) -> &[Type] {
        &self.list
    }

    #[inline]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.list[id as usize]
    }

    /// A type, and the names beside it.
    #[inline]
    pub fn split(&mut self, id: TypeId) -> (&Type, &mut Names) {
        (&self.list[id as usize], &mut self.names)
    }

    /// The type at an address, if there is one.
    #[inline]
    pub fn at(&mut self, address: u64) -> Option<TypeId> {
        if !is_address(address) {
            return None;
        }
        match self.by_address.get(&address) {
            Some(known) => *known,
            None => self.probe(address, 0),
        }
    }

    #[cold]
    fn probe(&mut self, address: u64, depth: u32) -> Option<TypeId> {
        if let Some(known) = self.by_address.get(&address) {
            return *known;
        }
        // Also stops a chain that leads back to itself.
        self.by_address.insert(address, None);
        let candidate = self.read_candidate(address, depth)?;
        let id = self.describe(candidate, depth);
        self.by_address.insert(address, Some(id));
        Some(id)
    }

    fn read_candidate(&mut self, address: u64, depth: u32) -> Option<Candidate> {
        let layout = &self.layout.type_;
        if !is_address(address) || depth > MOST_BASES {
            return None;
        }
        // Both ends; between them may be the border of what was copied.
        self.image.word(address.checked_add(layout.size.checked_sub(8)?)?)?;
        let meta = self.word(address, self.layout.object.type_);
        let plain = address == self.root || meta == self.root;
        if !plain && (depth > DEEPEST || !self.is_metatype(meta, depth)) {
            return None;
        }
        let (flags, basicsize) = (self.word(address, layout.flags), self.word(address, layout.basicsize));
        let itemsize = self.word(address, layout.itemsize);
        // Static types that nobody has used yet are not ready.
        let ready = flags & flag::READY != 0 || (flags & flag::HEAP == 0 && plain);
        let sane = (16..=LARGEST_BODY).contains(&basicsize) && itemsize <= LARGEST_ITEM;
        let name = self.image.name(self.word(address, layout.name)).filter(|name| !name.is_empty())?;
        (ready && sane).then_some(Candidate { address, flags, basicsize, itemsize, name })
    }

    fn is_metatype(&mut self, address: u64, depth: u32) -> bool {
        let id = self.probe(address, depth + 1);
        id.is_some_and(|id| self.get(id).flags & flag::TYPE != 0)
    }

    /// The word of something at an offset; 0 where there is none.
    fn word(&self, address: u64, offset: u64) -> u64 {
        address.checked_add(offset).and_then(|at| self.image.word(at)).unwrap_or(0)
    }

    fn describe(&mut self, candidate: Candidate, depth: u32) -> TypeId {
        let Candidate { address, flags, basicsize, itemsize, name } = candidate;
        let base = match self.word(address, self.layout.type_.base) {
            0 => None,
            base => self.probe(base, depth + 1),
        };
        let is_class = self.is_class(address, flags);
        let dictoffset = self.word(address, self.layout.type_.dictoffset) as i64;
        let keys =
            if flags & flag::HEAP == 0 { 0 } else { self.word(address, self.layout.heap_type.cached_keys) };
        let (shape, nature, words) = self.shape(&name, flags, base, itemsize, is_class);
        let mut made = Type {
            address,
            flags,
            basicsize,
            itemsize,
            dictoffset,
            base,
            shape,
            nature,
            before: self.headers(flags),
            inline_bytes: 0,
            keys,
            words: Vec::new(),
            hidden_items: 0,
            time_bytes: match (shape, base.map_or(0, |base| self.get(base).time_bytes)) {
                (Shape::Time, 0) => basicsize,
                (_, inherited) => inherited,
            },
            name,
            is_class,
            is_listed: matches!(words, Listed::Only(_)) || base.is_some_and(|base| self.get(base).is_listed),
            is_leaf: false,
        };
        made.inline_bytes = self.inline_bytes(&made);
        made.words = self.words(&made, words);
        made.is_leaf = is_leaf(&made);
        if made.shape == Shape::Tuple {
            made.hidden_items = self.hidden_items(&made);
        }
        self.list.push(made);
        (self.list.len() - 1) as TypeId
    }

    fn shape(
        &self,
        name: &str,
        flags: u64,
        base: Option<TypeId>,
        itemsize: u64,
        is_class: bool,
    ) -> (Shape, Nature, Listed) {
        let named = if is_class { None } else { known::by_name(name, self.layout) };
        if let Some(Known { shape, nature, words }) = named {
            return (shape, nature, words);
        }
        let inherited = base.map(|base| (self.get(base).shape, self.get(base).nature));
        if let Some((shape, nature)) =
            inherited.filter(|(shape, nature)| *shape != Shape::Fixed || *nature != Nature::Instance)
        {
            (shape, nature, Listed::Scanned(&[]))
        } else {
            let items = if itemsize == 8 { Shape::Items } else { Shape::Fixed };
            let (shape, nature) = known::by_flags(flags).unwrap_or((items, Nature::Instance));
            (shape, nature, Listed::Scanned(&[]))
        }
    }

    /// Headers before an object: the collector's, and since 3.11 those for its dict and weak references.
    fn headers(&self, flags: u64) -> u32 {
        let managed = &self.layout.managed;
        let dict = flags & flag::MANAGED_DICT != 0 && managed.dict.is_some();
        let weakrefs = flags & flag::MANAGED_WEAKREF != 0 && managed.weakrefs.is_some();
        let head = if flags & flag::GC != 0 { self.layout.object.gc_head as u32 } else { 0 };
        head + if dict || weakrefs { 16 } else { 0 }
    }

    /// `_PyInlineValuesSize` (`pycore_object.h`).
    fn inline_bytes(&self, made: &Type) -> u64 {
        if made.flags & flag::INLINE_VALUES == 0 || !self.layout.managed.inline_values || made.keys == 0 {
            return 0;
        }
        let keys = &self.layout.dict_keys;
        let fits = self.word(made.keys, keys.usable).wrapping_add(self.word(made.keys, keys.entries));
        if fits > 64 { 0 } else { fits.next_multiple_of(8) + (fits + 1) * 8 }
    }

    /// `tp_name` of a class is the text of its name; others have a copy, or a constant.
    fn is_class(&self, address: u64, flags: u64) -> bool {
        let text = self.word(address, self.layout.type_.name);
        let name = self.word(address, self.layout.heap_type.name);
        flags & flag::HEAP != 0 && text.wrapping_sub(name) < self.layout.str_.size
    }

    fn words(&mut self, made: &Type, listed: Listed) -> Vec<Word> {
        let inherited = made.base.map_or_else(Vec::new, |base| self.get(base).words.clone());
        let scalar = made.base.is_some_and(|base| self.is_scalar(base));
        let mut words = match listed {
            Listed::Only(listed) => {
                let listed = listed.iter().map(|(name, offset)| self.listed(name, *offset)).collect();
                [inherited, listed].concat()
            }
            Listed::Scanned(_) if scalar && !made.is_class => inherited,
            // What a subclass adds stands behind the items.
            Listed::Scanned(_) if matches!(made.shape, Shape::Tuple | Shape::Int | Shape::Bytes) => inherited,
            Listed::Scanned(named) => {
                let mut words = self.scanned(made, &inherited);
                for (name, offset) in named {
                    let known = self.listed(name, *offset);
                    words
                        .iter_mut()
                        .filter(|word| word.offset == known.offset)
                        .for_each(|word| *word = known);
                }
                words
            }
        };
        if made.name == "generator" {
            // Only coroutines and asynchronous generators have it; there it is what was there before.
            words.retain(|word| {
                word.label != Label::new(Part::Attribute(self.names.intern(NOT_OF_GENERATORS)))
            });
        }
        self.add_dict(made, &mut words);
        words
    }

    /// A class adds to its base. A type of C code may put something else at the same places, unless the base is one
    /// that is known; then only the names are worth something.
    fn scanned(&mut self, made: &Type, inherited: &[Word]) -> Vec<Word> {
        let base = made.base.map(|base| self.get(base));
        let header = self.layout.object.size;
        let trusted = made.is_class || base.is_some_and(|base| base.is_listed);
        let from = base.filter(|_| trusted).map_or(header, |base| base.basicsize);
        let mut words = if trusted { inherited.to_vec() } else { Vec::new() };
        self.scan_words(made, from, &mut words);
        if !trusted {
            let dict = Label::new(Part::Special(Special::Dict));
            for word in words.iter_mut().filter(|word| word.label == Label::UNNAMED) {
                let same = inherited.iter().find(|base| base.offset == word.offset && base.label != dict);
                word.label = same.map_or(word.label, |same| same.label);
            }
        }
        words
    }

    fn is_scalar(&self, base: TypeId) -> bool {
        let mut at = Some(base);
        for _ in 0..MOST_BASES {
            let Some(ancestor) = at.map(|id| self.get(id)) else { return false };
            if ancestor.name == known::SCALAR && !ancestor.is_class {
                return true;
            }
            at = ancestor.base;
        }
        false
    }

    fn listed(&mut self, name: &str, offset: u64) -> Word {
        let label = match name {
            "__dict__" => Part::Special(Special::Dict),
            name => Part::Attribute(self.names.intern(name)),
        };
        Word { offset: offset as u32, sure: true, label: Label::new(label) }
    }

    /// Each word of the body from `from` on, except those that are known to be something else.
    fn scan_words(&mut self, made: &Type, from: u64, words: &mut Vec<Word>) {
        let members = self.members(made.address);
        let weaklist = self.word(made.address, self.layout.type_.weaklistoffset);
        for offset in (from.next_multiple_of(8)..made.basicsize.saturating_sub(7)).step_by(8) {
            if offset == weaklist || offset as i64 == made.dictoffset {
                continue;
            }
            match members.iter().find(|member| member.offset == offset) {
                Some(member) if !member.is_object => {}
                Some(member) => words.push(Word {
                    offset: offset as u32,
                    sure: true,
                    label: Label::new(Part::Attribute(self.names.intern(&member.name))),
                }),
                None => words.push(Word { offset: offset as u32, sure: false, label: Label::UNNAMED }),
            }
        }
    }

    fn add_dict(&self, made: &Type, words: &mut Vec<Word>) {
        let managed = made.flags & flag::MANAGED_DICT != 0 && self.layout.managed.dict.is_some();
        let offset = u32::try_from(made.dictoffset).ok().filter(|offset| *offset >= 16);
        let (Some(offset), false) = (offset, managed || made.shape == Shape::Type) else { return };
        let label = Label::new(Part::Special(Special::Dict));
        match words.iter_mut().find(|word| word.offset == offset) {
            Some(word) => word.label = label,
            None => words.push(Word { offset, sure: true, label }),
        }
    }

    /// What `tp_members` names.
    fn members(&self, address: u64) -> Vec<TypeMember> {
        let layout = &self.layout.member_def;
        let first = self.word(address, self.layout.type_.members);
        let read = |number: u64| {
            let at = first.checked_add(number * layout.size)?;
            let name = self.image.name(self.image.word(at.checked_add(layout.name)?)?)?;
            let kind = self.image.u32(at.checked_add(layout.kind)?)?;
            let offset = self.image.word(at.checked_add(layout.offset)?)?;
            Some(TypeMember { name, offset, is_object: is_object(kind) })
        };
        let members = if first == 0 { 0 } else { MOST_MEMBERS };
        let members = (0..members).map_while(read);
        members.filter(|member| member.offset >= 16 && !is_offset_of(&member.name)).collect()
    }

    /// The rows of the census.
    pub fn kinds(&self) -> Vec<Kind> {
        self.list.iter().map(|made| naming::kind(self.image, self.layout, made)).collect()
    }

    fn hidden_items(&self, made: &Type) -> u64 {
        let number = |name| naming::dict_int(self.image, self.layout, made.address, name);
        let (all, shown) = (number("n_fields"), number("n_sequence_fields"));
        all.zip(shown)
            .and_then(|(all, shown)| all.checked_sub(shown))
            .filter(|hidden| *hidden < 256)
            .unwrap_or(0)
    }
}

fn is_leaf(made: &Type) -> bool {
    let is_plain = matches!(made.shape, Shape::Fixed | Shape::Int | Shape::Bytes | Shape::Str);
    let may_hold = flag::HEAP | flag::MANAGED_DICT;
    is_plain && made.words.is_empty() && made.flags & may_hold == 0 && made.dictoffset == 0
}

struct TypeMember {
    name: String,
    offset: u64,
    is_object: bool,
}

/// `T_OBJECT` and `T_OBJECT_EX` (structmember.h, descrobject.h).
fn is_object(kind: u32) -> bool {
    kind == 6 || kind == 16
}

/// Members by which a type tells where its dict is; their offset is that of the dict.
fn is_offset_of(name: &str) -> bool {
    matches!(name, "__dictoffset__" | "__weaklistoffset__" | "__vectorcalloffset__")
}

#[cfg(test)]
impl Type {
    /// One whose objects have a shape, and nothing besides.
    pub fn of_shape(shape: Shape, basicsize: u64) -> Self {
        Self {
            address: 0x1000,
            flags: 0,
            basicsize,
            itemsize: 0,
            dictoffset: 0,
            base: None,
            shape,
            nature: Nature::Instance,
            before: 0,
            inline_bytes: 0,
            keys: 0,
            words: Vec::new(),
            hidden_items: 0,
            time_bytes: 0,
            name: String::new(),
            is_class: false,
            is_listed: false,
            is_leaf: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;
    use crate::layout;

    /// Since 3.13 the interpreter tells how long its types are.
    #[test]
    fn types_shorter_than_a_word_are_none() {
        let mut layout = layout::all()[0].layout;
        layout.type_.size = 0;
        let segments = vec![Segment::new(0x1000, 0x2000, 0)];
        let image = Image::new([0u8; 4096].as_slice().into(), segments, Vec::new());
        assert_eq!(Types::new(&image, &layout, 0x1000).at(0x1000), None);
    }
}
