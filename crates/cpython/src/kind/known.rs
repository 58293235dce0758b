//! Types whose objects hold more, or less, than the pointers in their body.
//!
//! A type that is not named here is read by its members and a scan of its body, which is right wherever each
//! pointer to an object is an owned one. Here are the others: those with tables outside of their body, and those that
//! borrow.

use nilometer_trace::heap::Nature;

use crate::layout::{Layout, Member, flag};

/// How to read the part of an object that its `words` do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// Nothing more.
    Fixed,
    /// Items follow the body, one word each, perhaps objects.
    Items,
    Int,
    Str,
    Bytes,
    ByteArray,
    List,
    Tuple,
    Dict,
    OrderedDict,
    Set,
    Type,
    Module,
    /// Generators, coroutines, asynchronous generators.
    Generator,
    Frame,
    Function,
    Code,
    Deque,
    /// `functools.lru_cache`, whose links are in a ring.
    LruCache,
    /// What the iterators of `itertools.tee` share.
    Tee,
    /// `datetime.time` and `datetime.datetime`, whose objects are shorter without a time zone.
    Time,
    MemoryView,
    ManagedBuffer,
    Weakref,
    /// `numpy.ndarray`.
    NdArray,
    /// `array.array`.
    CArray,
    Mmap,
    /// `xml.etree.ElementTree.Element`.
    Element,
    /// `pyarrow`'s objects, which hold C++ ones.
    ArrowBuffer,
    ArrowArray,
    ArrowChunks,
    ArrowTable,
    ArrowBatch,
}

/// What a named type is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub shape: Shape,
    pub nature: Nature,
    pub words: Listed,
}

