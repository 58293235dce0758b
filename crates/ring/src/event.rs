//! What a thread can say: operations, and their decoded form.

/// Operation numbers: the low five bits of a record's first byte. Numbers are never reused.
pub(crate) mod op {
    pub const NOTHING: u8 = 0;
    pub const MALLOC: u8 = 1;
    pub const REALLOC: u8 = 2;
    pub const PY_ALLOC: u8 = 3;
    pub const PY_REALLOC: u8 = 4;
    pub const FREE: u8 = 5;
    pub const UNFREE: u8 = 6;
    pub const TICK: u8 = 7;
    pub const BEGIN: u8 = 8;
    pub const END: u8 = 9;
    pub const MODE: u8 = 10;
    pub const GAP: u8 = 11;
    pub const MAP: u8 = 12;
    pub const UNMAP: u8 = 13;
    pub const REMAP: u8 = 14;
    pub const BREAK: u8 = 15;
    pub const DISCARD: u8 = 16;
    pub const FORK: u8 = 17;
    pub const UNLOAD: u8 = 19;

    pub const MASK: u8 = 0x1f;
    /// Allocations: the size is that of the thread's previous allocation.
    pub const SAME_SIZE: u8 = 0x20;
    /// Allocations: the native stack is that of the previous allocation.
    pub const SAME_NATIVE: u8 = 0x40;
    /// Allocations: the Python stack is that of the previous allocation.
    pub const SAME_PYTHON: u8 = 0x80;
    /// Frees: the address is an index into the recent addresses.
    pub const RECENT: u8 = 0x20;
}

/// Which function handed a block out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `malloc` and its kin.
    Malloc,
    /// The new block of a `realloc`; the old one's [`Event::Free`] comes just before.
    Realloc,
    /// Python's own allocator, below 513 bytes.
    Python,
    /// The new block of a Python `realloc`.
    PythonRealloc,
}

/// The stacks of an event: node numbers of the book, 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stacks {
    pub native: u32,
    pub python: u32,
}

/// Kinds of [`Event::Map`].
pub mod mapping {
    /// The bytes come from a file or shared memory, not from anonymous memory.
    pub const FILE: u8 = 1;
    /// Written by an allocator for its own use, inside one of its functions: not a second allocation.
    pub const BACKING: u8 = 2;
    /// Neither readable nor writable: reserved address space.
    pub const RESERVED: u8 = 4;
    /// `MAP_SHARED`.
    pub const SHARED: u8 = 8;
}

/// What the tracker does with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is recorded; can be switched on.
    Off = 0,
    /// One allocation in so many bytes, and all large ones.
    Sampled = 1,
    /// Every event of the C allocator.
    All = 2,
    /// And of Python's allocator.
    Deep = 3,
}

/// The mode word of the header: a level and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Mode(pub u32);

impl Mode {
    /// Each event has its own time, for programs whose order between threads matters.
    pub const STAMP_ALL: u32 = 1 << 8;
    /// Every free is recorded although not every allocation is: blocks of an earlier, fuller mode are still known.
    pub const ALL_FREES: u32 = 1 << 9;

    pub const fn new(level: Level) -> Self {
        Self(level as u32)
    }

    #[inline(always)]
    pub const fn level(self) -> Level {
        match self.0 & 3 {
            0 => Level::Off,
            1 => Level::Sampled,
            2 => Level::All,
            _ => Level::Deep,
        }
    }

    #[inline(always)]
    pub const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    #[must_use]
    pub const fn with(self, flag: u32) -> Self {
        Self(self.0 | flag)
    }
}

/// One decoded record. Its time lies between the last tick before it and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A thread took the lane: what was remembered for the encoding is forgotten.
    Begin {
        tid: u32,
        serial: u32,
    },
    /// The thread gave the lane back.
    End,
    /// What follows in this lane was recorded in this mode.
    Mode {
        mode: Mode,
        mean_bytes: u64,
        exact_bytes: u64,
    },
    /// So many events of this thread were not recorded here.
    Gap {
        events: u64,
    },
    Alloc {
        address: u64,
        bytes: u64,
        source: Source,
        stacks: Stacks,
    },
    Free {
        address: u64,
    },
    /// The last `Free` of this thread did not happen: a `realloc` failed.
    Unfree {
        address: u64,
    },
    Map {
        address: u64,
        bytes: u64,
        kind: u8,
        stacks: Stacks,
    },
    Unmap {
        address: u64,
        bytes: u64,
    },
    Remap {
        from: u64,
        from_bytes: u64,
        to: u64,
        to_bytes: u64,
        stacks: Stacks,
    },
    /// The program break is here now.
    Break {
        address: u64,
        stacks: Stacks,
    },
    /// `madvise` gave the pages back; the mapping stays. `lazily`: `MADV_FREE`.
    Discard {
        address: u64,
        bytes: u64,
        lazily: bool,
    },
    /// This thread forked; the child's memory is this process's at this time.
    Fork {
        child: u32,
    },
    /// A library went away: the number of its definition.
    Unload {
        module: u32,
    },
}
