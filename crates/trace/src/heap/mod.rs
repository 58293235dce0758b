//! A heap census: every live object of a process at one instant, decoded, without its contents.
//!
//! `cpython` and `native` make a [`Graph`] from an image of memory; `analysis` reads it; a `.heap` file keeps it.
//! Objects are columns (a census has millions of them) and are named by their index. Edges are owning
//! references, in CSR form: what an object refers to, each with a [`Label`] that says through what.
//! The one invariant: every index is in range; `Graph::check` tells, and a decoder refuses what fails it.

mod builder;
mod check;
mod file;
mod fold;
mod label;
mod shown;
mod table;

use serde::{Deserialize, Serialize};

pub use builder::GraphBuilder;
pub use check::{MAX_OBJECTS, MAX_TOTAL_BYTES, Unsound};
pub use file::{Error, HEAP_VERSION, Header, decode, encode, is_heap, read, read_header, write};
pub use fold::{Fold, NO_OBJECT};
pub use label::{Label, Part, Special};
pub use shown::{NATIVE_ONLY, ShownKinds};

/// Index of an object in the columns of a [`Graph`].
pub type ObjectId = u32;
/// Index into [`Graph::kinds`].
pub type KindId = u32;
/// Index into [`Graph::names`].
pub type NameId = u32;

/// All objects of one process at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Graph {
    pub origin: Origin,
    pub quality: Quality,
    pub kinds: Vec<Kind>,
    pub names: Vec<String>,
    pub objects: Objects,
    pub edges: Edges,
    /// Buffers, each once, sorted by owner. An object without a row here has no payload.
    pub payloads: Vec<Payload>,
    /// What arrays and tensors span by their own account, sorted by object. May be empty.
    pub extents: Vec<Extent>,
    /// Dicts that are an object's own, and that object, sorted by dict: for a census whose references have no
    /// labels. Where they have, the labels tell it, and this is empty.
    pub dict_owners: Vec<(ObjectId, ObjectId)>,
    pub roots: Vec<Root>,
    pub threads: Vec<ThreadStack>,
}

/// Columns of equal length, in increasing order of address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    pub address: Vec<u64>,
    pub kind: Vec<KindId>,
    /// What the object occupies in the allocator: its own block with headers, and the blocks only it owns
    /// (a list's items, a dict's table). Payload is apart.
    pub bytes: Vec<u64>,
    /// As found; saturated. Immortal objects have [`IMMORTAL`].
    pub refcount: Vec<u32>,
}

/// The reference count of an object that is never freed.
pub const IMMORTAL: u32 = u32::MAX;

/// Owning references: those of object `i` are `to[start[i]..start[i + 1]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// One more entry than there are objects.
    pub start: Vec<u32>,
    pub to: Vec<ObjectId>,
    /// As long as `to`; empty when the census was asked for counts only.
    pub label: Vec<Label>,
}

/// A type, or a kind of native thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// As Python prints it: `dict`, `numpy.ndarray`, `__main__.Node`.
    pub name: String,
    /// Module that defines it: `builtins`, `numpy`, `__main__`; empty for native things.
    pub module: String,
    pub nature: Nature,
}

/// What the readers need to know of a kind without knowing names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    #[default]
    Instance,
    Dict,
    List,
    Tuple,
    Set,
    Str,
    Bytes,
    Int,
    Float,
    Type,
    Module,
    Function,
    Code,
    Frame,
    /// numpy.ndarray and its subclasses.
    Array,
    /// torch.Tensor and its subclasses.
    Tensor,
    /// Not a Python object: a torch storage. Its payload is told with the tensors that hold it.
    Storage,
}

/// A buffer outside the object's own blocks, sized once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    pub owner: ObjectId,
    pub address: u64,
    pub bytes: u64,
    /// How much of it is in memory; none where that is not known (a core, a device).
    pub resident_bytes: Option<u64>,
    pub backing: Backing,
    /// Elements and their type, where the owner tells: 1,048,576 of `float32`.
    pub elements: Option<u64>,
    pub element: Option<NameId>,
}

