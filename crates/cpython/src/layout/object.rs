//! Where the fields of Python objects are. Offsets in bytes from the object's address, sizes in bytes.

/// Bits of a word: `(word >> shift) & ((1 << width) - 1)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    pub shift: u32,
    pub width: u32,
}

/// An owned reference at a fixed place: its name as Python shows it, and the offset.
pub type Member = (&'static str, u64);

/// What all objects begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// 64 bits wide up to 3.13; since 3.14 the low 32 bits are the count and the rest are flags.
    pub refcount: u64,
    pub refcount_bits: u32,
    /// Set in the count of an object that is never freed (3.12 on).
    pub immortal_bit: Option<u32>,
    pub type_: u64,
    /// Number of items of variable-sized objects (`ob_size`).
    pub items: u64,
    pub size: u64,
    /// Before each tracked object: next, previous.
    pub gc_head: u64,
}

/// `PyTypeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    pub name: u64,
    pub basicsize: u64,
    pub itemsize: u64,
    pub flags: u64,
    pub methods: u64,
    pub members: u64,
    pub getset: u64,
    pub base: u64,
    /// Null for the interpreter's own static types since 3.12: see [`super::StaticTypes`].
    pub dict: u64,
    pub dictoffset: u64,
    pub weaklistoffset: u64,
    pub bases: u64,
    pub mro: u64,
    pub cache: u64,
    /// A dict; for the interpreter's own static types since 3.12 an index plus one.
    pub subclasses: u64,
    pub weaklist: u64,
    pub size: u64,
}

/// `PyMemberDef`: what `Type::members` is an array of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberDef {
    pub name: u64,
    pub kind: u64,
    pub offset: u64,
    pub flags: u64,
    pub size: u64,
}

/// `PyHeapTypeObject`, a type made at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapType {
    pub name: u64,
    pub slots: u64,
    pub qualname: u64,
    pub cached_keys: u64,
    pub module: Option<u64>,
    /// After the type itself: one [`MemberDef`] per slot.
    pub size: u64,
}

/// What stands before an instance (distances are subtracted) and after it: its attributes and weak references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Managed {
    /// 3.11: dict. 3.12: dict, or values when bit 0 is set. 3.13 on: dict.
    pub dict: Option<u64>,
    /// 3.11 only: values in a block of their own.
    pub values: Option<u64>,
    /// 3.12 on.
    pub weakrefs: Option<u64>,
    /// 3.12: `dict` is tagged; values stand at the untagged address plus one.
    pub tagged: bool,
    /// 3.13 on, with the type's `INLINE_VALUES` flag: values follow the instance, at `basicsize`.
    pub inline_values: bool,
}

/// `PyDictObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dict {
    pub used: u64,
    pub keys: u64,
    pub values: u64,
    pub size: u64,
}

/// `PyDictKeysObject`: header, index table, entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictKeys {
    pub refcount: u64,
    /// Number of index slots, as a word (up to 3.10).
    pub slots: Option<u64>,
    /// Its logarithm, as a byte (3.11 on).
    pub log2_slots: Option<u64>,
    pub log2_index_bytes: Option<u64>,
    /// 0 general, 1 str keys, 2 split (3.11 on): the latter two have entries without hashes.
    pub kind: Option<u64>,
    pub usable: u64,
    pub entries: u64,
    /// Where the index table begins: the header's size.
    pub indices: u64,
    /// hash, key, value.
    pub general_entry: u64,
    /// key, value; the general size where there is no such entry.
    pub str_entry: u64,
}

/// `PyDictValues`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DictValues {
    pub values: u64,
    /// Bytes: how many fit, how many are in use, whether they stand in the instance, whether they count (3.13 on).
    pub capacity: Option<u64>,
    pub used: Option<u64>,
    pub embedded: Option<u64>,
    pub valid: Option<u64>,
}

/// `PyListObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    pub items: u64,
    pub allocated: u64,
    pub size: u64,
}

/// `PyTupleObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple {
    /// The items themselves.
    pub items: u64,
}

/// `PySetObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    pub fill: u64,
    pub used: u64,
    pub mask: u64,
    pub table: u64,
    pub small_table: u64,
    pub weaklist: u64,
    /// key, hash.
    pub entry: u64,
    pub size: u64,
}

/// `PyASCIIObject`, `PyCompactUnicodeObject`, `PyUnicodeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Str {
    pub length: u64,
    pub hash: u64,
    /// A 32-bit word with the bits below.
    pub state: u64,
    pub interned: Bits,
    pub kind: Bits,
    pub compact: Bits,
    pub ascii: Bits,
    /// Characters of a compact ASCII str stand here.
    pub ascii_size: u64,
    /// Characters of another compact str stand here.
    pub compact_size: u64,
    pub utf8_length: u64,
    /// A separate block, unless it is the str's own characters.
    pub utf8: u64,
    /// A str that is not compact points to its characters.
    pub data: u64,
    pub size: u64,
}

/// `PyBytesObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    pub data: u64,
    /// Without contents, with the final zero.
    pub size: u64,
}

/// `PyByteArrayObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteArray {
    pub allocated: u64,
    pub buffer: u64,
    pub start: u64,
    pub exports: u64,
    /// Since 3.15 the buffer is a bytes object's.
    pub object: Option<u64>,
    pub size: u64,
}

/// `PyLongObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int {
    /// Digits in the upper bits, sign in the low two (3.12 on). Before, `Object::items` is signed.
    pub tag: Option<u64>,
    /// How far the number of digits is shifted in the tag.
    pub tag_shift: u32,
    pub digits: u64,
    pub digit_bits: u32,
}

/// `PyFloatObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Float {
    pub value: u64,
}

/// `PyModuleObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    pub dict: u64,
    pub state: u64,
    pub weaklist: u64,
    pub name: u64,
    pub size: u64,
}

/// `PyWeakReference`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weakref {
    /// Not owned.
    pub object: u64,
    pub callback: u64,
    pub next: u64,
    pub size: u64,
}

/// `PyMemoryViewObject`, `_PyManagedBufferObject`: `buffer`, `object` and `bytes` are those of the inner `Py_buffer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryView {
    pub managed_buffer: u64,
    pub buffer: u64,
    pub object: u64,
    pub bytes: u64,
    pub managed_buffer_object: u64,
}

/// Owned references of objects that have no public members, each with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    pub function: &'static [Member],
    pub code: &'static [Member],
    pub method: &'static [Member],
    pub builtin: &'static [Member],
    pub cell: &'static [Member],
    pub slice: &'static [Member],
    pub property: &'static [Member],
    pub static_method: &'static [Member],
    pub class_method: &'static [Member],
    pub descriptor: &'static [Member],
    pub traceback: &'static [Member],
    pub exception: &'static [Member],
    pub memory_view: &'static [Member],
}