/// The owned references in a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Listed {
    /// These and no others.
    Only(&'static [Member]),
    /// All that a scan finds; these have names.
    Scanned(&'static [Member]),
}

const NOTHING: Listed = Listed::Only(&[]);

impl Known {
    #[allow(clippy::unnecessary_wraps, reason = "arms of a match that knows some names")]
    const fn new(shape: Shape, nature: Nature, words: Listed) -> Option<Self> {
        Some(Self { shape, nature, words })
    }

    const fn plain(words: &'static [Member]) -> Option<Self> {
        Self::new(Shape::Fixed, Nature::Instance, Listed::Only(words))
    }

    const fn scanned(words: &'static [Member]) -> Option<Self> {
        Self::new(Shape::Fixed, Nature::Instance, Listed::Scanned(words))
    }
}

/// By the flags that subclasses inherit.
pub(crate) fn by_flags(flags: u64) -> Option<(Shape, Nature)> {
    Some(match flags {
        f if f & flag::INT != 0 => (Shape::Int, Nature::Int),
        f if f & flag::LIST != 0 => (Shape::List, Nature::List),
        f if f & flag::TUPLE != 0 => (Shape::Tuple, Nature::Tuple),
        f if f & flag::BYTES != 0 => (Shape::Bytes, Nature::Bytes),
        f if f & flag::STR != 0 => (Shape::Str, Nature::Str),
        f if f & flag::DICT != 0 => (Shape::Dict, Nature::Dict),
        f if f & flag::TYPE != 0 => (Shape::Type, Nature::Type),
        _ => return None,
    })
}

/// By `tp_name`, for types that are not made by a `class` statement.
pub(crate) fn by_name(name: &str, layout: &Layout) -> Option<Known> {
    builtin(name, layout).or_else(|| module(name)).or_else(|| array(name)).or_else(|| arrow(name))
}

fn builtin(name: &str, layout: &Layout) -> Option<Known> {
    let owned = &layout.owned;
    match name {
        "int" | "bool" => Known::new(Shape::Int, Nature::Int, NOTHING),
        "float" => Known::new(Shape::Fixed, Nature::Float, NOTHING),
        "complex" | "PyCapsule" | "NoneType" => Known::plain(&[]),
        "str" => Known::new(Shape::Str, Nature::Str, NOTHING),
        "bytes" => Known::new(Shape::Bytes, Nature::Bytes, NOTHING),
        "bytearray" => Known::new(Shape::ByteArray, Nature::Bytes, NOTHING),
        "list" => Known::new(Shape::List, Nature::List, NOTHING),
        "tuple" => Known::new(Shape::Tuple, Nature::Tuple, NOTHING),
        "dict" | "frozendict" => Known::new(Shape::Dict, Nature::Dict, NOTHING),
        "set" | "frozenset" => Known::new(Shape::Set, Nature::Set, NOTHING),
        "type" => Known::new(Shape::Type, Nature::Type, NOTHING),
        "module" => Known::new(Shape::Module, Nature::Module, NOTHING),
        "generator" | "coroutine" | "async_generator" => {
            Known::new(Shape::Generator, Nature::Instance, Listed::Only(layout.generator.owned))
        }
        "frame" => Known::new(Shape::Frame, Nature::Frame, NOTHING),
        "function" => Known::new(Shape::Function, Nature::Function, Listed::Only(owned.function)),
        "code" => Known::new(Shape::Code, Nature::Code, Listed::Only(owned.code)),
        "method" => Known::plain(owned.method),
        "cell" => Known::plain(owned.cell),
        "slice" => Known::plain(owned.slice),
        "traceback" => Known::plain(owned.traceback),
        "builtin_function_or_method" => Known::plain(owned.builtin),
        "property" => Known::scanned(owned.property),
        "staticmethod" => Known::scanned(owned.static_method),
        "classmethod" => Known::scanned(owned.class_method),
        "BaseException" => Known::scanned(owned.exception),
        "memoryview" => Known::new(Shape::MemoryView, Nature::Instance, NOTHING),
        "managedbuffer" => Known::new(Shape::ManagedBuffer, Nature::Instance, NOTHING),
        _ if is_descriptor(name) => Known::scanned(owned.descriptor),
        _ if is_weakref(name) => Known::new(Shape::Weakref, Nature::Instance, NOTHING),
        _ => None,
    }
}

fn is_descriptor(name: &str) -> bool {
    matches!(name, "method_descriptor" | "classmethod_descriptor" | "wrapper_descriptor")
        || matches!(name, "getset_descriptor" | "member_descriptor")
}

/// Weak references and proxies, under their names before and since 3.13.
fn is_weakref(name: &str) -> bool {
    matches!(name, "weakref" | "weakref.ReferenceType")
        || matches!(
            name,
            "weakproxy" | "weakref.ProxyType" | "weakcallableproxy" | "weakref.CallableProxyType"
        )
}

/// Of the standard library; structures from its C sources, which are alike in 3.8 to 3.15.
fn module(name: &str) -> Option<Known> {
    match name {
        // Modules/_collectionsmodule.c: blocks of items, linked.
        "collections.deque" => Known::new(Shape::Deque, Nature::Instance, NOTHING),
        "collections.OrderedDict" => Known::new(Shape::OrderedDict, Nature::Dict, NOTHING),
        // Modules/_functoolsmodule.c: links of a ring that the cache's dict owns.
        "functools._lru_cache_wrapper" => Known::new(Shape::LruCache, Nature::Instance, Listed::Scanned(&[])),
        "functools._lru_list_elem" => Known::plain(&[("key", 40), ("result", 48)]),
        // Python/context.c: the cached value is borrowed.
        "ContextVar" | "_contextvars.ContextVar" => Known::plain(&[("name", 16), ("default", 24)]),
        // Modules/itertoolsmodule.c: the current group is borrowed.
        "itertools.groupby" => Known::plain(&[
            ("iterator", 16),
            ("key_function", 24),
            ("target_key", 32),
            ("key", 40),
            ("value", 48),
        ]),
        "itertools._tee_dataobject" => {
            Known::new(Shape::Tee, Nature::Instance, Listed::Only(&[("iterator", 16), ("next", 32)]))
        }
        // Modules/_threadmodule.c: the dict is borrowed (until 3.12). Modules/_decimal: digits, and what was there
        // before them.
        "_thread._localdummy" | "decimal.Decimal" => Known::plain(&[]),
        "datetime.time" | "datetime.datetime" => Known::new(Shape::Time, Nature::Instance, NOTHING),
        "array.array" => Known::new(Shape::CArray, Nature::Instance, NOTHING),
        "mmap.mmap" => Known::new(Shape::Mmap, Nature::Instance, NOTHING),
        "xml.etree.ElementTree.Element" => Known::new(Shape::Element, Nature::Instance, NOTHING),
        _ => None,
    }
}

fn array(name: &str) -> Option<Known> {
    match name {
        "numpy.ndarray" => Known::new(Shape::NdArray, Nature::Array, NOTHING),
        // Scalars are numbers; only this one refers to something.
        "numpy.void" => Known::plain(&[("dtype", 32), ("base", 48)]),
        "numpy.object_" => Known::plain(&[("value", 16)]),
        "numpy.generic" => Known::plain(&[]),
        "torch._C.TensorBase" | "torch._C._TensorBase" => {
            Known::new(Shape::Fixed, Nature::Tensor, Listed::Scanned(&[]))
        }
        _ => None,
    }
}

/// `pyarrow.lib`: what they refer to is found by a scan.
fn arrow(name: &str) -> Option<Known> {
    let shape = match name {
        "pyarrow.lib.Buffer" => Shape::ArrowBuffer,
        "pyarrow.lib.Array" => Shape::ArrowArray,
        "pyarrow.lib.ChunkedArray" => Shape::ArrowChunks,
        "pyarrow.lib.Table" => Shape::ArrowTable,
        "pyarrow.lib.RecordBatch" => Shape::ArrowBatch,
        _ => return None,
    };
    Known::new(shape, Nature::Instance, Listed::Scanned(&[]))
}

/// Types with this ancestor have no references that their `known` entry does not list.
pub(crate) const SCALAR: &str = "numpy.generic";