/// What an array, tensor or view spans by its own account, whoever owns the buffer: elements times their size.
/// Several may span one [`Payload`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub object: ObjectId,
    pub elements: u64,
    pub bytes: u64,
    pub element: Option<NameId>,
    /// Lengths of its dimensions; empty where they are not told.
    pub shape: Vec<u64>,
}

/// Where a payload lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// Private anonymous memory.
    Memory,
    /// A mapped file.
    File,
    /// Shared memory: /dev/shm, memfd, shared anonymous.
    Shared,
    /// Not host memory.
    Device,
}

/// A place where references start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    pub object: ObjectId,
    pub holder: Holder,
    /// As a user would write it: `sys.modules`, `train.py:33 step() batch`.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// The module table; modules are named by what they are, not by the table.
    Modules,
    Sys,
    Builtins,
    /// A local or temporary of a running frame.
    Frame,
    /// The interpreter itself: interned strings, codecs, hooks, exceptions being handled.
    Interpreter,
    StaticType,
    /// Only C or C++ holds it, as far as memory shows.
    Native,
}

/// The Python stack of one thread, innermost frame first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    pub native_id: Option<u64>,
    /// `threading`'s name of it, where it has one.
    pub name: Option<String>,
    pub holds_gil: Option<bool>,
    pub frames: Vec<Frame>,
    /// Why the list ends early, if it does.
    pub cut: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub file: String,
    /// Qualified where the interpreter keeps it (3.11 on), else the plain name.
    pub function: String,
    pub line: Option<u32>,
}

/// Where, when and how the census was taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    pub source: Source,
    /// Process id as we see it.
    pub pid: Option<i32>,
    pub command: String,
    /// `3.11.7`; more than one interpreter in the process: `interpreters`.
    pub python: String,
    pub interpreters: u32,
    pub realtime_ns: u64,
    pub pause: Pause,
    /// Bytes copied out of the target, left out as numeric, and not readable.
    pub copied_bytes: u64,
    pub excluded_bytes: u64,
    /// Why the census is not whole; empty when it is.
    pub partial: Vec<String>,
    /// What the census cannot do for this interpreter, in sentences.
    pub limits: Vec<String>,
    /// The process's RSS at that moment, where there is one.
    pub rss_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    #[default]
    Live,
    Core,
}

/// How the target was held while it was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    pub mode: PauseMode,
    /// From the first stopped thread to the last released one.
    pub stopped_ns: u64,
    pub threads: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseMode {
    /// Stopped, copied, released.
    #[default]
    Copy,
    /// A child was made by an injected system call, and read at leisure.
    Fork,
    /// Read while it ran: references may dangle.
    Off,
    /// Nothing runs: a core.
    Dead,
}

/// How far the census can be trusted, from the census itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quality {
    /// Mortal objects whose reference count equals the references found.
    pub refcount_exact: u64,
    /// Mortal objects in all.
    pub refcount_checked: u64,
    /// Objects that no root reaches.
    pub unreached: u64,
    /// References to something that is no object.
    pub dangling: u64,
    /// Pools whose counts did not add up, of how many.
    pub pools_rejected: u64,
    pub pools: u64,
}

impl Graph {
    pub fn len(&self) -> usize {
        self.objects.address.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.address.is_empty()
    }

    pub fn kind_of(&self, object: ObjectId) -> &Kind {
        &self.kinds[self.objects.kind[object as usize] as usize]
    }

    /// What an object refers to.
    #[inline]
    pub fn referents(&self, object: ObjectId) -> &[ObjectId] {
        &self.edges.to[self.edges.range(object)]
    }

    /// The object at an address, if one begins there.
    pub fn at(&self, address: u64) -> Option<ObjectId> {
        self.objects.address.binary_search(&address).ok().map(|index| index as ObjectId)
    }
}

impl Edges {
    /// Positions in `to` and `label` of one object's edges.
    #[inline]
    pub fn range(&self, object: ObjectId) -> std::ops::Range<usize> {
        self.start[object as usize] as usize..self.start[object as usize + 1] as usize
    }
}
