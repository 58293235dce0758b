//! Where the fields of the interpreter's own structures are: runtime, interpreters, threads, frames, code.

use super::object::Member;

/// `_PyRuntime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtime {
    pub interpreters_head: u64,
    pub interpreters_main: u64,
    /// The collector's state is here (3.8); since 3.9 it is in the interpreter.
    pub gc: Option<u64>,
    /// The lock's state is here up to 3.11; since 3.12 the interpreter points to it.
    pub gil: Option<u64>,
    pub size: u64,
}

/// `PyInterpreterState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterpreterState {
    pub next: u64,
    pub id: u64,
    pub threads_head: u64,
    pub gc: Option<u64>,
    /// A pointer to the lock's state (3.12 on).
    pub gil: Option<u64>,
    pub modules: u64,
    pub sysdict: u64,
    pub builtins: u64,
    /// The dict of interned strings (3.12 on; before, only a local symbol knows it).
    pub interned: Option<u64>,
    /// Array of pointers to small ints (3.9, 3.10).
    pub small_ints: Option<u64>,
    pub small_ints_count: u64,
    /// More objects that the interpreter owns, with their C names.
    pub owned: &'static [Member],
    pub size: u64,
}

/// The state of the memory allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Obmalloc {
    /// In the interpreter: inline (3.12) or a pointer (3.13 on). Before, static.
    pub state: Option<u64>,
    pub pointer: bool,
    pub arenas: Option<u64>,
    pub max_arenas: Option<u64>,
    pub arena_size: u64,
    pub pool_size: u64,
    pub pool_header: u64,
    pub alignment: u64,
}

/// `interp->types`: what static types have per interpreter (3.12 on).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticTypes {
    /// Offsets in the interpreter; absent before 3.12.
    pub builtins: Option<u64>,
    pub builtins_count: Option<u64>,
    pub builtins_max: u64,
    pub extensions: Option<u64>,
    pub extensions_count: Option<u64>,
    pub extensions_max: u64,
    /// One entry.
    pub type_: u64,
    pub dict: u64,
    pub subclasses: u64,
    pub weaklist: u64,
    pub size: u64,
}

/// `struct _gc_runtime_state`: offsets from it.
///
/// List heads stand at multiples of four, not of eight, in some 3.13 releases; two low bits of the links are flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gc {
    /// Three list heads, [`Gc::stride`] apart. In 3.14.0 to 3.14.4 these are `young` and `old[2]`, at the same places.
    pub generations: u64,
    pub permanent: u64,
    pub stride: u64,
    pub collecting: u64,
    pub garbage: u64,
    pub callbacks: u64,
}

/// `struct _gil_runtime_state`: offsets from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gil {
    pub locked: u64,
    pub last_holder: u64,
}

/// `PyThreadState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub next: u64,
    pub interpreter: u64,
    /// A frame object (up to 3.10).
    pub frame: Option<u64>,
    /// A C frame whose word at [`Thread::cframe_current`] is the interpreter frame (3.11, 3.12).
    pub cframe: Option<u64>,
    pub cframe_current: u64,
    /// The interpreter frame (3.13 on).
    pub current_frame: Option<u64>,
    /// `pthread_t`: the key of `threading._active`.
    pub thread_id: u64,
    /// The kernel's number (3.11 on).
    pub native_thread_id: Option<u64>,
    /// Innermost of the exceptions being handled: a list of [`ExceptionItem`].
    pub exc_info: u64,
    pub owned: &'static [Member],
    pub size: u64,
}

/// `_PyErr_StackItem`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExceptionItem {
    pub previous: u64,
    pub owned: &'static [Member],
}

/// `PyFrameObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameObject {
    pub back: u64,
    /// The interpreter frame (3.11 on).
    pub frame: Option<u64>,
    /// Up to 3.10 the frame object is the frame.
    pub code: Option<u64>,
    pub last_instruction: Option<u64>,
    pub localsplus: Option<u64>,
    pub valuestack: Option<u64>,
    /// A pointer, null while the frame runs (3.8, 3.9).
    pub stacktop: Option<u64>,
    /// A count, -1 while the frame runs (3.10).
    pub stack_depth: Option<u64>,
    /// `f_lasti` counts code units of two bytes (3.10) or bytes (3.8, 3.9).
    pub last_instruction_unit: u64,
    pub owned: &'static [Member],
    /// The frame data of a finished interpreter frame follows the object (3.11 on).
    pub size: u64,
}

/// `_PyInterpreterFrame` (3.11 on); all zero before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub previous: u64,
    /// Code object, or another object in frames that are no function's (3.13 on).
    pub executable: u64,
    /// The last instruction (3.11, 3.12) or the current one (3.13 on).
    pub instruction: u64,
    pub instruction_is_last: bool,
    pub localsplus: u64,
    /// A count from `localsplus`, -1 while the frame runs (3.11 to 3.13).
    pub stacktop: Option<u64>,
    /// A pointer, null while the frame runs (3.14 on).
    pub stackpointer: Option<u64>,
    pub owner: u64,
    pub frame_object: u64,
    pub function: u64,
    pub globals: u64,
    pub builtins: u64,
    pub locals: u64,
    /// Whether references in it carry tags in their low bits (3.14 on).
    pub tagged: bool,
    pub size: u64,
}

/// `PyGenObject`; coroutines and async generators are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generator {
    /// A frame object (up to 3.10).
    pub frame: Option<u64>,
    /// The frame itself (3.11 on).
    pub inline_frame: Option<u64>,
    /// A signed byte (3.11 on); see [`Generator::cleared`].
    pub state: Option<u64>,
    /// States at or above this one have no frame any more.
    pub cleared: i8,
    /// The state of one that runs now.
    pub executing: i8,
    pub exc_state: u64,
    pub weaklist: u64,
    pub owned: &'static [Member],
    pub size: u64,
}

/// `PyCodeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub filename: u64,
    pub name: u64,
    /// 3.11 on.
    pub qualname: Option<u64>,
    pub first_line: u64,
    /// `co_lnotab` (3.8, 3.9), `co_linetable` (3.10), location table (3.11 on).
    pub line_table: u64,
    pub local_count: u64,
    /// Names of locals, cells and free variables in the order of a frame's `localsplus` (3.11 on).
    pub localsplus_names: Option<u64>,
    pub localsplus_kinds: Option<u64>,
    pub localsplus_count: Option<u64>,
    /// The same, apart (up to 3.10).
    pub varnames: Option<u64>,
    pub cellvars: Option<u64>,
    pub freevars: Option<u64>,
    pub stack_size: u64,
    /// The instructions themselves (3.11 on).
    pub instructions: Option<u64>,
    pub weaklist: u64,
    pub size: u64,
}
