//! Where everything is in a CPython process, by version.
//!
//! The tables are generated from each interpreter's own headers (`cargo xtask generate layouts`) and hold for x86-64
//! builds with the global lock. An absent field (`None`) does not exist in that version. A layout is used only after
//! [`locate`](crate::locate()) has checked it against known objects.

mod object;
mod state;
#[rustfmt::skip]
mod tables;

pub use object::*;
pub use state::*;

use crate::Version;

/// Offsets and sizes of one version, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub runtime: Runtime,
    pub interpreter: InterpreterState,
    pub gc: Gc,
    pub gil: Gil,
    pub obmalloc: Obmalloc,
    pub static_types: StaticTypes,
    pub thread: Thread,
    pub exception_item: ExceptionItem,
    pub frame_object: FrameObject,
    pub frame: Frame,
    pub generator: Generator,
    pub code: Code,
    pub object: Object,
    pub type_: Type,
    pub member_def: MemberDef,
    pub heap_type: HeapType,
    pub managed: Managed,
    pub dict: Dict,
    pub dict_keys: DictKeys,
    pub dict_values: DictValues,
    pub list: List,
    pub tuple: Tuple,
    pub set: Set,
    pub str_: Str,
    pub bytes: Bytes,
    pub byte_array: ByteArray,
    pub int: Int,
    pub float: Float,
    pub module: Module,
    pub weakref: Weakref,
    pub memory_view: MemoryView,
    pub owned: Owned,
}

/// A table and the release whose headers it was made from.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub minor: u8,
    pub micro: u8,
    pub layout: Layout,
    /// What `_Py_DebugOffsets` of this version tells, and at which byte of it.
    pub told: &'static [Told],
}

/// A field that the interpreter itself tells (3.13 on).
#[derive(Debug, Clone, Copy)]
pub struct Told {
    pub position: u64,
    pub name: &'static str,
    pub set: fn(&mut Layout, u64),
}

/// Bits of `tp_flags`, the same in every version that has them.
pub mod flag {
    /// Values stand in the instance (3.13 on).
    pub const INLINE_VALUES: u64 = 1 << 2;
    /// 3.12 on.
    pub const MANAGED_WEAKREF: u64 = 1 << 3;
    /// 3.11 on.
    pub const MANAGED_DICT: u64 = 1 << 4;
    pub const HEAP: u64 = 1 << 9;
    pub const BASE: u64 = 1 << 10;
    pub const READY: u64 = 1 << 12;
    pub const GC: u64 = 1 << 14;
    pub const INT: u64 = 1 << 24;
    pub const LIST: u64 = 1 << 25;
    pub const TUPLE: u64 = 1 << 26;
    pub const BYTES: u64 = 1 << 27;
    pub const STR: u64 = 1 << 28;
    pub const DICT: u64 = 1 << 29;
    pub const TYPE: u64 = 1 << 31;
}

/// The table made from the same release, else from the nearest earlier one of the same minor version, else the first.
pub fn find(version: Version) -> Option<&'static Table> {
    let same = || tables::TABLES.iter().filter(|table| version.major == 3 && table.minor == version.minor);
    same().rfind(|table| table.micro <= version.micro).or_else(|| same().next())
}

/// Every table, oldest first.
pub fn all() -> &'static [Table] {
    tables::TABLES
}
